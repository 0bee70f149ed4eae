//! The cut of a product in cooperative matrices, and the text that sums a subgroup's region.

use std::fmt::Write;

use ::wgpu::{Backend, CooperativeMatrixProperties, CooperativeScalarType, Limits};

/// Elements along a side of the tile of a workgroup.
const SIDE: u32 = 64;
/// Invocations of a workgroup.
const THREADS: u32 = 128;

/// The size of an adapter's smallest subgroup. Metal's say 4 of every GPU; those that multiply matrices have 32.
pub(in super::super) fn smallest_subgroup(backend: Backend, reported: u32) -> u32 {
    if backend == Backend::Metal { 32 } else { reported }
}

/// A tile of [`CooperativeTile::SIDE`] by as many elements, a region of it for each subgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct CooperativeTile {
    /// Elements along a side of a cooperative matrix: 8 or 16.
    pub cell: u32,
    /// Regions of the tile: as many as the workgroup has subgroups of the smallest size.
    pub regions: u32,
}

impl CooperativeTile {
    /// Elements along a side of the tile.
    pub const SIDE: u32 = SIDE;

    /// Every one, for checks of the sources.
    pub fn all() -> impl Iterator<Item = Self> {
        let of_cell = |cell| (0..=7).map(move |log2| Self { cell, regions: 1 << log2 }).filter(|tile| tile.is_whole());
        [8, 16].into_iter().flat_map(of_cell)
    }

    /// The tile for an adapter: its largest matrices of F16 with FP32 sums, and regions for subgroups of its smallest
    /// size. `None` where it has no such matrices, or not the room.
    pub fn choose(limits: &Limits, properties: &[CooperativeMatrixProperties], subgroup_size: u32) -> Option<Self> {
        let fits = 4 * SIDE * SIDE <= limits.max_compute_workgroup_storage_size
            && THREADS <= limits.max_compute_invocations_per_workgroup
            && THREADS <= limits.max_compute_workgroup_size_x;
        let is_usable = |held: &&CooperativeMatrixProperties| {
            held.ab_type == CooperativeScalarType::F16
                && held.cr_type == CooperativeScalarType::F32
                && !held.saturating_accumulation
                && [held.n_size, held.k_size] == [held.m_size; 2]
        };
        let regions =
            subgroup_size.is_power_of_two().then(|| THREADS / subgroup_size).filter(|regions| *regions > 0)?;
        let tiles = properties.iter().filter(is_usable).map(|held| Self { cell: held.m_size, regions });
        tiles.filter(|tile| fits && tile.is_whole()).max_by_key(|tile| tile.cell)
    }

    /// Rows and columns of a region.
    const fn region(self) -> [u32; 2] {
        let across = 1 << (self.regions.ilog2() / 2);
        [SIDE * across / self.regions, SIDE / across]
    }

    fn is_whole(self) -> bool {
        matches!(self.cell, 8 | 16) && self.region().into_iter().all(|side| side >= self.cell)
    }

    /// A name that is its own.
    pub fn label(self) -> String {
        let [rows, columns] = self.region();
        format!("{SIDE}x{SIDE} by {rows}x{columns} in matrices of {}", self.cell)
    }

    /// Its constants, and `sum_region`.
    pub fn source(self, chunk_terms: u32) -> String {
        let Self { cell, regions } = self;
        let [rows, columns] = self.region();
        let mut text = format!(
            "const SIDE = {SIDE}u;\nconst THREADS = {THREADS}u;\nconst REGIONS = {regions}u;\n\
             const REGIONS_ACROSS = {}u;\nconst REGION_ROWS = {rows}u;\nconst REGION_COLUMNS = {columns}u;\n\
             const CHUNK_TERMS = {chunk_terms}u;\n{BINDINGS}",
            SIDE / columns
        );
        let (down, across) = (rows / cell, columns / cell);
        let each = || (0..down).flat_map(|i| (0..across).map(move |j| (i, j)));
        let matrix = |scalar: &str, role: char| format!("coop_mat{cell}x{cell}<{scalar}, {role}>");
        let (a, b, c) = (matrix("f16", 'A'), matrix("f16", 'B'), matrix("f32", 'C'));
        let mut line = |words: std::fmt::Arguments<'_>| {
            let _ = writeln!(text, "{words}");
        };
        line(format_args!("// Adds {rows} x {columns} sums of so many terms to those from `at` on."));
        line(format_args!("fn sum_region(at: u32, left: u32, right: u32, terms: u32, pitch: u32) {{"));
        each().for_each(|(i, j)| {
            line(format_args!("    let at{i}_{j} = at + {}u;", cell * (i * SIDE + j)));
            line(format_args!("    var sum{i}_{j} = coopLoadT<{c}>(&tile_sums[at{i}_{j}], SIDE);"));
        });
        line(format_args!("    for (var k = 0u; k < terms; k += {cell}u) {{"));
        (0..down).for_each(|i| {
            let from = format!("left + {}u * pitch + k", cell * i);
            line(format_args!("        let row{i} = coopLoadT<{a}>(&earlier[{from}], pitch);"));
        });
        (0..across).for_each(|j| {
            let from = format!("right + {}u * pitch + k", cell * j);
            line(format_args!("        let column{j} = coopLoad<{b}>(&previous[{from}], pitch);"));
        });
        each().for_each(|(i, j)| {
            line(format_args!("        sum{i}_{j} = coopMultiplyAdd(row{i}, column{j}, sum{i}_{j});"));
        });
        line(format_args!("    }}"));
        each().for_each(|(i, j)| line(format_args!("    coopStoreT(sum{i}_{j}, &tile_sums[at{i}_{j}], SIDE);")));
        line(format_args!("}}"));
        text
    }
}

const BINDINGS: &str = "\
@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> earlier: array<f16>;
@group(0) @binding(2) var<storage, read_write> previous: array<f16>;
@group(0) @binding(3) var<storage, read_write> written: array<u32>;

var<workgroup> tile_sums: array<f32, SIDE * SIDE>;

";
