//! docs/PROTOCOL.md agrees with the code: its example, figures, codes and reasons are those of the code. Its states are
//! held against the sessions in `simulation`.

use std::collections::BTreeSet;
use std::mem::size_of;
use std::time::Duration;

use assay_judge::bounds::{HANDSHAKE_LIMIT, MAX_MESSAGES_PER_PING, MISSED_PINGS};
use assay_judge::run::{FOLLOW_UP_LIMIT, HANDOVER_LIMIT, HANDOVER_SLACK, LINK_ALLOWANCE_LIMIT, LINK_ROUND_TRIPS};
use assay_listen::bounds::{ConnectionBounds, MAX_STREAMS, STRANGER_LIMIT};
use assay_miner::session as miner;
use assay_policy::Policy;
use assay_protocol::channel::Channel;
use assay_protocol::identity::{Identity, SessionTranscript, verify};
use assay_protocol::message::{MinerMessage, PROTOCOL_VERSIONS, RefusedCode};
use assay_protocol::successor::{MAX_OVERLAP_S, SUCCESSOR_BYTES, Successor, follow};
use assay_protocol::verdict::{Class, ReasonCode};
use assay_protocol::wire::limits::*;
use assay_protocol::wire::v1;
use assay_work::split::{Weight, split};
use assay_work::{ChallengeId, DeviceId, Digest, Nonce, PublicKey, Signature};
use prost::Message;

use crate::documents::source::{read, written};

const PAGE: &str = "docs/PROTOCOL.md";

/// The text of a section, without its sections.
fn section(title: &str) -> String {
    let page = read(PAGE);
    let (_, after) = page.split_once(&format!("\n## {title}\n")).unwrap_or_else(|| panic!("no section {title}"));
    after.split("\n#").next().unwrap_or_default().to_owned()
}

/// The rows of the tables of a text, without their heads; one list for each table.
fn tables(text: &str) -> Vec<Vec<Vec<String>>> {
    let is_row = |line: &str| line.starts_with('|');
    let lines: Vec<_> = text.lines().collect();
    let tables = lines.chunk_by(|a, b| is_row(a) == is_row(b)).filter(|lines| is_row(lines[0]));
    let cells = |row: &&str| row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
    tables.map(|rows| rows.iter().skip(2).map(cells).collect()).collect()
}

/// The numbers in a text: with separators of thousands, powers of two, KiB and MiB. Digits inside words do not count.
fn figures(text: &str) -> Vec<u64> {
    let chars: Vec<_> = text.chars().collect();
    let (mut found, mut at) = (Vec::new(), 0);
    while at < chars.len() {
        let is_first = chars[at].is_ascii_digit() && (at == 0 || !chars[at - 1].is_alphanumeric());
        let length = chars[at..].iter().take_while(|c| c.is_ascii_digit() || **c == ',').count();
        if !is_first {
            at += length.max(1);
            continue;
        }
        let digits: String = chars[at..at + length].iter().filter(|c| c.is_ascii_digit()).collect();
        let mut value: u64 = digits.parse().expect("digits are a number");
        at += length;
        let power: Vec<_> = chars[at..].iter().map_while(|c| "⁰¹²³⁴⁵⁶⁷⁸⁹".chars().position(|s| s == *c)).collect();
        if !power.is_empty() {
            value = value.pow(power.iter().fold(0, |power, digit| 10 * power + *digit as u32));
            at += power.len();
        }
        let unit: String = chars[at..].iter().take(4).collect();
        found.push(
            value
                * if unit == " KiB" {
                    1 << 10
                } else if unit == " MiB" {
                    1 << 20
                } else {
                    1
                },
        );
    }
    found
}

/// Requires that a table has exactly these rows, each with these figures in its second cell.
fn assert_figures(found: &[Vec<String>], expected: &[(&str, Vec<u64>)]) {
    for (row, (name, values)) in found.iter().zip(expected) {
        assert_eq!(row[0], *name);
        assert_eq!(figures(&row[1]), *values, "{name}: {}", row[1]);
    }
    assert_eq!(found.len(), expected.len(), "the rows of {}", expected[0].0);
}

/// The seconds of a constant that is private.
fn seconds(path: &str, name: &str) -> u64 {
    let source = read(path);
    let value = written(&source, name).unwrap_or_else(|| panic!("{path} has no {name}"));
    let digits = value.strip_prefix("Duration::from_secs(").and_then(|value| value.strip_suffix(')'));
    digits.unwrap_or_else(|| panic!("{name} is {value}")).parse().expect("a number of seconds")
}

