//! The speeds of the fleet's models, read from the records from time to time.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use assay_fleet::{Distribution, Sample};
use assay_records::{Records, RecordsError};

use crate::clock::unix_ms;

/// How long samples are used before they are read again.
const FRESH: Duration = Duration::from_secs(60);
/// How far back samples count.
const WINDOW_MS: i64 = 30 * 86_400_000;
/// The latest passes of each device that count.
const PASSES: u32 = 8;
/// Models whose samples are kept: names are claims, and whoever makes names up finds no sample.
const MAX_MODELS: usize = 64;

/// Samples of a model, and when they were read.
type Cached = (Instant, Arc<Vec<Sample>>);

/// The samples of the models that were asked for lately.
#[derive(Debug, Default)]
pub struct Speeds(Mutex<HashMap<String, Cached>>);

impl Speeds {
    /// The distributions of these models at a matrix size, and of the others that are known, as a miner of this operator
    /// is judged by them.
    pub async fn distributions(
        &self,
        records: &Records,
        models: impl IntoIterator<Item = &String>,
        n: u32,
        operator: Option<&str>,
    ) -> Result<BTreeMap<String, Distribution>, RecordsError> {
        for model in models {
            self.read(records, model).await?;
        }
        let cached = self.lock();
        let distributions = cached
            .iter()
            .filter_map(|(model, (_, samples))| Some((model.clone(), Distribution::of(samples.iter(), n, operator)?)));
        Ok(distributions.collect())
    }

    async fn read(&self, records: &Records, model: &str) -> Result<(), RecordsError> {
        if self.lock().get(model).is_some_and(|(at, _)| at.elapsed() < FRESH) {
            return Ok(());
        }
        let samples = records.samples(model, unix_ms() - WINDOW_MS, PASSES).await?;
        let sample = |sample: assay_records::Sample| Sample {
            operator: Some(sample.operator).filter(|operator| !operator.is_empty()),
            miner: sample.miner,
            n: u32::try_from(sample.n).unwrap_or(0),
            tops: sample.tops,
            gb_per_s: sample.gb_per_s,
        };
        let samples: Vec<_> = samples.into_iter().map(sample).collect();
        let mut cached = self.lock();
        if cached.len() >= MAX_MODELS && !cached.contains_key(model) {
            let oldest = cached.iter().min_by_key(|(_, (at, _))| *at).map(|(model, _)| model.clone());
            oldest.and_then(|oldest| cached.remove(&oldest));
        }
        cached.insert(model.to_owned(), (Instant::now(), Arc::new(samples)));
        Ok(())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Cached>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
