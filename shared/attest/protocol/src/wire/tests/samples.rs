//! One valid message of each kind, for tests that change a single field.

use crate::wire::v1;

pub fn device(id: u8) -> v1::Device {
    v1::Device {
        device_id: vec![id; 16],
        name: "NVIDIA H200".into(),
        backend: "cuda".into(),
        detail: "wgmma m64n256k32".into(),
        total_bytes: 150 << 30,
        free_bytes: 149 << 30,
        slots: vec![8; 8],
        precisions: vec![1, 2, 6],
        claimed_hardware: Some(Box::new(hardware())),
    }
}

pub fn hardware() -> v1::Hardware {
    v1::Hardware {
        model: Some("NVIDIA H200".into()),
        uuid: Some("GPU-01234567-89ab-cdef-0123-456789abcdef".into()),
        serial: Some("1320000000000".into()),
        pci_address: Some("00000000:1B:00.0".into()),
        driver_version: Some("580.82.07".into()),
        vbios_version: Some("96.00.BC.00.01".into()),
        memory_bytes: Some(150 << 30),
        power_limit_mw: Some(700_000),
        mig_enabled: Some(false),
        ecc_enabled: Some(true),
        confidential_computing: v1::ConfidentialComputing::Off.into(),
    }
}

pub fn telemetry() -> v1::Telemetry {
    let spread = |mean| Some(v1::Spread { min: mean - 10, mean, max: mean + 10 });
    v1::Telemetry {
        samples: 40,
        temperature_c: spread(61),
        power_mw: spread(642_000),
        sm_clock_mhz: spread(1590),
        memory_clock_mhz: spread(2619),
        gpu_utilisation_percent: spread(90),
        memory_utilisation_percent: spread(60),
        memory_used_max_bytes: Some(140 << 30),
        throttle_reasons: vec![v1::ThrottleReason::SwPowerCap.into()],
        ecc_corrected: Some(0),
        ecc_uncorrected: Some(0),
        xids: vec![13, 79],
    }
}

pub fn inventory(devices: u8) -> v1::Inventory {
    v1::Inventory { sequence: 7, devices: (0..devices).map(device).collect(), max_link: 1, sweeps: true }
}

pub fn hello() -> v1::Hello {
    v1::Hello {
        versions: vec![1],
        miner_key: vec![1; 32],
        miner_nonce: vec![2; 32],
        agent: "assay-miner 0.1.0".into(),
        inventory: Some(inventory(2)),
        successors: vec![vec![4; 136]],
        resumes: vec![5; 32],
    }
}

pub fn proof() -> v1::Proof {
    v1::Proof { signature: vec![1; 64], join_token: "assay-join-0123".into() }
}

pub fn welcome() -> v1::Welcome {
    v1::Welcome {
        version: 1,
        validator_key: vec![1; 32],
        nonce: vec![2; 32],
        signature: vec![3; 64],
        agent: "assay-validator 0.1.0".into(),
        successors: vec![vec![4; 136]],
    }
}

pub fn refused() -> v1::Refused {
    v1::Refused { code: v1::RefusedCode::Full.into(), detail: "64 miners are connected".into(), retry_after_ms: 30_000 }
}

pub fn declined() -> v1::Declined {
    v1::Declined { challenge_id: vec![1; 16], code: v1::StopCode::Busy.into(), detail: "in use".into() }
}

pub fn abort() -> v1::Abort {
    v1::Abort { challenge_id: vec![1; 16], code: v1::StopCode::DeviceLost.into(), detail: "it fell off the bus".into() }
}

pub fn goodbye() -> v1::Goodbye {
    v1::Goodbye { code: v1::StopCode::Draining.into(), detail: "until tomorrow".into() }
}

pub fn progress() -> v1::Progress {
    let finished = Some(v1::FinishedDevice { device_id: vec![2; 16], checksum: vec![3; 32] });
    v1::Progress { challenge_id: vec![1; 16], done_slots: 3, all_slots: 9, finished }
}

