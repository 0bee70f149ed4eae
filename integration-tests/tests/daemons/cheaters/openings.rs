//! Openings bent on their way: bits, lengths, orders and numbers.

use std::time::{Duration, Instant};

use assay_integration_tests::daemon::PATIENCE;
use assay_integration_tests::dishonest::{Disguise, DishonestMiner, Lies, rewrite};
use assay_integration_tests::stage::Stage;
use assay_integration_tests::validator::{Policy, TestValidator};
use assay_protocol::message::{MinerMessage, OpenWhat, OpeningsChunk, OpeningsPart, Stop, StopCode, ValidatorMessage};
use assay_protocol::verdict::{Mode, ReasonCode};
use assay_work::ChainingValue;
use assay_work::opening::SampleOpenings;
use assay_work::segment::SegmentOpenings;

/// Items of an open of one device: segments first, then samples.
const SEGMENTS: u32 = 0;
const SAMPLES: u32 = 1;

/// Sessions that send too much at the same time.
const LONG_SESSIONS: u8 = 16;
/// What a session may take: a window of 8 MiB, a message that is read and one that is judged.
const SESSION_BYTES: u64 = 16 << 20;
/// What a validator may keep of memory that its sessions freed.
const KEPT_BYTES: u64 = 1 << 20;

/// What is bent, and what that is caught for.
type Bent<T> = (ReasonCode, fn(&mut T));

