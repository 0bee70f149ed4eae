use assay_protocol::verdict::Mode;

use super::*;
use crate::fields::ModeChoice;
use crate::rules::{Cause, Limit};

/// The example in docs/settings.md.
fn example() -> &'static str {
    let page = include_str!("../../../../../docs/settings.md");
    let (_, after) = page.split_once("```toml\n").expect("the page has an example");
    after.split_once("```").expect("it has an end").0
}

fn rules(text: &str) -> FleetRules {
    FleetRules::parse(text, "p.toml", Some(&Policy::default())).unwrap_or_else(|error| panic!("{error}"))
}

fn parsed(text: &str) -> FleetPolicy {
    rules(text).policy
}

/// The problems reported for a text.
fn wrong(text: &str) -> String {
    FleetRules::parse(text, "p.toml", Some(&Policy::default())).expect_err(text).to_string()
}

/// A group with these lines below its name.
fn group(lines: &str) -> String {
    format!("[[group]]\nname = \"default\"\n{lines}")
}

/// Labels as they are written: `rack=7,pool=a`.
fn labels(text: &str) -> Labels {
    let pairs = text.split(',').filter_map(|label| label.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[test]
fn the_example_of_the_page_is_a_policy() {
    let policy = parsed(example());
    let names: Vec<_> = policy.groups.iter().map(|group| &*group.name).collect();
    assert_eq!(names, ["rented", "h200", "default"]);
    let rented = policy.group("rented").unwrap();
    let default = policy.group("default").unwrap();
    assert_eq!(rented.cadence.mean, Some(Duration::from_secs(7200)));
    assert_eq!(rented.cadence.at_connect, Some(true), "as the default says");
    assert_eq!(rented.rules.grace.limit(Cause::Busy), Limit { suspect: 20, expire: 40 });
    assert_eq!(rented.rules.grace.limit(Cause::Sick), default.rules.grace.limit(Cause::Sick));
    assert!(rented.heavy.is_none() && rented.rules.heavy_expires_after_s.is_none());
    let heavy = default.heavy.as_ref().unwrap();
    assert_eq!((heavy.kind.asks.n, heavy.kind.asks.fill_percent, heavy.share_percent), (Some(8192), Some(90), 10.0));
    assert_eq!((default.light.asks.n, default.light.asks.mode), (Some(2048), Some(ModeChoice::Mode(Mode::Audit))));
    assert_eq!(default.light.asks.probe_target, Some(Duration::from_millis(250)));
    let FleetRules { profiles, expectations, .. } = rules(example());
    assert_eq!(profiles.find("NVIDIA X1").map(|model| &*model.name), Some("X1 96GB"));
    assert_eq!(expectations.len(), 1);
}

#[test]
fn the_example_shows_every_field_and_the_defaults() {
    // The example shows each field that an unknown field's message lists.
    for section in
        ["", "cadence", "light", "heavy", "grace", "return", "quarantine", "rounds", "bands", "identity", "judge"]
    {
        let head = if section.is_empty() { String::new() } else { format!("[group.{section}]\n") };
        let text = group(&format!("{head}zzzzzzzz = 1\n"));
        let error = wrong(&text);
        let (_, fields) = error.split_once("there are ").unwrap_or_else(|| panic!("{error}"));
        for field in fields.lines().next().unwrap().split(", ") {
            let stands = [format!("\n{field} ="), format!("[group.{field}]")];
            assert!(stands.iter().any(|text| example().contains(text)), "the example lacks {section} {field}");
        }
    }
    // Values that the comments call defaults are the defaults.
    let default = Group::default();
    let mut shown = parsed(example()).group("default").unwrap().clone();
    let of = (&shown.rules.grace, shown.rules.returning, shown.rules.quarantine);
    assert_eq!(of, (&default.rules.grace, default.rules.returning, default.rules.quarantine));
    assert_eq!((shown.bands, shown.identity), (default.bands, default.identity));
    assert_eq!((shown.receipts, shown.evidence), (default.receipts, default.evidence));
    shown.rules.heavy_expires_after_s = None;
    assert_eq!(shown.rules, default.rules);
}

#[test]
fn without_a_file_there_is_one_group_that_changes_no_setting() {
    let policy = FleetPolicy::default();
    assert_eq!(parsed(""), policy);
    let group = policy.group_of(&Labels::new(), &["NVIDIA H200"]);
    assert_eq!((&*group.name, &group.heavy, group.duty_percent, group.concurrency), ("default", &None, None, None));
    assert_eq!(group.cadence, Cadence::default());
    assert_eq!(group.light, Kind { name: "light".to_owned(), ..Kind::default() });
    assert_eq!(group.judge, Overrides::default());
    assert!(group.rounds.is_none() && !group.bands.enforce_profile && !group.bands.enforce_fleet);
}

#[test]
fn the_first_group_that_takes_a_miner_has_it() {
    let policy = parsed(example());
    let name = |text: &str, models: &[&str]| policy.group_of(&labels(text), models).name.clone();
    assert_eq!(name("pool=rented,rack=7", &["NVIDIA H200"]), "rented");
    assert_eq!(name("pool=rented", &["NVIDIA H200"]), "h200", "it has no rack");
    assert_eq!(name("pool=other,rack=7", &["nvidia h200 nvl", "NVIDIA H200"]), "h200");
    assert_eq!(name("", &["NVIDIA H200", "NVIDIA L4"]), "default", "every device claims the model");
    assert_eq!(name("", &[]), "default", "no device claims it");
    assert_eq!(policy.operator_of(&labels("operator=x")), Some("x"));
}

#[test]
fn every_problem_is_said_at_once_with_its_line() {
    let text = "operator_lable = \"x\"\n\
        [[group]]\n\
        name = \"a\"\n\
        labels = { rack = 7 }\n\
        duty_percent = 0\n\
        cadence = { mean = \"10\", maen = \"1h\" }\n\
        [group.grace]\n\
        busy = { suspect = 9, expire = 6 }\n\
        evaded = 3\n\
        [group.light]\n\
        n = 3000\n\
        mode = \"fast\"\n\
        [[group]]\n\
        name = \"a\"\n\
        labels = { rack = \"8\" }\n\
        [[group]]\n\
        model = \"L4\"\n";
    assert_eq!(
        wrong(text),
        "p.toml:1: operator_lable: unknown field: did you mean `operator_label`?\n\
         p.toml:4: group[1].labels.rack: 7: expected a text in quotes\n\
         p.toml:4: group[1].labels: the group takes every miner: give it labels or a model, or the name `default`\n\
         p.toml:5: group[1].duty_percent: 0: expected a number from 0.01 to 100: 0 would allow no challenge, 100 is all the time\n\
         p.toml:6: group[1].cadence.mean: \"10\": expected a time with its unit, such as \"90s\", \"10m\", \"6h\" or \"1d\"\n\
         p.toml:6: group[1].cadence.maen: unknown field: did you mean `mean`?\n\
         p.toml:8: group[1].grace.busy.suspect: 9 is above expire, which is 6\n\
         p.toml:9: group[1].grace.evaded: 3: expected a section [group[1].grace.evaded]\n\
         p.toml:11: group[1].light.n: 3000: expected a power of two from 256 to 32768: the work is defined for these, above them sums leave 32 bits\n\
         p.toml:12: group[1].light.mode: \"fast\": expected one of \"auto\", \"replay\", \"replay-sample\", \"audit\"\n\
         p.toml:14: group[2].name: another group has this name\n\
         p.toml:16: group[3].name: missing: every group has a name"
    );
}

#[test]
fn a_file_that_is_no_toml_is_refused_with_its_lines() {
    let text = "[[group]]\nname = \nmodel = \"x\"\n";
    let error = wrong(text);
    assert!(error.starts_with("p.toml:2: "), "{error}");
    assert!(wrong("[[group]]\nname = \"a\"\nname = \"b\"\n").starts_with("p.toml:3: "));
    let long = format!("# {}", "x".repeat(read::MAX_FILE_BYTES));
    assert_eq!(wrong(&long), "p.toml:1: the file is larger than 64 MiB");
}

/// Each would be refused alone: an operator hears of all at once.
#[test]
fn all_conflicts_of_a_section_are_named() {
    let said =
        wrong(&group("[group.light]\nn = 512\nn_min = 1024\nprobe_deadline = \"200ms\"\nlinked_min_gb_per_s = 1\n"));
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(lines.len(), 3, "{said}");
    for (line, field) in lines.iter().zip(["n_min", "probe_deadline", "linked_min_gb_per_s"]) {
        assert!(line.contains(&format!("light.{field}: ")), "{said}");
    }
}

#[test]
fn values_that_cannot_be_are_refused() {
    for (lines, field, said) in [
        ("expires_after = \"0s\"", "expires_after", "a time from 1s to 366d"),
        ("expires_after = 5", "expires_after", "a time with its unit in quotes"),
        ("expires_after = \"2y\"", "expires_after", "years have no fixed length"),
        ("duty_percent = nan", "duty_percent", "expected a number"),
        ("duty_percent = 101", "duty_percent", "from 0.01 to 100"),
        ("duty_percent = \"5\"", "duty_percent", "expected a number"),
        ("concurrency = 0", "concurrency", "from 1 to 65536"),
        ("concurrency = -1", "concurrency", "a whole number"),
        ("concurrency = 99999999999999999999", "", "p.toml:3"),
        ("model = \"x\"", "name", "takes every miner that no other takes"),
        ("heavy = true", "heavy", "expected a section"),
        ("rounds = 3", "rounds", "expected a section"),
        ("[group.cadence]\nmean = \"10m\"\nleast = \"11m\"", "cadence.least", "longer than the mean"),
        ("[group.cadence]\nmean = \"10m\"\nmost = \"9m\"", "cadence.most", "shorter than the mean"),
        ("[group.cadence]\nmean = \"13h\"", "expires_after", "twice the mean of the cadence"),
        ("[group.cadence]\nat_connect = 1", "cadence.at_connect", "true or false"),
        ("[group.light]\nn = 65536", "light.n", "from 256 to 32768"),
        ("[group.light]\nn = 512\nn_min = 1024", "light.n_min", "from 256 to 512"),
        ("[group.light]\nmin_held_percent = 100", "light.min_held_percent", "from 0 to 99"),
        ("[group.light]\nprobe_target = \"1ms\"", "light.probe_target", "from 10 ms to 1m"),
        ("[group.light]\nprobe_deadline = \"11m\"", "light.probe_deadline", "to 10m"),
        ("[group.light]\nprobe_deadline = \"200ms\"", "light.probe_deadline", "from 250 ms to 10m"),
        ("[group.light]\nlinked_min_gb_per_s = 1", "light.linked_min_gb_per_s", "linked_probe is off"),
        ("[group.judge]\npeak_tops = 2e9", "judge.peak_tops", "from 0.001 to 1000000000"),
        ("[group.light]\nfill_percent = 98", "light.fill_percent", "from 1 to 97"),
        ("[group.light]\nsegments = 0", "light.segments", "0 checks nothing"),
        ("[group.light]\nshare_percent = 5", "light.share_percent", "unknown field"),
        ("[group.heavy]\nshare_percent = 101", "heavy.share_percent", "from 0 to 100"),
        ("[group.grace]\nbuzy = {}", "grace.buzy", "did you mean `busy`?"),
        ("[group.grace]\nany = { expire = 65 }", "grace.any.expire", "from 1 to 64"),
        ("[group.return]\nfirst = 3", "return.after_expiry", "silence would pay"),
        ("[group.return]\nafter_expiry = 4", "return.after_fail", "a fail would pay"),
        ("[group.return]\nfirst = 0", "return.first", "without a pass nothing is attested"),
        ("[group.quarantine]\nfails = 17", "quarantine.fails", "from 1 to 16"),
        ("[group.quarantine]\nperiod = true", "quarantine.period", "a time with its unit"),
        ("[group.rounds]\nby = \"all\"", "rounds.by", "it is gone: a round is of a whole group"),
        ("[group.rounds]\nmost = 1", "rounds.most", "one alone is no round"),
        ("[group.bands]\nleast_operators = 2", "bands.least_operators", "must not be the median of the others"),
        ("[group.bands]\nenforce_fleet = \"yes\"", "bands.enforce_fleet", "true or false"),
        (
            "[group.identity]\nkey_at_two_addresses = \"both\"",
            "identity.key_at_two_addresses",
            "\"record\", \"proved\"",
        ),
        ("[group.judge]\nabandoned_limit = 5\nabandoned_window = 4", "judge.abandoned_limit", "from 1 to 4"),
    ] {
        let error = wrong(&group(lines));
        assert_eq!(error.lines().count(), 1, "{lines}: {error}");
        let field = if field.is_empty() { String::new() } else { format!("group[1].{field}: ") };
        assert!(error.contains(&field) && error.contains(said), "{lines}: {error}");
    }
}

/// Regression test: the wait of a group without a mean, which is the setting's, was not compared.
#[test]
fn an_attestation_outlasts_the_waits_of_the_setting() {
    let parse = |interval_s: u64, lines: &str| {
        let settings = Policy {
            challenge_interval: (interval_s > 0).then(|| Duration::from_secs(interval_s)),
            ..Policy::default()
        };
        FleetRules::parse(&group(lines), "p.toml", Some(&settings)).err().map(|error| error.to_string())
    };
    let short = "expires_after = \"19m\"";
    let said = "expected twice challenge_interval_s or more, which is 10m";
    assert_eq!(parse(600, short), Some(format!("p.toml:3: group[1].expires_after: 19m: {said}")));
    let heavy = parse(600, "[group.heavy]\nexpires_after = \"1199s\"").unwrap();
    assert!(heavy.contains("group[1].heavy: expires_after ") && heavy.ends_with(said), "{heavy}");
    for (interval_s, lines) in
        [(600, "expires_after = \"20m\""), (0, short), (600, "expires_after = \"19m\"\ncadence = { mean = \"9m\" }")]
    {
        assert_eq!(parse(interval_s, lines), None, "{interval_s} {lines}");
    }
}

#[test]
fn groups_that_no_miner_reaches_are_refused() {
    let two = "[[group]]\nname = \"a\"\nmodel = \"L4\"\n[[group]]\nname = \"b\"\nmodel = \"L4\"\n";
    assert_eq!(wrong(two), "p.toml:4: group[2].labels: the group a takes these miners too, and comes first");
    let pair = |a: &str, b: &str| format!("[[group]]\nname = \"a\"\n{a}\n[[group]]\nname = \"b\"\n{b}\n");
    let (h, h100) = ("model = \"H1\"", "model = \"h100\"");
    let (any, seven) = ("labels = { rack = \"*\" }", "labels = { rack = \"7\" }");
    for (a, b, is_reached) in [
        (h, h100, false),
        (h100, h, true),
        (any, seven, false),
        (seven, any, true),
        (seven, "labels = { rack = \"7\", pool = \"a\" }", false),
        (seven, "labels = { pool = \"7\" }", true),
        (seven, h, true),
        (h, "labels = { rack = \"7\" }\nmodel = \"H100\"", false),
    ] {
        let error = FleetRules::parse(&pair(a, b), "p.toml", None).err().map(|error| error.to_string());
        assert_eq!(error.is_none(), is_reached, "{a} {b}: {error:?}");
        assert!(error.is_none_or(|error| error.contains("group[2].labels: the group a takes these miners too")));
    }
    let twice = "[[group]]\nname = \"default\"\n[[group]]\nname = \"default\"\n";
    assert!(wrong(twice).contains("group[2].name: another group has this name"));
    let many: String = (0..257).map(|at| format!("[[group]]\nname = \"g{at}\"\nmodel = \"m{at:03}\"\n")).collect();
    assert!(wrong(&many).contains("group: 257 groups: a policy has at most 256"));
}

#[test]
fn what_a_file_says_is_shown_without_control_characters() {
    let error = wrong("\"x\\u001b[31m\" = 1\nduty_percent = \"\\u001b[31m\"\n[[group]]\nname = \"\\u0007\"\n");
    assert!(error.bytes().all(|byte| byte == b'\n' || (b' '..=b'~').contains(&byte)), "{error:?}");
}

#[test]
fn a_policy_reads_back_from_json_as_itself() {
    let policy = parsed(example());
    let json = serde_json::to_string(&policy).unwrap();
    assert_eq!(serde_json::from_str::<FleetPolicy>(&json).unwrap(), policy);
}

#[test]
fn labels_are_checked() {
    assert!(check_label("pool", "a/b").is_ok());
    for (name, value, said) in [("", "7", "name"), ("rack", "", "value"), ("rack", "a b", "value"), ("rä", "7", "name")]
    {
        assert!(check_label(name, value).unwrap_err().contains(said), "{name}={value}");
    }
}
