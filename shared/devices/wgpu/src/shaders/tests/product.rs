//! Products in every tile and both ways, whole and in pieces, against the formula element by element.

use std::ops::Range;

use super::expand::{half_floats, operands_of};
use super::*;
use assay_work::rule::SlotRule;
use assay_work::rule::product_rows;

const LOWEST: u8 = 0x80;
const HIGHEST: u8 = 0x7f;

/// A byte whose F16 operand is odd and large: the sum of 512 of its squares is beyond FP32's exact integers.
const ODD: u8 = 0x7E;
/// Terms of a chunk of float sums here, so that a small product has several.
const CHUNK: u32 = 256;

struct Case {
    name: &'static str,
    n: u32,
    slot: u32,
    /// The operands, rows of `depth` bytes.
    earlier: Vec<u8>,
    previous: Vec<u8>,
    depth: u32,
    rows: u32,
    /// Dispatches that a block is cut into.
    cuts: u32,
    expected: Vec<u8>,
}

impl Case {
    fn new(
        (precision, dot): (Precision, Dot),
        name: &'static str,
        (n, rows, cuts): (u32, u32, u32),
        earlier: Vec<u8>,
        previous: Vec<u8>,
    ) -> Self {
        let slot = 2 + 7919 * cuts;
        let mut expected = vec![0; (n * n) as usize];
        product_rows(
            &SlotRule::new(precision, &assay_work::PassKey([0; 32]), n, slot),
            (&earlier, &previous),
            0,
            &mut expected,
        );
        let [earlier, previous] = [earlier, previous].map(|slot| operands_of(precision, dot, &slot));
        let depth = n * expansion(precision, dot).unwrap_or(1);
        Self { name, n, slot, earlier, previous, depth, rows, cuts, expected }
    }

    fn piece<'a>(&self, slot: &'a [u8], piece: u32) -> &'a [u8] {
        rows_of(slot, self.rows * self.n, piece)
    }

    fn operands<'a>(&self, operands: &'a [u8], piece: u32) -> &'a [u8] {
        rows_of(operands, self.rows * self.depth, piece)
    }
}

fn rows_of(rows: &[u8], bytes: u32, piece: u32) -> &[u8] {
    &rows[(piece * bytes) as usize..][..bytes as usize]
}

/// The cases for products that multiply this way; the same for all that read operands in one format.
fn cases(precision: Precision, dot: Dot) -> &'static [Case] {
    static CASES: [[std::sync::OnceLock<Vec<Case>>; 4]; 2] = [const { [const { std::sync::OnceLock::new() }; 4] }; 2];
    CASES[usize::from(dot == Dot::Cooperative)][precision as usize].get_or_init(|| {
        let random = |seed, n: usize| noise(seed, n * n);
        let all = |byte, n: usize| vec![byte; n * n];
        let case = |name, shape, earlier, previous| Case::new((precision, dot), name, shape, earlier, previous);
        vec![
            case("random", (256, 256, 1), random(1, 256), random(2, 256)),
            case("squares of the lowest", (256, 256, 1), all(LOWEST, 256), all(LOWEST, 256)),
            case("the lowest sums", (256, 128, 1), all(LOWEST, 256), all(HIGHEST, 256)),
            case("a slot by itself, in pieces", (512, 128, 2), random(3, 512), random(3, 512)),
            case("lowest by random, in pieces", (512, 256, 3), all(LOWEST, 512), random(4, 512)),
        ]
    })
}

/// A sum that FP32 holds in chunks alone.
fn long_case(dot: Dot) -> Case {
    let odd = || vec![ODD; 512 * 512];
    Case::new((Precision::F16, dot), "sums beyond a chunk", (512, 512, 1), odd(), odd())
}

/// Tiles `of` of a block: copies them from the expected product.
fn expect_tiles(case: &Case, side: u32, (row_piece, column_piece): (u32, u32), of: Range<u32>, written: &mut [u8]) {
    let across = case.rows / side;
    let (n, side) = (case.n as usize, side as usize);
    for t in of {
        let row0 = (t / across) as usize * side;
        let column = (column_piece * case.rows) as usize + (t % across) as usize * side;
        for row in row0..row0 + side {
            let global = (row_piece * case.rows) as usize + row;
            written[row * n + column..][..side].copy_from_slice(&case.expected[global * n + column..][..side]);
        }
    }
}