/// The number of a constant that is private: a plain one, or one shifted.
fn number(path: &str, name: &str) -> u64 {
    let source = read(path);
    let value = written(&source, name).unwrap_or_else(|| panic!("{path} has no {name}")).replace('_', "");
    let (value, shift) = value.split_once(" << ").unwrap_or((&value, "0"));
    value.parse::<u64>().expect("a number") << shift.parse::<u64>().expect("a number of bits")
}

/// A number as the page writes it in sentences.
fn thousands(value: u64) -> String {
    let digits = value.to_string();
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(|group| String::from_utf8_lossy(group)).collect();
    groups.join(",")
}

#[test]
fn figures_are_read_as_they_are_written() {
    assert_eq!(figures("10 to 3,600,000, 1"), [10, 3_600_000, 1]);
    assert_eq!(figures("4 MiB, 64 KiB (`slots · n² ≤ 2³⁶`)"), [4 << 20, 64 << 10, 1 << 36]);
    assert_eq!(figures("u32, proto3 and none"), [0; 0]);
    assert_eq!([thousands(250_000), thousands(20), thousands(1_000_000)], ["250,000", "20", "1,000,000"]);
}

#[test]
fn the_transport_is_as_the_server_sets_it() {
    let server = "shared/service/listen/src/bounds.rs";
    assert_eq!(written(&read(server), "STREAM_WINDOW"), Some("MAX_MESSAGE_BYTES as u32"));
    let keepalive = vec![seconds(server, "KEEPALIVE"), seconds(server, "KEEPALIVE_LIMIT")];
    assert_figures(
        &tables(&section("Transport"))[0],
        &[
            ("protocol", vec![2, 1, 3]),
            ("default port", vec![7400]),
            ("method of a miner", vec![]),
            ("also served on the port", vec![]),
            ("compression", vec![]),
            ("message size", vec![MAX_MESSAGE_BYTES as u64, MAX_HANDSHAKE_BYTES as u64]),
            ("request headers", vec![number(server, "MAX_HEADER_BYTES")]),
            ("streams of a connection", vec![MAX_STREAMS.into()]),
            ("flow control", vec![MAX_MESSAGE_BYTES as u64]),
            ("HTTP/2 keepalive", keepalive),
        ],
    );
    assert!(read("validator/src/config.rs").contains("7400"), "the default port");
}

#[test]
fn every_deadline_is_the_codes() {
    let after = |hashes: u64| {
        vec![FOLLOW_UP_LIMIT.as_secs(), hashes, number("shared/attest/judge/src/run/limits.rs", "FOLLOW_UP_BYTES")]
    };
    let digest = size_of::<Digest>() as u64;
    let queued = format!(
        "{} messages waiting for the transport",
        number("shared/service/listen/src/bounds.rs", "MAX_OUTGOING_MESSAGES")
    );
    assert_figures(
        &tables(&section("Deadlines"))[0],
        &[
            ("handshake, from the start of the call to `Proof`", vec![HANDSHAKE_LIMIT.as_secs()]),
            ("a connection without a session", vec![STRANGER_LIMIT.as_secs()]),
            ("no message of the miner", vec![MISSED_PINGS.into()]),
            ("`Challenge`, `Probe`, `Sweep`, `Open` waiting for the transport", vec![HANDOVER_LIMIT.as_secs()]),
            ("`Ping` waiting for the transport", vec![HANDOVER_LIMIT.as_secs()]),
            (&queued, vec![seconds("shared/service/listen/src/bounds.rs", "SEND_LIMIT")]),
            ("`Challenge` to `Commitment`", vec![]),
            ("`Commitment` to last `DeviceRoots`", after(digest)),
            ("`Probe` or `Sweep` to `ProbeAnswer`", vec![]),
            ("`ProbeAnswer` to last `DeviceDigests`", after(digest)),
            ("`Open` to last `ItemEnd`", vec![]),
            ("HTTP/2 keepalive", vec![seconds("shared/service/listen/src/bounds.rs", "KEEPALIVE_LIMIT")]),
        ],
    );
}

