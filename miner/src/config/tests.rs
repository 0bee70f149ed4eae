use std::ffi::OsString;

use clap::{FromArgMatches, Parser};

use assay_backends::choice::BackendChoice;
use assay_program::logging::LogFormat;
use assay_program::settings::{Environment, Flags, parse};

use super::*;
use crate::cli::Cli;
use crate::target::Security;
use assay_work::PublicKey;

fn settings(flags: &[&str]) -> Settings<RawConfig> {
    let command = Flags::<RawConfig>::augment_args(clap::Command::new("test"));
    let matches = command.try_get_matches_from(["test"].iter().chain(flags)).unwrap();
    let flags = Flags::<RawConfig>::from_arg_matches(&matches).unwrap();
    Settings::resolve(&flags, &Environment::default()).unwrap()
}

fn check(flags: &[&str]) -> Result<MinerConfig, String> {
    MinerConfig::check(&settings(flags)).map_err(|error| error.to_string())
}

#[test]
fn the_defaults_are_a_configuration() {
    let config = check(&[]).unwrap();
    assert_eq!(config.validators.iter().map(|it| it.target.to_string()).collect::<Vec<_>>(), ["127.0.0.1:7400"]);
    assert_eq!(config.limits.max_challenge, None);
    assert_eq!(config.validators[0].security, Security::Plaintext);
    assert!(config.key_file.ends_with("miner.key"));
    let devices = config.devices.unseeded;
    assert_eq!(devices.choice, BackendChoice::Auto);
    assert_eq!((devices.cpu.devices, devices.cpu.memory_bytes, devices.cpu.threads), (1, vec![], vec![]));
    assert_eq!(config.log.format, LogFormat::Human);
    assert_eq!(config.reconnect, (Duration::from_millis(500), Duration::from_secs(30)));
}

#[test]
fn what_is_written_is_what_is_meant() {
    let validator = format!("assay://[::1]:1#{}", "ab".repeat(32));
    let config = check(&[
        "--validator",
        &validator,
        "--cpu-memory=512MiB",
        "--cpu-threads=3",
        "--cpu-kernel=portable",
        "--backend=cpu",
        "--reconnect-max-ms=100",
        "--drain-timeout-s=0",
    ])
    .unwrap();
    assert_eq!(config.validators[0].target.to_string(), validator);
    assert_eq!(config.validators[0].security, Security::Key(PublicKey([0xab; 32])));
    let cpu = config.devices.unseeded.cpu;
    assert_eq!((cpu.memory_bytes, cpu.threads), (vec![512 << 20], vec![3]));
    assert_eq!(serde_json::to_value(cpu.kernel).unwrap(), "portable");
    assert_eq!(config.reconnect, (Duration::from_millis(100), Duration::from_millis(100)));
    assert_eq!(config.drain_timeout, Duration::ZERO);
}

#[test]
fn every_bound_is_kept_and_explained() {
    for (flag, part) in [
        ("--validator=127.0.0.1:0", "port 0"),
        ("--validator=127.0.0.1", "such as 127.0.0.1:7400"),
        ("--validator=", "such as 127.0.0.1:7400"),
        ("--max-memory-percent=0", "from 1 to 100"),
        ("--max-memory-percent=101", "from 1 to 100"),
        ("--max-challenge-s=604801", "from 0 to 604800"),
        ("--cpu-memory=900TiB", "but this machine (or its container) has "),
        ("--validator=https://127.0.0.1:1", "`https://` is not supported"),
        ("--validator=127.0.0.1:1,[::1]:2,127.0.0.1:1", "127.0.0.1:1 is named twice"),
        ("--validator=assay://127.0.0.1:1#abcd", "64 hex digits, as `assay-validator address` prints it"),
        ("--cpu-devices=0", "from 1 to 64: a host has at most 64 devices"),
        ("--cpu-devices=65", "from 1 to 64"),
        ("--cpu-memory=8MB", "at least 8MiB: the smallest share"),
        ("--cpu-memory=1GiB,2GiB", "2 values for 1 device: give one for all, or one for each"),
        ("--cpu-memory=2", "expected auto, or values: expected a whole number and a unit"),
        ("--cpu-threads=0", "from 1 to 256"),
        ("--cpu-threads=257", "from 1 to 256"),
        ("--cpu-threads=x", "expected auto, or values"),
        ("--reconnect-max-ms=9", "from 10 to 3600000"),
        ("--reconnect-max-ms=3600001", "from 10 to 3600000"),
        ("--drain-timeout-s=3601", "from 0 to 3600"),
        ("--idle-release-s=86401", "from 0 to 86400"),
        ("--worker-silence-s=0", "from 1 to 600: less kills workers"),
        ("--worker-silence-s=601", "from 1 to 600"),
        ("--log=a=b=c", "expected a level"),
    ] {
        let error = check(&[flag]).unwrap_err();
        let (name, _) = flag.split_once('=').unwrap();
        assert!(error.contains(part), "{flag}: {error}");
        assert!(error.contains(&format!("(flag {name})")), "{flag}: {error}");
    }
}

