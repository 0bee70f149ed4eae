use super::*;
use crate::fields::{DeviceMissing, Field, ModeChoice, Value};

/// The refusal of the default policy with these values.
fn refused(overrides: &Overrides) -> Option<(&'static str, String)> {
    Policy::default().checked(overrides).err().map(|wrong| (wrong.name, wrong.to_string()))
}

#[test]
fn every_field_is_set_within_its_bounds_alone() {
    for field in FIELDS {
        let (within, beyond) = match field.bounds {
            Bounds::Whole(least, most) => (
                vec![Value::Whole(least), Value::Whole(most)],
                vec![Value::Whole(least.wrapping_sub(1)), Value::Whole(most + 1)],
            ),
            Bounds::Power(least, most) => (
                vec![Value::Whole(least), Value::Whole(most)],
                vec![Value::Whole(least / 2), Value::Whole(most * 2), Value::Whole(least + 1)],
            ),
            Bounds::Number(least, most) => (
                vec![Value::Number(least), Value::Number(most)],
                [least - 0.001, most * 1.001, f64::NAN, f64::INFINITY].map(Value::Number).into(),
            ),
            Bounds::Seconds(least, most) => (
                [least, most].map(|time| Value::Time(Duration::from_secs(time))).into(),
                vec![Value::Time(Duration::from_secs(most + 1)), Value::Whole(1)],
            ),
            Bounds::Millis(least, most) => (
                [least, most].map(|time| Value::Time(Duration::from_millis(time))).into(),
                [least - 1, most + 1].map(|time| Value::Time(Duration::from_millis(time))).into(),
            ),
            Bounds::Switch => ([true, false].map(Value::Switch).into(), vec![Value::Whole(1)]),
            Bounds::Word(words) => (
                words.iter().map(|(word, _)| Value::Word((*word).to_owned())).collect(),
                vec![Value::Word("other".to_owned())],
            ),
            Bounds::Kinds => (
                vec![Value::Kinds(Precision::ALL.into())],
                vec![Value::Kinds(Vec::new()), Value::Kinds(vec![Precision::Fp8, Precision::Fp8])],
            ),
        };
        for value in within {
            let mut overrides = Overrides::default();
            field.set(&mut overrides, &value).unwrap_or_else(|wrong| panic!("{} {value:?}: {wrong}", field.name));
            assert_eq!(overrides.out_of_bounds(), None, "{}", field.name);
            let json = serde_json::to_value(&overrides).unwrap();
            assert_eq!(json.as_object().map(serde_json::Map::len), Some(1), "{json}");
            assert_eq!(serde_json::from_value::<Overrides>(json).unwrap(), overrides);
        }
        for value in beyond {
            let mut overrides = Overrides::default();
            field.set(&mut overrides, &value).expect_err(field.name);
            assert_eq!(overrides, Overrides::default(), "{} {value:?}", field.name);
        }
    }
}

#[test]
fn every_field_changes_the_policy() {
    for field in FIELDS {
        let values = match field.bounds {
            Bounds::Whole(least, most) | Bounds::Power(least, most) => vec![Value::Whole(least), Value::Whole(most)],
            Bounds::Number(least, most) => vec![Value::Number(least), Value::Number(most)],
            Bounds::Seconds(least, most) => [least, most].map(|time| Value::Time(Duration::from_secs(time))).into(),
            Bounds::Millis(least, most) => [least, most].map(|time| Value::Time(Duration::from_millis(time))).into(),
            Bounds::Switch => [true, false].map(Value::Switch).into(),
            Bounds::Word(words) => words.iter().map(|(word, _)| Value::Word((*word).to_owned())).collect(),
            Bounds::Kinds => vec![Value::Kinds(Precision::ALL.into())],
        };
        let policy = Policy { linked: Some(LinkedPolicy::default()), ..Policy::default() };
        let changes = |value: &Value| {
            let mut overrides = Overrides::default();
            field.set(&mut overrides, value).unwrap();
            policy.with(&overrides) != policy
        };
        assert!(values.iter().any(changes), "{}", field.name);
    }
}

