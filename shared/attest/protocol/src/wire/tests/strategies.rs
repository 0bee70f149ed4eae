//! Every message of the domain within the bounds.

use std::time::Duration;

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;

use crate::claims::{ConfidentialComputing, Hardware, SensorSpread, Telemetry, ThrottleReason};
use crate::message::*;
use crate::successor::Successor;
use crate::verdict::{
    Bound, DeviceWork, Hiding, KindRate, LinkWork, Mode, NamedDevice, Outcome, Reason, ReasonCode, SweepWork,
    UnchallengedDevice, Verdict, Work,
};
use crate::wire::limits::*;
use assay_work::commitment::DeviceEvidence;
use assay_work::opening::{OpenedRange, Parents, PassSample, SampleOpenings};
use assay_work::probe::{DeviceAnswer, Link, Probe, Sweep, SweepSample, UncheckedProbe, UncheckedSweep};
use assay_work::segment::{Opening, Segment, SegmentOpenings};
use assay_work::{ChallengeId, DeviceId, Precision, SweepOpenings};

fn bytes<const N: usize, T: From<[u8; N]> + std::fmt::Debug>() -> impl Strategy<Value = T> {
    any::<[u8; N]>().prop_map(T::from)
}

/// Up to 16 characters of one to four bytes.
fn text() -> impl Strategy<Value = String> {
    "[ -~äß€東😀]{0,16}"
}

fn short_text() -> impl Strategy<Value = String> {
    "[a-z0-9]{0,16}"
}

fn milliseconds(min: u64, max: u64) -> impl Strategy<Value = Duration> {
    (min..=max).prop_map(Duration::from_millis)
}

fn deadline() -> impl Strategy<Value = Duration> {
    milliseconds(MIN_DEADLINE_MS, MAX_DEADLINE_MS)
}

fn claimed() -> impl Strategy<Value = Duration> {
    milliseconds(0, MAX_CLAIMED_MS)
}

fn finite() -> impl Strategy<Value = f64> {
    use proptest::num::f64::{NEGATIVE, NORMAL, POSITIVE, SUBNORMAL, ZERO};
    NORMAL | SUBNORMAL | ZERO | POSITIVE | NEGATIVE
}

fn hardware() -> impl Strategy<Value = Hardware> {
    use ConfidentialComputing::{DevTools, Off, On};
    let texts = proptest::array::uniform6(option::of("[a-z0-9ß:.-]{0,16}"));
    let switches = any::<[Option<bool>; 2]>();
    let confidential = option::of(proptest::sample::select(vec![Off, On, DevTools]));
    (texts, any::<Option<u64>>(), any::<Option<u32>>(), switches, confidential).prop_map(
        |(texts, memory_bytes, power_limit_mw, [mig_enabled, ecc_enabled], confidential_computing)| {
            let [model, uuid, serial, pci_address, driver_version, vbios_version] = texts;
            Hardware {
                model,
                uuid,
                serial,
                pci_address,
                driver_version,
                vbios_version,
                memory_bytes,
                power_limit_mw,
                mig_enabled,
                ecc_enabled,
                confidential_computing,
            }
        },
    )
}

fn spread() -> impl Strategy<Value = Option<SensorSpread>> {
    option::of(any::<[u32; 3]>().prop_map(|mut values| {
        values.sort_unstable();
        let [min, mean, max] = values;
        SensorSpread { min, mean, max }
    }))
}

fn telemetry() -> impl Strategy<Value = Telemetry> {
    let spreads = [spread(), spread(), spread(), spread(), spread(), spread()];
    let reasons = proptest::sample::subsequence(&ThrottleReason::ALL, 0..=ThrottleReason::ALL.len());
    let xids = proptest::collection::btree_set(any::<u32>(), 0..=MAX_XIDS);
    (any::<u32>(), spreads, any::<[Option<u64>; 3]>(), reasons, xids).prop_map(
        |(samples, spreads, [memory_used_max_bytes, ecc_corrected, ecc_uncorrected], reasons, xids)| {
            let [temperature_c, power_mw, sm_clock_mhz, memory_clock_mhz, gpu, memory] = spreads;
            Telemetry {
                samples,
                temperature_c,
                power_mw,
                sm_clock_mhz,
                memory_clock_mhz,
                gpu_utilisation_percent: gpu,
                memory_utilisation_percent: memory,
                memory_used_max_bytes,
                throttle_reasons: reasons.into_iter().collect(),
                ecc_corrected,
                ecc_uncorrected,
                xids,
            }
        },
    )
}

