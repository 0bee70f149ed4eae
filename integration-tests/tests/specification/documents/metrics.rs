//! docs/metrics.md lists the metrics of both programs as the code defines them; alerts and dashboards name no others.

use assay_integration_tests::document::check_section;
use assay_keeper::metrics::Families as Validator;
use assay_miner::metrics::Families as Miner;
use assay_observe::metrics::MetricDescription;
use assay_observe::process::ProcessFamilies;

use super::source::{read, workspace};

const TABLES: [(&str, &[MetricDescription]); 3] =
    [("assay-validator", Validator::ALL), ("assay-miner", Miner::ALL), ("process", ProcessFamilies::ALL)];

fn families() -> impl Iterator<Item = &'static MetricDescription> {
    TABLES.into_iter().flat_map(|(_, families)| families)
}

#[test]
fn the_page_lists_every_metric_as_it_is() {
    let row = |MetricDescription { name, kind, labels, help, .. }: &MetricDescription| {
        let kind = if *kind == "counter" { String::new() } else { format!("{kind}: ") };
        format!("| `{name}` | {} | {kind}{help} |\n", labels.join(", "))
    };
    for (program, families) in TABLES {
        let rows: String = families.iter().map(row).collect();
        let table = format!("\n| metric | labels | what it is |\n|---|---|---|\n{rows}\n");
        let page = workspace().join("docs/metrics.md");
        check_section(&page, program, &table).unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn every_name_and_unit_is_as_prometheus_has_it() {
    for family in families() {
        let MetricDescription { name, kind, help, buckets, .. } = family;
        assert_eq!(*kind == "counter", name.ends_with("_total"), "{name}");
        assert_eq!(*kind == "histogram", !buckets.is_empty(), "{name}");
        assert!(help.ends_with('.'), "{name}: {help}");
        for scaled in ["_ms", "_milliseconds", "_kib", "_mib", "_percent", "_minutes", "_mhz", "_mw"] {
            assert!(!name.contains(scaled), "{name}: base units");
        }
    }
}

/// The names and the labels, since several series of a family may have been families of their own once.
#[test]
fn alerts_and_dashboards_name_metrics_and_labels_that_there_are() {
    for path in [
        "deploy/prometheus/assay.rules.yml",
        "deploy/prometheus/assay.rules.test.yml",
        "deploy/grafana/assay-validator.json",
        "deploy/grafana/assay-miners.json",
    ] {
        let text = read(path);
        let selectors = selectors(&text);
        assert!(selectors.len() > 10, "{path}: {selectors:?}");
        for (name, labels) in selectors {
            let family = families().find(|family| {
                let is_histogram = family.kind == "histogram";
                let rest = name.strip_prefix(family.name);
                rest == Some("") || is_histogram && matches!(rest, Some("_bucket" | "_sum" | "_count"))
            });
            let family = family.unwrap_or_else(|| panic!("{path} names {name}, which neither program has"));
            for label in labels {
                let is_there = family.labels.contains(&label) || ["instance", "job", "le"].contains(&label);
                assert!(is_there, "{path}: {name} has no label {label}");
            }
        }
    }
}

/// The names of metrics in a text, each with the labels that it is selected by.
fn selectors(text: &str) -> Vec<(&str, Vec<&str>)> {
    let is_of_name = |sign: char| sign.is_ascii_alphanumeric() || sign == '_';
    let prefixes = ["assay_validator_", "assay_miner_", "process_"];
    let starts = text.match_indices("assay_").chain(text.match_indices("process_"));
    let starts = starts.filter(|(at, _)| prefixes.iter().any(|prefix| text[*at..].starts_with(prefix)));
    starts
        .map(|(at, _)| {
            let rest = &text[at..];
            let (name, rest) = rest.split_at(rest.find(|sign| !is_of_name(sign)).unwrap_or(rest.len()));
            let matchers =
                rest.strip_prefix('{').and_then(|rest| rest.split_once('}')).map_or("", |(inside, _)| inside);
            let labels = matchers.split(',').map(|matcher| matcher.trim_start().split(|sign| !is_of_name(sign)).next());
            (name, labels.flatten().filter(|label| !label.is_empty()).collect())
        })
        .collect()
}
