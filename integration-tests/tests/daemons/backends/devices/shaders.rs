//! Every shader, in every size and shape, through naga: valid, and translated for Vulkan, Metal and DirectX 12.
//!
//! Shaders that no machine here can run are at least compiled as far as naga goes; the rest is each driver's own
//! compiler.

use assay_wgpu::shaders::{self, Shader};
use naga::back::{hlsl, msl, spv};
use naga::valid::{Capabilities, ModuleInfo, ValidationFlags, Validator};
use naga::{AddressSpace, Module, Scalar, ScalarKind, StorageAccess, TypeInner};

/// OpCapability and OpSDot of the SPIR-V specification.
const OP_CAPABILITY: u32 = 17;
const OP_S_DOT: u32 = 4450;
/// Words before the first instruction.
const SPIRV_HEADER_WORDS: usize = 5;
const SPIRV_MAGIC: u32 = 0x0723_0203;

fn parsed(shader: &Shader) -> (Module, ModuleInfo) {
    let module = naga::front::wgsl::parse_str(&shader.source)
        .unwrap_or_else(|error| panic!("{}: {}", shader.name, error.emit_to_string(&shader.source)));
    // Nothing beyond WGSL's core but subgroups, half floats in words and cooperative matrices, each only where it is
    // asked for.
    let capabilities = if is_quads(shader) {
        Capabilities::SUBGROUP
    } else if is_to_half(shader) {
        Capabilities::SHADER_FLOAT16_IN_FLOAT32
    } else if is_cooperative(shader) {
        Capabilities::SUBGROUP | Capabilities::SHADER_FLOAT16 | Capabilities::COOPERATIVE_MATRIX
    } else {
        Capabilities::empty()
    };
    let info = Validator::new(ValidationFlags::all(), capabilities)
        .validate(&module)
        .unwrap_or_else(|error| panic!("{}: {}", shader.name, error.emit_to_string(&shader.source)));
    (module, info)
}

fn is_quads(shader: &Shader) -> bool {
    shader.name.contains("quads")
}

/// Sums in FP32, of integers alone: the self-test says where they are exact.
fn is_float(shader: &Shader) -> bool {
    shader.name.contains("float") || is_to_half(shader) || is_cooperative(shader)
}

/// Operands written as half floats, by functions on words of 32 bits.
fn is_to_half(shader: &Shader) -> bool {
    shader.name.ends_with("to F16")
}

fn is_cooperative(shader: &Shader) -> bool {
    shader.name.ends_with("cooperative")
}

/// Those that HLSL lacks among them.
fn all_and_cooperative() -> Vec<Shader> {
    [shaders::all(), shaders::cooperative()].concat()
}

fn is_packed(shader: &Shader) -> bool {
    shader.name.ends_with("packed")
}

#[test]
fn there_is_every_shader_once() {
    let all = all_and_cooperative();
    let mut names: Vec<&str> = all.iter().map(|shader| shader.name.as_str()).collect();
    assert_eq!(names.len(), 5 + 2 + 2 + 5 * (5 + 1) + (6 + 4) + 3 * 4 + 2 * (7 + 5), "{names:?}");
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all.len(), "names tell shaders apart");
}

#[test]
fn every_shader_is_valid_and_holds_to_the_rules_of_this_house() {
    for shader in all_and_cooperative() {
        let (module, _) = parsed(&shader);
        let entries: Vec<&str> = module.entry_points.iter().map(|entry| entry.name.as_str()).collect();
        assert_eq!(entries, ["main"], "{}", shader.name);
        for (_, kind) in module.types.iter() {
            if let Some(Scalar { kind, width }) = kind.inner.scalar() {
                let fits = match kind {
                    ScalarKind::Bool => true,
                    ScalarKind::Sint | ScalarKind::Uint => width == 4,
                    _ => width == 4 && is_float(&shader) || width == 2 && is_cooperative(&shader),
                };
                assert!(fits, "{}: {kind:?} of {width} bytes: integers of 32 bits only", shader.name);
            }
        }
    }
}

/// Binding 0 is the uniform block, within the bytes that the backend binds; the others follow without a gap, and all
/// can be written, so that several may lie in one buffer.
#[test]
fn bindings_are_those_that_the_backend_makes() {
    for shader in all_and_cooperative() {
        let (module, _) = parsed(&shader);
        let mut bindings: Vec<u32> = Vec::new();
        for (_, global) in module.global_variables.iter() {
            let Some(place) = &global.binding else { continue };
            assert_eq!(place.group, 0, "{}", shader.name);
            bindings.push(place.binding);
            match global.space {
                AddressSpace::Uniform => {
                    assert_eq!(place.binding, 0, "{}", shader.name);
                    let TypeInner::Struct { span, .. } = &module.types[global.ty].inner else {
                        panic!("{}", shader.name)
                    };
                    assert!(*span <= shaders::PARAM_BYTES as u32, "{}: a block of {span} bytes", shader.name);
                }
                AddressSpace::Storage { access } => {
                    assert_eq!(access, StorageAccess::LOAD | StorageAccess::STORE, "{}", shader.name);
                }
                space => panic!("{}: a binding in {space:?}", shader.name),
            }
        }
        bindings.sort_unstable();
        assert!(bindings.iter().copied().eq(0..bindings.len() as u32), "{}: {bindings:?}", shader.name);
    }
}

