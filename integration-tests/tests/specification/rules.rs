//! The rules of precisions 7 and 8, against the rows of the specification.

use assay_work::PassKey;
use assay_work::leaf::keystream;
use assay_work::rule::field::{self, GROUP_BYTES, STEPS};
use assay_work::rule::network::{Layer, Tensor, attention, convolution, gaussian, noise, noise_key};
use serde::Deserialize;

use crate::files::vector;

/// n of the rows in the file.
const N: usize = 256;

#[derive(Deserialize)]
struct Rules {
    geometry: Vec<Geometry>,
    noise_draws: Vec<(u16, i8)>,
    field_order: String,
    field: Vec<FieldGroup>,
    key: String,
    convolution: Vec<ConvolutionRow>,
    attention: Vec<AttentionRow>,
    noise: Vec<NoiseRow>,
}

#[derive(Deserialize)]
struct Geometry {
    n: u32,
    height_width_channels: [usize; 3],
    row: u32,
    pieces: Vec<[usize; 2]>,
    factors: Vec<[u32; 3]>,
}

#[derive(Deserialize)]
struct FieldGroup {
    group: String,
    row: u32,
    place: usize,
    slot: u32,
    operands: String,
}

#[derive(Deserialize)]
struct ConvolutionRow {
    row: u32,
    pieces: Vec<[usize; 2]>,
    operands: Vec<i8>,
    factors: Vec<[u32; 2]>,
}

#[derive(Deserialize)]
struct AttentionRow {
    what: String,
    bytes: String,
    operands: Vec<i8>,
}

#[derive(Deserialize)]
struct NoiseRow {
    slot: u32,
    noise_key: String,
    row: u32,
    operands: Vec<i8>,
}

fn bytes(text: &str) -> Vec<u8> {
    hex::decode(text).unwrap()
}

fn pieces_of(tensor: &Tensor, row: u32) -> Vec<[usize; 2]> {
    tensor.pieces(row).map(|first| [first, tensor.piece_bytes()]).into()
}

#[test]
pub(super) fn rows_of_every_rule_are_those_of_the_specification() {
    let file: Rules = vector("rules");
    let key = PassKey(bytes(&file.key).try_into().unwrap());
    let mut slot = vec![0; N * N];
    keystream(key.as_bytes(), 1, 0, &mut slot);
    check_fields(&file.field);
    for geometry in &file.geometry {
        let tensor = Tensor::new(geometry.n);
        assert_eq!([tensor.height, tensor.width, tensor.channels], geometry.height_width_channels, "{}", geometry.n);
        assert_eq!(pieces_of(&tensor, geometry.row), geometry.pieces, "{}", geometry.n);
        for &[k, row, column] in &geometry.factors {
            assert_eq!(tensor.factor(geometry.row, k), (row, column), "n = {}, k = {k}", geometry.n);
        }
    }
    let tensor = Tensor::new(N as u32);
    let signed = |x: Vec<u8>| x.into_iter().map(|operand| operand as i8).collect::<Vec<_>>();
    for row in &file.convolution {
        let x = signed(convolution(&tensor.window(&slot, row.row)));
        assert_eq!(x, row.operands, "convolution, row {}", row.row);
        assert_eq!(pieces_of(&tensor, row.row), row.pieces);
        let factors = [0, 100, 255].map(|k| tensor.factor(row.row, k));
        assert_eq!(factors.map(<[u32; 2]>::from)[..], row.factors);
    }
    for row in &file.attention {
        assert_eq!(signed(attention(&bytes(&row.bytes))), row.operands, "{}", row.what);
    }
    for row in &file.noise {
        let noise_key = noise_key(&key, row.slot);
        assert_eq!(hex::encode(noise_key), row.noise_key);
        let x = noise(&noise_key, &slot[row.row as usize * N..][..N], row.row);
        assert_eq!(signed(x), row.operands, "noise, row {}", row.row);
    }
    for (draw, added) in file.noise_draws {
        assert_eq!(gaussian(draw), added, "{draw}");
    }
    assert_eq!([0, 1, 2, 3].map(Layer::of), [Layer::Convolution, Layer::Attention, Layer::Noise, Layer::Convolution]);
    assert_eq!(decimal(&file.field_order), ORDER);
}

fn check_fields(groups: &[FieldGroup]) {
    assert!(groups.len() >= 8);
    for group in groups {
        // The group stands at its place in a row; the others are zeros.
        let mut row = vec![0; (group.place + 1) * GROUP_BYTES];
        row[group.place * GROUP_BYTES..].copy_from_slice(&bytes(&group.group));
        let mut slowly = row[group.place * GROUP_BYTES..].to_vec();
        field::operands(&mut row, group.slot, group.row);
        assert_eq!(hex::encode(&row[group.place * GROUP_BYTES..]), group.operands, "{}", group.group);
        let k = 1 + group.place as u64 + (u64::from(group.row) << 16) + (u64::from(group.slot) << 32);
        step_slowly(&mut slowly, k);
        assert_eq!(hex::encode(slowly), group.operands, "by schoolbook: {}", group.group);
    }
}

/// Q as bytes, the lowest first.
const ORDER: [u8; 32] = [
    0x01, 0x00, 0x00, 0xf0, 0x93, 0xf5, 0xe1, 0x43, 0x91, 0x70, 0xb9, 0x79, 0x48, 0xe8, 0x33, 0x28, 0x5d, 0x58, 0x81,
    0x81, 0xb6, 0x45, 0x50, 0xb8, 0x29, 0xa0, 0x31, 0xe1, 0x72, 0x4e, 0x64, 0x30,
];

fn decimal(text: &str) -> [u8; 32] {
    let mut out = [0; 32];
    for digit in text.bytes().map(|byte| u32::from(byte - b'0')) {
        let mut carry = digit;
        for byte in &mut out {
            let sum = u32::from(*byte) * 10 + carry;
            (*byte, carry) = (sum as u8, sum >> 8);
        }
    }
    out
}

/// The steps of a group bit by bit: doublings, additions and subtractions of Q alone.
fn step_slowly(group: &mut [u8], k: u64) {
    let mut v = [0_u8; 33];
    v[..32].copy_from_slice(group);
    reduce(&mut v);
    let mut added = [0; 33];
    added[..8].copy_from_slice(&k.to_le_bytes());
    for _ in 0..STEPS {
        let mut square = [0; 33];
        for bit in (0..256).rev() {
            add(&mut square.clone(), &mut square);
            if v[bit / 8] >> (bit % 8) & 1 == 1 {
                add(&mut v.clone(), &mut square);
            }
        }
        add(&mut added.clone(), &mut square);
        v = square;
    }
    group.copy_from_slice(&v[..32]);
}

/// Adds a number below Q to another one, mod Q.
fn add(a: &mut [u8; 33], to: &mut [u8; 33]) {
    let mut carry = 0;
    for (a, to) in a.iter().zip(to.iter_mut()) {
        let sum = u16::from(*a) + u16::from(*to) + carry;
        (*to, carry) = (sum as u8, sum >> 8);
    }
    reduce(to);
}

fn reduce(v: &mut [u8; 33]) {
    loop {
        let (mut less, mut borrow) = ([0; 33], 0);
        for i in 0..33 {
            let order = ORDER.get(i).copied().unwrap_or(0);
            let difference = i16::from(v[i]) - i16::from(order) - borrow;
            (less[i], borrow) = (difference as u8, i16::from(difference < 0));
        }
        if borrow == 1 {
            return;
        }
        *v = less;
    }
}