#[tokio::test(flavor = "multi_thread")]
async fn a_bent_sample() {
    let stage = Stage::with_one_device().await;
    let rows: [Bent<SampleOpenings>; 9] = [
        (ReasonCode::AuditPath, |s| s.openings[0].bytes[3] ^= 1),
        (ReasonCode::AuditPath, |s| s.openings[1].siblings[2].0[31] ^= 0x80),
        (ReasonCode::AuditPath, |s| s.openings[2].siblings.swap(0, 1)),
        (ReasonCode::AuditRange, |s| s.openings[0].bytes.truncate(512)),
        (ReasonCode::AuditRange, |s| s.openings[0].bytes.push(0)),
        (ReasonCode::AuditRange, |s| s.openings[0].first_byte ^= 1024),
        (ReasonCode::AuditSiblings, |s| s.openings[0].siblings.truncate(5)),
        (ReasonCode::AuditSiblings, |s| s.openings[0].siblings.push(ChainingValue([0; 32]))),
        (ReasonCode::AuditRows, |s| drop(s.openings.pop())),
    ];
    for (code, bend) in rows {
        let lie = |lies: &Lies| lies.in_what_goes_out(rewrite::first_sample(bend));
        stage.catches(&[Mode::Audit], code, lie).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bent_segment() {
    let stage = Stage::with_one_device().await;
    let rows: [Bent<SegmentOpenings>; 11] = [
        (ReasonCode::ResidencyPath, |s| s.state.bytes[0] ^= 1),
        (ReasonCode::ResidencyPath, |s| s.state.siblings[1].0[0] ^= 1),
        (ReasonCode::ResidencyPath, |s| s.lines[3].bytes[1023] ^= 1),
        (ReasonCode::ResidencyPath, |s| s.lines[7].siblings[5].0[0] ^= 1),
        (ReasonCode::ResidencyRange, |s| s.state.bytes.truncate(1023)),
        (ReasonCode::ResidencyRange, |s| s.lines[0].first_byte ^= 1024),
        (ReasonCode::ResidencyRange, |s| s.lines[0].slot ^= 1),
        (ReasonCode::ResidencySiblings, |s| s.lines[0].siblings.truncate(5)),
        (ReasonCode::ResidencyRows, |s| drop(s.lines.pop())),
        (ReasonCode::ResidencyRows, |s| s.walk ^= 1),
        (ReasonCode::ResidencyRange, |s| s.lines.reverse()),
    ];
    for (code, bend) in rows {
        let lie = |lies: &Lies| lies.in_what_goes_out(rewrite::first_segment(bend));
        stage.catches(&[Mode::Replay, Mode::Audit], code, lie).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bent_digests() {
    let stage = Stage::with_one_device().await;
    for (item, code) in [(SEGMENTS, ReasonCode::ResidencyDigests), (SAMPLES, ReasonCode::AuditDigests)] {
        let flipped = |lies: &Lies| lies.in_what_goes_out(rewrite::digests_of(item, |d| d[4].0[7] ^= 1));
        stage.catches(&[Mode::Audit], code, flipped).await;
        let fewer = |lies: &Lies| lies.in_what_goes_out(rewrite::digests_of(item, |d| d.truncate(11)));
        stage.catches(&[Mode::Audit], code, fewer).await;
        let more = |lies: &Lies| lies.in_what_goes_out(rewrite::digests_of(item, |d| d.push(d[0])));
        stage.catches(&[Mode::Audit], code, more).await;
        let reordered = |lies: &Lies| lies.in_what_goes_out(rewrite::digests_of(item, |d| d.swap(0, 1)));
        stage.catches(&[Mode::Audit], code, reordered).await;
    }
}

/// What becomes of the parts of an item.
async fn parts(code: ReasonCode, item: u32, change: fn(OpeningsPart) -> Vec<OpeningsPart>) {
    let stage = Stage::with_one_device().await;
    let lie = move |lies: &Lies| {
        lies.in_what_goes_out(move |message| match message {
            MinerMessage::OpeningsChunk(chunk) if chunk.item == item => {
                let again = |part| MinerMessage::OpeningsChunk(OpeningsChunk { part, ..chunk });
                change(chunk.part.clone()).into_iter().map(again).collect()
            }
            other => vec![other],
        });
    };
    stage.catches(&[Mode::Audit], code, lie).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_item_cut_off() {
    let none_of = |part| if matches!(part, OpeningsPart::End) { vec![part] } else { Vec::new() };
    parts(ReasonCode::ResidencyDigests, SEGMENTS, none_of).await;
    parts(ReasonCode::AuditDigests, SAMPLES, none_of).await;
    parts(ReasonCode::AuditRows, SAMPLES, |part| match part {
        OpeningsPart::Sample(_) => Vec::new(),
        other => vec![other],
    })
    .await;
}

/// More parts than were asked for, and fewer than end a session: the first one too many ends it, and the next challenge is as ever.
#[tokio::test(flavor = "multi_thread")]
async fn an_item_without_end() {
    let endless = |part: OpeningsPart| if matches!(part, OpeningsPart::End) { Vec::new() } else { vec![part; 3] };
    parts(ReasonCode::ResidencyDigests, SEGMENTS, endless).await;
    parts(ReasonCode::AuditRows, SAMPLES, |part| match part {
        OpeningsPart::Sample(_) => vec![part; 3],
        other => vec![other],
    })
    .await;
    parts(ReasonCode::ResidencyRows, SEGMENTS, |part| match part {
        OpeningsPart::Segment(_) => vec![part; 3],
        other => vec![other],
    })
    .await;
}

/// What is of another shape than asked for is refused when it comes: here nothing comes after it.
#[tokio::test(flavor = "multi_thread")]
async fn a_part_of_another_shape_with_nothing_after_it() {
    type Bend = fn(&mut OpeningsPart);
    let bends: [(ReasonCode, u32, Bend); 6] = [
        (ReasonCode::ResidencyRows, SEGMENTS, |part| segment(part, |s| s.lines.resize(1000, s.lines[0].clone()))),
        (ReasonCode::ResidencyRange, SEGMENTS, |part| segment(part, |s| s.lines[7].bytes.resize(32_768, 0))),
        (ReasonCode::ResidencySiblings, SEGMENTS, |part| {
            segment(part, |s| s.lines[7].siblings.resize(20, ChainingValue([0; 32])));
        }),
        (ReasonCode::AuditRows, SAMPLES, |part| sample(part, |s| s.openings.truncate(1))),
        (ReasonCode::AuditRange, SAMPLES, |part| sample(part, |s| s.openings[0].bytes.resize(32_768, 0))),
        (ReasonCode::AuditSiblings, SAMPLES, |part| {
            sample(part, |s| s.openings[0].siblings.resize(20, ChainingValue([0; 32])));
        }),
    ];
    let stage = Stage::with_one_device().await;
    for (code, item, bend) in bends {
        let lie = |lies: &Lies| {
            let mut bent = false;
            lies.in_what_goes_out(move |mut message| {
                let MinerMessage::OpeningsChunk(chunk) = &mut message else { return vec![message] };
                if bent {
                    return Vec::new();
                }
                if chunk.item == item {
                    bent = matches!(chunk.part, OpeningsPart::Segment(_) | OpeningsPart::Sample(_));
                    bend(&mut chunk.part);
                }
                vec![message]
            });
        };
        stage.catches(&[Mode::Audit], code, lie).await;
    }
}

fn segment(part: &mut OpeningsPart, bend: impl FnOnce(&mut SegmentOpenings)) {
    if let OpeningsPart::Segment(segment) = part {
        bend(segment);
    }
}

fn sample(part: &mut OpeningsPart, bend: impl FnOnce(&mut SampleOpenings)) {
    if let OpeningsPart::Sample(sample) = part {
        bend(sample);
    }
}

/// As many segments as were drawn, of 4 MB each: a session that kept them until the item's end kept 128 MB.
#[tokio::test(flavor = "multi_thread")]
async fn segments_of_too_many_lines_in_many_sessions() {
    let validator = TestValidator::start(&Policy::default()).await;
    let mut miners = Vec::new();
    for i in 0..LONG_SESSIONS {
        let disguise = Disguise { seed: 1 + i, first_device: 1 + i, ..Disguise::new(&[14]) };
        let miner = DishonestMiner::connect(validator.address, &disguise).await;
        validator.wait_for_miner(miner.key, true).await;
        validator.challenge(miner.key, Some(Mode::Audit)).await.unwrap().expect_pass();
        miner.lies.in_what_goes_out(rewrite::each(|message| {
            if let MinerMessage::OpeningsChunk(OpeningsChunk { part: OpeningsPart::Segment(segment), .. }) = message {
                let mut line = segment.lines[0].clone();
                line.bytes.resize(3900, 1);
                segment.lines = vec![line; 1000];
            }
        }));
        miners.push(miner);
    }
    let before = validator.daemon.memory();
    let mut challenges = Vec::new();
    for miner in &miners {
        challenges.push(validator.ask(miner.key, Some(Mode::Audit)).await.unwrap());
    }
    let mut rulings = Vec::new();
    for challenge in challenges {
        rulings.push(challenge.ruling().await.unwrap());
    }
    let most = before.peak_bytes + u64::from(LONG_SESSIONS) * SESSION_BYTES;
    let peak = validator.daemon.memory().peak_bytes;
    assert!(peak <= most, "{peak} bytes were in use at once, {most} may be");
    for ruling in rulings {
        ruling.expect(ReasonCode::ResidencyRows);
    }
    drop(miners);
    let until = Instant::now() + PATIENCE;
    while validator.daemon.memory().now_bytes > before.now_bytes + KEPT_BYTES {
        assert!(Instant::now() < until, "{:?} after {before:?}", validator.daemon.memory());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn samples_in_another_order() {
    let stage = Stage::with_one_device().await;
    let swapped = |lies: &Lies| {
        let mut first = None;
        let mut done = false;
        lies.in_what_goes_out(move |message| {
            let is_sample =
                matches!(&message, MinerMessage::OpeningsChunk(c) if matches!(c.part, OpeningsPart::Sample(_)));
            match (is_sample, done, first.take()) {
                (true, false, None) => {
                    first = Some(message);
                    Vec::new()
                }
                (true, false, Some(before)) => {
                    done = true;
                    vec![message, before]
                }
                _ => vec![message],
            }
        });
    };
    stage.catches(&[Mode::Audit], ReasonCode::AuditRows, swapped).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn items_in_another_order_or_of_another_kind() {
    let stage = Stage::with_one_device().await;
    let numbered_otherwise = |lies: &Lies| {
        lies.in_what_goes_out(rewrite::each(|message| {
            if let MinerMessage::OpeningsChunk(chunk) = message {
                chunk.item = 1 - chunk.item;
            }
        }));
    };
    stage.catches(&[Mode::Audit], ReasonCode::ResidencyRows, numbered_otherwise).await;
    let samples_first = |lies: &Lies| {
        lies.in_what_comes_in(|mut message| {
            if let ValidatorMessage::Open { items, .. } = &mut message {
                items.reverse();
            }
            message
        });
    };
    stage.catches(&[Mode::Audit], ReasonCode::ResidencyRows, samples_first).await;
}

/// The rows of another iteration, each with its way up to its own digests: they are not those of the root.
#[tokio::test(flavor = "multi_thread")]
async fn a_stale_iteration() {
    let policy = Policy { max_matrices: 6, iterations: 3, sampled_iterations: 3, ..Policy::default() };
    let stage = Stage::new(&policy, &[6]).await;
    let stale = |lies: &Lies| {
        lies.in_what_comes_in(|mut message| {
            if let ValidatorMessage::Open { items, .. } = &mut message {
                for item in items {
                    if let OpenWhat::Samples { iteration, .. } = &mut item.what {
                        *iteration = 1;
                    }
                }
            }
            message
        });
    };
    stage.catches(&[Mode::Audit], ReasonCode::AuditDigests, stale).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_openings_of_another_device() {
    let stage = Stage::with_two_devices().await;
    let swapped = |lies: &Lies| {
        lies.in_what_comes_in(|mut message| {
            if let ValidatorMessage::Open { items, .. } = &mut message {
                let ids: Vec<_> = items.iter().map(|item| item.device_id).collect();
                items[0].device_id = ids[1];
                items[1].device_id = ids[0];
            }
            message
        });
    };
    stage.catches(&[Mode::Replay, Mode::Audit], ReasonCode::ResidencyDigests, swapped).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn openings_that_never_end() {
    let policy = Policy { openings_deadline_s: 2, ..Policy::default() };
    let stage = Stage::new(&policy, &[14]).await;
    let held_back = |lies: &Lies| {
        let mut ended = false;
        lies.in_what_goes_out(move |message| match &message {
            MinerMessage::OpeningsChunk(chunk) => {
                ended |= chunk.part == OpeningsPart::End;
                if ended { Vec::new() } else { vec![message] }
            }
            _ => vec![message],
        });
    };
    stage.catches(&[Mode::Replay, Mode::Audit], ReasonCode::OpeningsLate, held_back).await;
}

/// A row longer than any matrix has is no opening at all.
#[tokio::test(flavor = "multi_thread")]
async fn an_opening_beyond_every_bound() {
    let stage = Stage::with_one_device().await;
    let huge = |lies: &Lies| {
        lies.in_what_goes_out(rewrite::first_sample(|s| s.openings[0].bytes.resize(1 << 20, 0)));
    };
    stage.throws_out(Mode::Audit, ReasonCode::Protocol, huge).await;
}

/// Who cannot open what it committed to may call that a fault of its device: that is not forged, but no pass either.
#[tokio::test(flavor = "multi_thread")]
async fn a_miner_that_gives_up_when_it_is_asked_to_open() {
    let stage = Stage::with_one_device().await;
    let gives_up = |lies: &Lies| {
        lies.in_what_goes_out(|message| match message {
            MinerMessage::OpeningsChunk(chunk) => vec![MinerMessage::Abort(Stop {
                challenge_id: chunk.challenge_id,
                code: StopCode::DeviceLost,
                detail: "a test".into(),
            })],
            other => vec![other],
        });
    };
    stage.catches(&[Mode::Replay, Mode::Audit], ReasonCode::Abandoned, gives_up).await;
}