pub fn challenge() -> v1::Challenge {
    v1::Challenge {
        version: 1,
        challenge_id: vec![1; 16],
        nonce: vec![2; 32],
        precision: 1,
        n: 256,
        iterations: 2,
        total: 9,
        inventory_sequence: 7,
        deadline_ms: 60_000,
        min_slots: 3,
    }
}

pub fn commitment() -> v1::Commitment {
    v1::Commitment { challenge_id: vec![1; 16], checksum: vec![2; 32], signature: vec![3; 64], claimed_ms: 900 }
}

pub fn probe_answer() -> v1::ProbeAnswer {
    v1::ProbeAnswer { challenge_id: vec![1; 16], checksum: vec![2; 32], signature: vec![3; 64], claimed_ms: 900 }
}

pub fn device_roots() -> v1::DeviceRoots {
    v1::DeviceRoots {
        challenge_id: vec![1; 16],
        share: Some(v1::Share { device_id: vec![2; 16], offset: 3, count: 4 }),
        roots: vec![5; 64],
        checksum: vec![6; 32],
        claimed_ms: 900,
        claimed_telemetry: Some(telemetry()),
    }
}

pub fn device_digests() -> v1::DeviceDigests {
    v1::DeviceDigests { challenge_id: vec![1; 16], device_id: vec![2; 16], digests: vec![3; 64], claimed_ms: 900 }
}

pub fn probe() -> v1::Probe {
    let (challenge_id, seed) = (vec![1; 16], vec![2; 32]);
    v1::Probe { challenge_id, seed, walks: 64, steps: 8, rounds: 2, deadline_ms: 5000, link: 0 }
}

pub fn sweep() -> v1::Sweep {
    v1::Sweep { challenge_id: vec![1; 16], seed: vec![2; 32], rounds: 16, deadline_ms: 5000 }
}

pub fn sums(count: usize) -> v1::OpenItem {
    let samples = vec![v1::SumSample { round: u32::MAX, slot: u32::MAX, row: u32::MAX }; count];
    v1::OpenItem { device_id: vec![2; 16], what: Some(v1::open_item::What::Sums(v1::OpenSums { samples })) }
}

pub fn sum_openings() -> v1::SumOpenings {
    let sample = Some(v1::SumSample { round: 1, slot: 2, row: 3 });
    v1::SumOpenings { sample, sum: Some(range(1024, 19)), range: Some(range(2048, 11)) }
}

pub fn segments(count: usize) -> v1::OpenItem {
    let segments = vec![v1::Segment { round: 1, walk: 2 }; count];
    v1::OpenItem { device_id: vec![2; 16], what: Some(v1::open_item::What::Segments(v1::OpenSegments { segments })) }
}

pub fn samples(count: usize) -> v1::OpenItem {
    let factors = Some(v1::SampleFactors { column: u32::MAX, inner: u32::MAX });
    let samples = vec![v1::Sample { slot: u32::MAX, row: u32::MAX, factors }; count];
    v1::OpenItem {
        device_id: vec![2; 16],
        what: Some(v1::open_item::What::Samples(v1::OpenSamples { iteration: u32::MAX, samples })),
    }
}

pub fn open() -> v1::Open {
    v1::Open { challenge_id: vec![1; 16], items: vec![segments(2), sums(2), samples(3)], deadline_ms: 5000 }
}

pub fn range(bytes: usize, siblings: usize) -> v1::OpenedRange {
    v1::OpenedRange {
        slot: 0,
        first_byte: u64::MAX,
        bytes: vec![1; bytes].into(),
        siblings: vec![2; 32 * siblings].into(),
    }
}

pub fn sample_openings(ranges: usize) -> v1::SampleOpenings {
    v1::SampleOpenings {
        sample: Some(v1::Sample { slot: 5, row: 6, factors: None }),
        parents: Some(v1::Parents { earlier: 3, previous: 4 }),
        openings: vec![range(1024, 6); ranges],
    }
}

