//! The fields of challenges and their judging: one row for each, from which the validator's settings, the sections of
//! the policy file and the bounds of a challenge on demand are made.

use std::fmt;
use std::time::Duration;

use assay_protocol::verdict::Mode;
use assay_work::Precision;
use assay_work::challenge::{MAX_ITERATIONS, MAX_N, MAX_TOTAL, MIN_COUNT, MIN_N};
use serde::{Deserialize, Serialize};

use crate::text::{duration, nearest, short};

/// The longest configurable wait, in seconds: a day.
pub(crate) const DAY_S: u64 = 86_400;
/// The longest configurable deadline of a probe, in milliseconds.
pub(crate) const MAX_PROBE_DEADLINE_MS: u64 = 600_000;
/// The most steps of a walk in a round.
pub(crate) const MAX_PROBE_STEPS: u32 = 1024;
/// Range of a model's peak rate, in TOPS.
const PEAK: Bounds = Bounds::Number(0.001, 1e9);
const MAX_MATRICES: u32 = MAX_TOTAL as u32;
/// The most recent challenges of a miner that can be considered for abandoned ones.
pub const MAX_ABANDONED_WINDOW: u32 = 20;

/// The setting that sets the fields without a setting of their own.
pub const POLICY_FIELDS: &str = "policy_fields";

/// The place where a field can be set beside the settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In the settings only.
    Settings,
    /// In the sections `light` and `heavy` of a group.
    Asked,
    /// In the section `judge` of a group.
    Judged,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bounds {
    /// A whole number from … to.
    Whole(u32, u32),
    /// A power of two from … to.
    Power(u32, u32),
    /// A number from … to.
    Number(f64, f64),
    /// A time, in seconds in the settings.
    Seconds(u64, u64),
    /// A time, in milliseconds in the settings.
    Millis(u64, u64),
    Switch,
    /// One of these words, each with its meaning.
    Word(&'static [(&'static str, &'static str)]),
    /// Kinds of work, each once.
    Kinds,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Of [`Bounds::Whole`] and [`Bounds::Power`].
    Whole(u32),
    /// Of [`Bounds::Number`].
    Number(f64),
    /// Of [`Bounds::Seconds`] and [`Bounds::Millis`].
    Time(Duration),
    /// Of [`Bounds::Switch`].
    Switch(bool),
    /// Of [`Bounds::Word`].
    Word(String),
    /// Of [`Bounds::Kinds`].
    Kinds(Vec<Precision>),
}

#[derive(Debug)]
pub struct Field {
    /// The name in the policy file and in the API.
    pub name: &'static str,
    /// The name as a setting, with the unit of a time; empty for a field that [`POLICY_FIELDS`] sets.
    pub setting: &'static str,
    /// Name of the setting's value in the help.
    pub unit: &'static str,
    /// The default as typed; empty without a default.
    pub default: &'static str,
    /// The section of a policy file where it can be set.
    pub place: Place,
    pub bounds: Bounds,
    /// The reason for the bounds; empty for words and switches.
    pub why: &'static str,
    help: &'static str,
    get: fn(&Overrides) -> Option<Value>,
    put: fn(&mut Overrides, &Value),
}

/// A value outside its field's bounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OutOfBounds {
    pub name: &'static str,
    /// The setting that sets it.
    pub setting: &'static str,
    /// The allowed values, given the other fields.
    pub bounds: Bounds,
    /// The reason for these bounds.
    pub why: &'static str,
}

/// The Rust type of a field's value.
trait FieldType: Sized {
    fn of(value: &Value) -> Option<Self>;
    fn value(&self) -> Value;
}

macro_rules! field_types {
    ($($type:ty: $kind:ident, |$value:ident| $of:expr, |$own:ident| $to:expr;)+) => {
        $(impl FieldType for $type {
            fn of(value: &Value) -> Option<Self> {
                let Value::$kind($value) = value else { return None };
                $of
            }
            fn value(&self) -> Value {
                let $own = self;
                Value::$kind($to)
            }
        })+
    };
}

field_types! {
    u32: Whole, |value| Some(*value), |own| *own;
    f64: Number, |value| Some(*value), |own| *own;
    Duration: Time, |value| Some(*value), |own| *own;
    bool: Switch, |value| Some(*value), |own| *own;
    Vec<Precision>: Kinds, |value| Some(value.clone()), |own| own.clone();
    ModeChoice: Word, |value| ModeChoice::named(value), |own| own.name().to_owned();
    DeviceMissing: Word, |value| DeviceMissing::named(value), |own| own.name().to_owned();
}

