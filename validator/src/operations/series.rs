//! What a miner's devices showed over time, against what is expected of their models.

use std::collections::BTreeSet;

use assay_api::{Band, Quantity, Series, SeriesQuery};
use assay_fleet::bands::{self, Bands};
use assay_fleet::policy::BandPolicy;
use assay_fleet::profile::Profile;
use assay_records::SeriesPoint;

use super::{OperationError, find, read};
use crate::validator::Validator;

/// What a miner's devices showed, and the bands of their models.
///
/// # Errors
/// [`OperationError`].
pub async fn of_miner(validator: &Validator, text: &str, query: SeriesQuery) -> Result<Series, OperationError> {
    let limit = read::page(query.limit)?;
    let since = query.since.unwrap_or_default();
    if since < 0 {
        return Err(OperationError::Invalid(format!("since: {since} is before 1970")));
    }
    let id = find::miner(&validator.records, text).await?;
    let points = validator.records.series(&id, since, limit).await?;
    let bands = bands_of(validator, &id, &points).await?;
    Ok(Series { points, bands })
}

/// What is expected of the models in these points, at their matrix sizes, of a host like this.
async fn bands_of(validator: &Validator, id: &str, points: &[SeriesPoint]) -> Result<Vec<Band>, OperationError> {
    let (fleet, records) = (&validator.fleet, &validator.records);
    let Some(record) = records.miner(id).await? else { return Ok(Vec::new()) };
    let (rules, policy) = (fleet.rules(), fleet.group_of(&record).await?.bands);
    let operator = rules.policy.operator_of(&record.labels).map(str::to_owned);
    let models: BTreeSet<String> = points.iter().map(|point| point.model.clone()).collect();
    let sizes: BTreeSet<u32> = points.iter().filter_map(|point| u32::try_from(point.n).ok()).collect();
    let mut found: Vec<Band> = Vec::new();
    for profile in models.iter().filter_map(|model| rules.profiles.find(model)) {
        found.extend(by_profile(profile, &policy));
    }
    for n in sizes {
        let distributions = fleet.distributions(&models, n, operator.as_deref()).await?;
        for (model, distribution) in distributions.iter().filter(|(model, _)| models.contains(*model)) {
            let (Some(Bands { tops, gb_per_s, .. }), all) = (Bands::of(distribution, &policy), distribution.all) else {
                continue;
            };
            found.push(by_fleet(model, n, Quantity::Tops, tops, all.tops.median));
            found.push(by_fleet(model, n, Quantity::GbPerS, gb_per_s, all.gb_per_s.median));
        }
    }
    Ok(found)
}

fn by_fleet(model: &str, n: u32, quantity: Quantity, band: bands::Band, median: f64) -> Band {
    let bound = |value: f64| Some(value).filter(|value| value.is_finite());
    Band {
        model: model.to_owned(),
        n: Some(n),
        quantity,
        low: bound(band.low),
        middle: bound(median),
        high: bound(band.high),
        by: "fleet".to_owned(),
    }
}

/// What the data sheet of a model lets expect, by the policy.
fn by_profile(profile: &Profile, policy: &BandPolicy) -> Vec<Band> {
    let figures = [
        (Quantity::Tops, &profile.int8_dense_tops, 1.0, policy.least_tops_percent),
        (Quantity::GbPerS, &profile.memory_gb_per_s, 1.0, policy.least_bandwidth_percent),
        (Quantity::BytesHeld, &profile.memory_gb, 1e9, policy.least_memory_percent),
    ];
    let band = |(quantity, figure, scale, least): (_, &Option<assay_fleet::profile::Figure>, f64, f64)| {
        let value = figure.as_ref()?.value * scale;
        Some(Band {
            model: profile.name.clone(),
            n: None,
            quantity,
            low: Some(value * least / 100.0),
            middle: None,
            high: Some(value * (1.0 + policy.above_percent / 100.0)),
            by: "profile".to_owned(),
        })
    };
    figures.into_iter().filter_map(band).collect()
}
