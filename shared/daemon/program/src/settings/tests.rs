use std::path::Path;

use clap::{Args, Command, FromArgMatches, ValueEnum};
use serde_json::json;

use super::*;
use crate::render::Screen;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Colour {
    Red,
    DarkBlue,
}

#[derive(Debug, Clone, Args)]
struct Raw {
    /// A number
    #[arg(long, default_value_t = 1)]
    count: u32,
    /// A text
    #[arg(long)]
    name: Option<String>,
    /// A choice
    #[arg(long, value_enum, default_value = "red")]
    colour: Colour,
    /// A list
    #[arg(long, action = clap::ArgAction::Append, value_delimiter = ',')]
    friends: Vec<String>,
    /// A switch
    #[arg(long, default_value_t = Switch(false))]
    loud_voice: Switch,
}

#[derive(Debug, Clone, Args)]
struct Few {
    /// A number
    #[arg(long, default_value_t = 1)]
    count: u32,
}

fn flags<F: Args>(line: &[&str]) -> Flags<F> {
    let command = Flags::<F>::augment_args(Command::new("test"));
    let matches = command.try_get_matches_from(["test"].iter().chain(line)).unwrap();
    Flags::from_arg_matches(&matches).unwrap()
}

fn environment(variables: &[(&str, &str)]) -> Environment {
    Environment::new("TEST_", variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())))
}

fn resolve(line: &[&str], variables: &[(&str, &str)]) -> Result<Settings<Raw>, SettingsError> {
    Settings::resolve(&flags::<Raw>(line), &environment(variables))
}

/// A file with this text, and `--config` for it.
fn file(text: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("test.toml");
    std::fs::write(&path, text).unwrap();
    let flag = format!("--config={}", path.display());
    (folder, flag)
}

#[test]
fn each_layer_goes_over_the_ones_below() {
    let (_folder, config) = file("count = 2\n");
    let count = |line: &[&str], variables: &[(&str, &str)]| {
        let settings = resolve(line, variables).unwrap();
        (settings.raw.count, settings.setting("count").origin.to_string())
    };
    let in_file = format!("file {}, line 1", config.trim_start_matches("--config="));
    assert_eq!(count(&[], &[]), (1, "default".to_owned()));
    assert_eq!(count(&[&config], &[]), (2, in_file));
    assert_eq!(count(&[&config], &[("TEST_COUNT", "3")]), (3, "environment TEST_COUNT".to_owned()));
    assert_eq!(count(&[&config, "--count=4"], &[("TEST_COUNT", "3")]), (4, "flag --count".to_owned()));
    assert_eq!(count(&["--count=1"], &[]), (1, "flag --count".to_owned()));
}

#[test]
fn every_kind_of_value_reads_the_same_from_every_layer() {
    let (_folder, config) = file("name = \"a\"\ncolour = \"dark-blue\"\nfriends = [\"b\", \"c\"]\nloud_voice = true\n");
    let variables =
        [("TEST_NAME", "a"), ("TEST_COLOUR", "dark-blue"), ("TEST_FRIENDS", "b,c"), ("TEST_LOUD_VOICE", "true")];
    let line = ["--name=a", "--colour=dark-blue", "--friends=b,c", "--loud-voice"];
    for settings in [resolve(&[&config], &[]), resolve(&[], &variables), resolve(&line, &[])] {
        let raw = settings.unwrap().raw;
        assert_eq!(raw.name.as_deref(), Some("a"));
        assert_eq!(raw.colour, Colour::DarkBlue);
        assert_eq!(raw.friends, ["b", "c"]);
        assert!(raw.loud_voice.0);
    }
}

#[test]
fn a_text_of_digits_stays_a_text() {
    assert_eq!(resolve(&[], &[("TEST_NAME", "007")]).unwrap().raw.name.as_deref(), Some("007"));
    assert_eq!(resolve(&[], &[("TEST_NAME", "--count=9")]).unwrap().raw.name.as_deref(), Some("--count=9"));
}