#[test]
fn every_limit_is_the_codes() {
    let [met, sent] = &tables(&section("Limits"))[..] else { panic!("two tables") };
    let codes = stop_codes();
    assert_figures(
        met,
        &[
            ("a message", vec![MAX_MESSAGE_BYTES as u64]),
            ("`Hello`, `Inventory`", vec![MAX_HANDSHAKE_BYTES as u64]),
            (
                "`Proof`, `Pong`, `Declined`, `Progress`, `Commitment`, `ProbeAnswer`, `Abort`, `Goodbye`",
                vec![MAX_SHORT_MESSAGE_BYTES as u64],
            ),
            ("messages in one ping interval, without openings asked for", vec![MAX_MESSAGES_PER_PING.into()]),
            ("`Hello.versions`", vec![MAX_VERSIONS as u64]),
            ("`Hello.successors`", vec![MAX_SUCCESSORS as u64, SUCCESSOR_BYTES as u64]),
            ("keys, nonces, seeds, checksums, roots, digests", vec![size_of::<Digest>() as u64; 2]),
            ("signatures", vec![size_of::<Signature>() as u64]),
            ("`device_id`, `challenge_id`", vec![size_of::<ChallengeId>() as u64]),
            ("`Hello.agent`", vec![MAX_AGENT_BYTES as u64]),
            ("`Proof.join_token`", vec![MAX_JOIN_TOKEN_BYTES as u64]),
            ("`Device.name`, `Hardware.model`", vec![MAX_NAME_BYTES as u64]),
            ("`Device.backend`", vec![MAX_BACKEND_BYTES as u64]),
            ("`Device.detail`", vec![MAX_DEVICE_DETAIL_BYTES as u64]),
            ("other texts of `Hardware`", vec![MAX_HARDWARE_TEXT_BYTES as u64]),
            ("`detail` of `Declined`, `Abort`, `Goodbye`", vec![MAX_DETAIL_BYTES as u64]),
            ("`Inventory.devices`", vec![MAX_DEVICES as u64]),
            ("`Device.slots`", vec![SLOT_ENTRIES as u64]),
            ("`claimed_ms` of every message", vec![MAX_CLAIMED_MS]),
            ("`Progress`", vec![MAX_PROGRESS_SLOTS]),
            ("`DeviceRoots.roots`", vec![MAX_ROOTS as u64]),
            ("`DeviceDigests.digests`", vec![MAX_PROBE_DIGESTS as u64]),
            ("`OpeningsChunk.item`", vec![MAX_OPEN_ITEMS as u64 - 1]),
            ("`OpeningsChunk.slot_digests`", vec![1, MAX_CHUNK_DIGESTS as u64]),
            ("`SampleOpenings.openings`", vec![MAX_SAMPLE_OPENINGS as u64]),
            ("`SegmentOpenings.lines`", vec![MAX_LINES as u64]),
            ("`OpenedRange.bytes`", vec![MAX_RANGE_BYTES as u64]),
            ("`OpenedRange.siblings`", vec![MAX_SIBLINGS as u64]),
            ("`SegmentOpenings.state.slot`, `SumOpenings.sum.slot`", vec![0]),
            ("`StopCode`", vec![1, codes.len() as u64]),
            ("`Telemetry`", vec![]),
        ],
    );
    let total = assay_work::challenge::MAX_TOTAL;
    assert_figures(
        sent,
        &[
            ("`ping_interval_ms`", vec![MIN_PING_INTERVAL_MS, MAX_PING_INTERVAL_MS]),
            ("`Welcome.successors`", vec![MAX_SUCCESSORS as u64, SUCCESSOR_BYTES as u64]),
            ("deadlines", vec![MIN_DEADLINE_MS, MAX_DEADLINE_MS]),
            ("`Challenge.total`", vec![total, number("shared/attest/judge/src/issue.rs", "MAX_ROOTS")]),
            ("`Open.items`", vec![MAX_OPEN_ITEMS as u64, MAX_OPEN_DRAWS as u64]),
            ("`Verdict.reasons`", vec![MAX_REASONS as u64]),
            ("`Verdict` bounds of one kind", vec![MAX_BOUNDS as u64]),
            ("`Verdict.receipt`", vec![MAX_RECEIPT_BYTES as u64]),
            ("`Verdict.missing_devices`, `Verdict.new_devices`", vec![MAX_DEVICES as u64]),
            ("`detail`", vec![MAX_DETAIL_BYTES as u64]),
        ],
    );
    let claims = &tables(&section("Claims"))[0];
    let figure_of = |name: &str| claims.iter().find(|row| row[0] == name).map(|row| figures(&row[1]));
    assert_eq!(figure_of("`throttle_reasons`"), Some(vec![MAX_THROTTLE_REASONS as u64]));
    assert_eq!(figure_of("`xids`"), Some(vec![MAX_XIDS as u64]));
}

