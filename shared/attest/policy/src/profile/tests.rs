use assay_protocol::message::{DeviceClaim, MATRIX_SIZES};
use assay_work::DeviceId;

use super::*;
use crate::challenge::{HidingPolicy, Policy};

fn parsed(text: &str) -> Result<ModelProfiles, String> {
    read::whole(text, "p.toml", file::profiles).map_err(|error| error.to_string())
}

#[test]
fn every_figure_that_is_compiled_in_has_a_source() {
    let profiles = ModelProfiles::built_in();
    assert!(profiles.models.len() >= 25);
    for model in &profiles.models {
        for figure in model.figures().into_iter().flatten() {
            assert!(figure.source.contains("NVIDIA") || figure.source.contains("AMD"), "{}: {figure:?}", model.name);
        }
        assert!(model.memory_gb.is_some() && model.memory_gb_per_s.is_some(), "{}", model.name);
        // Data sheets double the dense rate for sparsity; no dense rate exceeds a B200's.
        assert!(model.int8_dense_tops.as_ref().is_none_or(|tops| tops.value <= 4500.0), "{}", model.name);
    }
}

#[test]
fn a_model_is_found_by_the_name_of_its_driver() {
    let profiles = ModelProfiles::built_in();
    let name = |claimed: &str| profiles.find(claimed).map(|model| &*model.name);
    assert_eq!(name("NVIDIA H100 80GB HBM3"), Some("H100 SXM 80GB"));
    assert_eq!(name("nvidia h100 pcie "), Some("H100 PCIe 80GB"));
    assert_eq!(name("NVIDIA H200"), Some("H200 SXM 141GB"));
    assert_eq!(name("NVIDIA H200 NVL"), Some("H200 NVL 141GB"));
    assert_eq!(name("AMD Instinct MI300X (RADV GFX942)"), Some("Instinct MI300X"));
    for other in ["NVIDIA H100 80GB HBM3 MIG 1g.10gb", "NVIDIA H1", "H100", "", "llvmpipe"] {
        assert_eq!(name(other), None, "{other}");
    }
    let v100 = profiles.find("Tesla V100-SXM2-32GB").unwrap();
    assert_eq!(v100.int8_dense_tops, None);
    assert!(v100.note.as_ref().unwrap().contains("no INT8 tensor rate"));
}

/// INT8 units also compute FP8 and FP4; the FP8 units of Ada and Hopper compute neither.
#[test]
fn the_peak_of_a_kind_is_that_of_the_fastest_unit_that_computes_it() {
    let profiles = ModelProfiles::built_in();
    let peaks = |claimed: &str| Precision::OF_BYTES.map(|kind| profiles.find(claimed).unwrap().dense_tops(kind));
    assert_eq!(peaks("NVIDIA GeForce RTX 4090"), [Some(660.6), Some(165.2), Some(660.6), None]);
    let h200 = profiles.find("NVIDIA H200").unwrap();
    assert_eq!(h200.dense_tops(Precision::Network), Some(1979.0), "its products are those of INT8");
    assert_eq!(h200.dense_tops(Precision::Field), None, "squarings take most of its time");
    assert_eq!(peaks("NVIDIA H200"), [Some(1979.0), Some(989.5), Some(1979.0), None]);
    assert_eq!(peaks("NVIDIA B200"), [Some(4500.0), Some(2250.0), Some(4500.0), Some(9000.0)]);
    assert_eq!(peaks("Tesla V100-SXM2-32GB"), [None, Some(125.0), None, None], "no INT8 rate is known");
}

#[test]
fn an_operator_s_file_replaces_and_adds() {
    let own = "[[model]]\nname = \"My H200\"\nnames = [\"NVIDIA H200\"]\nmemory_gb = 140\nsource = \"measured\"\n\
        [[model]]\nname = \"X1\"\nnames = [\"X1\"]\nmemory_gb_per_s = 5\nbandwidth_source = \"data sheet\"\n";
    let own = parsed(own).unwrap();
    let count = ModelProfiles::built_in().models.len();
    let profiles = ModelProfiles::built_in().with(own);
    assert_eq!(profiles.models.len(), count + 1);
    let h200 = profiles.find("NVIDIA H200").unwrap();
    let memory = ProfileFigure { value: 140.0, source: "measured".to_owned() };
    assert_eq!((&h200.memory_gb, &h200.int8_dense_tops), (&Some(memory), &None));
    assert_eq!(profiles.find("X1").unwrap().memory_gb_per_s.as_ref().unwrap().source, "data sheet");
    assert!(profiles.find("NVIDIA H200 NVL").is_some());
}

