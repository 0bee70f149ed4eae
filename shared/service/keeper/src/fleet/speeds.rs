//! Speeds of the fleet's models, read from the records periodically. Only an unknown model is waited for: otherwise the
//! last known speeds are used, and refreshed in the background.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use assay_policy::{Distribution, Sample};
use assay_program::clock::{self, unix_ms};
use assay_records::{Records, RecordsError};
use assay_work::Precision;
use parking_lot::Mutex;

/// Age after which samples are read again.
const FRESH: Duration = Duration::from_secs(60);
/// Age in ms up to which samples count.
const WINDOW_MS: i64 = 30 * 86_400_000;
/// The latest passes of each device that count.
const PASSES: u32 = 8;
/// The most models whose samples are kept: names are claims, and an invented name has no samples.
const MAX_MODELS: usize = 64;

/// The most distributions kept of a model, one for each operator whose hosts are judged by it: further ones are
/// computed anew.
const MAX_DISTRIBUTIONS: usize = 256;

/// Samples and distributions of a model.
#[derive(Debug)]
struct Model {
    /// Start of the last reading of its samples.
    read: Instant,
    samples: Vec<Sample>,
    /// Distributions by matrix size and operator: sorting thousands of samples takes as long as an audit.
    distributions: HashMap<(u32, Option<String>), Option<Distribution>>,
}

/// Samples of the recently requested models, by kind of work.
#[derive(Debug, Default, Clone)]
pub struct Speeds(Arc<Mutex<HashMap<(String, Precision), Model>>>);

impl Model {
    fn distribution(&mut self, n: u32, operator: Option<&str>) -> Option<Distribution> {
        let key = (n, operator.map(str::to_owned));
        if self.distributions.len() >= MAX_DISTRIBUTIONS && !self.distributions.contains_key(&key) {
            self.distributions.clear();
        }
        let fresh = || Distribution::of(self.samples.iter(), n, operator);
        self.distributions.entry(key).or_insert_with(fresh).clone()
    }
}

impl Speeds {
    /// The distributions of these models and of the other known ones, in a kind of work at a matrix size, as they apply
    /// to a miner of this operator.
    pub async fn distributions(
        &self,
        records: &Records,
        models: impl IntoIterator<Item = &String>,
        (precision, n): (Precision, u32),
        operator: Option<&str>,
    ) -> Result<BTreeMap<String, Distribution>, RecordsError> {
        let mut found = BTreeMap::new();
        for model in models {
            let key = (model.clone(), precision);
            self.freshen(records, &key).await?;
            // At once: the names after it may take its place.
            let known = self.0.lock().get_mut(&key).and_then(|known| known.distribution(n, operator));
            found.extend(known.map(|known| (key.0, known)));
        }
        let mut known = self.0.lock();
        let of_kind = known.iter_mut().filter(|((_, of), _)| *of == precision);
        found.extend(of_kind.filter_map(|((name, _), model)| Some((name.clone(), model.distribution(n, operator)?))));
        Ok(found)
    }

    /// Has old samples of a model read again; waits only where there are no samples.
    async fn freshen(&self, records: &Records, model: &(String, Precision)) -> Result<(), RecordsError> {
        if let Some(known) = self.0.lock().get_mut(model) {
            // Of the callers that find them old, one has them read.
            if clock::since(known.read) >= FRESH {
                known.read = clock::now();
                let (speeds, records, model) = (self.clone(), records.clone(), model.clone());
                tokio::spawn(async move {
                    if let Err(error) = speeds.read(&records, &model).await {
                        tracing::debug!(%error, model = model.0, "the speeds of a model stay as they were");
                    }
                });
            }
            return Ok(());
        }
        self.read(records, model).await
    }

    async fn read(&self, records: &Records, model: &(String, Precision)) -> Result<(), RecordsError> {
        let samples = records.samples(&model.0, model.1, unix_ms() - WINDOW_MS, PASSES).await?;
        let sample = |sample: assay_records::DeviceSample| Sample {
            operator: Some(sample.operator).filter(|operator| !operator.is_empty()),
            miner: sample.miner,
            n: u32::try_from(sample.n).unwrap_or(0),
            tops: sample.tops,
            gb_per_s: sample.gb_per_s,
        };
        let samples: Vec<_> = samples.into_iter().map(sample).collect();
        let mut known = self.0.lock();
        if known.len() >= MAX_MODELS && !known.contains_key(model) {
            let oldest = known.iter().min_by_key(|(_, model)| model.read).map(|(name, _)| name.clone());
            oldest.and_then(|oldest| known.remove(&oldest));
        }
        known.insert(model.clone(), Model { read: clock::now(), samples, distributions: HashMap::new() });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use assay_records::Location;

    use super::*;

    #[tokio::test]
    async fn what_is_old_is_used_while_it_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let records = Records::open(&Location::File(folder.path().join("validator.db"))).await.unwrap();
        let (speeds, model) = (Speeds::default(), "H200".to_owned());
        let ask = async || speeds.distributions(&records, [&model], (Precision::Int8, 256), None).await;
        ask().await.unwrap();
        let sample = |miner: u32| Sample {
            operator: Some(miner.to_string()),
            miner: miner.to_string(),
            n: 256,
            tops: 1.0,
            gb_per_s: 1.0,
        };
        let insert = |read| {
            let known = Model { read, samples: (0..100).map(sample).collect(), distributions: HashMap::new() };
            speeds.0.lock().insert((model.clone(), Precision::Int8), known);
        };
        insert(Instant::now());
        // Regression test: a host that listed many names had its model's figures left out of its verdict.
        let names: Vec<_> = (0..MAX_MODELS).map(|name| name.to_string()).collect();
        let listed = [&model].into_iter().chain(&names);
        let found = speeds.distributions(&records, listed, (Precision::Int8, 256), None).await.unwrap();
        assert!(found.contains_key("H200") && !speeds.0.lock().contains_key(&(model.clone(), Precision::Int8)));
        insert(Instant::now().checked_sub(FRESH).unwrap());
        // The closed records answer no reader from here on.
        records.close().await;
        assert_eq!(ask().await.unwrap().len(), 1);
        // Only an unknown model is waited for.
        let other = "H100".to_owned();
        assert!(speeds.distributions(&records, [&other], (Precision::Int8, 256), None).await.is_err());
    }
}
