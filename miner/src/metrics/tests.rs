use super::*;
use assay_observe::prometheus::proto::MetricType;

#[test]
fn every_name_and_unit_is_as_prometheus_has_it() {
    let metrics = Metrics::new().unwrap();
    for family in metrics.registry.gather() {
        let (name, help) = (family.name(), family.help());
        assert!(name.starts_with("assay_miner_") || name.starts_with("process_"), "{name}");
        assert!(help.ends_with('.'), "{name}: {help}");
        assert_eq!(family.get_field_type() == MetricType::COUNTER, name.ends_with("_total"), "{name}");
        for scaled in ["_ms", "_milliseconds", "_mib", "_percent", "_mhz", "_mw"] {
            assert!(!name.contains(scaled), "{name}: base units");
        }
    }
}