#[test]
fn sentences_have_the_figures_of_the_code() {
    let page = read(PAGE).split_whitespace().collect::<Vec<_>>().join(" ");
    let seconds_of = |time: Duration| time.as_secs();
    let Policy { abandoned, openings, .. } = Policy::default();
    let sentences = [
        format!("The protocol version is the number **{}**.", PROTOCOL_VERSIONS[0]),
        format!("the versions that the miner speaks, at most {MAX_VERSIONS},"),
        format!("The handshake takes at most {} s on the validator's clock", seconds_of(HANDSHAKE_LIMIT)),
        format!("Each message has at most {} KiB", MAX_HANDSHAKE_BYTES >> 10),
        format!(
            "keeps back for {0} s ends the challenge as `not_reading`; a `Ping` that it keeps back for {0} s ends",
            seconds_of(HANDOVER_LIMIT)
        ),
        format!("or from {} ms after it was due.", HANDOVER_SLACK.as_millis()),
        format!("At most {} such connections stand", ConnectionBounds::default().handshakes()),
        format!("is closed after {} s, also one that had a session before", STRANGER_LIMIT.as_secs()),
        format!("`devices`: at most {MAX_DEVICES}, in strictly ascending order"),
        format!("`slots`: exactly {SLOT_ENTRIES} numbers"),
        format!("After {MISSED_PINGS} intervals without one the validator ends the session"),
        format!("treats a validator as gone after {} intervals without a message", miner::MISSED_PINGS),
        format!("At most {MAX_MESSAGES_PER_PING} messages may come in one ping interval"),
        format!(
            "reads its devices again every {} s while no challenge runs",
            seconds("miner/src/driver.rs", "INVENTORY_INTERVAL")
        ),
        format!("`digest[0] … digest[count-1]`, 1 to {MAX_CHUNK_DIGESTS} in a chunk"),
        format!(
            "one of the last {} that ended in this session |",
            number("shared/attest/judge/src/bounds.rs", "MAX_ENDED")
        ),
        format!("within the last {} challenges of a key", abandoned.window),
        format!(
            "Start over at 0.5 s after a session of more than {} s.",
            seconds("miner/src/connection.rs", "GOOD_SESSION")
        ),
        format!(
            "r is the least rate of a link, a setting of the validator: {} bytes a second by default.",
            thousands(openings.least_rate_per_s)
        ),
        format!("Deadlines on the wire are from {MIN_DEADLINE_MS} ms to 1 day."),
        format!(
            "a is {LINK_ROUND_TRIPS} times the least of the last round trips, at most {} s",
            seconds_of(LINK_ALLOWANCE_LIMIT)
        ),
        format!(
            "{} s by default, beside the time in which bytes arrive at r or faster, and {} s in all",
            seconds_of(openings.deadline),
            thousands(seconds_of(openings.limit))
        ),
        format!(
            "{} s to connect, {} s for the handshake, {} ping intervals without a message, {} s for a message to go out, and {} min of silence",
            seconds("miner/src/reach.rs", "CONNECT_LIMIT"),
            seconds_of(miner::HANDSHAKE_LIMIT),
            miner::MISSED_PINGS,
            seconds("miner/src/driver.rs", "SEND_LIMIT"),
            seconds_of(miner::HOLD_LIMIT) / 60
        ),
    ];
    for sentence in sentences {
        assert!(page.contains(&sentence), "the page does not say: {sentence}");
    }
    assert_eq!(abandoned.limit, 3, "the page says: the third one");
    assert_eq!(MAX_DEADLINE_MS, 24 * 3600 * 1000, "the page says: 1 day");
}