fn device(id: [u8; 16]) -> impl Strategy<Value = DeviceClaim> {
    let precisions = proptest::sample::subsequence(Precision::ALL.to_vec(), 0..=4);
    let memory = any::<u64>().prop_flat_map(|total| (Just(total), 0..=total));
    (text(), short_text(), text(), memory, any::<[u32; 8]>(), precisions, option::of(hardware())).prop_map(
        move |(name, backend, detail, (total_bytes, free_bytes), slots, precisions, claimed_hardware)| {
            DeviceClaim {
                id: DeviceId(id),
                name,
                backend,
                detail,
                total_bytes,
                free_bytes,
                slots,
                precisions,
                claimed_hardware,
            }
            .consistent()
        },
    )
}

fn inventory() -> impl Strategy<Value = Inventory> {
    let devices = btree_map(any::<[u8; 16]>(), Just(()), 0..6)
        .prop_flat_map(|ids| ids.into_keys().map(device).collect::<Vec<_>>());
    let links = prop_oneof![Just(Link::Own), Just(Link::All)];
    (any::<u32>(), devices, links, any::<bool>()).prop_map(|(sequence, devices, max_link, sweeps)| Inventory {
        sequence,
        devices,
        max_link,
        sweeps,
    })
}

fn stop_code() -> impl Strategy<Value = StopCode> {
    proptest::sample::select(&StopCode::ALL)
}

fn refused_code() -> impl Strategy<Value = RefusedCode> {
    proptest::sample::select(vec![
        RefusedCode::Version,
        RefusedCode::Signature,
        RefusedCode::NotAllowed,
        RefusedCode::Full,
        RefusedCode::Draining,
        RefusedCode::Malformed,
        RefusedCode::InChallenge,
        RefusedCode::Overloaded,
        RefusedCode::Pending,
        RefusedCode::Suspended,
        RefusedCode::JoinToken,
    ])
}

fn stop() -> impl Strategy<Value = Stop> {
    (bytes(), stop_code(), text()).prop_map(|(challenge_id, code, detail)| Stop { challenge_id, code, detail })
}

fn signed_checksum() -> impl Strategy<Value = SignedChecksum> {
    (bytes(), bytes(), any::<[[u8; 32]; 2]>(), claimed()).prop_map(|(challenge_id, checksum, halves, claimed)| {
        let mut signature = [0; 64];
        signature[..32].copy_from_slice(&halves[0]);
        signature[32..].copy_from_slice(&halves[1]);
        SignedChecksum { challenge_id, checksum, signature: signature.into(), claimed }
    })
}

fn hello() -> impl Strategy<Value = Hello> {
    let resumes = option::of(bytes());
    (vec(any::<u32>(), 0..=MAX_VERSIONS), bytes(), bytes(), text(), inventory(), successors(), resumes).prop_map(
        |(versions, miner_key, miner_nonce, agent, inventory, successors, resumes)| Hello {
            versions,
            miner_key,
            miner_nonce,
            agent,
            inventory,
            successors,
            resumes,
        },
    )
}

fn proof() -> impl Strategy<Value = MinerMessage> {
    let join_token = option::of("[!-~]{1,128}".prop_map(|text| text.parse().unwrap()));
    (signed_checksum(), join_token).prop_map(|(signed, token)| MinerMessage::Proof(signed.signature, token))
}