macro_rules! fields {
    ($($(#[doc = $help:literal])+ $name:ident: $type:ty, $place:ident, $setting:literal, $unit:literal, $default:literal,
       $bounds:expr, $why:literal;)+) => {
        /// Values that override some of the fields.
        #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct Overrides {
            $($(#[doc = $help])+ #[serde(skip_serializing_if = "Option::is_none")] pub $name: Option<$type>,)+
        }

        pub static FIELDS: &[Field] = &[$(Field {
            name: stringify!($name),
            setting: $setting,
            unit: $unit,
            default: $default,
            place: Place::$place,
            bounds: $bounds,
            why: $why,
            help: concat!($($help),+),
            get: |overrides| overrides.$name.as_ref().map(FieldType::value),
            put: |overrides, value| overrides.$name = FieldType::of(value),
        }),+];
    };
}

fields! {
    /// Kinds of work to ask for, as a comma-separated list: int8, f16, fp8, fp4, field, network. Of several, each challenge
    /// of a miner has the next one that its devices compute
    kinds: Vec<Precision>, Asked, "kinds", "KIND", "int8", Bounds::Kinds, "they come in turn, and a challenge has one";
    /// Verification mode
    mode: ModeChoice, Asked, "mode", "MODE", "auto", Bounds::Word(ModeChoice::WORDS), "";
    /// Longest expected replay that auto chooses
    replay_budget: Duration, Asked, "", "", "60s", Bounds::Seconds(0, DAY_S), "a day is the longest wait";
    /// Matrix size [default: 2048; 1024 for field; 8192 for miners with a device above 200 T multiply-accumulates/s, where
    /// their memory_gb_per_s and peak rate are not known]
    n: u32, Asked, "n", "N", "", Bounds::Power(MIN_N, MAX_N),
        "the work is defined for these, above them sums leave 32 bits";
    /// Smallest matrix size to fall back to where the devices hold too few larger matrices; default: n
    n_min: u32, Asked, "", "", "", Bounds::Power(MIN_N, MAX_N),
        "the work is defined for these, and none is larger than n";
    /// Fewest matrices that a device must hold to be challenged; docs/WORK.md asks for 64 on GPUs
    min_slots: u32, Asked, "", "", "3", Bounds::Whole(MIN_COUNT, MAX_MATRICES),
        "the smallest share has two leaves and a product, and a challenge has no more than 2^20";
    /// Passes of each device; one proves speed and memory best, more prove endurance
    iterations: u32, Asked, "iterations", "COUNT", "1", Bounds::Whole(1, MAX_ITERATIONS),
        "the work is defined for no more";
    /// Percentage of the miner's free memory that a challenge fills
    fill_percent: u32, Asked, "fill_percent", "PERCENT", "90", Bounds::Whole(1, 97),
        "0 is no challenge, and a device needs some memory for itself";
    /// Maximum number of matrices in a challenge, over all devices of a miner
    max_matrices: u32, Asked, "", "", "", Bounds::Whole(MIN_COUNT, MAX_MATRICES),
        "the smallest share has three, and a challenge has no more than 2^20";
    /// Samples per device and iteration checked by audit
    samples: u32, Asked, "samples", "COUNT", "128", Bounds::Whole(1, 4096),
        "0 checks nothing, and each sample opens up to seven rows";
    /// Segments of the probe checked per device
    segments: u32, Asked, "", "", "32", Bounds::Whole(1, 1024),
        "0 checks nothing, and each segment opens a state and all lines of its walk";
    /// Iterations per device checked by replay-sample and audit, besides the last one
    sampled_iterations: u32, Asked, "", "", "1", Bounds::Whole(0, MAX_ITERATIONS),
        "a challenge has no more";
    /// Deadline for the commitment
    commit_deadline: Duration, Asked, "", "", "600s", Bounds::Seconds(1, DAY_S),
        "less never suffices, and a day is the longest wait";
    /// Target duration of a probe at the expected bandwidth, or a part of it where that leaves less memory open
    probe_target: Duration, Asked, "", "", "250ms", Bounds::Millis(10, 60_000),
        "a shorter probe drowns in the round trip, a longer one keeps the devices from their work";
    /// Expected memory bandwidth of a device, in GB/s; probes grow with what a miner showed last
    probe_expect_gb_per_s: f64, Settings, "", "", "4", Bounds::Number(0.01, 100_000.0),
        "outside the range of real memory";
    /// Largest number of walks of a probe; their states take at most 1/256 of the smallest share
    probe_walks: u32, Settings, "", "", "262144", Bounds::Power(64, 1 << 22),
        "the probe is defined for powers of two from 64, and more states do not fit beside the slots";
    /// Steps per walk and round
    probe_steps: u32, Settings, "", "", "64", Bounds::Whole(1, MAX_PROBE_STEPS),
        "a round has at least one, and a segment opens a line for each";
    /// Deadline for the answer to a probe; default: 10 times probe_target
    probe_deadline: Duration, Asked, "", "", "", Bounds::Millis(10, MAX_PROBE_DEADLINE_MS),
        "an answer that takes less than the target does not come before it, nor is a longer wait a probe";
    /// Have the devices of a host walk over the memory of one another too, after the probe of each device's own: shows how
    /// fast they reach it
    linked_probe: bool, Asked, "", "", "false", Bounds::Switch, "";
    /// Have each device sum over all of its memory too, after the probes: shows how fast it is read whole, in order
    sweep: bool, Asked, "", "", "false", Bounds::Switch, "";
    /// Expected rate of a device in a linked probe, in GB/s of lines read; linked probes grow with what a miner showed last
    linked_expect_gb_per_s: f64, Settings, "", "", "1",
        Bounds::Number(0.001, 100_000.0), "outside the range of real links";
    /// Least rate at which the devices of a host must reach the memory of one another for a pass, in GB/s into each; 0:
    /// report only
    linked_min_gb_per_s: f64, Asked, "", "", "0", Bounds::Number(0.0, 100_000.0),
        "outside the range of real links";
    /// Factor from the compute rate that a device showed to the one it may have
    rate_factor: f64, Judged, "", "", "2", Bounds::Number(1.0, 1000.0),
        "a device may be as fast as it showed, or faster";
    /// Peak INT8 rate of the devices' model, in TOPS; default: its profile's
    peak_tops: f64, Judged, "", "", "", PEAK, "outside the range of real devices";
    /// Peak FP16 or BF16 rate of the devices' model, in TOPS; default: its profile's
    peak_tops_f16: f64, Judged, "", "", "", PEAK, "outside the range of real devices";
    /// Peak FP8 rate of the devices' model, in TOPS; default: its profile's
    peak_tops_fp8: f64, Judged, "", "", "", PEAK, "outside the range of real devices";
    /// Peak FP4 rate of the devices' model, in TOPS; default: its profile's
    peak_tops_fp4: f64, Judged, "", "", "", PEAK, "outside the range of real devices";
    /// Peak rate of the devices' memory, in GB/s; default: its profile's. With the peak rate of the kind of work it bounds
    /// the memory that hides by the operands to be read again
    memory_gb_per_s: f64, Judged, "", "", "", Bounds::Number(0.001, 1e6), "outside the range of real memory";
    /// Caches, shared memory and registers of a device, in MB
    chip_mb: f64, Judged, "", "", "256", Bounds::Number(1.0, 1e6), "outside the range of real devices";
    /// Peak rate of the devices' model in operations of the kind field, in 10^9 a second; default: its profile's estimate
    peak_field_gops: f64, Judged, "", "", "", PEAK, "outside the range of real devices";
    /// Rate of all ways from memory outside the challenge into a device, in GB/s: 32, 64, 128 for PCIe 4, 5, 6; default:
    /// 64, and 1 for a processor
    bus_gb_per_s: f64, Judged, "", "", "", Bounds::Number(0.0, 1e6),
        "outside the range of real buses";
    /// Rate at which processors elsewhere read a copy of a device's slots, in GB/s; 0: no copy is assumed
    copy_gb_per_s: f64, Judged, "", "", "0", Bounds::Number(0.0, 1e6),
        "outside the range of real buses";
    /// Least percentage of each device's challenged memory that a pass must show; 0: report only
    min_held_percent: u32, Asked, "", "", "0", Bounds::Whole(0, 99),
        "the leaves aside, no probe shows all of the memory";
    /// Deadline for the openings, beside the time in which they arrive at link_min_kb_per_s or faster
    openings_deadline: Duration, Settings, "", "", "120s", Bounds::Seconds(1, DAY_S),
        "less never suffices, and a day is the longest wait";
    /// Longest time of the openings in all; default 1h, or openings_deadline where that is longer
    openings_limit: Duration, Settings, "", "", "", Bounds::Seconds(1, DAY_S),
        "at least openings_deadline, and a day is the longest wait";
    /// Least rate of a miner's link, in kB/s: openings, roots and digests may take as long as they need at this rate
    link_min_kb_per_s: u32, Settings, "", "", "64", Bounds::Whole(1, 1_000_000_000),
        "a slower link carries no openings in a day, and no link is faster than 1 TB/s";
    /// Challenge miners that connect, at most ten times in the interval
    challenge_on_connect: bool, Settings, "challenge_on_connect", "BOOL", "true", Bounds::Switch, "";
    /// Seconds between challenges of a miner; 0: on demand only
    challenge_interval: Duration, Settings, "challenge_interval_s", "S", "600", Bounds::Seconds(0, DAY_S),
        "a day is the longest wait";
    /// Time until a miner is challenged again that was busy with another validator's challenge, doubled each time up
    /// to four times as long; 0: not before the next challenge is due
    busy_retry: Duration, Settings, "", "", "15s", Bounds::Seconds(0, DAY_S), "a day is the longest wait";
    /// Abandoned challenges, among the last abandoned_window of a miner, that fail it
    abandoned_limit: u32, Judged, "", "", "3", Bounds::Whole(1, MAX_ABANDONED_WINDOW),
        "the first one may be the link's fault, and there are no more in the window";
    /// Last challenges of a miner that abandoned ones are counted over
    abandoned_window: u32, Judged, "", "", "20", Bounds::Whole(1, MAX_ABANDONED_WINDOW),
        "no more challenges of a miner are remembered";
    /// Verdict on a host where a device takes no part that its key showed before; see `assay-validator forget`
    device_missing: DeviceMissing, Judged, "", "", "inconclusive",
        Bounds::Word(DeviceMissing::WORDS), "";
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ModeChoice {
    /// Replay where it fits in the replay budget, else audit.
    Auto,
    /// A fixed mode.
    #[serde(untagged)]
    Mode(Mode),
}

impl ModeChoice {
    /// Names of the choices, with their meanings.
    pub const WORDS: &[(&str, &str)] = &[
        ("auto", "Replay if it is expected to fit in the replay budget, otherwise audit"),
        (Mode::Replay.name(), "Recompute every pass on the validator's devices"),
        (Mode::ReplaySample.name(), "Recompute some iterations on the validator's devices"),
        (Mode::Audit.name(), "Check random elements from rows the miner opens"),
    ];

    fn named(name: &str) -> Option<Self> {
        [Self::Auto].into_iter().chain(Mode::ALL.map(Self::Mode)).find(|choice| choice.name() == name)
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Mode(mode) => mode.name(),
        }
    }

    /// The fixed mode; `None` for [`Self::Auto`].
    pub const fn mode(self) -> Option<Mode> {
        match self {
            Self::Auto => None,
            Self::Mode(mode) => Some(mode),
        }
    }
}

assay_work::names! {
    /// The verdict's treatment of a device that the key showed before and that takes no part.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum DeviceMissing {
        /// The verdict names the device, and passes.
        Warn = "warn",
        /// Neither a pass nor a fail.
        #[default]
        Inconclusive = "inconclusive",
        Fail = "fail",
    }
}

impl DeviceMissing {
    const WORDS: &[(&str, &str)] = &[
        (Self::Warn.name(), "Name it in the verdict, and pass"),
        (Self::Inconclusive.name(), "No pass, and no failure: device_missing"),
        (Self::Fail.name(), "Fail the miner: device_gone"),
    ];
}

impl Field {
    /// The field that [`POLICY_FIELDS`] sets by this name.
    ///
    /// # Errors
    /// The setting to use instead, or the field with the nearest name.
    pub fn without_setting(name: &str) -> Result<&'static Self, String> {
        let field = FIELDS.iter().find(|field| [field.name, field.setting].contains(&name));
        match field {
            Some(field) if field.setting.is_empty() => Ok(field),
            Some(field) => Err(format!("`{}` is a setting of its own", field.setting)),
            None => {
                let names = FIELDS.iter().filter(|field| field.setting.is_empty()).map(|field| field.name);
                let hint = nearest(name, names).map(|name| format!(": did you mean {name}?"));
                let name = assay_work::text::quoted(name);
                Err(format!("no field of the policy is named {name}{}", hint.unwrap_or_default()))
            }
        }
    }

    /// Parses a value in the form of the policy file, without quotes.
    ///
    /// # Errors
    /// The expected values.
    pub fn parse(&self, text: &str) -> Result<Value, String> {
        let value = match self.bounds {
            Bounds::Whole(..) | Bounds::Power(..) => text.parse().ok().map(Value::Whole),
            Bounds::Number(..) => text.parse().ok().map(Value::Number),
            Bounds::Seconds(..) | Bounds::Millis(..) => Some(Value::Time(duration(text)?)),
            Bounds::Switch => text.parse().ok().map(Value::Switch),
            Bounds::Word(_) => Some(Value::Word(text.to_owned())),
            Bounds::Kinds => None,
        };
        value.filter(|value| self.bounds.hold(value)).ok_or_else(|| self.wrong().expected())
    }

    pub fn help(&self) -> &'static str {
        self.help.trim()
    }

    /// Sets the value.
    ///
    /// # Errors
    /// [`OutOfBounds`]: the value is refused and nothing was set.
    pub fn set(&self, overrides: &mut Overrides, value: &Value) -> Result<(), OutOfBounds> {
        if !self.bounds.hold(value) {
            return Err(self.wrong());
        }
        (self.put)(overrides, value);
        Ok(())
    }

    const fn wrong(&self) -> OutOfBounds {
        self.outside(self.bounds, self.why)
    }

    /// The error of a value outside these bounds.
    pub const fn outside(&self, bounds: Bounds, why: &'static str) -> OutOfBounds {
        let setting = if self.setting.is_empty() { POLICY_FIELDS } else { self.setting };
        OutOfBounds { name: self.name, setting, bounds, why }
    }
}

