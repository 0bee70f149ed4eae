//! Several validators with shared records and several miners, honest and not, in one thread: the real validator without
//! its sockets, real sessions of miners, a network between them that delays, parts and breaks, crashes before and after
//! any call of the database, databases that fail, slow disks and jumps of clocks. A seed gives all of it, and the same trace each time.

mod calls;
mod checks;
mod link;
mod miner;
mod plan;
mod planted;
mod run;
mod transitions;
mod validator;
mod world;

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use self::plan::Plan;
use self::planted::Planted;
use self::run::{Report, run};
use self::transitions::Transitions;

/// Seeds of the usual tests.
const SEEDS: u64 = 16;
/// Seeds within which a planted fault is found.
const PLANTED_SEEDS: u64 = 24;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// The broken invariants of a seed with its trace; empty where all hold.
fn failure(seed: u64, report: &Report) -> String {
    let broken: Vec<_> = report.world.ledger().broken.iter().cloned().collect();
    if broken.is_empty() {
        return String::new();
    }
    let trace = report.world.trace().join("\n");
    format!("{trace}\nseed {seed} breaks:\n  {}\nreplay: scripts/simulate --seed {seed}\n", broken.join("\n  "))
}

#[test]
fn the_invariants_of_a_fleet_hold() {
    let failures: String = (0..SEEDS).map(|seed| failure(seed, &run(Plan::new(seed, None)))).collect();
    assert!(failures.is_empty(), "{failures}");
}

#[test]
fn a_seed_gives_the_same_trace() {
    for seed in [3, 11] {
        let trace = || run(Plan::new(seed, None)).world.trace();
        let (first, again) = (trace(), trace());
        let differs = first.iter().zip(&again).position(|(first, again)| first != again);
        assert_eq!(
            (differs, first.len()),
            (None, again.len()),
            "seed {seed}: {:?}",
            differs.map(|at| (&first[at], &again[at]))
        );
    }
}

#[test]
fn planted_faults_are_found() {
    for planted in Planted::ALL {
        let is_found = |seed: &u64| {
            let report = run(Plan::new(*seed, Some(planted)));
            let broken = &report.world.ledger().broken;
            broken.iter().any(|what| what.split(':').next() == Some(planted.breaks()))
        };
        let found = (0..PLANTED_SEEDS).find(is_found);
        println!("{planted:?}: {found:?}");
        assert!(found.is_some(), "{planted:?} is not found within {PLANTED_SEEDS} seeds");
    }
}

/// Totals over seeds.
#[derive(Default)]
struct Totals {
    reached: BTreeMap<String, u64>,
    transitions: Transitions,
    failed: u64,
}

impl Totals {
    fn add(&mut self, seed: u64, report: &Report) {
        if std::env::var_os("ASSAY_TRACE").is_some() {
            println!("{}", report.world.trace().join("\n"));
        }
        let failure = failure(seed, report);
        self.failed += u64::from(!failure.is_empty());
        print!("{failure}");
        for (event, count) in &report.world.ledger().reached {
            *self.reached.entry(event.clone()).or_default() += count;
        }
        self.transitions.add(&report.world.transitions());
    }
}

/// As many seeds as `ASSAY_SEEDS` says, from `ASSAY_FROM` on, on all processors: `scripts/simulate`.
#[test]
#[ignore = "takes as long as it is asked to"]
fn simulate() {
    let (from, seeds) = (number("ASSAY_FROM").unwrap_or(0), number("ASSAY_SEEDS").unwrap_or(1));
    let (began, totals, next) = (Instant::now(), Mutex::<Totals>::default(), AtomicU64::new(from));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= from + seeds {
                return;
            }
            let report = run(Plan::new(seed, None));
            totals.lock().expect("no thread panics").add(seed, &report);
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    let Totals { reached, transitions, failed } = totals.into_inner().expect("no thread panics");
    let per_s = seeds as f64 / began.elapsed().as_secs_f64();
    reached.iter().for_each(|(event, count)| println!("{count:>10}  {event}"));
    let (cells, all, missing) = transitions.reached();
    missing.iter().for_each(|cell| println!("not reached: {cell}"));
    println!(
        "{seeds} seeds from {from}, {per_s:.1} in a second, {failed} failed, {cells} of {all} cells of states reached"
    );
    assert_eq!(failed, 0, "seeds that break an invariant");
}
