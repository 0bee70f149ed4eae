//! The fields of a policy file. Fields absent from a group come from the group `default`, and fields absent there from
//! the built-in defaults.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::{
    BandPolicy, Cadence, DEFAULT_GROUP, Enforcement, FleetPolicy, Group, Heavy, IdentityPolicy, Kind, MAX_GROUPS,
    MAX_LABELS, Rounds, Selector, check_label,
};
use crate::challenge::Policy;
use crate::fields::{FIELDS, Overrides, Place};
use crate::read::{OptionalSection, Section};
use crate::rules::{Cause, Grace, Limit, MAX_LIMIT, Quarantine, Return, Rules};
use crate::state::MAX_FAILS;
use crate::text::short;

/// The shortest time between challenges or rounds, and until attestations end.
const LEAST: Duration = Duration::from_secs(1);
/// The longest configurable time: a year.
const YEAR: Duration = Duration::from_secs(366 * 24 * 3600);
/// The least operators of a band: without the judged one's and one liar, two honest ones hold the median of three.
const LEAST_OPERATORS: u32 = 3;

const PERCENT: RangeInclusive<f64> = 0.0..=100.0;

/// Reads the groups of a file.
pub fn policy(file: &mut Section<'_>, settings: Option<&Policy>) -> FleetPolicy {
    let mut policy = FleetPolicy::default();
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
    // The default group first: others inherit from it.
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
        let group = group(&mut section, Group { name, select: Selector::default(), ..follows }, settings);
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
    } else if let Some(first) = groups.iter().find(|other| {
        // A selector that takes every miner is reported separately.
        other.select != Selector::default() && other.select.covers(&group.select)
    }) {
        section.wrong("labels", format!("the group {} takes these miners too, and comes first", first.name));
    }
}

fn group(section: &mut Section<'_>, mut group: Group, settings: Option<&Policy>) -> Group {
    group.select = selector(section);
    let why = "0 would allow no challenge, 100 is all the time";
    section.number("duty_percent", 0.01..=100.0, why, &mut group.duty_percent);
    section.whole("concurrency", 1..=65_536, "a challenge cannot start otherwise", &mut group.concurrency);
    if let Some(part) = section.section("cadence") {
        cadence(part, &mut group.cadence);
    }
    if let Some(mut part) = section.section("light") {
        overrides(&mut part, Place::Asked, settings, &mut group.light.asks);
        part.finish();
    }
    match section.optional("heavy") {
        OptionalSection::Nothing => {}
        OptionalSection::Off => (group.heavy, group.rules.heavy_expires_after_s) = (None, None),
        OptionalSection::Section(part) => heavy(part, settings, &mut group),
    }
    rules(section, &mut group.rules);
    match section.optional("rounds") {
        OptionalSection::Nothing => {}
        OptionalSection::Off => group.rounds = None,
        OptionalSection::Section(part) => group.rounds = Some(rounds(part, group.rounds.take())),
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
    if let Some(mut part) = section.section("judge") {
        overrides(&mut part, Place::Judged, settings, &mut group.judge);
        part.finish();
    }
    check_times(section, &group, settings.and_then(|settings| settings.challenge_interval));
    group
}

/// Checks that an attestation outlasts the waits between challenges. A group without a mean waits as the setting says.
fn check_times(section: &Section<'_>, group: &Group, interval: Option<Duration>) {
    let by_setting = interval.map(|interval| (interval, "challenge_interval_s"));
    let by_cadence = group.cadence.mean.map(|mean| (mean, "the mean of the cadence"));
    let Some((mean, name)) = by_cadence.or(by_setting) else { return };
    let check = |field, label: &str, expires: Duration| {
        if expires < mean.saturating_mul(2) {
            let (expires, mean) = (short(expires), short(mean));
            section.wrong(field, format!("{label}{expires}: expected twice {name} or more, which is {mean}"));
        }
    };
    check("expires_after", "", Duration::from_secs(group.rules.expires_after_s));
    if let Some(heavy) = group.rules.heavy_expires_after_s {
        check("heavy", "expires_after ", Duration::from_secs(heavy));
    }
}

fn selector(section: &mut Section<'_>) -> Selector {
    let mut labels = BTreeMap::new();
    for (name, value) in section.texts("labels") {
        // A star matches any value.
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
    section.time("mean", LEAST..=YEAR, why, &mut cadence.mean);
    section.time("least", Duration::ZERO..=YEAR, why, &mut cadence.least);
    section.time("most", LEAST..=YEAR, why, &mut cadence.most);
    section.switch("at_connect", &mut cadence.at_connect);
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

/// Reads the fields of a section that take the same form as settings.
fn overrides(section: &mut Section<'_>, place: Place, settings: Option<&Policy>, overrides: &mut Overrides) {
    for field in FIELDS.iter().filter(|field| field.place == place) {
        if let Some(value) = section.value(field.name, &field.bounds, field.why) {
            // The reader has checked the bounds.
            let _ = field.set(overrides, &value);
        }
    }
    for wrong in settings.map(|settings| settings.with(overrides).conflicts(overrides)).into_iter().flatten() {
        section.wrong(wrong.name, wrong.expected());
    }
}

fn heavy(mut section: Section<'_>, settings: Option<&Policy>, group: &mut Group) {
    let name = || Kind { name: "heavy".to_owned(), ..Kind::default() };
    let mut heavy = group.heavy.take().unwrap_or_else(|| Heavy { kind: name(), share_percent: 10.0 });
    section.number("share_percent", PERCENT, "a share of the challenges", &mut heavy.share_percent);
    overrides(&mut section, Place::Asked, settings, &mut heavy.kind.asks);
    let mut expires = group.rules.heavy_expires_after_s.map(Duration::from_secs);
    let why = "light challenges alone do not renew an attestation for longer";
    section.time("expires_after", LEAST..=YEAR, why, &mut expires);
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
        section.time("period", LEAST..=YEAR, "without an end write false: an operator releases", &mut period);
        quarantine.period_s = period.map(|period| period.as_secs());
    }
    section.finish();
}

fn rounds(mut section: Section<'_>, given: Option<Rounds>) -> Rounds {
    let start_within = Duration::from_secs(10);
    let mut rounds = given.unwrap_or(Rounds { mean: None, start_within, most: None });
    section.time("mean", Duration::from_secs(60)..=YEAR, "every member is challenged at once", &mut rounds.mean);
    section
        .gone("by", "a round is of a whole group; select each operator's labels or each model by a group of its own");
    let why = "shorter is the link's time, and later is not the same moment";
    section.time("start_within", LEAST..=Duration::from_secs(600), why, &mut rounds.start_within);
    section.whole("most", 2..=65_536, "one alone is no round", &mut rounds.most);
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
    section.word("device_at_two_miners", &Enforcement::ALL, Enforcement::name, &mut identity.device_at_two_miners);
    section.word("key_at_two_addresses", &Enforcement::ALL[..2], Enforcement::name, &mut identity.key_at_two_addresses);
    section.finish();
}
