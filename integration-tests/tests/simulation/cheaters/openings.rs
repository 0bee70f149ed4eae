//! Openings bent on their way: bits, lengths, orders and numbers.

use assay_integration_tests::dishonest::{Lies, rewrite};
use assay_policy::Policy;
use assay_protocol::message::{MinerMessage, OpenTarget, OpeningsChunk, OpeningsPart, ValidatorMessage};
use assay_protocol::verdict::{Mode, ReasonCode};
use assay_work::opening::SampleOpenings;
use assay_work::segment::SegmentOpenings;
use assay_work::{ChainingValue, Digest};

use super::stage::{Stage, usual};

/// Items of an open of one device: segments first, then samples.
const SEGMENTS: u32 = 0;
const SAMPLES: u32 = 1;

/// The expected reason, and the change of the openings.
type Bent<T> = (ReasonCode, fn(&mut T));

#[test]
fn a_bent_sample() {
    let mut stage = Stage::with_one_device();
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
        stage.catches(&[Mode::Audit], code, lie);
    }
}

#[test]
fn a_bent_segment() {
    let mut stage = Stage::with_one_device();
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
        stage.catches(&[Mode::Replay, Mode::Audit], code, lie);
    }
}

#[test]
fn bent_digests() {
    let mut stage = Stage::with_one_device();
    let bends: [fn(&mut Vec<Digest>); 4] = [|d| d[4].0[7] ^= 1, |d| d.truncate(11), |d| d.push(d[0]), |d| d.swap(0, 1)];
    for (item, code) in [(SEGMENTS, ReasonCode::ResidencyDigests), (SAMPLES, ReasonCode::AuditDigests)] {
        for bend in bends {
            let lie = |lies: &Lies| lies.in_what_goes_out(rewrite::digests_of(item, bend));
            stage.catches(&[Mode::Audit], code, lie);
        }
    }
}

/// Changes the parts of an item, and expects this reason.
fn parts(code: ReasonCode, item: u32, change: fn(OpeningsPart) -> Vec<OpeningsPart>) {
    let mut stage = Stage::with_one_device();
    let lie = move |lies: &Lies| {
        lies.in_what_goes_out(move |message| match message {
            MinerMessage::OpeningsChunk(chunk) if chunk.item == item => {
                let again = |part| MinerMessage::OpeningsChunk(OpeningsChunk { part, ..chunk });
                change(chunk.part.clone()).into_iter().map(again).collect()
            }
            other => vec![other],
        });
    };
    stage.catches(&[Mode::Audit], code, lie);
}

#[test]
fn an_item_cut_off() {
    let none_of = |part| if matches!(part, OpeningsPart::End) { vec![part] } else { Vec::new() };
    parts(ReasonCode::ResidencyDigests, SEGMENTS, none_of);
    parts(ReasonCode::AuditDigests, SAMPLES, none_of);
    parts(ReasonCode::AuditRows, SAMPLES, |part| match part {
        OpeningsPart::Sample(_) => Vec::new(),
        other => vec![other],
    });
}

/// More parts than were asked for, and fewer than end a session: the first one too many ends it, and the next challenge
/// is as ever.
#[test]
fn an_item_without_end() {
    let endless = |part: OpeningsPart| if matches!(part, OpeningsPart::End) { Vec::new() } else { vec![part; 3] };
    parts(ReasonCode::ResidencyDigests, SEGMENTS, endless);
    parts(ReasonCode::AuditRows, SAMPLES, |part| match part {
        OpeningsPart::Sample(_) => vec![part; 3],
        other => vec![other],
    });
    parts(ReasonCode::ResidencyRows, SEGMENTS, |part| match part {
        OpeningsPart::Segment(_) => vec![part; 3],
        other => vec![other],
    });
}

/// A part of another shape than the validator asked for is refused when it comes: here nothing comes after it.
#[test]
fn a_part_of_another_shape_with_nothing_after_it() {
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
    let mut stage = Stage::with_one_device();
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
        stage.catches(&[Mode::Audit], code, lie);
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

#[test]
fn samples_in_another_order() {
    let mut stage = Stage::with_one_device();
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
    stage.catches(&[Mode::Audit], ReasonCode::AuditRows, swapped);
}

#[test]
fn items_in_another_order_or_of_another_kind() {
    let mut stage = Stage::with_one_device();
    let numbered_otherwise = |lies: &Lies| {
        lies.in_what_goes_out(rewrite::each(|message| {
            if let MinerMessage::OpeningsChunk(chunk) = message {
                chunk.item = 1 - chunk.item;
            }
        }));
    };
    stage.catches(&[Mode::Audit], ReasonCode::ResidencyRows, numbered_otherwise);
    let samples_first = |lies: &Lies| {
        lies.in_what_comes_in(|mut message| {
            if let ValidatorMessage::Open { items, .. } = &mut message {
                items.reverse();
            }
            message
        });
    };
    stage.catches(&[Mode::Audit], ReasonCode::ResidencyRows, samples_first);
}

/// The rows of another iteration, each with its way up to its own digests: they are not those of the root.
#[test]
fn a_stale_iteration() {
    let policy = Policy { max_matrices: 6, iterations: 3, sampled_iterations: 3, ..usual() };
    let mut stage = Stage::new(policy, &[6]);
    let stale = |lies: &Lies| {
        lies.in_what_comes_in(|mut message| {
            if let ValidatorMessage::Open { items, .. } = &mut message {
                for item in items {
                    if let OpenTarget::Samples { iteration, .. } = &mut item.what {
                        *iteration = 1;
                    }
                }
            }
            message
        });
    };
    stage.catches(&[Mode::Audit], ReasonCode::AuditDigests, stale);
}

#[test]
fn the_openings_of_another_device() {
    let mut stage = Stage::with_two_devices();
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
    stage.catches(&[Mode::Replay, Mode::Audit], ReasonCode::ResidencyDigests, swapped);
}

#[test]
fn openings_that_never_end() {
    let mut stage = Stage::with_one_device();
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
    stage.catches(&[Mode::Replay, Mode::Audit], ReasonCode::OpeningsLate, held_back);
}

/// A row longer than any matrix has is a malformed opening.
#[test]
fn an_opening_beyond_every_bound() {
    let stage = Stage::with_one_device();
    let huge = |lies: &Lies| {
        lies.in_what_goes_out(rewrite::first_sample(|s| s.openings[0].bytes.resize(1 << 20, 0)));
    };
    stage.throws_out(Mode::Audit, ReasonCode::Protocol, huge);
}

/// Chunks without digests would be neither digests nor a message that is counted.
#[test]
fn empty_digest_chunks() {
    let stage = Stage::with_one_device();
    let with_empty_chunks = |lies: &Lies| {
        lies.in_what_goes_out(|message| match message {
            MinerMessage::OpeningsChunk(chunk) if matches!(chunk.part, OpeningsPart::SlotDigests(_)) => {
                let empty = OpeningsChunk { part: OpeningsPart::SlotDigests(Vec::new()), ..chunk.clone() };
                [empty, chunk].map(MinerMessage::OpeningsChunk).into()
            }
            other => vec![other],
        });
    };
    stage.throws_out(Mode::Audit, ReasonCode::Protocol, with_empty_chunks);
}