fn successors() -> impl Strategy<Value = Vec<Successor>> {
    let successor = (any::<[[u8; 32]; 4]>(), any::<u64>()).prop_map(|(parts, until)| {
        let mut bytes = [0; 136];
        bytes[..64].copy_from_slice(parts[..2].as_flattened());
        bytes[64..72].copy_from_slice(&until.to_le_bytes());
        bytes[72..].copy_from_slice(parts[2..].as_flattened());
        Successor::from(bytes)
    });
    vec(successor, 0..=MAX_SUCCESSORS)
}

fn welcome() -> impl Strategy<Value = Welcome> {
    (any::<u32>(), bytes(), bytes(), signed_checksum(), text(), successors()).prop_map(
        |(version, validator_key, nonce, c, agent, successors)| Welcome {
            version,
            validator_key,
            nonce,
            signature: c.signature,
            agent,
            successors,
        },
    )
}

fn offer() -> impl Strategy<Value = Offer> {
    (bytes(), bytes(), any::<[u32; 7]>(), deadline()).prop_map(|(challenge_id, nonce, numbers, deadline)| {
        let [version, precision, n, iterations, total, inventory_sequence, min_slots] = numbers;
        Offer { version, challenge_id, nonce, precision, n, iterations, total, inventory_sequence, deadline, min_slots }
    })
}

fn device_roots() -> impl Strategy<Value = DeviceRoots> {
    let evidence = (bytes(), any::<u32>(), any::<u32>(), vec(bytes(), 0..9), bytes()).prop_map(
        |(device_id, offset, count, roots, checksum)| DeviceEvidence { device_id, offset, count, roots, checksum },
    );
    (bytes(), evidence, claimed(), option::of(telemetry().prop_map(Box::new))).prop_map(
        |(challenge_id, evidence, claimed, claimed_telemetry)| DeviceRoots {
            challenge_id,
            evidence,
            claimed,
            claimed_telemetry,
        },
    )
}

fn device_digests() -> impl Strategy<Value = DeviceDigests> {
    (bytes(), bytes(), vec(bytes(), 0..9), claimed()).prop_map(|(challenge_id, device_id, digests, claimed)| {
        DeviceDigests { challenge_id, answer: DeviceAnswer { device_id, digests }, claimed }
    })
}

fn probe() -> impl Strategy<Value = Probe> {
    (bytes(), 6..=22_u32, 1..=1024_u32, 1..=65_536_u32, 0..=1_u32).prop_map(
        |(seed, log2_walks, steps, rounds, link)| {
            Probe::try_from(UncheckedProbe { seed, walks: 1 << log2_walks, steps, rounds, link })
                .expect("in its ranges")
        },
    )
}

fn sweep() -> impl Strategy<Value = Sweep> {
    (bytes(), 1..=65_536_u32)
        .prop_map(|(seed, rounds)| Sweep::try_from(UncheckedSweep { seed, rounds }).expect("in its range"))
}

fn sweep_sample() -> impl Strategy<Value = SweepSample> {
    any::<(u32, u32, u32)>().prop_map(|(round, slot, row)| SweepSample { round, slot, row })
}

fn sweep_openings() -> impl Strategy<Value = SweepOpenings> {
    (sweep_sample(), range(), range()).prop_map(|(sample, sum, range)| {
        let OpenedRange { slot: _, first_byte, bytes, siblings } = sum;
        SweepOpenings { sample, sum: Opening { first_byte, bytes, siblings }, range }
    })
}

fn segment() -> impl Strategy<Value = Segment> {
    any::<(u32, u32)>().prop_map(|(round, walk)| Segment { round, walk })
}

fn sample() -> impl Strategy<Value = PassSample> {
    (any::<[u32; 4]>(), any::<bool>()).prop_map(|([slot, row, column, inner], leaf)| {
        if leaf { PassSample::Leaf { slot, row } } else { PassSample::Product { slot, row, column, inner } }
    })
}