#[test]
fn every_reason_is_listed_with_its_class() {
    let found = &tables(&section("Reasons"))[0];
    let listed: BTreeSet<_> = found.iter().map(|row| (row[0].clone(), row[1].clone())).collect();
    let all = ReasonCode::ALL.iter().map(|code| (format!("`{}`", code.name()), code.class().to_string()));
    let expected: BTreeSet<_> = all.collect();
    let wrong: Vec<_> = listed.symmetric_difference(&expected).collect();
    assert!(wrong.is_empty(), "missing, or of another class: {wrong:?}");
    assert_eq!(found.len(), expected.len(), "each once");
    assert!(found.iter().all(|row| !row[2].is_empty()), "each says how an honest miner gets it");
    let fails = ["forged", "late", "evasive", "short"];
    assert!(section("Reasons").contains("The classes `forged`, `late`, `evasive` and `short` fail"));
    for code in ReasonCode::ALL {
        let class: Class = code.class();
        assert_eq!(class.fails(), fails.contains(&class.name()), "{class}");
    }
}

/// The names of the stop codes, from 1.
fn stop_codes() -> Vec<&'static str> {
    let codes = (1..).map_while(|code| v1::StopCode::try_from(code).ok());
    codes.map(|code| code.as_str_name().strip_prefix("STOP_CODE_").expect("a code of an enum has its name")).collect()
}

#[test]
fn every_refusal_and_stop_code_is_listed() {
    let page = read(PAGE);
    let rows = |title: &str| {
        let (_, after) = page.split_once(&format!("\n### {title}\n")).unwrap_or_else(|| panic!("no section {title}"));
        tables(after.split("\n#").next().unwrap_or_default()).remove(0)
    };
    let name = |cell: &str| cell.trim_matches('`').to_owned();
    let refusals: BTreeSet<_> = rows("Refusals").iter().map(|row| name(&row[0])).collect();
    let codes = (1..).map_while(|code| v1::RefusedCode::try_from(code).ok());
    let expected = codes.map(|code| code.as_str_name().trim_start_matches("REFUSED_CODE_").to_owned());
    assert_eq!(refusals, expected.collect());
    let stops: Vec<_> = rows("A challenge").iter().map(|row| row[0].clone()).collect();
    let expected = stop_codes().into_iter().enumerate().map(|(at, code)| format!("`{code}` ({})", at + 1));
    assert_eq!(stops, expected.collect::<Vec<_>>());
    // A challenge is declined with each but the one that says that a deadline was missed.
    let declines: BTreeSet<_> = rows("Take or decline").iter().map(|row| name(&row[1])).collect();
    let expected = stop_codes().into_iter().filter(|code| *code != "DEADLINE").map(str::to_owned);
    assert_eq!(declines, expected.collect());
}

/// Statements that stand in two places agree.
#[test]
fn no_figure_is_said_in_two_ways() {
    let page = read(PAGE);
    let (_, dialling) = page.split_once("\n### Dialling again\n").expect("the section is there");
    let dialling = dialling.split("\n#").next().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
    let (after, _) = dialling.split_once("do not dial again until an operator changed something").expect("it says so");
    let (_, after) = after.rsplit_once("After `Refused` with ").expect("it says after which");
    for code in (1..).map_while(|code| v1::RefusedCode::try_from(code).ok()) {
        let name = code.as_str_name().trim_start_matches("REFUSED_CODE_");
        let row = page.lines().find(|line| line.starts_with(&format!("| `{name}` | a"))).expect("it has a row");
        let refused = v1::Refused { code: code.into(), ..v1::Refused::default() };
        let (code, ..): (RefusedCode, String, Option<Duration>) = refused.try_into().expect("it is known");
        let refused = miner::CloseReason::Refused { code, detail: String::new(), retry_after: None };
        let stops = refused.needs_operator();
        assert_eq!((row.contains(": stop,"), after.contains(&format!("`{name}`"))), (stops, stops), "{name}");
        assert_eq!(row.contains("| after `Proof` |"), code.answers_proof(), "{name}");
    }
    assert!(dialling.contains("wait for that long and up to a quarter of it more, at random"));
    assert_eq!(page.matches("wait for that long").count(), 1);
    // Deadlines that follow from settings are on the page alone.
    let messages = read("proto/assay/v1/work.proto");
    assert!(!messages.contains("kB/s") && !messages.contains("as soon as its signature holds"));
}

