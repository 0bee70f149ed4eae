//! The device code of this backend: WGSL from `kernels/wgsl/`, joined and given its constants.
//!
//! A shader is a prelude of constants, made here from those of [`assay_work`] so that they stand in one place, and one
//! file or several of `kernels/wgsl/` after it. `docs/KERNELS.md` documents the calls of shaders; `params` lays out
//! their parameters, `tile` cuts products.

mod cooperative;
mod params;
mod tile;

#[cfg(test)]
mod tests;

use std::fmt::Write;

pub(super) use self::cooperative::{CooperativeTile, smallest_subgroup};
pub use self::params::PARAM_BYTES;
pub(super) use self::params::{
    ChunkParams, CompletionCounter, ExpandParams, KeystreamParams, ParentParams, ProbeParams, ProductParams,
    RuleParams, SweepParams,
};
#[cfg(any(test, feature = "bench"))]
pub(super) use self::params::{PEAK_MACS_PER_ITERATION, PeakParams, StreamParams};
pub(super) use self::tile::ShaderTile;
use assay_work::probe::walk;
use assay_work::rule::network::{Layer, THRESHOLDS, WEIGHTS};
use assay_work::{Precision, product, tree};

/// Invocations of a workgroup of the keystream: one ChaCha block each.
pub(super) const KEYSTREAM_THREADS: u32 = 64;
/// Invocations of a workgroup of `chunks` and `parents`: one chunk, or two chaining values, each.
pub(super) const TREE_THREADS: u32 = 64;
/// Invocations of a workgroup of the probe: a walk each, or a quarter of one.
pub(super) const PROBE_THREADS: u32 = 64;
/// Lanes that share a walk where [`ProbeShape::quads`] is set.
pub(super) const QUAD_LANES: u32 = 4;
/// Invocations of a workgroup of [`sweep`]: 16 for four rows.
pub(super) const SWEEP_THREADS: u32 = 64;
/// Rows that a workgroup of it sums.
pub(super) const SWEEP_ROWS: u32 = SWEEP_THREADS / 4;
/// Invocations of a workgroup of [`expand`]: a vector of 16 bytes each.
pub(super) const EXPAND_THREADS: u32 = 64;
/// The most terms of a float sum of products of F16, before it is added to integers (WORK.md, Units that are exact).
pub(super) const CHUNK_TERMS: u32 = 8192;
/// Invocations of a workgroup of [`peak`].
pub(super) const PEAK_THREADS: u32 = 64;
/// Invocations of a workgroup of [`stream`].
pub(super) const STREAM_THREADS: u32 = 64;

/// A shader's text, with its entry point `main`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shader {
    /// Its own name, for logs and caches.
    pub name: String,
    pub source: String,
}

/// How sums of products are computed. The bits are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Dot {
    /// Of signed bytes: `dot4I8Packed`, which drivers turn into an instruction where the device has one.
    Packed,
    /// Of signed bytes: integer code for other devices.
    Plain,
    /// 16-bit integers, by integer code.
    Wide,
    /// Of 16-bit integers: sums of one chunk in FP32.
    Float,
    /// Of 16-bit integers: sums in FP32, added to integers after each chunk.
    FloatChunks,
    /// Of half floats: sums of cooperative matrices in FP32, added to integers after each chunk.
    Cooperative,
}

/// The format of operands that are written out for products.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Format {
    Int8,
    /// Signed integers of 16 bits.
    Int16,
    F16,
}

/// The buffers that the probe reads, and the way of its walks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ProbeShape {
    pub buffers: u32,
    /// Whether there are more buffers than are bound: a dispatch then makes one step of the walks whose line is bound.
    pub grouped: bool,
    /// Whether four lanes of a subgroup share a walk. Needs `Features::SUBGROUP` and subgroups of at least four.
    pub quads: bool,
}

macro_rules! wgsl {
    ($($file:literal),+) => {
        concat!($("\n", include_str!(concat!("../../../../../kernels/wgsl/", $file, ".wgsl"))),+)
    };
}

/// Blocks of the keystream: leaves, and the states that a probe's round starts from.
pub(super) fn keystream() -> Shader {
    shader("keystream", wgsl!("chacha", "keystream"))
}

