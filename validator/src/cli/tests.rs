use assay_program::help;
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};

use super::{Cli, Command, FIRST};
use assay_client::cli::challenge::MinerChoice;

const KEY: &str = "abababababababababababababababababababababababababababababababab";

fn parse(line: &str) -> Result<Cli, clap::Error> {
    let line = format!("assay-validator {}", line.replace("KEY", KEY));
    Cli::try_parse_from(line.split_whitespace())
}

#[test]
fn the_definition_is_sound() {
    Cli::command().debug_assert();
}

/// Shared flags are in the long help only.
#[test]
fn short_help_shows_what_a_beginner_needs() {
    let help = help::short::<Cli>(&["serve"]);
    for flag in FIRST.map(|id| format!("--{}", id.replace('_', "-"))) {
        assert!(help.contains(&flag), "{flag} in\n{help}");
    }
    assert!(help.contains("see more with '--help'") && help.lines().count() < 75, "{help}");
    for command in ["suspend", "reload", "history"] {
        let help = help::short::<Cli>(&[command]);
        assert!(!help.contains("Secret key file") && !help.contains("--log") && help.lines().count() < 30, "{help}");
    }
    let help = help::short::<Cli>(&[]);
    assert!(help.contains("\nRun:\n  serve ") && !help.contains("\n  worker"), "{help}");
    assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
}

#[test]
fn commands_parse() {
    for line in [
        "serve",
        "serve --config a.toml --listen [::1]:0 --policy-fields min_slots=4,probe_target=20ms --challenge-on-connect=false --allowed-miners KEY,KEY",
        "challenge --miner only",
        "challenge --miner KEY --mode audit --n 256 --iterations 2 --samples 9 --fill-percent 5 --json",
        "challenge --miner only --control-socket /tmp/a.sock",
        "challenge --devices 3x64 --miner-key KEY --out c.json",
        "challenge --devices 64,2x32 --devices 3 --miner-key KEY --validator-key KEY --n 512",
        "challenge",
        "challenge --all --wait --json",
        "challenge --miner abcd --wait 30",
        "challenge --detach",
        "cancel abcd",
        "cancel --all --json",
        "status --json",
        "reload",
        "watch",
        "watch --filter rack=7 --server http://127.0.0.1:7480",
        "status --server https://validator.example:7480#KEY --token-file -",
        "miners --server https://validator.example --server-ca ca.pem --json",
        "token create --name laptop --role operate --expires 8h",
        "token list --json",
        "token revoke abcd",
        "webhook add https://ops.example/assay --kind verdict --kind state",
        "webhook list",
        "webhook test abcd",
        "webhook remove abcd --json",
        "page --role read",
        "forget KEY",
        "miners --json",
        "miners --wide",
        "miners --all --label rack=7 --label row=2 --status pending --json",
        "enroll --label rack=7 --expires 1h --json",
        "enroll",
        "enroll --list",
        "approve abcd",
        "suspend KEY --json",
        "resume abcd --control-socket /tmp/a.sock",
        "revoke abcd",
        "quarantine abcd",
        "release KEY --json",
        "label abcd rack=7 -row",
        "label --json abcd -row",
        "devices abcd --gone --miner KEY",
        "round",
        "round --group north --json",
        "verdicts --outcome fail --code late --since 7d --until 1h --limit 5",
        "verdicts --json --follow --after 7",
        "show 1894846d",
        "history abcd --limit 5 --json",
        "export /tmp/out --json",
        "backup /tmp/copy.db",
        "backup --check postgres://assay@localhost/assay --json",
        "receipt 1894846d --token",
        "receipt verify --keys k.json --past",
        "receipt verify a.b.c --keys k.json --nonce AAAAAAAAAAAA --json",
        "receipt compare a.b.c d.e.f --keys k.json --keys l.json --by-model --tolerance 5 --json",
        "report --miner abcd --month 2026-11 --html r.html --json",
        "report --miner abcd --miner cdef --month 2026-11 --receipts r.jsonl --keys k.json",
        "receipt keys --key-file a/validator.key",
        "receipt rotate --overlap 12h --json",
        "challenge --eat-nonce 00112233445566778899aabbccddeeff --receipt r.jwt",
        "verify --challenge c --evidence e --mode replay --cpu-devices 2",
        "verify --challenge c --evidence e --mode replay-sample --sampled-iterations 2 --json",
        "check-openings o.json --json",
        "receipt 1894846d --proof",
        "log verify FOLDER --validator KEY",
        "log watch https://a/log --validator KEY --state s --once",
        "log witness --state s --validator KEY --validator KEY",
        "config show --json --samples 7",
        "worker",
        "worker --log debug",
    ] {
        parse(line).unwrap_or_else(|error| panic!("{line}: {error}"));
    }
}