fn open_item() -> impl Strategy<Value = OpenItem> {
    let samples = (any::<u32>(), vec(sample(), 0..9));
    let what = prop_oneof![
        vec(segment(), 0..9).prop_map(OpenTarget::Segments),
        vec(segment(), 0..9).prop_map(OpenTarget::LinkedSegments),
        vec(sweep_sample(), 0..9).prop_map(OpenTarget::Sums),
        samples.prop_map(|(iteration, samples)| OpenTarget::Samples { iteration, samples }),
    ];
    (bytes(), what).prop_map(|(device_id, what)| OpenItem { device_id, what })
}

fn range() -> impl Strategy<Value = OpenedRange> {
    (any::<u32>(), any::<u64>(), vec(any::<u8>(), 0..40), vec(bytes(), 0..=MAX_SIBLINGS))
        .prop_map(|(slot, first_byte, bytes, siblings)| OpenedRange { slot, first_byte, bytes, siblings })
}

fn sample_openings() -> impl Strategy<Value = SampleOpenings> {
    let parents = any::<(u32, u32)>().prop_map(|(earlier, previous)| Parents { earlier, previous });
    (sample(), option::of(parents), vec(range(), 0..=MAX_SAMPLE_OPENINGS))
        .prop_map(|(sample, parents, openings)| SampleOpenings { sample, parents, openings })
}

fn segment_openings() -> impl Strategy<Value = SegmentOpenings> {
    (segment(), range(), vec(range(), 0..4)).prop_map(|(Segment { round, walk }, state, lines)| {
        let OpenedRange { slot: _, first_byte, bytes, siblings } = state;
        SegmentOpenings { round, walk, state: Opening { first_byte, bytes, siblings }, lines }
    })
}

fn chunk() -> impl Strategy<Value = OpeningsChunk> {
    let part = prop_oneof![
        vec(bytes(), 1..9).prop_map(OpeningsPart::SlotDigests),
        sample_openings().prop_map(OpeningsPart::Sample),
        segment_openings().prop_map(OpeningsPart::Segment),
        sweep_openings().prop_map(OpeningsPart::Sum),
        Just(OpeningsPart::End),
    ];
    (bytes(), 0..MAX_OPEN_ITEMS as u32, part).prop_map(|(challenge_id, item, part)| OpeningsChunk {
        challenge_id,
        item,
        part,
    })
}

fn reason() -> impl Strategy<Value = Reason> {
    (proptest::sample::select(&ReasonCode::ALL), text(), option::of(bytes()))
        .prop_map(|(code, detail, device_id)| Reason { code, detail, device_id })
}

fn work() -> impl Strategy<Value = Work> {
    let floats = [finite(), finite(), finite(), finite()];
    (any::<[u64; 3]>(), any::<u128>(), any::<[u32; 2]>(), floats, option::of(finite())).prop_map(
        |([matrices, bytes_held, probe_bytes], multiply_accumulates, [samples, segments], floats, claimed_seconds)| {
            let [seconds, tops, probe_seconds, probe_gb_per_s] = floats;
            Work {
                matrices,
                bytes_held,
                multiply_accumulates,
                seconds,
                tops,
                probe_bytes,
                probe_seconds,
                probe_gb_per_s,
                samples,
                segments,
                claimed_seconds,
            }
        },
    )
}

fn device_works() -> impl Strategy<Value = Vec<DeviceWork>> {
    let claims = option::of(telemetry());
    let device = (text(), work(), claims, option::of(hiding()), rates(), option::of(sweep_work()));
    btree_map(any::<[u8; 16]>(), device, 0..6).prop_map(|devices| {
        let device = |(id, (name, work, claimed_telemetry, hiding, rates, sweep))| DeviceWork {
            device_id: DeviceId(id),
            name,
            work,
            claimed_telemetry,
            hiding,
            rates,
            sweep,
        };
        devices.into_iter().map(device).collect()
    })
}

fn precision() -> impl Strategy<Value = Precision> {
    proptest::sample::select(Precision::ALL.to_vec())
}