#[test]
fn what_depends_on_another_field_is_held_beside_it() {
    let seconds = Duration::from_secs;
    let none = Overrides::default;
    for (overrides, name, bound) in [
        (Overrides { n: Some(1024), n_min: Some(2048), ..none() }, "n_min", "a power of two from 256 to 1024"),
        (
            Overrides { probe_target: Some(seconds(2)), probe_deadline: Some(seconds(1)), ..none() },
            "probe_deadline",
            "a time from 2s to 10m",
        ),
        (Overrides { openings_limit: Some(seconds(60)), ..none() }, "openings_limit", "a time from 2m to 1d"),
        (Overrides { abandoned_window: Some(2), ..none() }, "abandoned_limit", "a whole number from 1 to 2"),
        (Overrides { linked_min_gb_per_s: Some(1.0), ..none() }, "linked_min_gb_per_s", "a number from 0 to 0"),
        (
            Overrides { linked_probe: Some(true), probe_steps: Some(1), ..none() },
            "probe_steps",
            "a whole number from 2 to 1024",
        ),
    ] {
        let (named, text) = refused(&overrides).unwrap_or_else(|| panic!("{overrides:?}"));
        assert!(named == name && text.starts_with(&format!("{name}: expected {bound}: ")), "{named}: {text}");
    }
    let held = refused(&Overrides { fill_percent: Some(98), ..none() });
    assert!(held.is_some_and(|(name, text)| name == "fill_percent" && text.starts_with("must be from 1 to 97: ")));
    let linked = Overrides { linked_probe: Some(true), linked_min_gb_per_s: Some(1.0), ..none() };
    assert_eq!(refused(&linked), None);
}

#[test]
fn values_of_a_group_are_laid_over_the_settings() {
    let settings = Policy::default().with(&Overrides {
        n: Some(4096),
        n_min: Some(1024),
        probe_deadline: Some(Duration::from_secs(5)),
        ..Overrides::default()
    });
    let group = Overrides {
        n: Some(512),
        mode: Some(ModeChoice::Auto),
        probe_target: Some(Duration::from_millis(100)),
        device_missing: Some(DeviceMissing::Fail),
        ..Overrides::default()
    };
    let policy = settings.with(&group);
    assert_eq!((policy.n, policy.n_min), (Some(512), None), "a smallest size was meant for the size beside it");
    assert_eq!((policy.probe.deadline, policy.samples), (Duration::from_secs(5), settings.samples), "as set");
    assert_eq!((policy.mode, policy.device_missing), (None, DeviceMissing::Fail));
    let slow = Overrides { probe_target: Some(Duration::from_secs(1)), ..Overrides::default() };
    assert_eq!(settings.with(&slow).probe.deadline, Duration::from_secs(10), "it leaves the time");
    assert_eq!(settings.with(&Overrides::default()), settings);
}

#[test]
fn a_field_without_a_setting_is_parsed_in_the_form_of_the_policy_file() {
    let parsed = |name: &str, text: &str| {
        let field = Field::without_setting(name)?;
        let mut overrides = Overrides::default();
        field.set(&mut overrides, &field.parse(text)?).map_err(|error| error.expected())?;
        Ok::<_, String>(overrides)
    };
    let target = Overrides { probe_target: Some(Duration::from_millis(20)), ..Overrides::default() };
    assert_eq!(parsed("probe_target", "20ms"), Ok(target));
    assert_eq!(parsed("min_slots", "4"), Ok(Overrides { min_slots: Some(4), ..Overrides::default() }));
    assert_eq!(parsed("rate_factor", "1.5"), Ok(Overrides { rate_factor: Some(1.5), ..Overrides::default() }));
    let gone = Overrides { device_missing: Some(DeviceMissing::Fail), ..Overrides::default() };
    assert_eq!(parsed("device_missing", "fail"), Ok(gone));
    for (name, text, said) in [
        ("probe_target", "20", "expected a time with its unit"),
        ("probe_target", "1ms", "expected a time from 10 ms to 1m: a shorter probe"),
        ("min_slots", "2", "expected a whole number from 3 to 1048576"),
        ("rate_factor", "NaN", "expected a number from 1 to 1000"),
        ("device_missing", "pass", "expected one of \"warn\", \"inconclusive\", \"fail\""),
        ("samples", "4", "`samples` is a setting of its own"),
        ("challenge_interval", "4s", "`challenge_interval_s` is a setting of its own"),
        ("probe_step", "4", "no field of the policy is named \"probe_step\": did you mean probe_steps?"),
        ("x", "4", "no field of the policy is named \"x\""),
    ] {
        let error = parsed(name, text).unwrap_err();
        assert!(error.starts_with(said), "{name} {text}: {error}");
    }
    for field in FIELDS.iter().filter(|field| field.setting.is_empty() && !field.default.is_empty()) {
        let mut overrides = Overrides::default();
        field.set(&mut overrides, &field.parse(field.default).unwrap()).unwrap();
        let linked = (field.name != "linked_probe").then(LinkedPolicy::default);
        let policy = Policy { linked, ..Policy::default() };
        assert_eq!(policy.with(&overrides), policy, "{}", field.name);
    }
}