#[test]
fn mistakes_are_refused() {
    for (line, kind) in [
        ("", ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand),
        ("challenge --out c.json", ErrorKind::MissingRequiredArgument),
        ("challenge --miner-key KEY", ErrorKind::MissingRequiredArgument),
        ("challenge --all --miner only", ErrorKind::ArgumentConflict),
        ("challenge --repeat 2", ErrorKind::UnknownArgument),
        ("verdicts --follow", ErrorKind::MissingRequiredArgument),
        ("verdicts --json --after 7", ErrorKind::MissingRequiredArgument),
        ("verdicts --json --follow --miner KEY", ErrorKind::ArgumentConflict),
        ("challenge --eat-nonce short", ErrorKind::ValueValidation),
        ("challenge --all --receipt r.jwt", ErrorKind::ArgumentConflict),
        ("receipt", ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand),
        ("report --miner abcd --month 2026-11 --receipts r.jsonl", ErrorKind::MissingRequiredArgument),
        ("report --miner abcd --month 2026-13", ErrorKind::ValueValidation),
        ("receipt compare", ErrorKind::MissingRequiredArgument),
        ("receipt verify a.b.c", ErrorKind::MissingRequiredArgument),
        ("receipt verify --keys k --nonce !", ErrorKind::ValueValidation),
        ("receipt rotate --overlap 30", ErrorKind::ValueValidation),
        ("receipt verify a.b.c --keys k --witness a+00+AA", ErrorKind::ValueValidation),
        ("log verify FOLDER", ErrorKind::MissingRequiredArgument),
        ("log witness --state s", ErrorKind::MissingRequiredArgument),
        ("challenge --devices 64 --miner-key KEY --wait", ErrorKind::ArgumentConflict),
        ("cancel", ErrorKind::MissingRequiredArgument),
        ("cancel abcd --all", ErrorKind::ArgumentConflict),
        ("cancel abc", ErrorKind::ValueValidation),
        ("forget", ErrorKind::MissingRequiredArgument),
        ("status --server validator.example:7480", ErrorKind::ValueValidation),
        ("status --server assay://validator.example:7400#KEY", ErrorKind::ValueValidation),
        ("status --server http://validator.example:7480#KEY", ErrorKind::ValueValidation),
        ("status --token assay_read_x", ErrorKind::UnknownArgument),
        ("token create", ErrorKind::MissingRequiredArgument),
        ("token create --name a --role root", ErrorKind::InvalidValue),
        ("webhook add https://a --kind nothing", ErrorKind::ValueValidation),
        ("challenge --devices 64", ErrorKind::MissingRequiredArgument),
        ("challenge --devices 64 --miner only --miner-key KEY", ErrorKind::ArgumentConflict),
        ("challenge --miner only --out c.json", ErrorKind::MissingRequiredArgument),
        ("challenge --devices 64 --miner-key KEY --mode audit", ErrorKind::ArgumentConflict),
        ("challenge --miner only --mode auto", ErrorKind::InvalidValue),
        ("challenge --miner someone", ErrorKind::ValueValidation),
        ("challenge --devices 2 --miner-key KEY", ErrorKind::ValueValidation),
        ("verify --challenge c --evidence e", ErrorKind::MissingRequiredArgument),
        ("verify --challenge c --evidence e --mode audit", ErrorKind::InvalidValue),
        ("serve --sampels 3", ErrorKind::UnknownArgument),
        ("check-openings", ErrorKind::MissingRequiredArgument),
    ] {
        assert_eq!(parse(line).unwrap_err().kind(), kind, "{line}");
    }
}

#[test]
fn a_miner_is_a_key_or_the_only_one() {
    let miner = |line| match parse(line).unwrap().command {
        Command::Challenge(args) => args.miner,
        other => panic!("{other:?}"),
    };
    assert_eq!(miner("challenge --miner only"), Some(MinerChoice::Only));
    assert_eq!(miner("challenge --miner KEY"), Some(MinerChoice::Key(KEY.parse().unwrap())));
    assert_eq!(miner("challenge --miner ABCD"), Some(MinerChoice::Key("abcd".parse().unwrap())));
}

#[test]
fn a_mistyped_flag_is_corrected() {
    let error = parse("serve --sampels 3").unwrap_err().to_string();
    assert!(error.contains("--samples"), "{error}");
}
