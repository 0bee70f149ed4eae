//! Results of a miner's devices over time, with the expectations of their models.

use std::collections::BTreeSet;

use assay_api::{MinerSeries, Quantity, SeriesBand, SeriesQuery};
use assay_policy::bands::{Band, Bands};
use assay_policy::policy::BandPolicy;
use assay_policy::profile::{Profile, ProfileFigure};
use assay_records::SeriesPoint;
use assay_work::Precision;

use super::{Result, find, read};
use crate::validator::Validator;

/// Results of a miner's devices, and the bands of their models.
pub async fn of_miner(validator: &Validator, text: &str, query: SeriesQuery) -> Result<MinerSeries> {
    let limit = read::page(query.limit)?;
    read::check_times(query.since, None)?;
    let id = find::miner_or_name(&validator.records, text).await?;
    let points = validator.records.series(&id, query.since.unwrap_or_default(), limit).await?;
    let bands = bands_of(validator, &id, &points).await?;
    Ok(MinerSeries { points, bands })
}

/// Bands of the models in these points, at their matrix sizes, for a host like this.
async fn bands_of(validator: &Validator, id: &str, points: &[SeriesPoint]) -> Result<Vec<SeriesBand>> {
    let (fleet, records) = (&validator.fleet, &validator.records);
    let Some(record) = records.miner(id).await? else { return Ok(Vec::new()) };
    let (rules, policy) = (fleet.rules(), fleet.group_of(&record).await?.bands);
    let operator = rules.policy.operator_of(&record.labels).map(str::to_owned);
    let models: BTreeSet<String> = points.iter().map(|point| point.model.clone()).collect();
    let size_of = |point: &SeriesPoint| {
        let precision = Precision::from_code(u32::try_from(point.precision).ok()?)?;
        Some((precision, u32::try_from(point.n).ok()?))
    };
    let sizes: BTreeSet<(Precision, u32)> = points.iter().filter_map(size_of).collect();
    let kinds: BTreeSet<Precision> = sizes.iter().map(|(precision, _)| *precision).collect();
    let mut found: Vec<SeriesBand> = Vec::new();
    for profile in models.iter().filter_map(|model| rules.profiles.find(model)) {
        found.extend(by_profile(profile, &kinds, &policy));
    }
    for size in sizes {
        let distributions = fleet.speeds.distributions(records, &models, size, operator.as_deref()).await?;
        for (model, distribution) in distributions.iter().filter(|(model, _)| models.contains(*model)) {
            let (Some(Bands { tops, gb_per_s, .. }), all) = (Bands::of(distribution, &policy), distribution.all) else {
                continue;
            };
            found.push(by_fleet(model, size, Quantity::Tops, tops, all.tops.median));
            found.push(by_fleet(model, size, Quantity::GbPerS, gb_per_s, all.gb_per_s.median));
        }
    }
    Ok(found)
}

fn by_fleet(model: &str, (precision, n): (Precision, u32), quantity: Quantity, band: Band, median: f64) -> SeriesBand {
    let bound = |value: f64| Some(value).filter(|value| value.is_finite());
    SeriesBand {
        model: model.to_owned(),
        precision: Some(precision.code()),
        n: Some(n),
        quantity,
        low: bound(band.low),
        middle: bound(median),
        high: bound(band.high),
        by: "fleet".to_owned(),
    }
}

/// Bands from the data sheet of a model, by the policy.
fn by_profile(profile: &Profile, kinds: &BTreeSet<Precision>, policy: &BandPolicy) -> Vec<SeriesBand> {
    let tops =
        |kind: &Precision| (Quantity::Tops, Some(*kind), profile.dense_tops(*kind), 1.0, policy.least_tops_percent);
    let value = |figure: &ProfileFigure| figure.value;
    let others = [
        (Quantity::GbPerS, None, profile.memory_gb_per_s.as_ref().map(value), 1.0, policy.least_bandwidth_percent),
        (Quantity::BytesHeld, None, profile.memory_gb.as_ref().map(value), 1e9, policy.least_memory_percent),
    ];
    let band = |(quantity, kind, figure, scale, least): (_, Option<Precision>, Option<f64>, f64, f64)| {
        let value = figure? * scale;
        let detour = kind.map_or(1.0, Precision::largest_detour);
        Some(SeriesBand {
            model: profile.name.clone(),
            precision: kind.map(Precision::code),
            n: None,
            quantity,
            low: Some(value * detour * least / 100.0),
            middle: None,
            high: Some(value * detour * (1.0 + policy.above_percent / 100.0)),
            by: "profile".to_owned(),
        })
    };
    kinds.iter().map(tops).chain(others).filter_map(band).collect()
}
