//! The fields of a policy file. What a group leaves out is as the group `default` says, and what that leaves out is as
//! built in.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use assay_work::Precision;
use assay_work::challenge::{MAX_ITERATIONS, MAX_N, MAX_TOTAL, MIN_COUNT, MIN_N};
use toml::de::DeTable;

use super::{
    BandPolicy, Cadence, DEFAULT_GROUP, DeviceMissing, Enforce, FleetPolicy, Group, Heavy, IdentityPolicy, Judge, Kind,
    MAX_GROUPS, MAX_LABELS, ModeChoice, RoundScope, Rounds, Selector, check_label,
};
use crate::read::{FileError, Given, Reader, Section};
use crate::rules::{Cause, Grace, Limit, MAX_LIMIT, Quarantine, Return, Rules};
use crate::state::MAX_FAILS;
use crate::text::short;

/// The shortest time between challenges, rounds and what ends attestations.
const LEAST: Duration = Duration::from_secs(1);
/// The longest time that a policy can say: a year.
const YEAR: Duration = Duration::from_secs(366 * 24 * 3600);
/// The longest wait of a challenge: that of the validator's settings.
const DAY: Duration = Duration::from_secs(24 * 3600);
/// The most samples, segments and abandoned challenges: those of the validator's settings.
const MAX_SAMPLES: u32 = 4096;
const MAX_SEGMENTS: u32 = 1024;
const MAX_ABANDONED_WINDOW: u32 = 20;
const MAX_FILL_PERCENT: u32 = 97;
/// The fewest operators of a band: without the judged one's and one that lies, two honest ones hold the median of three.
const LEAST_OPERATORS: u32 = 3;

const PERCENT: RangeInclusive<f64> = 0.0..=100.0;
const SETTING: &str = "as the validator's setting of this name";

/// The policy of a file.
///
/// # Errors
/// Every problem in it.
pub fn policy(text: &str, file: &str) -> Result<FleetPolicy, FileError> {
    let reader = Reader::new(text);
    let table = reader.table();
    let policy = table.as_ref().map(|table| whole_file(&reader, table.get_ref()));
    reader.finish(policy.unwrap_or_default(), file)
}

fn whole_file<'r>(reader: &'r Reader<'r>, table: &'r DeTable<'r>) -> FleetPolicy {
    let mut policy = FleetPolicy::default();
    let mut file = Section::new(reader, "", 0, table);
    if let Some(label) = file.text("operator_label") {
        match check_label(&label, "x") {
            Ok(()) => policy.operator_label = label,
            Err(message) => file.wrong("operator_label", message),
        }
    }
    let mut sections: Vec<_> = file
        .sections("group")
        .into_iter()
        .map(|mut section| {
            let name = section.text("name");
            (section, name)
        })
        .collect();
    if sections.len() > MAX_GROUPS {
        file.wrong("group", format!("{} groups: a policy has at most {MAX_GROUPS}", sections.len()));
        sections.truncate(MAX_GROUPS);
    }
    file.finish();
    // The default group first: others follow it.
    let is_default = |(_, name): &(Section<'_>, Option<String>)| name.as_deref() == Some(DEFAULT_GROUP);
    sections.sort_by_key(|section| !is_default(section));
    let (mut base, mut groups) = (None::<Group>, Vec::<Group>::new());
    for (mut section, name) in sections {
        let Some(name) = name else {
            section.wrong("name", "missing: every group has a name");
            continue;
        };
        let is_default = name == DEFAULT_GROUP;
        check_name(&section, &name, groups.iter().chain(&base));
        let follows = base.clone().unwrap_or_default();
        let group = group(&mut section, Group { name, select: Selector::default(), ..follows });
        check_selector(&section, &group, &groups);
        section.finish();
        if is_default {
            base = Some(group);
        } else {
            groups.push(group);
        }
    }
    groups.push(base.unwrap_or_default());
    FleetPolicy { groups, ..policy }
}

fn check_name<'g>(section: &Section<'_>, name: &str, mut others: impl Iterator<Item = &'g Group>) {
    if let Err(message) = check_label(name, "x") {
        section.wrong("name", message.replace("a label's name", "a group's name"));
    }
    if others.any(|group| group.name == name) {
        section.wrong("name", "another group has this name");
    }
}

fn check_selector(section: &Section<'_>, group: &Group, groups: &[Group]) {
    let is_default = group.name == DEFAULT_GROUP;
    let is_empty = group.select == Selector::default();
    if is_default && !is_empty {
        section
            .wrong("name", "the group `default` takes every miner that no other takes: give it no labels and no model");
    } else if !is_default && is_empty {
        section.wrong("labels", "the group takes every miner: give it labels or a model, or the name `default`");
    } else if let Some(first) = groups.iter().find(|other| other.select == group.select && !is_default) {
        section.wrong("labels", format!("the group {} takes the same miners, and comes first", first.name));
    }
}