pub fn segment_openings(lines: usize) -> v1::SegmentOpenings {
    v1::SegmentOpenings {
        segment: Some(v1::Segment { round: 1, walk: 2 }),
        state: Some(range(1024, 18)),
        lines: vec![range(1024, 20); lines],
    }
}

pub fn chunk(part: v1::openings_chunk::Part) -> v1::OpeningsChunk {
    v1::OpeningsChunk { challenge_id: vec![1; 16], item: 0, part: Some(part) }
}

pub fn work() -> v1::Work {
    v1::Work { matrices: 9, seconds: 1.5, tops: 1200.0, claimed_seconds: Some(1.4), ..Default::default() }
}

pub fn reason() -> v1::Reason {
    v1::Reason {
        code: "audit_element".into(),
        class: "forged".into(),
        detail: "slot 4, row 7".into(),
        device_id: Some(vec![2; 16]),
    }
}

pub fn device_work(id: u8) -> v1::DeviceWork {
    let name = "NVIDIA H200".into();
    let hiding = v1::Hiding {
        rate_per_s: 1e15,
        rate_is_shown_only: true,
        computed: 0.02,
        over_buses: 0.03,
        share: 0.06,
        bus_bytes_per_s: 64e9,
        copy_bytes_per_s: 61e9,
        elsewhere: 0.02,
        open_walks: 0.09,
        rule: 3,
        operand_bytes_per_s: 5e12,
        chip_bytes: 256e6,
        operands: 0.01,
        is_by_operands: true,
    };
    v1::DeviceWork {
        device_id: vec![id; 16],
        name,
        work: Some(work()),
        claimed_telemetry: Some(telemetry()),
        hiding: Some(hiding),
        rates: [1, 2, 5]
            .map(|precision| v1::KindRate { precision, tops: 700.0, detour: 1.0, unix_seconds: 1_800_000_000 })
            .into(),
        sweep: Some(sweep_work()),
    }
}

pub fn sweep_work() -> v1::SweepWork {
    v1::SweepWork {
        bytes: 1 << 41,
        seconds: 0.5,
        gb_per_s: 4398.0,
        share: 0.12,
        elsewhere_bytes_per_s: 500e9,
        open_sums: 0.012,
        samples: 256,
        rounds: 16,
    }
}

pub fn verdict() -> v1::Verdict {
    let bounds = vec![v1::Bound { fraction: 0.01, log2_probability: -40.0 }];
    v1::Verdict {
        challenge_id: vec![1; 16],
        miner_key: vec![2; 32],
        validator_key: vec![3; 32],
        outcome: v1::Outcome::Fail.into(),
        reasons: vec![reason()],
        mode: v1::Mode::Audit.into(),
        precision: 5,
        n: 256,
        iterations: 2,
        iterations_checked: 1,
        devices: vec![device_work(0), device_work(1)],
        whole: Some(work()),
        work_bounds: bounds.clone(),
        iteration_bounds: bounds.clone(),
        probe_bounds: bounds,
        round_trip_ms: 1.5,
        unix_seconds: 1_800_000_000,
        not_challenged: vec![v1::NotChallenged { device_id: vec![9; 16], name: "a small device".into(), slots: 2 }],
        abandoned_recently: 1,
        recent_challenges: 20,
        handover_ms: Some(0.1),
        roots_ms: Some(2.5),
        digests_ms: Some(0.5),
        missing_devices: vec![v1::NamedDevice { device_id: vec![7; 16], name: "a lost device".into() }],
        new_devices: vec![v1::NamedDevice { device_id: vec![8; 16], name: "a new device".into() }],
        receipt: Some("a.receipt.token".into()),
        link: Some(link()),
    }
}

pub fn link() -> v1::Link {
    v1::Link {
        seconds: 0.1,
        step_seconds: 0.00001,
        crossed_bytes: 1 << 40,
        gb_per_s: 300.0,
        half_gb_per_s: 1200.0,
        least_gb_per_s: 250.0,
        segments: 32,
        bounds: vec![v1::Bound { fraction: 0.01, log2_probability: -20.0 }],
    }
}
