//! Texts of `assay-miner key` and `assay-miner key rotate`.

use assay_transport::own_key::KeyTexts;

pub const TEXTS: KeyTexts = KeyTexts {
    program: "miner",
    take: |key| {
        format!(
            "To allow this miner on a validator that takes only some:\n  \
             allowed_miners = [\"{key}\"]   in its configuration file, or\n  \
             --allowed-miners {key}"
        )
    },
    follows: |old_key, until| format!("A validator that allows {old_key} allows this key too, until {until}"),
    rotated: |until| match until {
        Some(until) => format!(
            "Validators that allow the old key allow the new one too, until {until}. By then put the new key in their \
             allowed_miners, and take the old one out."
        ),
        None => "Nobody follows the new key: put it in the allowed_miners of validators that take only some.".into(),
    },
    dropped: |key| format!("Whoever still has {key} does not follow any more: that is too long ago."),
};