#[test]
fn a_list_replaces_the_list_below() {
    let (_folder, config) = file("friends = [\"a\", \"b\"]\n");
    assert_eq!(resolve(&[&config], &[("TEST_FRIENDS", "c")]).unwrap().raw.friends, ["c"]);
    assert!(resolve(&[&config, "--friends="], &[]).unwrap().raw.friends.is_empty());
}

#[derive(Debug, Clone, Args)]
struct Shades {
    /// A list that has a default
    #[arg(long, value_enum, action = clap::ArgAction::Append, value_delimiter = ',', default_value = "red")]
    shades: Vec<Colour>,
}

#[test]
fn an_empty_list_where_a_value_is_needed_is_told_with_its_line() {
    let (_folder, config) = file("\nshades = []\n");
    let error = Settings::<Shades>::resolve(&flags::<Shades>(&[&config]), &environment(&[])).unwrap_err().to_string();
    assert!(error.ends_with("test.toml, line 2): expected one of red, dark-blue"), "{error}");
}

#[test]
fn an_empty_variable_counts_as_not_set() {
    let (_folder, config) = file("friends = [\"a\"]\ncount = 2\n");
    let empty = ["TEST_CONFIG", "TEST_COUNT", "TEST_NAME", "TEST_COLOUR", "TEST_FRIENDS", "TEST_LOUD_VOICE", "TEST_X"];
    let raw = resolve(&[&config], &empty.map(|name| (name, ""))).unwrap().raw;
    assert_eq!((raw.count, raw.name, raw.colour), (2, None, Colour::Red));
    assert_eq!((raw.friends, raw.loud_voice), (vec!["a".to_owned()], Switch(false)));
}

#[test]
fn a_switch_can_be_taken_back() {
    assert!(!resolve(&["--loud-voice=false"], &[("TEST_LOUD_VOICE", "true")]).unwrap().raw.loud_voice.0);
}

#[test]
fn the_machines_file_is_read_where_no_other_is_named() {
    let (folder, config) = file("count = 2\n");
    let named = config.strip_prefix("--config=").unwrap();
    let count = |line: &[&str], variables: &[(&str, &str)], system_file: &str| {
        let environment = environment(variables).with_system_file(Some(system_file.into()));
        Settings::<Raw>::resolve(&flags::<Raw>(line), &environment).map(|settings| settings.raw.count)
    };
    assert_eq!(count(&[], &[], named).unwrap(), 2);
    assert_eq!(count(&[], &[("TEST_COUNT", "3")], named).unwrap(), 3);
    let missing = folder.path().join("missing");
    assert_eq!(count(&[], &[], missing.to_str().unwrap()).unwrap(), 1, "a machine needs none");
    let other = folder.path().join("other.toml");
    std::fs::write(&other, "count = 4\n").unwrap();
    let other = other.to_str().unwrap();
    assert_eq!(count(&[&format!("--config={other}")], &[], named).unwrap(), 4);
    assert_eq!(count(&[], &[("TEST_CONFIG", other)], named).unwrap(), 4);
    // A file that exists and cannot be read is an error.
    assert!(count(&[], &[], folder.path().to_str().unwrap()).is_err());
}

#[test]
fn the_file_can_be_named_in_the_environment() {
    let (_folder, config) = file("count = 2\n");
    let path = config.trim_start_matches("--config=");
    assert_eq!(resolve(&[], &[("TEST_CONFIG", path)]).unwrap().raw.count, 2);
    // The flag goes over it: the other file need not even be there.
    assert_eq!(resolve(&[&config], &[("TEST_CONFIG", "/nowhere")]).unwrap().raw.count, 2);
}

#[test]
fn a_command_with_few_flags_knows_all_keys() {
    let (_folder, config) = file("name = \"a\"\n");
    let settings = Settings::<Raw>::resolve(&flags::<Few>(&[&config, "--count=5"]), &environment(&[])).unwrap();
    assert_eq!((settings.raw.count, settings.raw.name.as_deref()), (5, Some("a")));
}

