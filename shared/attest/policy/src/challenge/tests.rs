use super::*;
use crate::fields::{DeviceMissing, ModeChoice, Value};

/// The refusal of the default policy with these values.
fn refused(overrides: &Overrides) -> Option<(&'static str, String)> {
    Policy::default().checked(overrides).err().map(|wrong| (wrong.setting, wrong.to_string()))
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
    for (overrides, setting, bound) in [
        (Overrides { n: Some(1024), n_min: Some(2048), ..none() }, "n_min", "a power of two from 256 to 1024"),
        (
            Overrides { probe_target: Some(seconds(2)), probe_deadline: Some(seconds(1)), ..none() },
            "probe_deadline_ms",
            "from 2000 to 600000",
        ),
        (Overrides { openings_limit: Some(seconds(60)), ..none() }, "openings_limit_s", "from 120 to 86400"),
        (Overrides { abandoned_window: Some(2), ..none() }, "abandoned_limit", "from 1 to 2"),
        (Overrides { linked_min_gb_per_s: Some(1.0), ..none() }, "linked_min_gb_per_s", "from 0 to 0"),
        (Overrides { linked_probe: Some(true), probe_steps: Some(1), ..none() }, "probe_steps", "from 2 to 1024"),
        (Overrides { min_held_percent: Some(100), ..none() }, "min_held_percent", "from 0 to 99"),
    ] {
        let (named, text) = refused(&overrides).unwrap_or_else(|| panic!("{overrides:?}"));
        assert!(named == setting && text.starts_with(&format!("must be {bound}: ")), "{named}: {text}");
    }
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