/// Computes one block, and compares the written and the unwritten parts after every dispatch.
fn check_block(kernel: &Kernel<'_>, side: u32, case: &Case, block: (u32, u32), written: &mut Vec<u8>) -> Checked {
    let across = case.rows / side;
    let tiles = across * across;
    let each = tiles.div_ceil(case.cuts);
    let mut earlier = case.operands(&case.earlier, block.0).to_vec();
    let mut previous = case.operands(&case.previous, block.1).to_vec();
    for first_tile in (0..tiles).step_by(each as usize) {
        let end = tiles.min(first_tile + each);
        let (row0, column0) = (block.0 * case.rows, block.1 * case.rows);
        let Case { n, slot, depth, .. } = *case;
        let params = ProductParams { n, tiles_across: across, first_tile, row0, column0, slot, depth };
        let mut expected = written.clone();
        expect_tiles(case, side, block, first_tile..end, &mut expected);
        kernel.run(params.words(), &mut [&mut earlier, &mut previous, written], end - first_tile)?;
        same(&format!("{}: {params:?}", case.name), written, &expected)?;
    }
    same(case.name, &earlier, case.operands(&case.earlier, block.0))?;
    same(case.name, &previous, case.operands(&case.previous, block.1))
}

fn check_cases<'a>(kernel: &Kernel<'_>, side: u32, cases: impl IntoIterator<Item = &'a Case>) -> Checked {
    for case in cases {
        let pieces = case.n / case.rows;
        for row_piece in 0..pieces {
            let mut written = vec![POISON; (case.rows * case.n) as usize];
            for column_piece in 0..pieces {
                check_block(kernel, side, case, (row_piece, column_piece), &mut written)?;
            }
            same(case.name, &written, case.piece(&case.expected, row_piece))?;
        }
    }
    Ok(())
}

pub(super) fn check_product(precision: Precision, tile: ShaderTile, shader: &Shader, checked: bool) -> Checked {
    check_cases(&gpu().compile(shader, 3, checked)?, tile.side, cases(precision, Dot::of(precision)[0]))
}

/// Float sums in chunks that a small product has several of.
pub(super) fn in_chunks(tile: ShaderTile) -> Shader {
    product_with(tile, Dot::FloatChunks, CHUNK, ProductOutput::Mixed)
}

pub(super) fn check_in_chunks(tile: ShaderTile, shader: &Shader, checked: bool) -> Checked {
    let kernel = gpu().compile(shader, 3, checked)?;
    check_cases(&kernel, tile.side, cases(Precision::F16, Dot::Float).iter().chain([&long_case(Dot::Float)]))
}

/// The bits of float sums, of rows of another length than the matrix has.
pub(super) fn check_raw(tile: ShaderTile, shader: &Shader, checked: bool) -> Checked {
    let operands = |row: &[i16]| row.iter().copied().flat_map(i16::to_le_bytes).collect();
    check_sums(&gpu().compile(shader, 3, checked)?, tile.side, operands)
}

/// The bits of sums of operands that `operands` writes.
fn check_sums(kernel: &Kernel<'_>, side: u32, operands: impl Fn(&[i16]) -> Vec<u8>) -> Checked {
    let (n, terms) = (256_u32, 512_usize);
    let integers = |seed| noise(seed, n as usize * terms).into_iter().map(|byte| i16::from(byte as i8));
    let rows = [integers(8), integers(9)].map(Iterator::collect::<Vec<i16>>);
    let mut expected = Vec::new();
    for left in rows[0].chunks(terms) {
        for right in rows[1].chunks(terms) {
            let sum: i32 = left.iter().zip(right).map(|(&a, &b)| i32::from(a) * i32::from(b)).sum();
            expected.extend((sum as f32).to_le_bytes());
        }
    }
    let [mut left, mut right] = rows.map(|row| operands(&row));
    let mut written = vec![POISON; (n * n * 4) as usize];
    let across = n / side;
    let depth = 2 * terms as u32;
    let params = ProductParams { n, tiles_across: across, first_tile: 0, row0: 0, column0: 0, slot: 0, depth };
    kernel.run(params.words(), &mut [&mut left, &mut right, &mut written], across * across)?;
    same("float sums", &written, &expected)
}

#[test]
fn packed_products_are_exact_in_every_tile() {
    for tile in ShaderTile::ALL {
        check_product(Precision::Int8, tile, &product(tile, Dot::Packed), false).unwrap();
    }
}