fn spirv(shader: &Shader, offered: Option<&[spv::Capability]>) -> Vec<u32> {
    let (module, info) = parsed(shader);
    let capabilities = offered.map(|offered| offered.iter().copied().collect());
    let options = spv::Options { lang_version: (1, 6), capabilities, ..spv::Options::default() };
    spv::write_vec(&module, &info, &options, None).unwrap_or_else(|error| panic!("{}: {error}", shader.name))
}

/// Instructions as (opcode, operands).
fn instructions(words: &[u32]) -> Vec<(u32, &[u32])> {
    assert_eq!(words[0], SPIRV_MAGIC);
    let (mut rest, mut found) = (&words[SPIRV_HEADER_WORDS..], Vec::new());
    while let Some(first) = rest.first() {
        let (length, opcode) = ((first >> 16) as usize, first & 0xFFFF);
        found.push((opcode, &rest[1..length]));
        rest = &rest[length..];
    }
    found
}

fn dot_products(words: &[u32]) -> usize {
    instructions(words).iter().filter(|(opcode, _)| *opcode == OP_S_DOT).count()
}

#[test]
fn every_shader_becomes_spirv_with_the_instructions_it_is_for() {
    for shader in all_and_cooperative() {
        let words = spirv(&shader, None);
        let capabilities: Vec<u32> = instructions(&words)
            .iter()
            .filter(|(op, _)| *op == OP_CAPABILITY)
            .map(|(_, operands)| operands[0])
            .collect();
        let offers = |capability: spv::Capability| capabilities.contains(&(capability as u32));
        assert_eq!(dot_products(&words) > 0, is_packed(&shader), "{}", shader.name);
        assert_eq!(offers(spv::Capability::DotProductInput4x8BitPacked), is_packed(&shader), "{}", shader.name);
        assert_eq!(offers(spv::Capability::GroupNonUniformQuad), is_quads(&shader), "{}", shader.name);
        assert_eq!(offers(spv::Capability::CooperativeMatrixKHR), is_cooperative(&shader), "{}", shader.name);
        assert_eq!(offers(spv::Capability::Float16), is_cooperative(&shader), "{}", shader.name);
        for wide in [spv::Capability::Int64, spv::Capability::Float64, spv::Capability::Int8] {
            assert!(!offers(wide), "{}: {wide:?}", shader.name);
        }
    }
}

/// A Vulkan device without the extension still runs the packed shaders, if slower.
#[test]
fn packed_shaders_do_without_the_instruction() {
    for shader in shaders::all().iter().filter(|shader| is_packed(shader)) {
        let words = spirv(shader, Some(&[spv::Capability::Shader]));
        assert!(words.len() > SPIRV_HEADER_WORDS, "{}", shader.name);
        assert_eq!(dot_products(&words), 0, "{}", shader.name);
    }
}

#[test]
fn every_shader_becomes_metal() {
    // Metal's cooperative matrices are 8 by 8.
    let of_metal = |shader: &Shader| !is_cooperative(shader) || shader.name.contains("matrices of 8,");
    for shader in all_and_cooperative().into_iter().filter(of_metal) {
        let (module, info) = parsed(&shader);
        let options = msl::Options { lang_version: (2, 4), ..msl::Options::default() };
        let (text, translated) = msl::write_string(&module, &info, &options, &msl::PipelineOptions::default())
            .unwrap_or_else(|error| panic!("{}: {error}", shader.name));
        assert!(translated.entry_point_names.iter().all(Result::is_ok), "{}", shader.name);
        assert!(text.contains("kernel void main_("), "{}: {text}", shader.name);
        assert_eq!(text.contains("packed_char4"), is_packed(&shader), "{}", shader.name);
        assert_eq!(text.contains("quad_shuffle_xor"), is_quads(&shader), "{}", shader.name);
        assert!(!text.contains("ulong"), "{}", shader.name);
        assert_eq!(text.contains("half"), is_cooperative(&shader) || is_to_half(&shader), "{}", shader.name);
        assert_eq!(text.contains("simdgroup_multiply_accumulate"), is_cooperative(&shader), "{}", shader.name);
        assert_eq!(text.contains("float4"), is_float(&shader), "{}", shader.name);
    }
}

#[test]
fn every_shader_becomes_hlsl() {
    for shader in shaders::all() {
        let (module, info) = parsed(&shader);
        let options = hlsl::Options { shader_model: hlsl::ShaderModel::V6_4, ..hlsl::Options::default() };
        let pipeline = hlsl::PipelineOptions::default();
        let mut text = String::new();
        let reflection = hlsl::Writer::new(&mut text, &options, &pipeline)
            .write(&module, &info, None)
            .unwrap_or_else(|error| panic!("{}: {error}", shader.name));
        assert!(reflection.entry_point_names.iter().all(Result::is_ok), "{}", shader.name);
        assert!(text.contains("void main("), "{}: {text}", shader.name);
        assert_eq!(text.contains("dot4add_i8packed"), is_packed(&shader), "{}", shader.name);
        assert_eq!(text.contains("QuadReadAcross"), is_quads(&shader), "{}", shader.name);
        for wide in ["int64_t", "double", "half"] {
            assert!(!text.contains(wide), "{}: {wide}", shader.name);
        }
        assert_eq!(text.contains("float4"), is_float(&shader), "{}", shader.name);
    }
}