impl Overrides {
    /// Returns the first value outside its field's own bounds.
    pub fn out_of_bounds(&self) -> Option<OutOfBounds> {
        let is_wrong = |field: &&Field| (field.get)(self).is_some_and(|value| !field.bounds.hold(&value));
        FIELDS.iter().find(is_wrong).map(Field::wrong)
    }
}

impl Bounds {
    /// Returns whether a value lies within the bounds. NaN does not.
    pub fn hold(&self, value: &Value) -> bool {
        match (*self, value) {
            (Self::Whole(least, most), Value::Whole(value)) => (least..=most).contains(value),
            (Self::Power(least, most), Value::Whole(value)) => {
                (least..=most).contains(value) && value.is_power_of_two()
            }
            (Self::Number(least, most), Value::Number(value)) => (least..=most).contains(value),
            (Self::Seconds(least, most), Value::Time(time)) => {
                (Duration::from_secs(least)..=Duration::from_secs(most)).contains(time)
            }
            (Self::Millis(least, most), Value::Time(time)) => {
                (Duration::from_millis(least)..=Duration::from_millis(most)).contains(time)
            }
            (Self::Switch, Value::Switch(_)) => true,
            (Self::Word(words), Value::Word(word)) => words.iter().any(|(name, _)| name == word),
            (Self::Kinds, Value::Kinds(kinds)) => {
                let is_new = |(at, kind)| !kinds[..at].contains(kind);
                !kinds.is_empty() && kinds.iter().enumerate().all(is_new)
            }
            _ => false,
        }
    }