fn rates() -> impl Strategy<Value = Vec<KindRate>> {
    let kinds = proptest::sample::subsequence(Precision::ALL.to_vec(), 0..=4);
    (kinds, finite(), finite(), any::<u64>()).prop_map(|(kinds, tops, detour, unix_seconds)| {
        kinds.into_iter().map(|precision| KindRate { precision, tops, detour, unix_seconds }).collect()
    })
}

fn sweep_work() -> impl Strategy<Value = SweepWork> {
    (any::<u64>(), proptest::array::uniform5(finite()), any::<[u32; 2]>()).prop_map(
        |(bytes, [seconds, gb_per_s, share, elsewhere_bytes_per_s, open_sums], [samples, rounds])| SweepWork {
            bytes,
            seconds,
            gb_per_s,
            share,
            elsewhere_bytes_per_s,
            open_sums,
            samples,
            rounds,
        },
    )
}

fn hiding() -> impl Strategy<Value = Hiding> {
    (proptest::array::uniform11(finite()), any::<[bool; 2]>(), any::<u32>()).prop_map(
        |(numbers, [rate_is_shown_only, is_by_operands], rule)| {
            let [rate_per_s, computed, over_buses, share, bus_bytes_per_s, copy_bytes_per_s, elsewhere, open_walks, ..] =
                numbers;
            let [.., operand_bytes_per_s, chip_bytes, operands] = numbers;
            Hiding {
                rate_per_s,
                rate_is_shown_only,
                computed,
                over_buses,
                share,
                bus_bytes_per_s,
                copy_bytes_per_s,
                elsewhere,
                open_walks,
                operand_bytes_per_s,
                chip_bytes,
                operands,
                is_by_operands,
                rule,
            }
        },
    )
}

fn not_challenged() -> impl Strategy<Value = Vec<UnchallengedDevice>> {
    btree_map(any::<[u8; 16]>(), (text(), any::<u32>()), 0..4).prop_map(|devices| {
        let device = |(id, (name, slots))| UnchallengedDevice { device_id: DeviceId(id), name, slots };
        devices.into_iter().map(device).collect()
    })
}

fn named_devices() -> impl Strategy<Value = Vec<NamedDevice>> {
    btree_map(any::<[u8; 16]>(), text(), 0..4).prop_map(|devices| {
        devices.into_iter().map(|(id, name)| NamedDevice { device_id: DeviceId(id), name }).collect()
    })
}

fn bounds() -> impl Strategy<Value = Vec<Bound>> {
    let bound = (finite(), finite()).prop_map(|(fraction, log2_probability)| Bound { fraction, log2_probability });
    vec(bound, 0..4)
}

fn link_work() -> impl Strategy<Value = LinkWork> {
    let figures = [finite(), finite(), finite(), finite(), finite()];
    (figures, any::<u64>(), any::<u32>(), bounds()).prop_map(|(figures, crossed_bytes, segments, bounds)| {
        let [seconds, step_seconds, gb_per_s, half_gb_per_s, least_gb_per_s] = figures;
        LinkWork { seconds, step_seconds, crossed_bytes, gb_per_s, half_gb_per_s, least_gb_per_s, segments, bounds }
    })
}

