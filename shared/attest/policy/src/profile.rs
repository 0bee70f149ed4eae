//! Figures of GPU models by their vendors: memory, dense INT8 tensor peak, memory bandwidth, each with its source.
//!
//! `profiles.toml` is compiled in. Sections `[[model]]` of the policy file replace the models that they name and add
//! others. A model is found by the exact name that its driver reports, so that a slice of a card is not mistaken for
//! the card.

use assay_work::Precision;
use serde::{Deserialize, Serialize};

use crate::read::{self, Section};

mod file;

/// Built-in figures.
const BUILT_IN: &str = include_str!("profiles.toml");
/// The most models of a file.
pub const MAX_MODELS: usize = 1024;

/// A figure with its source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProfileFigure {
    pub value: f64,
    /// Document that states the figure.
    pub source: String,
}

/// The figures of one model. `None` is unknown, and not judged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// Common name of the model.
    pub name: String,
    /// Names that drivers report.
    pub names: Vec<String>,
    /// Memory in 10⁹ bytes.
    pub memory_gb: Option<ProfileFigure>,
    /// The peak of INT8 matrix products without sparsity, in TOPS.
    pub int8_dense_tops: Option<ProfileFigure>,
    /// The peak of FP16 or BF16 products with FP32 sums.
    pub f16_dense_tops: Option<ProfileFigure>,
    /// The peak of FP8 products with FP32 sums.
    pub fp8_dense_tops: Option<ProfileFigure>,
    /// The peak of FP4 products.
    pub fp4_dense_tops: Option<ProfileFigure>,
    /// Memory bandwidth in GB/s.
    pub memory_gb_per_s: Option<ProfileFigure>,
    /// The most operations of the kind field, in 10⁹ a second. The built-in ones are estimates.
    pub field_gops: Option<ProfileFigure>,
    /// Caches, shared memory and registers in MB, where they are more than other devices have.
    pub chip_mb: Option<ProfileFigure>,
    /// Remarks on the figures.
    pub note: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelProfiles {
    pub models: Vec<Profile>,
}

impl ModelProfiles {
    /// Returns the built-in figures.
    ///
    /// # Panics
    /// If these are invalid, which a test rules out.
    pub fn built_in() -> Self {
        read::whole(BUILT_IN, "profiles.toml", file::profiles).expect("the profiles that are compiled in are tested")
    }

    /// Reads the sections `[[model]]` of a policy file.
    pub(crate) fn read(file: &mut Section<'_>) -> Self {
        file::profiles(file)
    }

    /// Replaces profiles by an operator's own of the same name or the same name of a driver, and adds the others.
    pub fn with(mut self, own: Self) -> Self {
        let is_replaced = |model: &Profile| {
            own.models
                .iter()
                .any(|other| other.name == model.name || other.names.iter().any(|name| model.is_named(name)))
        };
        self.models.retain(|model| !is_replaced(model));
        Self { models: own.models.into_iter().chain(self.models).collect() }
    }

    /// Returns the profile of a claimed model.
    pub fn find(&self, claimed: &str) -> Option<&Profile> {
        self.models.iter().find(|model| model.is_named(claimed))
    }
}

impl Profile {
    fn figures(&self) -> [&Option<ProfileFigure>; 8] {
        [
            &self.memory_gb,
            &self.int8_dense_tops,
            &self.f16_dense_tops,
            &self.fp8_dense_tops,
            &self.fp4_dense_tops,
            &self.memory_gb_per_s,
            &self.field_gops,
            &self.chip_mb,
        ]
    }

    /// The peak of a kind of work without sparsity, in TOPS: of the fastest unit that computes it. `None` where the
    /// peak of the unit made for the kind is unknown.
    pub fn dense_tops(&self, precision: Precision) -> Option<f64> {
        let [int8, f16, fp8, fp4] =
            [&self.int8_dense_tops, &self.f16_dense_tops, &self.fp8_dense_tops, &self.fp4_dense_tops]
                .map(|figure| figure.as_ref().map(|figure| figure.value));
        let (own, others) = match precision {
            Precision::Int8 => (int8, [f16, None]),
            Precision::F16 => (f16, [None; 2]),
            Precision::Fp8 => (fp8, [int8, f16]),
            Precision::Fp4 => (fp4, [fp8, int8]),
            // Its products are as fast as INT8's at best.
            Precision::Network => (int8, [f16, None]),
            // Nearly all of its time goes to the field.
            Precision::Field => return None,
        };
        own.map(|own| others.into_iter().flatten().fold(own, f64::max))
    }

    fn is_named(&self, claimed: &str) -> bool {
        // Mesa's Vulkan driver appends its own name and the chip's.
        let claimed = claimed.split_once(" (RADV ").map_or(claimed, |(name, _)| name).trim();
        self.names.iter().any(|name| name.eq_ignore_ascii_case(claimed))
    }
}

#[cfg(test)]
mod tests;