fn group(section: &mut Section<'_>, mut group: Group) -> Group {
    group.select = selector(section);
    let why = "0 would allow no challenge, 100 is all the time";
    section.number_or("duty_percent", 0.01..=100.0, why, &mut group.duty_percent);
    section.whole_or("concurrency", 1..=65_536, "a challenge cannot start otherwise", &mut group.concurrency);
    if let Some(part) = section.section("cadence") {
        cadence(part, &mut group.cadence);
    }
    if let Some(mut part) = section.section("light") {
        kind(&mut part, &mut group.light);
        part.finish();
    }
    match section.optional("heavy") {
        Given::Nothing => {}
        Given::Off => (group.heavy, group.rules.heavy_expires_after_s) = (None, None),
        Given::Section(part) => heavy(part, &mut group),
    }
    rules(section, &mut group.rules);
    match section.optional("rounds") {
        Given::Nothing => {}
        Given::Off => group.rounds = None,
        Given::Section(part) => group.rounds = Some(rounds(part, group.rounds.take())),
    }
    if let Some(part) = section.section("bands") {
        bands(part, &mut group.bands);
    }
    if let Some(part) = section.section("identity") {
        identity(part, &mut group.identity);
    }
    if let Some(mut part) = section.section("receipts") {
        let why = "a receipt outlives what it says otherwise";
        part.time("lifetime", LEAST..=YEAR, why, &mut group.receipts.lifetime);
        part.finish();
    }
    if let Some(mut part) = section.section("evidence") {
        part.number("passes_percent", PERCENT, "a share of the passes", &mut group.evidence.passes_percent);
        part.finish();
    }
    if let Some(part) = section.section("judge") {
        judge(part, &mut group.judge);
    }
    check_times(section, &group);
    group
}

/// An attestation must outlast the waits between challenges.
fn check_times(section: &Section<'_>, group: &Group) {
    let Some(mean) = group.cadence.mean else { return };
    let expires = Duration::from_secs(group.rules.expires_after_s);
    if expires < mean.saturating_mul(2) {
        let (expires, mean) = (short(expires), short(mean));
        section.wrong(
            "expires_after",
            format!("{expires}: expected twice the mean of the cadence or more, which is {mean}"),
        );
    }
    let heavy = group.rules.heavy_expires_after_s.map(Duration::from_secs);
    if let Some(heavy) = heavy.filter(|heavy| *heavy < mean.saturating_mul(2)) {
        let (heavy, mean) = (short(heavy), short(mean));
        section.wrong(
            "heavy",
            format!("expires_after {heavy}: expected twice the mean of the cadence or more, which is {mean}"),
        );
    }
}

fn selector(section: &mut Section<'_>) -> Selector {
    let mut labels = BTreeMap::new();
    for (name, value) in section.texts("labels") {
        // A star stands for any value.
        if let Err(message) = check_label(&name, if value == "*" { "x" } else { &value }) {
            section.wrong("labels", message);
        }
        labels.insert(name, value);
    }
    if labels.len() > MAX_LABELS {
        section.wrong("labels", format!("more than {MAX_LABELS} labels"));
    }
    Selector { labels, model: section.text("model") }
}

fn cadence(mut section: Section<'_>, cadence: &mut Cadence) {
    let why = "less never suffices, and longer is no attestation";
    section.time_or("mean", LEAST..=YEAR, why, &mut cadence.mean);
    section.time("least", Duration::ZERO..=YEAR, why, &mut cadence.least);
    section.time_or("most", LEAST..=YEAR, why, &mut cadence.most);
    section.switch_or("at_connect", &mut cadence.at_connect);
    if let Some(mean) = cadence.mean {
        if cadence.least > mean {
            section.wrong("least", "longer than the mean");
        }
        if cadence.most.is_some_and(|most| most < mean) {
            section.wrong("most", "shorter than the mean");
        }
    }
    section.finish();
}