fn verdict() -> impl Strategy<Value = Verdict> {
    let ids = (bytes(), bytes(), bytes());
    let outcome = proptest::sample::select(vec![Outcome::Pass, Outcome::Fail, Outcome::Inconclusive]);
    let mode = option::of(proptest::sample::select(vec![Mode::Replay, Mode::ReplaySample, Mode::Audit]));
    let numbers = (any::<[u32; 5]>(), precision(), any::<u64>(), option::of("[A-Za-z0-9_.-]{0,40}"));
    let round_trip_ms = option::of(finite().prop_filter("0 stands for none", |ms| *ms != 0.0));
    let times = (round_trip_ms, [option::of(finite()), option::of(finite()), option::of(finite())]);
    let lists = (not_challenged(), named_devices(), named_devices());
    let works = (device_works(), lists, work(), [bounds(), bounds(), bounds()], option::of(link_work()));
    (ids, outcome, vec(reason(), 0..4), mode, numbers, works, times).prop_map(
        |(ids, outcome, reasons, mode, (counts, precision, unix_seconds, receipt), works, (round_trip_ms, gaps))| {
            let (challenge_id, miner_key, validator_key) = ids;
            let (devices, lists, whole, [work_bounds, iteration_bounds, probe_bounds], link) = works;
            let (not_challenged, missing_devices, new_devices) = lists;
            let [n, iterations, iterations_checked, abandoned_recently, recent_challenges] = counts;
            let [handover_ms, roots_ms, digests_ms] = gaps;
            Verdict {
                challenge_id,
                miner_key,
                validator_key,
                outcome,
                reasons,
                mode,
                precision,
                n,
                iterations,
                iterations_checked,
                devices,
                whole,
                work_bounds,
                iteration_bounds,
                probe_bounds,
                round_trip_ms,
                handover_ms,
                roots_ms,
                digests_ms,
                not_challenged,
                missing_devices,
                new_devices,
                abandoned_recently,
                recent_challenges,
                unix_seconds,
                link,
                receipt,
            }
        },
    )
}

fn progress() -> impl Strategy<Value = MinerMessage> {
    let slots = (0..=MAX_PROGRESS_SLOTS).prop_flat_map(|all| (0..=all, Just(all)));
    let finished = option::of((bytes(), bytes()));
    (bytes(), slots, finished).prop_map(|(challenge_id, (done_slots, all_slots), finished)| MinerMessage::Progress {
        challenge_id,
        done_slots,
        all_slots,
        finished,
    })
}

/// Every kind of message that a miner sends.
pub fn miner_message() -> impl Strategy<Value = MinerMessage> {
    prop_oneof![
        hello().prop_map(MinerMessage::Hello),
        proof(),
        inventory().prop_map(MinerMessage::Inventory),
        any::<u64>().prop_map(MinerMessage::Pong),
        stop().prop_map(MinerMessage::Declined),
        progress(),
        signed_checksum().prop_map(MinerMessage::Commitment),
        device_roots().prop_map(MinerMessage::DeviceRoots),
        signed_checksum().prop_map(MinerMessage::ProbeAnswer),
        device_digests().prop_map(MinerMessage::DeviceDigests),
        chunk().prop_map(MinerMessage::OpeningsChunk),
        stop().prop_map(MinerMessage::Abort),
        (stop_code(), text()).prop_map(|(code, detail)| MinerMessage::Goodbye(code, detail)),
    ]
}

/// Every kind of message that a validator sends.
pub fn validator_message() -> impl Strategy<Value = ValidatorMessage> {
    let id = bytes::<16, ChallengeId>;
    let probe = (id(), probe(), deadline());
    let sweep = (id(), sweep(), deadline());
    let open = (id(), vec(open_item(), 0..6), deadline());
    prop_oneof![
        welcome().prop_map(ValidatorMessage::Welcome),
        milliseconds(MIN_PING_INTERVAL_MS, MAX_PING_INTERVAL_MS).prop_map(ValidatorMessage::Accepted),
        (refused_code(), text(), option::of(milliseconds(1, MAX_RETRY_AFTER_MS)))
            .prop_map(|(code, detail, retry_after)| ValidatorMessage::Refused { code, detail, retry_after }),
        any::<u64>().prop_map(ValidatorMessage::Ping),
        offer().prop_map(ValidatorMessage::Challenge),
        probe.prop_map(|(challenge_id, probe, deadline)| ValidatorMessage::Probe { challenge_id, probe, deadline }),
        sweep.prop_map(|(challenge_id, sweep, deadline)| ValidatorMessage::Sweep { challenge_id, sweep, deadline }),
        open.prop_map(|(challenge_id, items, deadline)| ValidatorMessage::Open { challenge_id, items, deadline }),
        verdict().prop_map(|verdict| ValidatorMessage::Verdict(Box::new(verdict))),
        (stop_code(), text()).prop_map(|(code, detail)| ValidatorMessage::Goodbye(code, detail)),
    ]
}
