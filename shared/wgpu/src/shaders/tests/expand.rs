//! Operands written out, against the table of WORK.md byte by byte.

use super::*;

/// The operands of a slot's bytes as products read them: signed bytes, or 16-bit integers for F16.
pub(super) fn operands_of(precision: Precision, slot: &[u8]) -> Vec<u8> {
    let count = precision.terms_per_byte() as usize;
    let integers = slot.iter().flat_map(|&byte| precision.table()[usize::from(byte)].into_iter().take(count));
    match precision {
        Precision::Int8 => slot.to_vec(),
        Precision::F16 => integers.flat_map(i16::to_le_bytes).collect(),
        Precision::Fp8 | Precision::Fp4 => integers.map(|integer| integer as i8 as u8).collect(),
    }
}

pub(super) fn check_expand(precision: Precision, shader: &Shader, checked: bool) -> Checked {
    let kernel = gpu().compile(shader, 2, checked)?;
    let every_byte: Vec<u8> = (0..=255).collect();
    let slot = [every_byte, noise(5, 2048)].concat();
    let operand_bytes = expansion(precision).unwrap() as usize;
    for (at, vectors) in [(0, 144), (0, 1), (16, 64), (3, 65), (143, 1)] {
        let mut read = slot.clone();
        let mut found = vec![POISON; slot.len() * operand_bytes];
        let mut expected = found.clone();
        let bytes = at as usize * 16 * operand_bytes..(at + vectors) as usize * 16 * operand_bytes;
        expected[bytes.clone()].copy_from_slice(&operands_of(precision, &slot)[bytes]);
        let params = ExpandParams { at, vectors };
        kernel.run(params.words(), &mut [&mut read, &mut found], vectors.div_ceil(EXPAND_THREADS))?;
        same(&format!("{precision}, {params:?}"), &found, &expected)?;
        same("the slot", &read, &slot)?;
    }
    Ok(())
}

#[test]
fn operands_are_those_of_the_specification() {
    for precision in Precision::ALL {
        match expand(precision) {
            Some(shader) => check_expand(precision, &shader, false).unwrap(),
            None => assert_eq!((precision, expansion(precision)), (Precision::Int8, None)),
        }
    }
}
