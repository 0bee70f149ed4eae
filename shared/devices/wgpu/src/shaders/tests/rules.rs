//! Operands by rules, whole and in pieces, against [`SlotRule`].

use super::*;
use assay_work::PassKey;
use assay_work::rule::SlotRule;

const KEY: PassKey = PassKey([7; 32]);
/// Q, the order of the field.
const ORDER: [u64; 4] = [0x43E1_F593_F000_0001, 0x2833_E848_79B9_7091, 0xB850_45B6_8181_585D, 0x3064_4E72_E131_A029];
/// Slots of this size are not made whole.
const LARGE: u32 = 32_768;
/// A slot of each kind of rule: a network's convolution, attention and noise, and a number that fills its limbs.
pub(super) const RULES: [(Precision, u32); 4] =
    [(Precision::Network, 3), (Precision::Network, 4), (Precision::Network, 5), (Precision::Field, 0xA_5A5A)];

/// Operands from row `row0` on, of a slot in pieces of `slot_rows`.
#[derive(Clone, Copy, Debug)]
struct Case {
    n: u32,
    rows: u32,
    slot_rows: u32,
    row0: u32,
}

const fn case(n: u32, rows: u32, slot_rows: u32, row0: u32) -> Case {
    Case { n, rows, slot_rows, row0 }
}

/// Whole; the last rows of the last piece, which wrap into the first one; a piece amid others; rows that wrap within a
/// piece; the last rows of all.
const CASES: [Case; 5] = [
    case(256, 256, 256, 0),
    case(512, 64, 128, 448),
    case(512, 128, 128, 128),
    case(1024, 64, 1024, 960),
    case(LARGE, 64, 64, LARGE - 64),
];

impl Case {
    const fn slot_row0(&self) -> u32 {
        self.row0 / self.slot_rows * self.slot_rows
    }

    /// Row `row` of the matrix: of no pattern, but for rows of -1, of one peak, and of numbers about Q.
    fn row(&self, row: u32) -> Vec<u8> {
        let mut bytes = noise(u64::from(row) << 16 | u64::from(self.n), self.n as usize);
        match row % 8 {
            1 => bytes.fill(0xff),
            2 => {
                bytes.fill(0x80);
                bytes[self.n as usize / 3] = 0x7f;
            }
            3 => bytes.as_chunks_mut().0.iter_mut().zip(0..).for_each(|(group, i)| *group = about_order(i)),
            _ => {}
        }
        bytes
    }

    /// The rows of a slot that are there, and the first one's number.
    fn slot(&self) -> (Vec<u8>, u32) {
        let rows = if self.n == LARGE { self.slot_row0()..self.slot_row0() + self.slot_rows } else { 0..self.n };
        (rows.clone().flat_map(|row| self.row(row)).collect(), rows.start)
    }

    fn operands(&self, rule: &SlotRule, (slot, first): (&[u8], u32), row: u32) -> Vec<u8> {
        let bytes = &slot[((row - first) * self.n) as usize..][..self.n as usize];
        match (rule.tensor(), rule.keeps_x()) {
            (Some(_), _) => rule.x_of_slot(slot, row).into_owned(),
            (None, false) => rule.x(bytes, row).into_owned(),
            (None, true) => rule.y(bytes, row).into_owned(),
        }
    }
}

/// Q and its neighbours, in turn.
fn about_order(i: u64) -> [u8; 32] {
    let [low, others @ ..] = ORDER;
    let limbs = [low + i % 3 - 1, others[0], others[1], others[2]];
    limbs.map(u64::to_le_bytes).as_flattened().try_into().unwrap()
}

pub(super) fn check_rule((precision, u): (Precision, u32), shader: &Shader, checked: bool) -> Checked {
    let kernel = gpu().compile(shader, 3, checked)?;
    for case in CASES {
        let rule = SlotRule::new(precision, &KEY, case.n, u);
        if case.n < LARGE || rule.tensor().is_none() {
            check_case(&kernel, &case, &rule)?;
        }
    }
    Ok(())
}

fn check_case(kernel: &Kernel<'_>, case: &Case, rule: &SlotRule) -> Checked {
    let Case { n, rows, slot_rows, row0 } = *case;
    let (slot, first) = case.slot();
    let piece = |row: u32| slot[((row - first) * n) as usize..][..(slot_rows * n) as usize].to_vec();
    let behind = (case.slot_row0() + slot_rows) % n;
    let (mut own, mut next) = (piece(case.slot_row0()), piece(if n == LARGE { first } else { behind }));
    let before = (own.clone(), next.clone());
    let group_bytes = rule_group_bytes(rule.precision(), n, rule.u()) as usize;
    let all = (rows * n) as usize / group_bytes;
    let mut found = vec![POISON; (rows * n) as usize];
    let mut expected = found.clone();
    let cut = if n == LARGE { all - 1 } else { all / 3 + 1 };
    for groups in [cut..all, 0..cut].into_iter().take(if n == LARGE { 1 } else { 2 }) {
        let bytes = groups.start * group_bytes..groups.end * group_bytes;
        let touched = bytes.start / n as usize..bytes.end.div_ceil(n as usize);
        let made: Vec<u8> =
            touched.clone().flat_map(|row| case.operands(rule, (&slot, first), row0 + row as u32)).collect();
        let skipped = touched.start * n as usize;
        expected[bytes.clone()].copy_from_slice(&made[bytes.start - skipped..bytes.end - skipped]);
        let key = assay_work::rule::network::noise_key(&KEY, rule.u());
        let params = RuleParams {
            key: std::array::from_fn(|i| u32::from_le_bytes(key.as_chunks().0[i])),
            n,
            slot: rule.u(),
            first_group: groups.start as u32,
            row0,
            slot_row0: case.slot_row0(),
            slot_rows,
        };
        kernel.run(params.words(), &mut [&mut own, &mut found, &mut next], groups.len() as u32)?;
        same(&format!("{} for slot {}, {case:?}", rule.precision(), rule.u()), &found, &expected)?;
    }
    if (own, next) == before { Ok(()) } else { Err("the slot".into()) }
}

/// Without steps, a group is its remainder by Q, and the last reduction meets Q itself.
pub(super) fn check_remainders(shader: &Shader, checked: bool) -> Checked {
    let source = shader.source.replace("const STEPS = 64u", "const STEPS = 0u");
    let kernel = gpu().compile(&Shader { name: "remainders by Q".into(), source }, 3, checked)?;
    let groups: Vec<[u8; 32]> = (0..2048).map(about_order).collect();
    let mut slot = groups.as_flattened().to_vec();
    let remainders = [about_order(0), [0; 32], std::array::from_fn(|i| u8::from(i == 0))];
    let expected: Vec<u8> = (0..2048).flat_map(|i| remainders[i % 3]).collect();
    let (mut found, mut next) = (vec![POISON; slot.len()], slot.clone());
    let params = RuleParams { key: [0; 8], n: 256, slot: 2, first_group: 0, row0: 0, slot_row0: 0, slot_rows: 256 };
    kernel.run(params.words(), &mut [&mut slot, &mut found, &mut next], 2048 / EXPAND_THREADS)?;
    same("remainders by Q", &found, &expected)
}

/// The shader for a slot.
pub(super) fn shader_of((precision, u): (Precision, u32)) -> Shader {
    let mut shaders = expand(precision, Format::Int8);
    shaders.swap_remove(u as usize % shaders.len())
}

#[test]
fn operands_by_rules_are_those_of_the_specification() {
    for rule in RULES {
        check_rule(rule, &shader_of(rule), false).unwrap();
    }
    check_remainders(&shader_of(RULES[3]), false).unwrap();
}
