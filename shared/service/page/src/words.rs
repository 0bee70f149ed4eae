//! Outcomes and attestation states, as signs and words.

use assay_policy::state::State;
use assay_protocol::verdict::Outcome;
use maud::Markup;

use crate::icon::{Icon, Tone, badge};
use crate::text::{capital, spaced};

/// The sign and colour of an outcome.
pub const fn of_outcome(outcome: Outcome) -> (Icon, Tone) {
    match outcome {
        Outcome::Pass => (Icon::Pass, Tone::Good),
        Outcome::Fail => (Icon::Fail, Tone::Bad),
        Outcome::Inconclusive => (Icon::Unclear, Tone::Warn),
    }
}

/// The outcome of this name; inconclusive for any other name.
pub fn outcome(name: &str) -> Outcome {
    Outcome::named(name).unwrap_or(Outcome::Inconclusive)
}

/// An outcome with its sign.
pub fn outcome_badge(outcome: Outcome) -> Markup {
    let (icon, tone) = of_outcome(outcome);
    badge(icon, tone, &capital(&outcome.to_string()))
}

/// The sign and colour of an attestation state.
pub const fn of_state(state: State) -> (Icon, Tone) {
    match state {
        State::Enrolled => (Icon::Start, Tone::Calm),
        State::Passing => (Icon::Pass, Tone::Good),
        State::Suspect => (Icon::Doubt, Tone::Warn),
        State::Failed => (Icon::Fail, Tone::Bad),
        State::Expired => (Icon::Clock, Tone::Warn),
        State::Quarantined => (Icon::Lock, Tone::Bad),
        State::Suspended => (Icon::Pause, Tone::Calm),
        State::Revoked => (Icon::Barred, Tone::Calm),
    }
}

/// An attestation state with its sign.
pub fn state_badge(name: &str) -> Markup {
    match State::named(name) {
        Some(state) => {
            let (icon, tone) = of_state(state);
            badge(icon, tone, &capital(name))
        }
        None => badge(Icon::Unclear, Tone::Calm, &capital(&spaced(name))),
    }
}

/// The badge of something that has not ended.
pub fn online() -> Markup {
    badge(Icon::Online, Tone::Good, "Still there")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_attested_has_no_sign_of_what_is_not() {
        for state in State::ALL {
            let (icon, tone) = of_state(state);
            assert_eq!(tone == Tone::Good, state == State::Passing, "{state}");
            assert!(state.is_attested() || icon != Icon::Pass, "{state}");
            let alike = State::ALL.into_iter().filter(|other| of_state(*other).0 == icon).count();
            assert_eq!(alike, 1, "{state} has a shape of its own");
        }
    }

    #[test]
    fn an_unknown_word_is_never_a_pass() {
        assert_eq!(outcome("passed?"), Outcome::Inconclusive);
        assert!(state_badge("<b>").into_string().contains("&lt;b&gt;"));
    }
}
