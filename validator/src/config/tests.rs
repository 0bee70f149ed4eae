use clap::FromArgMatches;

use assay_policy::challenge::HidingPolicy;
use assay_policy::fields::FIELDS;
use assay_program::settings::{Environment, Flags, parse};
use assay_protocol::verdict::{Hiding, Mode, first_rule};

use std::collections::BTreeSet;
use std::ffi::OsString;

use super::*;
use crate::cli::Cli;
use assay_listen::connection::PlaintextRule;
use assay_work::{Precision, PublicKey};

fn check(flags: &[&str]) -> Result<ValidatorConfig, String> {
    let command = Flags::<RawConfig>::augment_args(clap::Command::new("test"));
    let matches = command.try_get_matches_from(["test"].iter().chain(flags)).unwrap();
    let flags = Flags::<RawConfig>::from_arg_matches(&matches).unwrap();
    let settings = Settings::resolve(&flags, &Environment::default()).unwrap();
    ValidatorConfig::check(&settings).map_err(|error| error.to_string())
}

#[test]
fn the_defaults_are_a_configuration() {
    let config = check(&[]).unwrap();
    assert_eq!(config.listen.to_string(), "127.0.0.1:7400");
    assert!(config.miners.allowed.is_empty());
    assert!(config.key_file.ends_with("validator.key"));
    assert!(config.control_socket.ends_with("validator.sock"));
    // No flags mean the same as every default typed.
    assert_eq!(config.policy, Policy::default());
    let typed = FIELDS.iter().filter(|field| !field.default.is_empty()).map(|field| match field.setting {
        "" => format!("--policy-fields={}={}", field.name, field.default),
        setting => format!("--{}={}", setting.replace('_', "-"), field.default),
    });
    let typed: Vec<_> = typed.collect();
    assert!(typed.len() > 20);
    assert_eq!(check(&typed.iter().map(String::as_str).collect::<Vec<_>>()).unwrap().policy, Policy::default());
}

#[test]
fn what_is_written_is_what_is_meant() {
    let keys = format!("--allowed-miners={},{}", "cd".repeat(32), "ab".repeat(32));
    let config = check(&[
        &keys,
        "--mode=replay-sample",
        "--challenge-interval-s=0",
        "--challenge-on-connect=false",
        "--policy-fields=probe_target=100ms",
        "--policy-fields=max_matrices=9,max_matrices=7",
        "--listen=localhost:0",
    ])
    .unwrap();
    assert_eq!(config.miners.allowed, BTreeSet::from([PublicKey([0xab; 32]), PublicKey([0xcd; 32])]));
    assert_eq!(config.policy.mode, Some(Mode::ReplaySample));
    assert_eq!(config.policy.challenge_interval, None);
    assert!(!config.policy.challenge_on_connect);
    assert_eq!(config.policy.probe.deadline, Duration::from_secs(1));
    assert_eq!(config.policy.max_matrices, 7);
    assert_eq!(config.listen.port, 0);
}

#[test]
fn a_setting_that_is_gone_says_what_takes_its_place() {
    let refused = |key: &str| {
        let variable = (format!("{ENV_PREFIX}{}", key.to_uppercase()), "x".to_owned());
        let environment = Environment::new(ENV_PREFIX, [variable]).with_absence(absent);
        let command = Flags::<RawConfig>::augment_args(clap::Command::new("test"));
        let flags = Flags::<RawConfig>::from_arg_matches(&command.get_matches_from(["test"])).unwrap();
        Settings::<RawConfig>::resolve(&flags, &environment).unwrap_err().to_string()
    };
    let gone = [
        ("verdict_log", "`assay-validator verdicts --json --follow`"),
        ("on_event", "`assay-validator webhook add`"),
        ("expectations", "[[miner]] sections"),
        ("model_profiles", "[[model]] sections"),
        ("evidence_passes_percent", "`passes_percent`"),
        ("max_handshakes", "`max_miners`"),
        ("reflection", "proto/assay/v1"),
        ("min_slots", "`policy_fields = [\"min_slots=VALUE\"]`"),
        ("probe_target_ms", "`policy_fields = [\"probe_target=VALUE\"]`"),
        ("busy_retry_s", "`policy_fields = [\"busy_retry=VALUE\"]`"),
        ("include_device", "`device`"),
    ];
    for (key, instead) in gone {
        let said = refused(key);
        assert!(said.contains(&format!("`{key}` is not available: it is gone")) && said.contains(instead), "{said}");
    }
    for (line, instead) in [
        ("serve --on-event x", "`assay-validator webhook add`"),
        ("serve --verdict-log=x", "`assay-validator verdicts --json --follow`"),
        ("challenge --all --repeat 3", "a loop of the shell"),
        ("round --by rack", "groups of the policy"),
        ("export --format parquet folder", "JSON Lines"),
    ] {
        let line = ["assay-validator"].into_iter().chain(line.split(' ')).map(OsString::from);
        let said = parse::<Cli>(line, absent).unwrap_err().to_string();
        assert!(said.contains(": it is gone, ") && said.contains(instead), "{said}");
    }
}