/// Chunks of a hashed string, and up to six levels of its tree above them.
pub(super) fn chunks() -> Shader {
    shader("chunks", wgsl!("blake3", "tree", "chunks"))
}

/// Up to seven levels of a hashed string's tree.
pub(super) fn parents() -> Shader {
    shader("parents", wgsl!("blake3", "tree", "parents"))
}

/// Tiles of a product, mixed.
pub(super) fn product(tile: ShaderTile, dot: Dot) -> Shader {
    product_with(tile, dot, CHUNK_TERMS, ProductOutput::Mixed)
}

/// The bits of a product's float sums, for the self-test.
pub(super) fn raw_product(tile: ShaderTile) -> Shader {
    product_with(tile, Dot::Float, CHUNK_TERMS, ProductOutput::Raw)
}

/// Tiles of a product in cooperative matrices, mixed.
pub(super) fn cooperative_product(tile: CooperativeTile) -> Shader {
    cooperative_product_with(tile, CHUNK_TERMS, ProductOutput::Mixed)
}

/// The bits of the sums of cooperative matrices, for the self-test.
pub(super) fn raw_cooperative_product(tile: CooperativeTile) -> Shader {
    cooperative_product_with(tile, CHUNK_TERMS, ProductOutput::Raw)
}

/// The output of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProductOutput {
    Mixed,
    Raw,
}

fn product_with(tile: ShaderTile, dot: Dot, chunk_terms: u32, ending: ProductOutput) -> Shader {
    let held = if tile.per_thread == 8 { wgsl!("product_8x8") } else { wgsl!("product_4x4") };
    let (of, write) = ending.name_and_source();
    let ShaderTile { side, per_thread, words } = tile;
    let name = format!("{of} {side}x{side} by {per_thread}x{per_thread}, {words} words, {}", dot.label());
    let (drains, chunk_words) = (dot == Dot::FloatChunks, chunk_terms / dot.terms_per_word());
    let sizes = format!(
        "const SIDE = {side}u;\nconst PER_THREAD = {per_thread}u;\nconst STEP_WORDS = {words}u;\n\
         const DRAINS = {drains};\nconst CHUNK_WORDS = {chunk_words}u;\n"
    );
    shader_with(name, &[dot.requires()], &[&sizes, dot.source(), wgsl!("product_params", "product"), write, held])
}

fn cooperative_product_with(tile: CooperativeTile, chunk_terms: u32, ending: ProductOutput) -> Shader {
    let dot = Dot::Cooperative;
    let (of, write) = ending.name_and_source();
    let name = format!("{of} {}, {}", tile.label(), dot.label());
    let tile = tile.source(chunk_terms);
    shader_with(name, &[dot.requires()], &[&tile, wgsl!("product_params", "product_cooperative"), dot.source(), write])
}

/// The format of a kind of work's operands for products that multiply this way; `None` where these read the slot
/// itself.
pub(super) const fn format(precision: Precision, dot: Dot) -> Option<Format> {
    match (dot, precision) {
        (Dot::Cooperative, _) => Some(Format::F16),
        (Dot::Wide | Dot::Float | Dot::FloatChunks, _) => Some(Format::Int16),
        (Dot::Packed | Dot::Plain, Precision::Int8) => None,
        (Dot::Packed | Dot::Plain, _) => Some(Format::Int8),
    }
}

/// The operands of a slot, written out. Of several shaders, the one with index u modulo their number is for slot u.
///
/// # Panics
/// Where no product reads them.
pub(super) fn expand(precision: Precision, format: Format) -> Vec<Shader> {
    let source = match (precision, format) {
        (Precision::Network, Format::Int8) => return (0..3).map(Layer::of).map(layer).collect(),
        (Precision::Field, Format::Int8) => wgsl!("rule", "expand_field"),
        (Precision::Int8, Format::F16) => wgsl!("expand", "integers_int8", "expand_to_f16", "expand_wide"),
        (Precision::F16, Format::Int16) => wgsl!("expand", "integers_f16", "expand_to_int16", "expand_wide"),
        (Precision::F16, Format::F16) => wgsl!("expand", "integers_f16", "expand_to_f16", "expand_wide"),
        (Precision::Fp8, Format::Int8) => wgsl!("expand", "integers_fp8", "expand_to_int8", "expand_bytes"),
        (Precision::Fp8, Format::F16) => wgsl!("expand", "integers_fp8", "expand_to_f16", "expand_wide"),
        (Precision::Fp4, Format::Int8) => wgsl!("expand", "integers_fp4", "expand_to_int8", "expand_byte_pairs"),
        _ => unreachable!("no product of {precision} reads {format:?}"),
    };
    vec![shader(&format!("expand {precision} to {format:?}"), source)]
}