    /// Describes the expected values, as messages about a policy file state them.
    pub fn expected(&self) -> String {
        let quoted = |words: &[&str]| words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(", ");
        match self {
            Self::Whole(..) => format!("a whole number {self}"),
            Self::Number(..) => format!("a number {self}"),
            Self::Power(..) => self.to_string(),
            Self::Seconds(least, most) => {
                format!("a time from {} to {}", short(Duration::from_secs(*least)), short(Duration::from_secs(*most)))
            }
            Self::Millis(least, most) => {
                let time = |millis: &u64| short(Duration::from_millis(*millis));
                format!("a time from {} to {}", time(least), time(most))
            }
            Self::Switch => "true or false".to_owned(),
            Self::Word(words) => format!("one of {}", quoted(&words.iter().map(|word| word.0).collect::<Vec<_>>())),
            Self::Kinds => format!("one or more of {}, each once", quoted(&Precision::ALL.map(Precision::name))),
        }
    }
}

/// The bounds in the form of settings, without units.
impl fmt::Display for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(least, most) => write!(f, "from {least} to {most}"),
            Self::Power(least, most) => write!(f, "a power of two from {least} to {most}"),
            Self::Number(least, most) => write!(f, "from {least} to {most}"),
            Self::Seconds(least, most) | Self::Millis(least, most) => write!(f, "from {least} to {most}"),
            Self::Switch | Self::Word(_) | Self::Kinds => f.write_str(&self.expected().replace('"', "")),
        }
    }
}

/// The error in the form of settings and the API.
impl fmt::Display for OutOfBounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.setting == POLICY_FIELDS {
            return write!(f, "{}: {}", self.name, self.expected());
        }
        write!(f, "must be {}: {}", self.bounds, self.why)
    }
}

impl OutOfBounds {
    /// The error in the form of messages about a policy file.
    pub fn expected(&self) -> String {
        let reason = if self.why.is_empty() { String::new() } else { format!(": {}", self.why) };
        format!("expected {}{reason}", self.bounds.expected())
    }
}