#[test]
fn every_problem_of_a_file_is_said() {
    let text = "[[model]]\nname = \"A\"\nnames = [\"a\"]\nmemory_gb = 80\nint8_tops = 5\n\
        [[model]]\nname = \"B\"\nnames = [\"A\"]\nmemory_gb_per_s = -1\nsource = \"x\"\n[[model]]\n";
    assert_eq!(
        parsed(text).unwrap_err(),
        "p.toml:4: model[1].memory_gb: the figure has no source: write `source` or `memory_source`\n\
         p.toml:5: model[1].int8_tops: unknown field: did you mean `int8_dense_tops`?\n\
         p.toml:8: model[2].names: \"A\" is a name of another model too\n\
         p.toml:9: model[2].memory_gb_per_s: -1: expected a number from 0.001 to 1000000000: a vendor's figure; \
         leave out what is not known\n\
         p.toml:11: model[3].name: missing\n\
         p.toml:11: model[3].names: missing: expected the names that drivers report"
    );
}

/// Rates that the policy does not state are the highest of a host's models, if all of these are known.
#[test]
fn a_policy_takes_the_figures_of_the_models_that_it_is_for() {
    let profiles = ModelProfiles::built_in();
    let of = |policy: &Policy, models: &[&str]| {
        let found: Vec<_> = models.iter().map(|model| profiles.find(model)).collect();
        policy.with_figures_of(&found).hiding
    };
    let default = Policy::default();
    let h200 = of(&default, &["NVIDIA H200", "NVIDIA H200"]);
    assert_eq!((h200.peak_per_s, h200.peak_f16_per_s), (Some(989.5e12), Some(494.75e12)));
    assert_eq!((h200.memory_bytes_per_s, h200.peak_field_per_s), (Some(4.8e12), Some(144e9)));
    assert_eq!((h200.peak_fp4_per_s, h200.chip_bytes), (None, 256e6), "no unit computes FP4 itself");
    let geforce = of(&default, &["NVIDIA GeForce RTX 4090"]).peak_f16_per_s.unwrap();
    assert!(geforce >= 1.6 * 82.6e12, "its INT8 units are faster than its own for F16: {geforce}");
    let both = of(&default, &["NVIDIA H200", "AMD Instinct MI300X"]);
    assert_eq!((both.peak_per_s, both.peak_field_per_s), (Some(1307.45e12), None), "one states no rate of the field");
    assert_eq!(both.chip_bytes, 512e6);
    let beside = of(&default, &["NVIDIA H200", "llvmpipe"]);
    assert_eq!(beside.peak_per_s, h200.peak_per_s, "an unknown model takes no peak from the others");
    assert_eq!((beside.memory_bytes_per_s, beside.peak_field_per_s), (None, None), "it may have faster memory");
    assert_eq!((h200.has_unknown_models, beside.has_unknown_models), (false, true), "a bound rests on its shown rate");
    assert_eq!((of(&default, &["llvmpipe"]), beside.bus_bytes_per_s), (default.hiding, Some(64e9)));
    let claim = DeviceClaim {
        id: DeviceId([1; 16]),
        name: "NVIDIA H200".to_owned(),
        backend: "cpu".to_owned(),
        detail: String::new(),
        total_bytes: 0,
        free_bytes: 0,
        slots: MATRIX_SIZES.map(|_| 0),
        precisions: Vec::new(),
        claimed_hardware: None,
    };
    let rates =
        |hiding: &HidingPolicy| [hiding.bus_bytes_per_s(Some(&claim)), hiding.elsewhere_bytes_per_s(Some(&claim))];
    assert_eq!(rates(&default.hiding), [1e9, 1e9]);
    assert_eq!(rates(&h200), [64e9, 500e9], "a GPU's, whatever its miner calls the backend");
    assert_eq!(of(&default, &[]), default.hiding);
    let stated = Policy { hiding: HidingPolicy { peak_per_s: Some(1.0), ..default.hiding }, ..default };
    assert_eq!(of(&stated, &["NVIDIA H200"]).peak_per_s, Some(1.0), "the operator's own figure stands");
    assert!(!of(&stated, &["NVIDIA H200", "llvmpipe"]).has_unknown_models, "it is for all models");
}