/// The rule of a network's layer.
fn layer(layer: Layer) -> Shader {
    let source = match layer {
        Layer::Convolution => wgsl!("rule", "integers_int8", "expand_to_int8", "expand_convolution"),
        Layer::Attention => wgsl!("rule", "integers_int8", "expand_to_int8", "expand_attention"),
        Layer::Noise => wgsl!("rule", "chacha", "integers_int8", "expand_to_int8", "expand_noise"),
    };
    let unreached = std::iter::repeat(1 << 15);
    let constants = match layer {
        Layer::Convolution => String::new(),
        Layer::Attention => array("WEIGHTS", WEIGHTS.as_chunks().0.iter().map(|four| u32::from_le_bytes(*four))),
        Layer::Noise => array("THRESHOLDS", THRESHOLDS.map(u32::from).into_iter().chain(unreached).take(64)),
    };
    shader_with(format!("expand {layer:?} of {}", Precision::Network), &[], &[&constants, source])
}

/// The factor of a product whose operands come from a rule: 0 for x, 1 for y. The other factor is a slot.
pub(super) const fn rule_side(precision: Precision) -> Option<usize> {
    match precision {
        Precision::Network => Some(0),
        Precision::Field => Some(1),
        _ => None,
    }
}

/// Bytes of operands that a workgroup makes by the rule of slot `u`.
pub(super) const fn rule_group_bytes(precision: Precision, n: u32, u: u32) -> u64 {
    let invocation_bytes = match (precision, Layer::of(u)) {
        (Precision::Network, Layer::Attention) => return n as u64,
        (Precision::Network, Layer::Convolution) => 16,
        _ => 32,
    };
    invocation_bytes * EXPAND_THREADS as u64
}

/// Bytes of operands for each byte of a slot; `None` where products read the slot itself.
pub(super) fn expansion(precision: Precision, dot: Dot) -> Option<u32> {
    let operand_bytes = match format(precision, dot)? {
        Format::Int8 => 1,
        Format::Int16 | Format::F16 => 2,
    };
    Some(operand_bytes * precision.terms_per_byte())
}

/// Steps of the walks of a probe.
pub(super) fn probe(shape: ProbeShape) -> Shader {
    let ProbeShape { buffers, grouped, quads } = shape;
    let way = if quads { wgsl!("probe_quads") } else { wgsl!("probe_walks") };
    let name = format!(
        "probe of {buffers} buffers{}{}",
        if grouped { ", grouped" } else { "" },
        if quads { ", quads" } else { "" }
    );
    shader_with(name, &[], &[&probe_buffers(shape), wgsl!("probe"), way])
}

/// Sums of rows of slots under weights, for the ways to multiply bytes.
pub(super) fn sweep(dot: Dot) -> Shader {
    shader_with(format!("sweep, {}", dot.name()), &[dot.requires()], &[dot.source(), wgsl!("sweep")])
}

/// Sums of products from registers alone.
pub(super) fn peak(dot: Dot) -> Shader {
    shader_with(format!("peak, {}", dot.name()), &[dot.requires()], &[dot.source(), wgsl!("peak")])
}

/// Memory read in order.
pub(super) fn stream() -> Shader {
    shader("stream", wgsl!("stream"))
}

/// Counts a submission that was carried out.
pub(super) fn completion_counter() -> Shader {
    shader("completion counter", wgsl!("completion_counter"))
}

/// The completion counter after another submission, as `completion_counter.wgsl` computes it.
pub(super) const fn next_completion(before: u32, number: u32) -> u32 {
    before.rotate_left(7).wrapping_mul(product::FIRST_FACTOR).wrapping_add(number)
}