#[test]
fn unknown_keys_are_refused_by_name() {
    let (_folder, config) = file("\n# a comment\nfreinds = []\n");
    let error = resolve(&[&config], &[]).unwrap_err().to_string();
    assert!(error.ends_with("test.toml, line 3: unknown setting `freinds`; did you mean `friends`?"), "{error}");
    let error = resolve(&[], &[("TEST_CUONT", "1")]).unwrap_err().to_string();
    assert_eq!(error, "environment TEST_CUONT: unknown setting `cuont`; did you mean `count`?");
    let error = resolve(&[], &[("TEST_Count", "1")]).unwrap_err().to_string();
    assert_eq!(error, "environment TEST_Count: unknown setting `Count`; did you mean `count`?");
    let error = resolve(&[], &[("TEST_XYZZY", "1")]).unwrap_err().to_string();
    assert_eq!(error, "environment TEST_XYZZY: unknown setting `xyzzy`");
    let (_folder, config) = file("[count]\nn = 1\n");
    let error = resolve(&[&config], &[]).unwrap_err().to_string();
    assert!(error.starts_with("count = ") && error.ends_with("at the top of the file, without [count]"), "{error}");
    let (_folder, config) = file("name = true\n");
    let error = resolve(&[&config], &[]).unwrap_err().to_string();
    assert!(error.ends_with("expected a text in quotes or a number, not true or false"), "{error}");
    let (_folder, config) = file("name = \"true\"\n");
    assert_eq!(resolve(&[&config], &[]).unwrap().raw.name.as_deref(), Some("true"));
    assert!(resolve(&[], &[("OTHER_CUONT", "1")]).is_ok());
}

#[test]
fn a_value_that_does_not_parse_is_refused_with_its_origin() {
    let (_folder, config) = file("count = \"many\"\n");
    let error = resolve(&[&config], &[]).unwrap_err().to_string();
    assert!(error.starts_with("count = \"many\" (file "), "{error}");
    assert!(error.ends_with("expected a whole number from 0 to 4294967295, such as 90"), "{error}");
    let error = resolve(&[], &[("TEST_COLOUR", "green")]).unwrap_err().to_string();
    assert_eq!(error, "colour = \"green\" (environment TEST_COLOUR): expected one of red, dark-blue");
    // It does not hide behind a flag.
    resolve(&["--colour=red"], &[("TEST_COLOUR", "green")]).unwrap_err();
    let (_folder, config) = file("count = [1, 2]\n");
    let error = resolve(&[&config], &[]).unwrap_err().to_string();
    assert!(error.contains("expected one value, not a list"), "{error}");
    for text in ["count = -1\n", "count = 1.5\n", "count = 2000-01-01\n", "loud_voice = 1\n"] {
        let (_folder, config) = file(text);
        assert!(matches!(resolve(&[&config], &[]), Err(SettingsError::Value { .. })), "{text}");
    }
}

#[test]
fn a_file_that_is_none_is_refused() {
    let error = resolve(&["--config=/nowhere/test.toml"], &[]).unwrap_err();
    assert!(matches!(error, SettingsError::Read { path, .. } if path == Path::new("/nowhere/test.toml")));
    let (_folder, config) = file("count = \n");
    let error = resolve(&[&config], &[]).unwrap_err().to_string();
    assert!(error.contains("is not valid TOML") && error.contains("line 1"), "{error}");
    let (_folder, config) = file("count = 1\ncount = 2\n");
    assert!(matches!(resolve(&[&config], &[]), Err(SettingsError::Syntax { .. })));
}

