//! Texts of `assay-validator key` and `assay-validator key rotate`.

use assay_transport::own_key::KeyTexts;

/// Texts about the validator's key.
pub const TEXTS: KeyTexts = KeyTexts {
    program: "validator",
    take: |key| format!("Miners pin it: `assay-validator address` prints what they need, as assay://host:port#{key}"),
    follows: |old_key, until| format!("A miner that pins {old_key} follows it to this key, until {until}"),
    rotated: |until| match until {
        Some(until) => {
            format!(
                "Miners that pin the old key follow it to the new one, until {until}. By then give them the new key."
            )
        }
        None => "No miner that pins the old key takes the new one: give them the new key.".into(),
    },
    dropped: |key| format!("Whoever still pins {key} does not follow any more: that is too long ago."),
};
