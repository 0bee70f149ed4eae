//! Every kernel of this processor against the formula, tile by tile.

use super::*;
use crate::mix::mix;

#[test]
fn names_read_back() {
    for kind in [KernelKind::Auto].into_iter().chain(KernelKind::ALL) {
        assert_eq!(kind.to_string().parse(), Ok(kind));
    }
    assert_eq!("sse9".parse::<KernelKind>(), Err(UnknownKernel("sse9".into())));
}

#[test]
fn auto_is_the_fastest_that_runs_here() {
    let auto = KernelKind::Auto.kernel().unwrap().kind;
    assert_eq!(Some(auto), KernelKind::available().next());
    assert!(KernelKind::Portable.is_available());
}

/// Bytes aligned as the panels must be.
#[repr(align(64))]
#[derive(Clone, Copy)]
struct Line(#[allow(dead_code)] [u8; 64]); // read through pointers only

fn lines(bytes: usize) -> Vec<Line> {
    vec![Line([0xA5; 64]); bytes.div_ceil(64)]
}

fn random(bytes: usize, mut seed: u64) -> Vec<u8> {
    let mut next = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed >> 32) as u8
    };
    (0..bytes).map(|_| next()).collect()
}

/// One tile by the kernel, next to the formula.
fn check(kernel: &Kernel, rows: usize, length: usize, x: &[u8], y: &[u8]) {
    let (first_column, stride) = (96_u32, 2 * kernel.columns);
    let mut x_panel = lines(rows * length * kernel.x_bytes);
    let mut y_panel = lines(kernel.columns * length);
    let mut bias = vec![0_u32; rows];
    let mut out = vec![0x5A_u8; rows * stride];
    let start = |row: usize| 0xFFFF_F000_u32.wrapping_add(row as u32 * 0x1357_9BDF);
    // SAFETY: operands, panels, biases and result have the sizes that the fields ask for.
    unsafe {
        (kernel.pack_x)(&PackX {
            source: x.as_ptr(),
            stride: length,
            rows,
            length,
            panel: x_panel.as_mut_ptr().cast(),
            corrections: bias.as_mut_ptr(),
        });
        (kernel.pack_y)(&PackY { source: y.as_ptr(), stride: length, length, panel: y_panel.as_mut_ptr().cast() });
        for (row, bias) in bias.iter_mut().enumerate() {
            *bias = bias.wrapping_add(start(row));
        }
        (kernel.tile)(&Tile {
            rows,
            length,
            x: x_panel.as_ptr().cast(),
            y: y_panel.as_ptr().cast(),
            next_y: y_panel.as_ptr().cast(),
            row_bias: bias.as_ptr(),
            first_column,
            out: out.as_mut_ptr(),
            stride,
        });
    }
    for (r, line) in out.chunks(stride).enumerate() {
        let (tile, beyond) = line.split_at(kernel.columns);
        for (c, &element) in tile.iter().enumerate() {
            let pairs = x[r * length..][..length].iter().zip(&y[c * length..][..length]);
            let sum: i32 = pairs.map(|(&a, &b)| i32::from(a as i8) * i32::from(b as i8)).sum();
            let expected = mix((sum as u32).wrapping_add(start(r)).wrapping_add(first_column + c as u32));
            assert_eq!(element, expected, "{}, {rows} rows of {length}: row {r}, column {c}", kernel.kind);
        }
        assert!(beyond.iter().all(|&b| b == 0x5A), "{} wrote beyond its tile", kernel.kind);
    }
}

/// How many rows a tile can have: the whole, and what is left of the row blocks.
fn tile_heights(kernel: &Kernel) -> impl Iterator<Item = usize> {
    let rest = [1, 2, 3].map(|groups| groups * ROW_GROUP % kernel.rows);
    [kernel.rows].into_iter().chain(rest).filter(|&rows| rows > 0)
}

fn kernels() -> impl Iterator<Item = &'static Kernel> {
    KernelKind::available().filter_map(KernelKind::kernel)
}

#[test]
fn every_kernel_computes_random_tiles() {
    for kernel in kernels() {
        for rows in tile_heights(kernel) {
            for length in [64, 256, 1024] {
                let x = random(rows * length, 3 + length as u64);
                let y = random(kernel.columns * length, 5 + rows as u64);
                check(kernel, rows, length, &x, &y);
            }
        }
    }
}

/// The largest sums that there are: no kernel may saturate or overflow on the way.
#[test]
fn every_kernel_computes_the_extremes() {
    let length = 32768;
    for kernel in kernels() {
        for (a, b) in [(0x80, 0x80), (0x80, 0x7F), (0x7F, 0x7F), (0x7F, 0x80), (0, 0x80), (0xFF, 0x80)] {
            check(kernel, kernel.rows, length, &vec![a; kernel.rows * length], &vec![b; kernel.columns * length]);
        }
    }
}