fn kind(section: &mut Section<'_>, kind: &mut Kind) {
    section.words_or("kinds", &Precision::ALL, Precision::name, &mut kind.kinds);
    section.word_or("mode", &ModeChoice::ALL, ModeChoice::name, &mut kind.mode);
    section.time_or("replay_budget", Duration::ZERO..=DAY, SETTING, &mut kind.replay_budget);
    for (name, slot) in [("n", &mut kind.n), ("n_min", &mut kind.n_min)] {
        section.whole_or(name, MIN_N..=MAX_N, "the work is defined for these", slot);
        if slot.is_some_and(|n| !n.is_power_of_two()) {
            section.wrong(name, "expected a power of two");
        }
    }
    if let (Some(n), Some(n_min)) = (kind.n, kind.n_min)
        && n_min > n
    {
        section.wrong("n_min", format!("{n_min} is above n, which is {n}"));
    }
    section.whole_or("min_slots", MIN_COUNT..=1 << 20, SETTING, &mut kind.min_slots);
    section.whole_or("iterations", 1..=MAX_ITERATIONS, "the work is defined for no more", &mut kind.iterations);
    let why = "0 is no challenge, and a device needs some memory for itself";
    section.whole_or("fill_percent", 1..=MAX_FILL_PERCENT, why, &mut kind.fill_percent);
    let most = u32::try_from(MAX_TOTAL).unwrap_or(u32::MAX);
    section.whole_or("max_matrices", MIN_COUNT..=most, "a challenge has no more", &mut kind.max_matrices);
    section.whole_or("samples", 1..=MAX_SAMPLES, "0 checks nothing", &mut kind.samples);
    section.whole_or("segments", 1..=MAX_SEGMENTS, "0 checks nothing", &mut kind.segments);
    let why = "a challenge has no more";
    section.whole_or("sampled_iterations", 0..=MAX_ITERATIONS, why, &mut kind.sampled_iterations);
    section.switch_or("linked_probe", &mut kind.linked_probe);
    section.number_or("linked_min_gb_per_s", 0.0..=100_000.0, SETTING, &mut kind.linked_min_gb_per_s);
    section.time_or("commit_deadline", LEAST..=DAY, SETTING, &mut kind.commit_deadline);
    let millisecond = Duration::from_millis(1);
    section.time_or("probe_target", millisecond..=DAY, SETTING, &mut kind.probe_target);
    section.time_or("probe_deadline", millisecond..=DAY, SETTING, &mut kind.probe_deadline);
    section.whole_or("min_held_percent", 0..=100, "a share of the memory", &mut kind.min_held_percent);
}

fn heavy(mut section: Section<'_>, group: &mut Group) {
    let name = || Kind { name: "heavy".to_owned(), ..Kind::default() };
    let mut heavy = group.heavy.take().unwrap_or_else(|| Heavy { kind: name(), share_percent: 10.0 });
    section.number("share_percent", PERCENT, "a share of the challenges", &mut heavy.share_percent);
    kind(&mut section, &mut heavy.kind);
    let mut expires = group.rules.heavy_expires_after_s.map(Duration::from_secs);
    let why = "light challenges alone do not renew an attestation for longer";
    section.time_or("expires_after", LEAST..=YEAR, why, &mut expires);
    group.rules.heavy_expires_after_s = expires.map(|time| time.as_secs());
    section.finish();
    group.heavy = Some(heavy);
}

fn rules(section: &mut Section<'_>, rules: &mut Rules) {
    time_s(section, "expires_after", "an attestation ends so long after its last pass", &mut rules.expires_after_s);
    if let Some(part) = section.section("grace") {
        grace(part, &mut rules.grace);
    }
    if let Some(part) = section.section("return") {
        returning(part, &mut rules.returning);
    }
    if let Some(part) = section.section("quarantine") {
        quarantine(part, &mut rules.quarantine);
    }
}

fn time_s(section: &mut Section<'_>, name: &'static str, why: &str, to: &mut u64) {
    let mut time = Duration::from_secs(*to);
    section.time(name, LEAST..=YEAR, why, &mut time);
    *to = time.as_secs();
}

fn grace(mut section: Section<'_>, grace: &mut Grace) {
    time_s(&mut section, "window", "results that are older do not count", &mut grace.window_s);
    for cause in Cause::ALL {
        let mut limit = grace.limit(cause);
        if let Some(part) = section.section(cause.name()) {
            limits(part, &mut limit);
        }
        grace.limits.insert(cause, limit);
    }
    if let Some(part) = section.section("any") {
        limits(part, &mut grace.any);
    }
    section.finish();
}

fn limits(mut section: Section<'_>, limit: &mut Limit) {
    let why = "none would end an attestation for nothing, and no more are kept";
    section.whole("suspect", 1..=MAX_LIMIT, why, &mut limit.suspect);
    section.whole("expire", 1..=MAX_LIMIT, why, &mut limit.expire);
    if limit.suspect > limit.expire {
        section.wrong("suspect", format!("{} is above expire, which is {}", limit.suspect, limit.expire));
    }
    section.finish();
}

fn returning(mut section: Section<'_>, returning: &mut Return) {
    let why = "without a pass nothing is attested";
    section.whole("first", 1..=1000, why, &mut returning.first);
    section.whole("after_expiry", 1..=1000, why, &mut returning.after_expiry);
    section.whole("after_fail", 1..=1000, why, &mut returning.after_fail);
    section.switch("heavy", &mut returning.heavy);
    let Return { first, after_expiry, after_fail, .. } = *returning;
    if first > after_expiry {
        section.wrong("after_expiry", format!("{after_expiry} is below first, which is {first}: silence would pay"));
    }
    if after_expiry > after_fail {
        section.wrong(
            "after_fail",
            format!("{after_fail} is below after_expiry, which is {after_expiry}: a fail would pay"),
        );
    }
    section.finish();
}

