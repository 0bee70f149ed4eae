//! Operands written out, against the table of WORK.md byte by byte.

use super::*;
use assay_device::accumulator::OperandFormat;

/// The operands of a slot's bytes as products that multiply this way read them.
pub(super) fn operands_of(precision: Precision, dot: Dot, slot: &[u8]) -> Vec<u8> {
    format(precision, dot).map_or_else(|| slot.to_vec(), |format| operands_in(precision, format, slot))
}

fn operands_in(precision: Precision, format: Format, slot: &[u8]) -> Vec<u8> {
    let count = precision.terms_per_byte() as usize;
    let integers = slot.iter().flat_map(|&byte| precision.table()[usize::from(byte)].into_iter().take(count));
    match format {
        Format::Int8 => integers.map(|integer| integer as i8 as u8).collect(),
        Format::Int16 => integers.flat_map(i16::to_le_bytes).collect(),
        Format::F16 => half_floats(&integers.collect::<Vec<_>>()),
    }
}

pub(super) fn half_floats(integers: &[i16]) -> Vec<u8> {
    let code = |integer: &i16| OperandFormat::F16.code((*integer).into(), 0).expect("a half float holds it");
    integers.iter().flat_map(|integer| code(integer).to_le_bytes()).collect()
}

pub(super) fn check_expand(precision: Precision, format: Format, shader: &Shader, checked: bool) -> Checked {
    let kernel = gpu().compile(shader, 2, checked)?;
    let every_byte: Vec<u8> = (0..=255).collect();
    let slot = [every_byte, noise(5, 2048)].concat();
    let operand_bytes = operands_in(precision, format, &slot).len() / slot.len();
    for (at, vectors) in [(0, 144), (0, 1), (16, 64), (3, 65), (143, 1)] {
        let mut read = slot.clone();
        let mut found = vec![POISON; slot.len() * operand_bytes];
        let mut expected = found.clone();
        let bytes = at as usize * 16 * operand_bytes..(at + vectors) as usize * 16 * operand_bytes;
        expected[bytes.clone()].copy_from_slice(&operands_in(precision, format, &slot)[bytes]);
        let params = ExpandParams { at, vectors };
        kernel.run(params.words(), &mut [&mut read, &mut found], vectors.div_ceil(EXPAND_THREADS))?;
        same(&format!("{precision} as {format:?}, {params:?}"), &found, &expected)?;
        same("the slot", &read, &slot)?;
    }
    Ok(())
}

#[test]
fn operands_are_those_of_the_specification() {
    let of_bytes = || expansions().filter(|(precision, _)| rule_side(*precision).is_none());
    for (precision, format) in of_bytes() {
        check_expand(precision, format, &expand(precision, format)[0], false).unwrap();
    }
    assert_eq!((of_bytes().count(), expansions().count()), (6, 8));
}
