//! Every kernel of this processor against the formula, tile by tile.

use super::qualify::{Panels, element, expected, tile_heights};
use super::*;

#[test]
fn names_read_back() {
    for kind in KernelKind::ALL {
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

fn random(bytes: usize, mut seed: u64) -> Vec<u8> {
    let mut next = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed >> 32) as u8
    };
    (0..bytes).map(|_| next()).collect()
}

/// One tile by the kernel, next to the specification's elements.
fn check(kernel: &Kernel, precision: Precision, rows: usize, length: usize, x: &[u8], y: &[u8]) {
    let product = kernel.product(precision);
    let mut panels = Panels::pack(product, rows, length, x, y);
    panels.start();
    let (found, expected) = (panels.multiply(product), expected(product, precision, rows, length, x, y));
    assert!(found == expected, "{} {precision}, {rows} rows of {length}", kernel.kind);
}

/// A kernel that is passed over would leave the tests of devices nothing to find.
#[test]
fn every_kernel_of_this_processor_qualifies() {
    for kind in KernelKind::fastest_first() {
        let has_features = kind.of_this_processor().is_some();
        assert_eq!(kind.is_available(), has_features, "{kind}");
    }
}

/// Every product that this processor has the features for.
fn products() -> impl Iterator<Item = (&'static Kernel, Precision, &'static TileKernel)> {
    let kernels = KernelKind::fastest_first().filter_map(KernelKind::of_this_processor);
    kernels.flat_map(|kernel| Precision::OF_BYTES.map(|precision| (kernel, precision, kernel.product(precision))))
}

#[test]
fn every_kernel_computes_random_tiles() {
    for (kernel, precision, product) in products() {
        for rows in tile_heights(product) {
            for length in [64, 256, 1024] {
                let x = random(rows * length, 3 + length as u64);
                let y = random(product.columns * length, 5 + rows as u64);
                check(kernel, precision, rows, length, &x, &y);
            }
        }
    }
}

/// The largest sums that there are: no kernel may saturate or overflow on the way.
#[test]
fn every_kernel_computes_the_extremes() {
    let length = 32768;
    for (kernel, precision, product) in products() {
        let pairs: &[_] = match precision {
            // Both signs of the largest magnitude, with the bits that do not count unset and set.
            Precision::Fp8 => &[(0x1F, 0x1F), (0x1F, 0x9F), (0x7F, 0xFF), (0xFF, 0x9F), (0x00, 0x80)],
            // +12, -12, -0.
            Precision::Fp4 => &[(0x77, 0x77), (0x77, 0xFF), (0xFF, 0xFF), (0x88, 0xFF), (0x70, 0x07), (0x7F, 0xF7)],
            _ => &[(0x80, 0x80), (0x80, 0x7F), (0x7F, 0x7F), (0x7F, 0x80), (0, 0x80), (0xFF, 0x80)],
        };
        for &(a, b) in pairs {
            let (x, y) = (vec![a; product.rows * length], vec![b; product.columns * length]);
            check(kernel, precision, product.rows, length, &x, &y);
        }
    }
}

