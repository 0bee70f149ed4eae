//! Speed of the hosts of one model: robust median and spread, in which every operator weighs the same.
//!
//! An operator with a thousand hosts weighs as much as one with one host, and the miners without an operator label
//! weigh as much as one operator together: keys are free, labels are given. A host is judged without the hosts of its
//! own operator, and against the distribution without each of the others: one operator's results can neither clear its
//! own hosts nor convict another's ([`crate::bands`]).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The most operators for which the distribution without each of them is computed. With more, each weighs below half a
/// percent.
pub const MAX_OPERATORS_LEFT_OUT: usize = 256;
/// Factor from the median absolute deviation to the standard deviation of a normal distribution.
const MAD_TO_SIGMA: f64 = 1.4826;

/// Speed of a device in a challenge that it passed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// The miner's operator by its label; `None` without a label.
    pub operator: Option<String>,
    pub miner: String,
    /// The matrix size: speeds of different sizes are not compared, nor speeds of different kinds of work.
    pub n: u32,
    /// TOPS of the work.
    pub tops: f64,
    /// GB/s of the probe.
    pub gb_per_s: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The weighted median: half of the weight is at or below it.
    pub median: f64,
    /// Spread around the median.
    #[serde(flatten)]
    pub deviation: Deviation,
}

/// A robust standard deviation: 1.4826 times the median of the distances from the median.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Deviation {
    /// Of differences: in evidence of releases that judged by differences, which is judged again the same way.
    Sigma(f64),
    /// Of natural logarithms.
    LogSigma(f64),
}

/// Distribution of both quantities.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Speed {
    /// TOPS of the work.
    pub tops: Spread,
    /// GB/s of the probe.
    pub gb_per_s: Spread,
}

/// Speed of the hosts of one model, as seen by a host of one operator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    pub n: u32,
    /// Number of other hosts.
    pub hosts: u32,
    /// Number of other operators.
    pub operators: u32,
    /// Over all other operators.
    pub all: Speed,
    /// Over all operators but one, for each of them.
    pub without_one: Vec<Speed>,
}

type WeightedValue = (f64, f64);

/// A host's median speeds: TOPS, GB/s.
type Host = (f64, f64);

impl Distribution {
    /// The distribution of samples at `n`, without those of the judged host's own operator: `own`, `None` for miners
    /// without an operator label. `None` without other hosts.
    pub fn of<'a>(samples: impl IntoIterator<Item = &'a Sample>, n: u32, own: Option<&str>) -> Option<Self> {
        let others = samples.into_iter().filter(|sample| sample.operator.as_deref() != own);
        Self::of_operators(n, &hosts_by_operator(others, n))
    }

    fn of_operators(n: u32, operators: &[Vec<Host>]) -> Option<Self> {
        let all = speed(operators.iter())?;
        let without = |left_out: usize| {
            let others = operators.iter().enumerate().filter(|(at, _)| *at != left_out);
            speed(others.map(|(_, hosts)| hosts))
        };
        let variants = if operators.len() <= MAX_OPERATORS_LEFT_OUT { operators.len() } else { 0 };
        Some(Self {
            n,
            hosts: count(operators.iter().map(Vec::len).sum()),
            operators: count(operators.len()),
            all,
            without_one: (0..variants).filter_map(without).collect(),
        })
    }

    /// Iterates over the whole distribution and those without one operator.
    pub fn variants(&self) -> impl Iterator<Item = &Speed> {
        std::iter::once(&self.all).chain(&self.without_one)
    }
}

fn count(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// The median speeds of each host, by operator. Miners without a label count as one operator's.
fn hosts_by_operator<'a>(samples: impl IntoIterator<Item = &'a Sample>, n: u32) -> Vec<Vec<Host>> {
    let mut operators = BTreeMap::<_, BTreeMap<_, Vec<&Sample>>>::new();
    let is_sound = |sample: &&Sample| {
        sample.n == n && [sample.tops, sample.gb_per_s].iter().all(|value| value.is_finite() && *value > 0.0)
    };
    for sample in samples.into_iter().filter(is_sound) {
        operators.entry(&sample.operator).or_default().entry(&sample.miner).or_default().push(sample);
    }
    let host = |samples: &Vec<&Sample>| {
        let of = |value: fn(&Sample) -> f64| median(samples.iter().map(|sample| (value(sample), 1.0)).collect());
        Some((of(|sample| sample.tops)?, of(|sample| sample.gb_per_s)?))
    };
    operators.values().map(|hosts| hosts.values().filter_map(host).collect()).collect()
}

fn speed<'a>(operators: impl Iterator<Item = &'a Vec<Host>> + Clone) -> Option<Speed> {
    let spread_of = |value: fn(&Host) -> f64| {
        let weighed = |hosts: &'a Vec<Host>| hosts.iter().map(move |host| (value(host), 1.0 / hosts.len() as f64));
        spread(operators.clone().flat_map(weighed).collect())
    };
    Some(Speed { tops: spread_of(|host| host.0)?, gb_per_s: spread_of(|host| host.1)? })
}

fn spread(values: Vec<WeightedValue>) -> Option<Spread> {
    let middle = median(values.clone())?;
    // Speeds differ by factors: a tenth of the median is as far from it as ten times the median.
    let distances = values.into_iter().map(|(value, weight)| ((value.ln() - middle.ln()).abs(), weight)).collect();
    Some(Spread { median: middle, deviation: Deviation::LogSigma(MAD_TO_SIGMA * median(distances)?) })
}

/// The weighted median: the mean of the two values in the middle where the weight is split exactly. The same bits for
/// the same values in any order.
fn median(mut values: Vec<WeightedValue>) -> Option<f64> {
    values.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let total: f64 = values.iter().map(|(_, weight)| weight).sum();
    // Weights such as a third add up to a half only approximately.
    let (half, mut sum) = (total / 2.0, 0.0);
    let slack = total * 1e-9;
    let mut values = values.iter().peekable();
    while let Some((value, weight)) = values.next() {
        sum += weight;
        if sum >= half - slack {
            let is_split = sum <= half + slack;
            return Some(values.peek().filter(|_| is_split).map_or(*value, |next| f64::midpoint(*value, next.0)));
        }
    }
    None
}

#[cfg(test)]
mod tests;