/// The kinds of work and formats that operands are written out in.
fn expansions() -> impl Iterator<Item = (Precision, Format)> {
    let formats = |precision: Precision| {
        let mut formats: Vec<_> = Dot::of(precision).iter().filter_map(|dot| format(precision, *dot)).collect();
        formats.dedup();
        formats.into_iter().map(move |format| (precision, format))
    };
    Precision::ALL.into_iter().flat_map(formats)
}

/// The shaders in cooperative matrices, which not every API has: in every size, for checks of the sources.
pub fn cooperative() -> Vec<Shader> {
    CooperativeTile::all().flat_map(|tile| [cooperative_product(tile), raw_cooperative_product(tile)]).collect()
}

/// Every other shader that this backend can run, in every size and shape, for checks of the sources.
pub fn all() -> Vec<Shader> {
    let dots = [Dot::Packed, Dot::Plain];
    let all_dots = [Dot::Packed, Dot::Plain, Dot::Wide, Dot::Float, Dot::FloatChunks];
    let mut all = vec![keystream(), chunks(), parents(), stream(), completion_counter()];
    all.extend(dots.map(peak));
    all.extend(dots.map(sweep));
    for tile in ShaderTile::ALL {
        all.extend(all_dots.map(|dot| product(tile, dot)));
        all.push(raw_product(tile));
    }
    all.extend(expansions().flat_map(|(precision, format)| expand(precision, format)));
    for buffers in [1, 2, 7] {
        for (grouped, quads) in [(false, false), (false, true), (true, false), (true, true)] {
            all.push(probe(ProbeShape { buffers, grouped, quads }));
        }
    }
    all
}

impl ProductOutput {
    /// The name of a product's output, and the shader source that writes it.
    const fn name_and_source(self) -> (&'static str, &'static str) {
        match self {
            Self::Mixed => ("product", wgsl!("mix", "write_mixed")),
            Self::Raw => ("sums", wgsl!("write_raw")),
        }
    }
}

impl Dot {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Packed => "packed",
            Self::Plain => "plain",
            Self::Wide => "wide",
            Self::Float | Self::FloatChunks => "float",
            Self::Cooperative => "cooperative",
        }
    }

    const fn label(self) -> &'static str {
        match self {
            Self::FloatChunks => "float in chunks",
            _ => self.name(),
        }
    }

    /// Those that a device may have for a kind of work. The operands of FP4 would take twice the memory as floats, and
    /// those that come from a rule would be written twice.
    pub const fn of(precision: Precision) -> &'static [Self] {
        match precision {
            Precision::Fp4 | Precision::Field | Precision::Network => &[Self::Packed, Self::Plain],
            Precision::F16 => &[Self::Wide, Self::Float, Self::Cooperative],
            Precision::Int8 | Precision::Fp8 => &[Self::Packed, Self::Plain, Self::Cooperative],
        }
    }

    /// The variant for sums of `terms` terms.
    pub const fn for_terms(self, terms: u32) -> Self {
        match self {
            Self::Float if terms > CHUNK_TERMS => Self::FloatChunks,
            _ => self,
        }
    }

    /// Operands in a word of 32 bits.
    const fn terms_per_word(self) -> u32 {
        match self {
            Self::Packed | Self::Plain => 4,
            Self::Wide | Self::Float | Self::FloatChunks | Self::Cooperative => 2,
        }
    }

    const fn requires(self) -> &'static str {
        match self {
            Self::Packed => "requires packed_4x8_integer_dot_product;\n",
            Self::Cooperative => "enable f16;\nenable wgpu_cooperative_matrix;\n",
            Self::Plain | Self::Wide | Self::Float | Self::FloatChunks => "",
        }
    }

    const fn source(self) -> &'static str {
        match self {
            Self::Packed => wgsl!("sums_integer", "dot_packed"),
            Self::Plain => wgsl!("sums_integer", "dot_plain"),
            Self::Wide => wgsl!("sums_integer", "dot_wide"),
            Self::Float | Self::FloatChunks => wgsl!("sums_float", "dot_float"),
            Self::Cooperative => wgsl!("sums_float"),
        }
    }
}

fn shader(name: &str, source: &str) -> Shader {
    shader_with(name.to_owned(), &[], &[source])
}

