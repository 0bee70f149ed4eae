//! The sums of a sweep, against those of the specification in Rust.

use super::*;
use assay_work::probe::row_sum;

/// Rows of random bytes, of the lowest, of the highest, and of zeros but for the last byte; under random weights, and under
/// the lowest.
pub(super) fn check_sweep(shader: &Shader, checked: bool) -> Checked {
    let kernel = gpu().compile(shader, 3, checked)?;
    for (n, workgroups) in [(256_u32, 5), (512, 2), (1024, 3), (2048, 1), (32_768, 1)] {
        let (rows, first_row, first_sum) = (workgroups * SWEEP_ROWS, n / 256 % 7, 4 * (n / 256 % 3));
        let width = n as usize;
        let mut slots = noise(n.into(), (rows + first_row) as usize * width);
        let (_, own) = slots.split_at_mut(first_row as usize * width);
        own[..width].fill(0x80);
        own[width..2 * width].fill(0x7F);
        own[2 * width..3 * width].fill(0);
        own[3 * width - 1] = 0xFF;
        for mut weights in [noise(1, width), vec![0x80; width]] {
            let mut found = vec![POISON; 4 * (first_sum + rows + 20) as usize];
            let mut expected = found.clone();
            let sums =
                slots.chunks_exact(width).skip(first_row as usize).map(|row| row_sum(row, &weights).to_le_bytes());
            let written = expected[4 * first_sum as usize..].chunks_exact_mut(4);
            written.zip(sums).for_each(|(to, sum)| to.copy_from_slice(&sum));
            let params = SweepParams { row_vectors: n / 16, first_row, first_sum };
            let given = slots.clone();
            kernel.run(params.words(), &mut [&mut slots, &mut weights, &mut found], workgroups)?;
            same(&format!("{params:?}"), &found, &expected)?;
            same("slots", &slots, &given)?;
            // Rows of nothing, for the zeros behind sums.
            expected[4 * first_sum as usize..][..4 * rows as usize].fill(0);
            let nothing = SweepParams { row_vectors: 0, ..params };
            kernel.run(nothing.words(), &mut [&mut slots, &mut weights, &mut found], workgroups)?;
            same(&format!("{nothing:?}"), &found, &expected)?;
        }
    }
    Ok(())
}

#[test]
fn sums_are_those_of_the_rows() {
    for dot in [Dot::Packed, Dot::Plain] {
        check_sweep(&sweep(dot), false).unwrap();
    }
}