#[test]
fn settings_are_shown_with_their_origin() {
    let settings = resolve(&["--count=4"], &[("TEST_FRIENDS", "a,b")]).unwrap();
    let expected = "\
setting      value   origin
count        4       flag --count
name         –       default
colour       red     default
friends      a, b    environment TEST_FRIENDS
loud_voice   false   default";
    assert_eq!(settings.table(&Screen::FILE), expected);
    assert_eq!(
        settings.json(),
        json!({
            "count": { "value": 4, "origin": { "layer": "flag", "name": "--count" } },
            "name": { "value": null, "origin": { "layer": "default" } },
            "colour": { "value": "red", "origin": { "layer": "default" } },
            "friends": { "value": ["a", "b"], "origin": { "layer": "environment", "name": "TEST_FRIENDS" } },
            "loud_voice": { "value": false, "origin": { "layer": "default" } },
        })
    );
}

#[test]
fn bounds_name_the_setting_its_origin_and_the_reason() {
    let settings = resolve(&["--count=4", "--name=x"], &[]).unwrap();
    assert_eq!(settings.in_range("count", 4, 1..=4, "it is so").unwrap(), 4);
    let error = settings.in_range("count", 4, 5..=6, "it is so").unwrap_err().to_string();
    assert_eq!(error, "count = 4 (flag --count): must be from 5 to 6: it is so");
    assert_eq!(settings.wrong("name", "no").to_string(), "name = \"x\" (flag --name): no");
    let error = settings.parsed::<u32>("name", "x").unwrap_err().to_string();
    assert_eq!(error, "name = \"x\" (flag --name): invalid digit found in string");
}

#[test]
fn the_table_fits_a_terminal() {
    let name = "/a/long/path".repeat(20);
    let settings = resolve(&["--name", &name], &[("TEST_FRIENDS", &"friend,".repeat(40))]).unwrap();
    let shown = settings.table(&Screen { width: Some(100), colour: false });
    assert!(shown.lines().all(|line| line.chars().count() <= 100), "{shown}");
}

#[test]
fn a_summary_counts_each_layer() {
    let (_folder, config) = file("count = 2\nname = \"a\"\n");
    let path = config.strip_prefix("--config=").unwrap().to_owned();
    let settings = resolve(&[&config, "--colour=red"], &[("TEST_FRIENDS", "a,b")]).unwrap();
    assert_eq!(
        settings.summary(),
        format!("the configuration is valid: 1 by default, 2 from {path}, 1 from flags, 1 from the environment")
    );
}

#[derive(Debug, Clone, Args)]
struct Numbers {
    /// Seconds
    #[arg(long, default_value_t = 90)]
    wait_s: u64,
    /// A fraction
    #[arg(long)]
    share: Option<f64>,
}

#[test]
fn what_is_no_number_is_told_what_is_expected() {
    let said = |argument: &str, value: &str| {
        let typed = Flags::<Numbers>::augment_args(Command::new("test"))
            .try_get_matches_from(["test", argument, value])
            .unwrap_err()
            .to_string();
        let name = format!("TEST_{}", argument[2..].to_uppercase().replace('-', "_"));
        let resolved = Settings::<Numbers>::resolve(&flags::<Numbers>(&[]), &environment(&[(&name, value)]));
        let resolved = resolved.unwrap_err().to_string();
        // The same words wherever it is written.
        let (_, words) = resolved.split_once("): ").unwrap();
        assert!(typed.contains(words), "{typed} {words}");
        words.to_owned()
    };
    assert_eq!(said("--wait-s", "10m"), "expected seconds without a unit: 600");
    let whole = "expected a whole number, such as 90";
    for none in ["x", "-1", "1.5", "99999999999999999999"] {
        assert_eq!(said("--wait-s", none), whole);
    }
    assert_eq!(said("--share", "a half"), "expected a number, such as 1.5");
    let negative = Settings::<Numbers>::resolve(&flags::<Numbers>(&["--share", "-0.5"]), &Environment::default());
    let Numbers { wait_s, share } = negative.unwrap().raw;
    assert_eq!((wait_s, share), (90, Some(-0.5)));
}