/// Each setting with a bound: the flag, its least and its most, the values beyond them, and the bound as messages state
/// it.
const BOUNDS: &[(&str, &str, &str, &[&str], &str)] = &[
    ("max-miners", "1", "65536", &["0", "65537"], "from 1 to 65536"),
    ("ping-interval-ms", "100", "600000", &["99", "600001"], "from 100 to 600000"),
    ("drain-timeout-s", "0", "3600", &["3601"], "from 0 to 3600"),
    ("n", "256", "32768", &["0", "128", "300", "65536"], "a power of two from 256 to 32768"),
    ("iterations", "1", "65536", &["0", "65537"], "from 1 to 65536"),
    ("fill-percent", "1", "97", &["0", "98"], "from 1 to 97"),
    ("samples", "1", "4096", &["0", "4097"], "from 1 to 4096"),
    ("challenge-interval-s", "0", "86400", &["86401"], "from 0 to 86400"),
    ("evidence-max-age-d", "0", "3650", &["3651"], "from 0 to 3650"),
    ("verdicts-max-age-d", "0", "3650", &["3651"], "from 0 to 3650"),
    ("cpu-devices", "1", "64", &["0", "65"], "from 1 to 64"),
];

#[test]
fn every_bound_is_kept_and_explained() {
    for (flag, least, most, beyond, bound) in BOUNDS {
        for value in [least, most] {
            check(&[&format!("--{flag}={value}")]).unwrap_or_else(|error| panic!("{flag} {value}: {error}"));
        }
        for value in *beyond {
            let error = check(&[&format!("--{flag}={value}")]).unwrap_err();
            let key = flag.replace('-', "_");
            assert!(error.starts_with(&format!("{key} = {value} (flag --{flag}): must be {bound}: ")), "{error}");
        }
    }
}

#[test]
fn fields_without_a_setting_are_refused_where_they_are_wrong() {
    for (fields, said) in [
        ("probe_target=20", "probe_target: expected a time with its unit"),
        ("samples=3", "`samples` is a setting of its own"),
        ("probe_step=3", "did you mean probe_steps?"),
        ("probe_steps", "expected FIELD=VALUE"),
        ("n_min=300", "n_min: expected a power of two from 256 to 32768"),
    ] {
        let error = check(&["--policy-fields", fields]).unwrap_err();
        let origin = format!("policy_fields = \"{fields}\" (flag --policy-fields): ");
        assert!(error.starts_with(&origin) && error.contains(said), "{error}");
    }
    let late = check(&["--policy-fields=probe_deadline=249ms"]).unwrap_err();
    assert!(late.contains("policy_fields") && late.contains("probe_deadline: expected a time from 250 ms"), "{late}");
}

#[test]
fn texts_are_checked_too() {
    let error = check(&["--allowed-miners=abcd"]).unwrap_err();
    assert!(error.contains("allowed_miners = \"abcd\" (flag --allowed-miners): expected 64 hex digits"), "{error}");
    let error = check(&["--listen=7400"]).unwrap_err();
    assert!(error.contains("expected host:port"), "{error}");
}

