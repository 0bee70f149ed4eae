//! The speeds of the fleet's models, read from the records from time to time.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use assay_fleet::{Distribution, Sample};
use assay_records::{Records, RecordsError};
use assay_work::Precision;

use crate::clock::unix_ms;

/// How long samples are used before they are read again.
const FRESH: Duration = Duration::from_secs(60);
/// How far back samples count.
const WINDOW_MS: i64 = 30 * 86_400_000;
/// The latest passes of each device that count.
const PASSES: u32 = 8;
/// Models whose samples are kept: names are claims, and whoever makes names up finds no sample.
const MAX_MODELS: usize = 64;

/// Distributions of a model that are kept, one for each operator whose hosts are judged by it: more are made anew.
const MAX_DISTRIBUTIONS: usize = 256;

/// What is known of a model.
#[derive(Debug, Default)]
struct Model {
    /// When its samples were read; `None`: they have to be.
    read: Option<Instant>,
    samples: Vec<Sample>,
    /// What follows from them, by matrix size and operator: to sort thousands of samples takes as long as an audit.
    distributions: HashMap<(u32, Option<String>), Option<Distribution>>,
}

/// The samples of the models that were asked for lately, by kind of work.
#[derive(Debug, Default)]
pub struct Speeds(Mutex<HashMap<(String, Precision), Model>>);

impl Model {
    fn distribution(&mut self, n: u32, operator: Option<&str>) -> Option<Distribution> {
        let key = (n, operator.map(str::to_owned));
        if let Some(known) = self.distributions.get(&key) {
            return known.clone();
        }
        let distribution = Distribution::of(self.samples.iter(), n, operator);
        if self.distributions.len() >= MAX_DISTRIBUTIONS {
            self.distributions.clear();
        }
        self.distributions.insert(key, distribution.clone());
        distribution
    }
}

impl Speeds {
    /// The distributions of these models in a kind of work at a matrix size, and of the others that are known, as a miner of this operator
    /// is judged by them.
    pub async fn distributions(
        &self,
        records: &Records,
        models: impl IntoIterator<Item = &String>,
        (precision, n): (Precision, u32),
        operator: Option<&str>,
    ) -> Result<BTreeMap<String, Distribution>, RecordsError> {
        for model in models {
            self.read(records, &(model.clone(), precision)).await?;
        }
        let mut known = self.lock();
        let of_kind = known.iter_mut().filter(|((_, of), _)| *of == precision);
        let distributions =
            of_kind.filter_map(|((name, _), model)| Some((name.clone(), model.distribution(n, operator)?)));
        Ok(distributions.collect())
    }

    async fn read(&self, records: &Records, model: &(String, Precision)) -> Result<(), RecordsError> {
        // Of all that find them old one reads them, and the others go on with what is there.
        if let Some(known) = self.lock().get_mut(model) {
            if known.read.is_some_and(|at| at.elapsed() < FRESH) {
                return Ok(());
            }
            known.read = Some(Instant::now());
        }
        let samples = records.samples(&model.0, model.1, unix_ms() - WINDOW_MS, PASSES).await;
        let samples = samples.inspect_err(|_| {
            if let Some(known) = self.lock().get_mut(model) {
                known.read = None;
            }
        })?;
        let sample = |sample: assay_records::Sample| Sample {
            operator: Some(sample.operator).filter(|operator| !operator.is_empty()),
            miner: sample.miner,
            n: u32::try_from(sample.n).unwrap_or(0),
            tops: sample.tops,
            gb_per_s: sample.gb_per_s,
        };
        let samples: Vec<_> = samples.into_iter().map(sample).collect();
        let mut known = self.lock();
        if known.len() >= MAX_MODELS && !known.contains_key(model) {
            let oldest = known.iter().min_by_key(|(_, model)| model.read).map(|(name, _)| name.clone());
            oldest.and_then(|oldest| known.remove(&oldest));
        }
        let read = Some(Instant::now());
        known.insert(model.clone(), Model { read, samples, distributions: HashMap::new() });
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(String, Precision), Model>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