/// The values of an example, by name.
fn example(mark: &str) -> Vec<(String, Vec<u8>)> {
    let page = read(PAGE);
    let (_, after) = page.split_once(&format!("<!-- {mark} -->\n")).expect("the example's start is marked");
    let (text, _) = after.split_once(&format!("<!-- /{mark} -->")).expect("the example's end is marked");
    let mut values: Vec<(String, String)> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with("```")) {
        match line.strip_prefix("    ") {
            Some(hex) => values.last_mut().expect("a name comes first").1.push_str(hex),
            None => values.push((line.to_owned(), String::new())),
        }
    }
    values.into_iter().map(|(name, value)| (name, hex::decode(value).expect("hexadecimal digits"))).collect()
}

#[test]
fn the_example_of_a_handshake_is_what_both_sides_sign() {
    let (validator, miner) = (Identity::from_seed(&[1; 32]), Identity::from_seed(&[2; 32]));
    let transcript = SessionTranscript {
        version: PROTOCOL_VERSIONS[0],
        validator_key: validator.public_key(),
        miner_key: miner.public_key(),
        nonce: Nonce([3; 32]),
        miner_nonce: Nonce([4; 32]),
        channel: Channel::Tls([5; 32]),
    };
    let (welcome, proof) = (transcript.welcome_message(), transcript.proof_message());
    let (of_validator, of_miner) = (validator.sign(&welcome), miner.sign(&proof));
    let request = v1::SessionRequest::from(MinerMessage::Proof(of_miner, None)).encode_to_vec();
    let expected = [
        ("version", transcript.version.to_le_bytes().to_vec()),
        ("validator_seed", vec![1; 32]),
        ("validator_key", validator.public_key().0.to_vec()),
        ("miner_seed", vec![2; 32]),
        ("miner_key", miner.public_key().0.to_vec()),
        ("nonce", vec![3; 32]),
        ("miner_nonce", vec![4; 32]),
        ("channel", vec![5; 32]),
        ("welcome_message", welcome),
        ("welcome_signature", of_validator.0.to_vec()),
        ("proof_message", proof),
        ("proof_signature", of_miner.0.to_vec()),
        ("proof_request", request),
    ];
    let example = example("handshake");
    assert_eq!(example.len(), expected.len());
    for ((found, expected), value) in example.iter().zip(&expected).map(|(found, (name, value))| ((found, name), value))
    {
        assert_eq!((found.0.as_str(), hex::encode(&found.1)), (*expected, hex::encode(value)));
    }
    // As a reader of the page would check it, from its values alone.
    let value = |name: &str| example.iter().find(|value| value.0 == name).expect("it is listed").1.clone();
    for (key, message, signature) in
        [("validator_key", "welcome_message", "welcome_signature"), ("miner_key", "proof_message", "proof_signature")]
    {
        let key = PublicKey(value(key).try_into().expect("32 bytes"));
        let signature = Signature(value(signature).try_into().expect("64 bytes"));
        assert!(verify(&key, &value(message), &signature));
    }
}

#[test]
fn the_example_of_a_statement_is_what_an_old_key_signs() {
    let until = u64::from_le_bytes(example("successor")[2].1.clone().try_into().expect("8 bytes"));
    let (old, new_key) = (Identity::from_seed(&[1; 32]), Identity::from_seed(&[2; 32]).public_key());
    let statement = old.succeed(new_key, until);
    let values = [vec![1; 32], new_key.0.to_vec(), until.to_le_bytes().to_vec(), statement.encode().to_vec()];
    let expected = ["old_seed", "new_key", "until", "statement"].map(str::to_owned).into_iter().zip(values);
    assert_eq!(example("successor"), expected.collect::<Vec<_>>());
    let said = Successor::decode(&example("successor")[3].1).expect("136 bytes");
    assert!(follow(&old.public_key(), &new_key, &[said], until - 1));
    let page = read(PAGE).split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(MAX_OVERLAP_S, 365 * 86_400, "a day below what is followed");
    assert!(page.contains("`until` is ahead, by at most 366 days,"));
}

#[test]
fn the_example_of_a_split_is_what_split_gives() {
    let page = read(PAGE).split_whitespace().collect::<Vec<_>>().join(" ");
    let said =
        "three devices with 32, 3 and 2 slots at n, `min_slots` = 3 and `total` = 31 give the first two 28 and 3 slots";
    assert!(page.contains(said));
    let weights: Vec<_> =
        [32, 3].iter().zip(1..).map(|(weight, id)| Weight { device_id: DeviceId([id; 16]), weight: *weight }).collect();
    let counts: Vec<_> = split(31, &weights).unwrap().iter().map(|share| share.count).collect();
    assert_eq!(counts, [28, 3]);
}