#[test]
fn other_machines_speak_tls_unless_the_operator_says_otherwise() {
    for address in ["0.0.0.0:7400", "[::]:7400", "10.0.0.1:7400", "validator.example:7400"] {
        let flag = format!("--listen={address}");
        let rule = |flags: &[&str]| check(&[&[&flag[..]], flags].concat()).unwrap().tls.plaintext;
        assert_eq!(rule(&[]), PlaintextRule { from_anywhere: false, from_proxy: false });
        assert_eq!(
            rule(&["--insecure-allow-remote-plaintext"]),
            PlaintextRule { from_anywhere: true, from_proxy: false }
        );
        assert_eq!(rule(&["--tls-proxy"]), PlaintextRule { from_anywhere: false, from_proxy: true });
    }
}

#[test]
fn a_certificate_has_a_key_and_a_miner_an_address_that_can_be_dialled() {
    let error = check(&["--tls-cert=a.pem"]).unwrap_err();
    assert!(error.contains("tls_cert") && error.contains("set tls_key"), "{error}");
    let error = check(&["--tls-key=a.key"]).unwrap_err();
    assert!(error.contains("tls_key") && error.contains("set tls_cert"), "{error}");
    assert!(check(&["--tls-cert=a.pem", "--tls-key=a.key"]).unwrap().tls.issued.is_some());
    let error = check(&["--advertise=validator.example:0"]).unwrap_err();
    assert!(error.contains("advertise"), "{error}");
    assert!(check(&["--advertise=validator.example"]).unwrap_err().contains("expected host:port"));
}

#[test]
fn settings_that_contradict_each_other_are_refused() {
    for (listen, http, is_refused) in [
        ("127.0.0.1:7480", "127.0.0.1:7480", true),
        ("[::]:7480", "127.0.0.1:7480", true),
        ("127.0.0.1:7480", "0.0.0.0:7480", true),
        ("0.0.0.0:7480", "[::1]:7480", false),
        ("127.0.0.1:7400", "127.0.0.1:7480", false),
        ("10.0.0.1:443", "10.0.0.2:443", false),
        ("127.0.0.1:0", "127.0.0.1:0", false),
        ("127.0.0.1:7480", "", false),
    ] {
        let checked = check(&[&format!("--listen={listen}"), &format!("--http-listen={http}")]);
        assert_eq!(checked.is_err_and(|why| why.contains("http_listen")), is_refused, "{listen} {http}");
    }
    let error = check(&["--n=1024", "--policy-fields=n_min=2048"]).unwrap_err().to_string();
    assert!(error.contains("n_min") && error.contains("larger than n"), "{error}");
    let error = check(&["--policy-fields=abandoned_window=2"]).unwrap_err().to_string();
    assert!(error.contains("abandoned_limit") && error.contains("from 1 to 2"), "{error}");
    // A least size above the default one raises it.
    assert_eq!(check(&["--policy-fields=n_min=4096"]).unwrap().policy.sizes(Precision::Int8, 0.0), (4096, 4096));
    assert_eq!(check(&["--policy-fields=n_min=256"]).unwrap().policy.sizes(Precision::Int8, 0.0), (2048, 256));
    assert_eq!(check(&[]).unwrap().policy.sizes(Precision::Int8, 201e12), (8192, 8192));
}

/// Evidence from before the rules on invented digests and remote copies is judged by the first rule, and its verdict
/// has no new fields.
#[test]
fn evidence_from_before_keeps_the_first_rule() {
    let mut stored = serde_json::to_value(Policy::default()).unwrap();
    let hiding = stored["hiding"].as_object_mut().unwrap();
    hiding.retain(|name, _| !["rule", "copy_bytes_per_s"].contains(&name.as_str()));
    hiding["bus_bytes_per_s"] = 64e9.into();
    let HidingPolicy { rule, bus_bytes_per_s, copy_bytes_per_s, .. } =
        serde_json::from_value::<Policy>(stored).unwrap().hiding;
    assert_eq!((rule, bus_bytes_per_s, copy_bytes_per_s), (first_rule(), Some(64e9), 0.0));
    let of_that_time = Hiding { share: 0.1, rule, ..Hiding::default() };
    let json = serde_json::to_value(of_that_time).unwrap();
    let names: BTreeSet<_> = json.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(names, ["computed", "over_buses", "rate_is_shown_only", "rate_per_s", "share"].into());
}