/// Directives have to come before everything else.
fn shader_with(name: String, directives: &[&str], parts: &[&str]) -> Shader {
    let source = [directives.concat(), prelude(), parts.concat()].concat();
    Shader { name, source }
}

/// The constants that Rust and WGSL share.
fn prelude() -> String {
    let chunk_bytes = u32::try_from(tree::CHUNK_BYTES).expect("1024");
    let constants = [
        ("SLOT_FACTOR", product::SLOT_FACTOR),
        ("MIX_FIRST_FACTOR", product::FIRST_FACTOR),
        ("MIX_SHIFT", product::SHIFT),
        ("MIX_SECOND_FACTOR", product::SECOND_FACTOR),
        ("MIX_KEPT_SHIFT", product::KEPT_SHIFT),
        ("PROBE_FIRST_FACTOR", walk::FIRST_FACTOR),
        ("PROBE_SHIFT", walk::SHIFT),
        ("PROBE_SECOND_FACTOR", walk::SECOND_FACTOR),
        ("PROBE_TURN", walk::NEIGHBOUR_TURN),
        ("CHUNK_BYTES", chunk_bytes),
        ("KEYSTREAM_THREADS", KEYSTREAM_THREADS),
        ("TREE_THREADS", TREE_THREADS),
        ("PROBE_THREADS", PROBE_THREADS),
        ("SWEEP_THREADS", SWEEP_THREADS),
        ("EXPAND_THREADS", EXPAND_THREADS),
        ("PEAK_THREADS", PEAK_THREADS),
        ("STREAM_THREADS", STREAM_THREADS),
    ];
    constants.iter().map(|(name, value)| format!("const {name} = {value}u;\n")).collect()
}

/// A constant array.
fn array(name: &str, values: impl Iterator<Item = u32>) -> String {
    let values: Vec<_> = values.map(|value| format!("{value}u")).collect();
    format!("const {name} = array<u32, {}>({});\n", values.len(), values.join(", "))
}

/// The bindings of a probe's buffers and the functions that differ with their number, for `probe.wgsl`.
fn probe_buffers(shape: ProbeShape) -> String {
    let ProbeShape { buffers, grouped, quads } = shape;
    let mut text = format!("const BUFFERS = {buffers}u;\nconst GROUPED = {grouped};\n");
    let first_binding = if grouped { 3 } else { 2 };
    if grouped {
        text += "@group(0) @binding(2) var<storage, read_write> next: array<vec4<u32>>;\n";
    }
    for i in 0..buffers {
        let binding = first_binding + i;
        let _ = writeln!(text, "@group(0) @binding({binding}) var<storage, read_write> slots{i}: array<vec4<u32>>;");
    }
    let alone = buffers == 1 && !grouped;
    let buffer = if alone { "0u" } else { "piece / params.pieces_per_buffer" };
    let bound = if grouped { "buffer - params.first_buffer" } else { "buffer" };
    let kept = if grouped { "next" } else { "states" };
    let _ = writeln!(text, "fn buffer_of(piece: u32) -> u32 {{ return {buffer}; }}");
    let _ = writeln!(text, "fn bound_of(buffer: u32) -> u32 {{ return {bound}; }}");
    let _ = writeln!(text, "fn keep(i: u32, words: vec4<u32>) {{ {kept}[i] = words; }}");
    text + &line_at(buffers, quads)
}

/// The function that reads a line, or a lane's share of it, from the buffer that it lies in.
fn line_at(buffers: u32, quads: bool) -> String {
    let from = |i: u32| {
        if quads {
            format!("return slots{i}[place.at + lane];")
        } else {
            let words: Vec<String> = (0..4).map(|w| format!("slots{i}[place.at + {w}u]")).collect();
            format!("return Line({});", words.join(", "))
        }
    };
    let last = buffers - 1;
    let cases: String = (0..last).map(|i| format!("        case {i}u: {{ {} }}\n", from(i))).collect();
    let body = if buffers == 1 {
        format!("    {}\n", from(0))
    } else {
        format!("    switch place.buffer {{\n{cases}        default: {{ {} }}\n    }}\n", from(last))
    };
    let head = if quads { "place: Place, lane: u32) -> vec4<u32>" } else { "place: Place) -> Line" };
    format!("fn line_at({head} {{\n{body}}}\n")
}