#[test]
fn a_setting_that_is_gone_says_what_takes_its_place() {
    for key in ["decline_hours", "decline_hours_zone"] {
        let variable = (format!("{ENV_PREFIX}{}", key.to_uppercase()), "x".to_owned());
        let environment = Environment::new(ENV_PREFIX, [variable]).with_absence(absent);
        let command = Flags::<RawConfig>::augment_args(clap::Command::new("test"));
        let flags = Flags::<RawConfig>::from_arg_matches(&command.get_matches_from(["test"])).unwrap();
        let said = Settings::<RawConfig>::resolve(&flags, &environment).unwrap_err().to_string();
        assert!(said.contains(&format!("`{key}` is not available: it is gone, a timer")), "{said}");
    }
    for (line, instead) in [
        ("run --decline-hours 9-17", "a timer that stops"),
        ("bench --include-device 0", "`device` names"),
        ("run --exclude-device=2", "such as `^2`"),
        ("run --cuda-cache=/c", "`kernel_cache`"),
        ("run --wgpu-poison", "`poison`"),
        ("run --worker-program=/x", "ASSAY_WORKER_PROGRAM"),
        ("run --validator-key=ab", "`validator = \"assay://host:port#KEY\"`"),
        ("run --reconnect-min-ms=5", "`reconnect_max_ms`"),
    ] {
        let line = ["assay-miner"].into_iter().chain(line.split(' ')).map(OsString::from);
        let said = parse::<Cli>(line, absent).unwrap_err().to_string();
        assert!(said.contains(": it is gone, ") && said.contains(instead), "{said}");
    }
}

#[test]
fn bounds_themselves_are_allowed() {
    for flag in [
        "--cpu-devices=64",
        "--cpu-memory=8MiB",
        "--cpu-threads=256",
        "--reconnect-max-ms=10",
        "--reconnect-max-ms=3600000",
        "--drain-timeout-s=3600",
        "--idle-release-s=0",
        "--idle-release-s=86400",
        "--max-memory-percent=1",
        "--max-challenge-s=604800",
    ] {
        check(&[flag]).unwrap();
    }
}

#[test]
fn another_machine_is_reached_by_tls_that_knows_whom_to_trust() {
    let key = PublicKey([0xab; 32]);
    for address in ["10.0.0.1:7400", "validator.example:7400", "[2001:db8::1]:7400", "assay://127.0.0.1:7400"] {
        let security = |flags: &[&str]| {
            check(&[&["--validator", address], flags].concat()).map(|config| config.validators[0].security.clone())
        };
        let error = security(&[]).unwrap_err();
        assert!(error.contains("assay-validator address") && error.contains("--trust-on-first-use"), "{error}");
        assert_eq!(security(&["--trust-on-first-use"]), Ok(Security::FirstUse));
        let of = |key, is_proxied| Ok(Security::Authorities { file: "ca.pem".into(), key, is_proxied });
        assert_eq!(security(&["--validator-ca=ca.pem"]), of(None, false));
        assert_eq!(security(&["--validator-ca=ca.pem", "--tls-proxy"]), of(None, true));
        assert!(security(&["--tls-proxy", "--trust-on-first-use"]).unwrap_err().contains("--validator-ca"));
        let with_key = format!("{address}#{key}");
        let both = check(&["--validator", &with_key, "--validator-ca=ca.pem"]);
        assert_eq!(both.map(|config| config.validators[0].security.clone()), of(Some(key), false));
        assert_eq!(check(&["--validator", &with_key]).unwrap().validators[0].security, Security::Key(key));
    }
}

#[test]
fn plaintext_to_another_machine_takes_a_word_from_the_operator() {
    let insecure = "--insecure-allow-remote-plaintext";
    let plain = |flags: &[&str]| check(flags).map(|config| config.validators[0].security.clone());
    let error = plain(&["--validator=http://10.0.0.1:7400"]).unwrap_err();
    assert!(error.contains("assay-validator address") && error.contains(insecure), "{error}");
    assert_eq!(plain(&["--validator=http://10.0.0.1:7400", insecure]), Ok(Security::Plaintext));
    assert_eq!(plain(&["--validator=10.0.0.1:7400", insecure]), Ok(Security::Plaintext));
    plain(&["--validator=10.0.0.1:7400", &format!("{insecure}=false")]).unwrap_err();
    for address in ["127.3.2.1:7400", "localhost:7400", "[::1]:7400"] {
        assert_eq!(plain(&["--validator", address]), Ok(Security::Plaintext));
    }
    assert!(plain(&["--tls-proxy", "--validator-ca=ca.pem"]).unwrap_err().contains("write assay://"));
}

#[test]
fn the_commands_flags_are_settings() {
    let line = ["assay-miner", "devices", "--cpu-devices", "3"];
    let crate::cli::Command::Devices(args) = Cli::try_parse_from(line).unwrap().command else { panic!() };
    let settings = Settings::<RawConfig>::resolve(&args.settings, &Environment::default()).unwrap();
    assert_eq!(MinerConfig::check(&settings).unwrap().devices.unseeded.cpu.devices, 3);
}

#[test]
fn several_validators_take_turns_of_a_bounded_length() {
    let config = check(&["--validator=127.0.0.1:1,[::1]:2", "--validator=127.0.0.1:3"]).unwrap();
    let validators: Vec<_> = config.validators.iter().map(|it| it.target.to_string()).collect();
    assert_eq!(validators, ["127.0.0.1:1", "[::1]:2", "127.0.0.1:3"]);
    assert_eq!(config.limits.max_challenge, Some(Duration::from_secs(1800)));
    let config = check(&["--validator=127.0.0.1:1,127.0.0.1:2", "--max-challenge-s=60"]).unwrap();
    assert_eq!(config.limits.max_challenge, Some(Duration::from_secs(60)));
    let many = (1..=17).map(|port| format!("127.0.0.1:{port}")).collect::<Vec<_>>().join(",");
    assert!(check(&[&format!("--validator={many}")]).unwrap_err().contains("at most 16"));
}
