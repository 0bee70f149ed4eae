//! A message is read as it was written, and a value that exceeds a bound is brought into it when it is written.

use std::time::Duration;

use proptest::prelude::*;

use super::super::{field, v1};
use super::strategies::{miner_message, validator_message};
use super::{miner_round_trip, samples, validator_round_trip};
use crate::message::{Inventory, MinerMessage, StopCode, ValidatorMessage};
use crate::verdict::{Reason, ReasonCode, Verdict};
use assay_work::ChallengeId;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn of_a_miners_messages(message in miner_message()) {
        prop_assert_eq!(miner_round_trip(message.clone()), Ok(message));
    }

    #[test]
    fn of_a_validators_messages(message in validator_message()) {
        prop_assert_eq!(validator_round_trip(message.clone()), Ok(message));
    }

    #[test]
    fn a_text_that_was_made_printable_is_accepted(text in any::<String>(), max in 0_usize..64) {
        let out = field::printable(&text, max);
        prop_assert!(out.len() <= max);
        prop_assert_eq!(field::text("", max, out.clone()), Ok(out));
    }

    #[test]
    fn any_detail_and_any_duration_arrives(detail in any::<String>(), deadline in any::<Duration>()) {
        let goodbye = miner_round_trip(MinerMessage::Goodbye(StopCode::Busy, detail));
        prop_assert!(goodbye.is_ok(), "{:?}", goodbye);
        let accepted = validator_round_trip(ValidatorMessage::Accepted(deadline));
        prop_assert!(accepted.is_ok(), "{:?}", accepted);
    }
}

#[test]
fn texts_are_cut_between_characters() {
    assert_eq!(field::printable("aß€😀", 1), "a");
    assert_eq!(field::printable("aß€😀", 2), "a");
    assert_eq!(field::printable("aß€😀", 3), "aß");
    assert_eq!(field::printable("aß€😀", 9), "aß€");
    assert_eq!(field::printable("aß€😀", 10), "aß€😀");
    assert_eq!(field::printable("one\ntwo\u{1b}[2J", 99), "one two [2J");
}

/// A driver's unusual name must not exclude a host.
#[test]
fn a_device_name_with_a_line_break_arrives_as_one_line() {
    let mut inventory = Inventory::try_from(samples::inventory(1)).unwrap();
    inventory.devices[0].name = format!("Card\n{}", "x".repeat(200));
    let arrived = Inventory::try_from(v1::Inventory::from(inventory)).unwrap();
    assert_eq!(arrived.devices[0].name, format!("Card {}", "x".repeat(123)));
}

#[test]
fn counts_that_overtake_their_whole_arrive_as_the_whole() {
    let mut inventory = Inventory::try_from(samples::inventory(1)).unwrap();
    inventory.devices[0].free_bytes = u64::MAX;
    let arrived = Inventory::try_from(v1::Inventory::from(inventory)).unwrap();
    assert_eq!(arrived.devices[0].free_bytes, arrived.devices[0].total_bytes);
    let mut inventory = Inventory::try_from(samples::inventory(1)).unwrap();
    inventory.devices[0].free_bytes = 5 << 30;
    let arrived = Inventory::try_from(v1::Inventory::from(inventory.clone())).unwrap();
    assert_eq!(arrived.devices[0].slots, [8, 8, 8, 8, 8, 8, 8, 5]);
    assert_eq!(arrived.devices[0], inventory.devices.remove(0).consistent());
    let challenge_id = ChallengeId([1; 16]);
    let overtaken = MinerMessage::Progress { challenge_id, done_slots: 10, all_slots: 9, finished: None };
    let whole = MinerMessage::Progress { challenge_id, done_slots: 9, all_slots: 9, finished: None };
    assert_eq!(miner_round_trip(overtaken), Ok(whole));
}

/// A probability can be 0, and its logarithm infinite.
#[test]
fn a_verdict_with_an_impossible_miss_and_no_measured_time_arrives() {
    let mut verdict = Verdict::try_from(samples::verdict()).unwrap();
    verdict.work_bounds[0].log2_probability = f64::NEG_INFINITY;
    verdict.whole.tops = f64::INFINITY;
    verdict.whole.probe_gb_per_s = f64::NAN;
    verdict.round_trip_ms = None;
    let arrived = Verdict::try_from(v1::Verdict::from(verdict)).unwrap();
    assert_eq!(arrived.work_bounds[0].log2_probability, f64::MIN);
    assert_eq!(arrived.whole.tops, f64::MAX);
    assert_eq!(arrived.whole.probe_gb_per_s, 0.0);
    assert_eq!(arrived.round_trip_ms, None);
}

#[test]
fn a_verdict_with_too_many_reasons_arrives_with_the_first() {
    let mut verdict = Verdict::try_from(samples::verdict()).unwrap();
    verdict.reasons = (0..300).map(|i| Reason::new(ReasonCode::AuditPath, i.to_string())).collect();
    let arrived = Verdict::try_from(v1::Verdict::from(verdict)).unwrap();
    assert_eq!(arrived.reasons.len(), 256);
    assert_eq!(arrived.reasons[255].detail, "255");
}
