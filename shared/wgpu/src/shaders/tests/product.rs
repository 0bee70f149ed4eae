//! Products in every tile and both ways, whole and in pieces, against the formula element by element.

use std::ops::Range;

use super::*;
use assay_work::reference::product_row;

const LOWEST: u8 = 0x80;
const HIGHEST: u8 = 0x7f;

/// A product to compute.
struct Case {
    name: &'static str,
    n: u32,
    slot: u32,
    earlier: Vec<u8>,
    previous: Vec<u8>,
    /// Rows of a piece.
    rows: u32,
    /// Dispatches that a block is cut into.
    cuts: u32,
    expected: Vec<u8>,
}

impl Case {
    fn new(name: &'static str, n: u32, rows: u32, cuts: u32, earlier: Vec<u8>, previous: Vec<u8>) -> Self {
        let slot = 2 + 7919 * cuts;
        let mut expected = vec![0; (n * n) as usize];
        for (r, row) in (0..).zip(expected.chunks_exact_mut(n as usize)) {
            product_row(&earlier, &previous, n, slot, r, row);
        }
        Self { name, n, slot, earlier, previous, rows, cuts, expected }
    }

    fn piece<'a>(&self, slot: &'a [u8], piece: u32) -> &'a [u8] {
        let bytes = (self.rows * self.n) as usize;
        &slot[piece as usize * bytes..][..bytes]
    }
}

fn cases() -> &'static [Case] {
    static CASES: std::sync::OnceLock<Vec<Case>> = std::sync::OnceLock::new();
    CASES.get_or_init(|| {
        let random = |seed, n: usize| noise(seed, n * n);
        let all = |byte, n: usize| vec![byte; n * n];
        vec![
            Case::new("random", 256, 256, 1, random(1, 256), random(2, 256)),
            Case::new("squares of the lowest", 256, 256, 1, all(LOWEST, 256), all(LOWEST, 256)),
            Case::new("the lowest sums", 256, 128, 1, all(LOWEST, 256), all(HIGHEST, 256)),
            Case::new("a slot by itself, in pieces", 512, 128, 2, random(3, 512), random(3, 512)),
            Case::new("lowest by random, in pieces", 512, 256, 3, all(LOWEST, 512), random(4, 512)),
        ]
    })
}

/// Tiles `of` of a block: copies them from what the product should be.
fn expect_tiles(
    case: &Case,
    tile: ShaderTile,
    (row_piece, column_piece): (u32, u32),
    of: Range<u32>,
    written: &mut [u8],
) {
    let (n, side) = (case.n as usize, tile.side as usize);
    let across = case.rows / tile.side;
    for t in of {
        let row0 = (t / across) as usize * side;
        let column = (column_piece * case.rows) as usize + (t % across) as usize * side;
        for row in row0..row0 + side {
            let global = (row_piece * case.rows) as usize + row;
            written[row * n + column..][..side].copy_from_slice(&case.expected[global * n + column..][..side]);
        }
    }
}

/// Computes one block, and compares after every dispatch what is written so far and what is not.
fn check_block(
    kernel: &Kernel<'_>,
    tile: ShaderTile,
    case: &Case,
    block: (u32, u32),
    written: &mut Vec<u8>,
) -> Checked {
    let across = case.rows / tile.side;
    let tiles = across * across;
    let each = tiles.div_ceil(case.cuts);
    let mut earlier = case.piece(&case.earlier, block.0).to_vec();
    let mut previous = case.piece(&case.previous, block.1).to_vec();
    for first_tile in (0..tiles).step_by(each as usize) {
        let end = tiles.min(first_tile + each);
        let (row0, column0) = (block.0 * case.rows, block.1 * case.rows);
        let params = ProductParams { n: case.n, tiles_across: across, first_tile, row0, column0, slot: case.slot };
        let mut expected = written.clone();
        expect_tiles(case, tile, block, first_tile..end, &mut expected);
        kernel.run(params.words(), &mut [&mut earlier, &mut previous, written], end - first_tile)?;
        same(&format!("{}: {params:?}", case.name), written, &expected)?;
    }
    same(case.name, &earlier, case.piece(&case.earlier, block.0))?;
    same(case.name, &previous, case.piece(&case.previous, block.1))
}

pub(super) fn check_product(tile: ShaderTile, shader: &Shader, checked: bool) -> Checked {
    let kernel = gpu().compile(shader, 3, checked)?;
    for case in cases() {
        let pieces = case.n / case.rows;
        for row_piece in 0..pieces {
            let mut written = vec![POISON; (case.rows * case.n) as usize];
            for column_piece in 0..pieces {
                check_block(&kernel, tile, case, (row_piece, column_piece), &mut written)?;
            }
            same(case.name, &written, case.piece(&case.expected, row_piece))?;
        }
    }
    Ok(())
}

#[test]
fn packed_products_are_exact_in_every_tile() {
    for tile in ShaderTile::ALL {
        check_product(tile, &product(tile, Dot::Packed), false).unwrap();
    }
}

#[test]
fn plain_products_are_exact_in_every_tile() {
    for tile in ShaderTile::ALL {
        check_product(tile, &product(tile, Dot::Plain), false).unwrap();
    }
}