fn quarantine(mut section: Section<'_>, quarantine: &mut Quarantine) {
    let most = u32::try_from(MAX_FAILS).unwrap_or(u32::MAX);
    section.whole("fails", 1..=most, "no more are kept", &mut quarantine.fails);
    time_s(&mut section, "window", "fails that are older do not count", &mut quarantine.window_s);
    if section.is_off("period") {
        quarantine.period_s = None;
    } else {
        let mut period = quarantine.period_s.map(Duration::from_secs);
        section.time_or("period", LEAST..=YEAR, "without an end write false: an operator releases", &mut period);
        quarantine.period_s = period.map(|period| period.as_secs());
    }
    section.finish();
}

fn rounds(mut section: Section<'_>, given: Option<Rounds>) -> Rounds {
    let start_within = Duration::from_secs(10);
    let mut rounds = given.unwrap_or(Rounds { mean: None, by: RoundScope::All, start_within, most: None });
    section.time_or("mean", Duration::from_secs(60)..=YEAR, "every member is challenged at once", &mut rounds.mean);
    section.word("by", &RoundScope::ALL, RoundScope::name, &mut rounds.by);
    let why = "shorter is the link's time, and later is not the same moment";
    section.time("start_within", LEAST..=Duration::from_secs(600), why, &mut rounds.start_within);
    section.whole_or("most", 2..=65_536, "one alone is no round", &mut rounds.most);
    section.finish();
    rounds
}

fn bands(mut section: Section<'_>, bands: &mut BandPolicy) {
    section.switch("enforce_profile", &mut bands.enforce_profile);
    section.switch("enforce_fleet", &mut bands.enforce_fleet);
    let why = "fewer could be one liar's";
    section.whole("least_hosts", LEAST_OPERATORS..=1_000_000, why, &mut bands.least_hosts);
    let why = "one that lies must not be the median of the others";
    section.whole("least_operators", LEAST_OPERATORS..=10_000, why, &mut bands.least_operators);
    section.number("width", 1.0..=100.0, "narrower fails honest hosts", &mut bands.width);
    section.number("least_width_percent", 1.0..=100.0, "narrower fails honest hosts", &mut bands.least_width_percent);
    let why = "a share of the profile's figure; 0 is not judged";
    section.number("least_tops_percent", PERCENT, why, &mut bands.least_tops_percent);
    section.number("least_bandwidth_percent", PERCENT, why, &mut bands.least_bandwidth_percent);
    section.number("least_memory_percent", PERCENT, why, &mut bands.least_memory_percent);
    section.number("above_percent", 0.0..=1000.0, "above the profile's figure", &mut bands.above_percent);
    section.number("least_seconds", 0.0..=3600.0, "shorter work is not held against a peak", &mut bands.least_seconds);
    section.finish();
}

fn identity(mut section: Section<'_>, identity: &mut IdentityPolicy) {
    section.word("device_at_two_miners", &Enforce::ALL, Enforce::name, &mut identity.device_at_two_miners);
    section.word("key_at_two_addresses", &Enforce::ALL[..2], Enforce::name, &mut identity.key_at_two_addresses);
    section.finish();
}

fn judge(mut section: Section<'_>, judge: &mut Judge) {
    section.word_or("device_missing", &DeviceMissing::ALL, DeviceMissing::name, &mut judge.device_missing);
    let why = "no more are remembered";
    section.whole_or("abandoned_limit", 1..=MAX_ABANDONED_WINDOW, why, &mut judge.abandoned_limit);
    section.whole_or("abandoned_window", 1..=MAX_ABANDONED_WINDOW, why, &mut judge.abandoned_window);
    if let (Some(limit), Some(window)) = (judge.abandoned_limit, judge.abandoned_window)
        && limit > window
    {
        section.wrong("abandoned_limit", format!("{limit} is above abandoned_window, which is {window}"));
    }
    section.number_or("rate_factor", 1.0..=1000.0, SETTING, &mut judge.rate_factor);
    for (name, slot) in [
        ("peak_tops", &mut judge.peak_tops),
        ("peak_tops_f16", &mut judge.peak_tops_f16),
        ("peak_tops_fp8", &mut judge.peak_tops_fp8),
        ("peak_tops_fp4", &mut judge.peak_tops_fp4),
    ] {
        section.number_or(name, 0.001..=1e6, SETTING, slot);
    }
    section.number_or("bus_gb_per_s", 0.001..=1e6, SETTING, &mut judge.bus_gb_per_s);
    section.finish();
}