#[test]
fn plain_products_are_exact_in_every_tile() {
    for tile in ShaderTile::ALL {
        check_product(Precision::Int8, tile, &product(tile, Dot::Plain), false).unwrap();
    }
}

/// The same shaders over operands that were written out, with rows of n and of 2n bytes.
#[test]
fn products_of_bytes_written_out_are_exact() {
    for precision in [Precision::Fp8, Precision::Fp4] {
        for (tile, dot) in ShaderTile::ALL.into_iter().zip([Dot::Packed, Dot::Plain].into_iter().cycle()) {
            check_product(precision, tile, &product(tile, dot), false).unwrap();
        }
    }
}

#[test]
fn wide_products_are_exact_in_every_tile() {
    for tile in ShaderTile::ALL {
        check_product(Precision::F16, tile, &product(tile, Dot::Wide), false).unwrap();
    }
}

/// Sums within a chunk, in one and in several; and their own bits.
#[test]
fn float_products_are_exact_in_every_tile() {
    for tile in ShaderTile::ALL {
        check_product(Precision::F16, tile, &product(tile, Dot::Float), false).unwrap();
        check_in_chunks(tile, &in_chunks(tile), false).unwrap();
        check_raw(tile, &raw_product(tile), false).unwrap();
    }
}

/// Cooperative matrices of the size that the adapter has, in every number of regions.
fn cooperative_tiles() -> impl Iterator<Item = CooperativeTile> {
    let tile = gpu().cooperative.expect("an adapter with cooperative matrices of half floats and FP32 sums");
    CooperativeTile::all().filter(move |other| other.cell == tile.cell && other.regions >= tile.regions)
}

pub(super) fn check_cooperative(precision: Precision, shader: &Shader, checked: bool) -> Checked {
    let kernel = gpu().compile(shader, 3, checked)?;
    check_cases(&kernel, CooperativeTile::SIDE, cases(precision, Dot::Cooperative))
}

/// Sums in chunks that a small product has several of.
pub(super) fn cooperative_in_chunks(tile: CooperativeTile) -> Shader {
    cooperative_product_with(tile, CHUNK, ProductOutput::Mixed)
}

pub(super) fn check_cooperative_in_chunks(shader: &Shader, checked: bool) -> Checked {
    let kernel = gpu().compile(shader, 3, checked)?;
    let (cases, long) = (cases(Precision::F16, Dot::Cooperative), long_case(Dot::Cooperative));
    check_cases(&kernel, CooperativeTile::SIDE, cases.iter().chain([&long]))
}

pub(super) fn check_raw_cooperative(shader: &Shader, checked: bool) -> Checked {
    check_sums(&gpu().compile(shader, 3, checked)?, CooperativeTile::SIDE, half_floats)
}

#[test]
#[ignore = "needs a driver with cooperative matrices: scripts/check-cooperative"]
fn products_in_cooperative_matrices_are_exact_in_every_tile() {
    for tile in cooperative_tiles() {
        for precision in [Precision::Int8, Precision::F16, Precision::Fp8] {
            check_cooperative(precision, &cooperative_product(tile), false).unwrap();
        }
        check_cooperative_in_chunks(&cooperative_in_chunks(tile), false).unwrap();
        check_raw_cooperative(&raw_cooperative_product(tile), false).unwrap();
    }
}

/// Why there are chunks: without them, FP32 loses the sum's last bits.
#[test]
fn a_sum_beyond_a_chunk_is_wrong_in_one() {
    let tile = ShaderTile::ALL[0];
    let kernel = gpu().compile(&product(tile, Dot::Float), 3, false).unwrap();
    assert!(check_cases(&kernel, tile.side, [&long_case(Dot::Float)]).is_err());
}

/// A long sum gets chunks; no longer one than the specification allows is without.
#[test]
fn the_chunk_is_the_specifications() {
    let of = |n| Dot::Float.for_terms(Precision::F16.terms(n));
    assert_eq!([4096, 8192, 16_384, 32_768].map(of), [Dot::Float, Dot::Float, Dot::FloatChunks, Dot::FloatChunks]);
    assert_eq!(Dot::Wide.for_terms(32_768), Dot::Wide);
    let source = product(ShaderTile::ALL[0], Dot::FloatChunks).source;
    assert!(source.contains("const DRAINS = true;\nconst CHUNK_WORDS = 4096u;"), "{source}");
}
