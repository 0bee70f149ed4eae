//! The fields of profiles.

use super::{MAX_MODELS, ModelProfiles, Profile, ProfileFigure};
use crate::read::Section;

/// The most bytes of a source, a name or a note.
const MAX_TEXT_BYTES: usize = 500;

/// Reads the sections `[[model]]` of a file.
pub fn profiles(file: &mut Section<'_>) -> ModelProfiles {
    let models = file.sections("model");
    if models.len() > MAX_MODELS {
        file.wrong("model", format!("{} models: a file has at most {MAX_MODELS}", models.len()));
    }
    let mut profiles = ModelProfiles::default();
    for section in models.into_iter().take(MAX_MODELS) {
        let model = model(section, &profiles.models);
        profiles.models.push(model);
    }
    profiles
}

fn required(section: &mut Section<'_>, name: &'static str) -> String {
    let text = section.text(name);
    if !section.has(name) {
        section.wrong(name, "missing");
    }
    text.unwrap_or_default()
}

fn model(mut section: Section<'_>, before: &[Profile]) -> Profile {
    let name = required(&mut section, "name");
    let names: Vec<String> = section.list("names");
    if names.is_empty() {
        section.wrong("names", "missing: expected the names that drivers report");
    }
    for twice in names.iter().filter(|name| before.iter().any(|model| model.is_named(name))) {
        section.wrong("names", format!("{} is a name of another model too", assay_work::text::quoted(twice)));
    }
    let source = section.text("source");
    let profile = Profile {
        name,
        names,
        memory_gb: figure(&mut section, ["memory_gb", "memory_source"], source.as_deref()),
        int8_dense_tops: figure(&mut section, ["int8_dense_tops", "int8_source"], source.as_deref()),
        f16_dense_tops: figure(&mut section, ["f16_dense_tops", "f16_source"], source.as_deref()),
        fp8_dense_tops: figure(&mut section, ["fp8_dense_tops", "fp8_source"], source.as_deref()),
        fp4_dense_tops: figure(&mut section, ["fp4_dense_tops", "fp4_source"], source.as_deref()),
        memory_gb_per_s: figure(&mut section, ["memory_gb_per_s", "bandwidth_source"], source.as_deref()),
        field_gops: figure(&mut section, ["field_gops", "field_source"], source.as_deref()),
        chip_mb: figure(&mut section, ["chip_mb", "chip_source"], source.as_deref()),
        note: section.text("note"),
    };
    let figures = profile.figures();
    let texts = figures.into_iter().flatten().map(|figure| &figure.source).chain(&profile.names).chain(&profile.note);
    if texts.chain([&profile.name]).any(|text| text.len() > MAX_TEXT_BYTES) {
        section.wrong("name", format!("a text is longer than {MAX_TEXT_BYTES} bytes"));
    }
    section.finish();
    profile
}

/// A figure with its own source, or the model's.
fn figure(section: &mut Section<'_>, [name, own]: [&'static str; 2], source: Option<&str>) -> Option<ProfileFigure> {
    let mut value = None;
    section.number(name, 0.001..=1e9, "a vendor's figure; leave out what is not known", &mut value);
    let source = section.text(own).or_else(|| source.map(str::to_owned));
    if section.has(name) && source.is_none() {
        section.wrong(name, format!("the figure has no source: write `source` or `{own}`"));
    }
    Some(ProfileFigure { value: value?, source: source.unwrap_or_default() })
}