/// The rows of integration-tests/vectors/accumulator-tests.json: sums that units with floating-point sums, or with sums
/// of pairs that saturate, do not give. Bytes go through a product of INT8, words as they are into panels of F16's.
#[test]
fn every_kernel_passes_the_accumulator_tests() {
    let mut passed = [0, 0];
    for test in accumulator_tests() {
        for (kernel, precision, product) in products() {
            let format = match precision {
                Precision::Int8 => 0,
                Precision::F16 => 1,
                _ => continue,
            };
            if !test.formats.iter().any(|of| of == ["int8", "int16"][format]) {
                continue;
            }
            // Every row of the tile and every column has the test's terms, padded with products of 0.
            let length = test.terms.len().next_multiple_of(64);
            let raw = [product.rows, product.columns].into_iter().zip([0, 1]).map(|(rows, side)| {
                let mut row: Vec<i16> = test.terms.iter().map(|term| term[side]).collect();
                row.resize(length, 0);
                row.repeat(rows)
            });
            let raw: Vec<Vec<i16>> = raw.collect();
            let mut panels = match precision {
                Precision::Int8 => {
                    let bytes =
                        |side: usize| raw[side].iter().map(|&x| i8::try_from(x).unwrap() as u8).collect::<Vec<_>>();
                    Panels::pack(product, product.rows, length, &bytes(0), &bytes(1))
                }
                _ => panels_of_words(product, length, &raw),
            };
            panels.start();
            let places = (0..product.rows).flat_map(|r| (0..product.columns).map(move |c| (r, c)));
            let expected: Vec<u8> = places.map(|(r, c)| element(test.sum, r, c)).collect();
            assert!(panels.multiply(product) == expected, "{}: {} {precision}", test.name, kernel.kind);
            passed[format] += 1;
        }
    }
    let kernels = KernelKind::available().count();
    assert_eq!(passed, [25 * kernels, 33 * kernels], "as many tests as the file has");
}

/// Panels of F16's product that hold words that no byte stands for. Where each goes is found by packing the places'
/// own numbers, a byte of them at a time, as operands.
fn panels_of_words(kernel: &TileKernel, length: usize, words: &[Vec<i16>]) -> Panels {
    let mut byte_of = std::collections::HashMap::new();
    (0..=255_u8).for_each(|byte| assert_eq!(byte_of.insert(Precision::F16.operands(byte)[0], byte), None));
    let mut places = [0, 1].map(|side| vec![0_usize; words[side].len()]);
    for shift in [0, 8, 16] {
        let numbers = |side: usize| (0..words[side].len()).map(|place| (place >> shift) as u8).collect::<Vec<_>>();
        let panels = Panels::pack(kernel, kernel.rows, length, &numbers(0), &numbers(1));
        for (places, panel) in places.iter_mut().zip([&panels.x, &panels.y]) {
            // SAFETY: the panel has a word for each place.
            let stored = unsafe { std::slice::from_raw_parts(panel.as_ptr().cast::<i16>(), places.len()) };
            places.iter_mut().zip(stored).for_each(|(place, word)| *place |= usize::from(byte_of[word]) << shift);
        }
    }
    let mut panels = Panels::pack(kernel, kernel.rows, length, &vec![0; words[0].len()], &vec![0; words[1].len()]);
    for ((places, words), panel) in places.iter().zip(words).zip([&mut panels.x, &mut panels.y]) {
        // SAFETY: the panel has a word for each place.
        let stored = unsafe { std::slice::from_raw_parts_mut(panel.as_mut_ptr().cast::<i16>(), places.len()) };
        stored.iter_mut().zip(places).for_each(|(word, &place)| *word = words[place]);
    }
    panels
}

/// A test of the file: pairs of operands in order, and their sum of products.
struct AccumulatorTest {
    name: String,
    formats: Vec<String>,
    terms: Vec<[i16; 2]>,
    sum: i32,
}

/// The tests for units with integer sums.
fn accumulator_tests() -> Vec<AccumulatorTest> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../integration-tests/vectors/accumulator-tests.json");
    let file: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let tests = file["tests"].as_array().unwrap().iter().map(|test| {
        let terms = test["terms"].as_array().unwrap().iter().flat_map(|term| {
            let [a, b, times] = [0, 1, 2].map(|i| term[i].as_i64().unwrap());
            std::iter::repeat_n([a as i16, b as i16], times as usize)
        });
        let formats: Vec<String> = serde_json::from_value(test["formats"].clone()).unwrap();
        let exact = formats.iter().any(|format| format == "int8" || format == "int16");
        let (terms, sum) = (if exact { terms.collect() } else { Vec::new() }, test["sum"].as_i64().unwrap());
        AccumulatorTest { name: test["name"].to_string(), formats, terms, sum: sum as i32 }
    });
    tests.filter(|test| !test.terms.is_empty()).collect()
}
