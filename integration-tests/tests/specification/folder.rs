//! Every file of the vectors is read by a test: one that nothing reads is an error.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::files::{Wanted, vector_folder};
use crate::{interchange, openings, operands, probe_files, rules, sweeps, vectors};

/// Where the rows of the self-test of matrix units are held equal to their file.
const ACCUMULATOR_TESTS: &str = "shared/devices/device/src/accumulator/tests.rs";

/// The reader of a file.
enum Reader {
    /// A test of this program.
    Test(fn()),
    /// A test of another crate, in this source.
    Source(&'static str),
}

/// Each file of the folder, and a test that reads it.
const READ: &[(&str, Reader)] = &[
    ("accumulator-tests", Reader::Source(ACCUMULATOR_TESTS)),
    ("invalid-challenges", Reader::Test(vectors::every_broken_rule_of_a_challenge_is_named)),
    ("invalid-json", Reader::Test(interchange::every_wrong_field_of_a_text_is_named)),
    ("invalid-openings", Reader::Test(openings::every_invalid_answer_is_refused_for_its_reason)),
    ("invalid-probes", Reader::Test(vectors::the_first_wrong_field_of_a_probe_is_named)),
    ("invalid-sweeps", Reader::Test(sweeps::the_rounds_of_a_sweep_have_a_range)),
    ("judged-openings", Reader::Test(openings::every_judged_answer_is_accepted_or_refused_as_judged)),
    ("k2-one-device", Reader::Test(vectors::k2_one_device)),
    ("k2-three-devices-two-iterations", Reader::Test(vectors::k2_three_devices_two_iterations)),
    ("k5-one-device", Reader::Test(vectors::k5_one_device)),
    ("k6-one-device", Reader::Test(vectors::k6_one_device)),
    ("k7", Reader::Test(vectors::k7)),
    ("k7-n1024", Reader::Test(vectors::k7_n1024)),
    ("k8", Reader::Test(vectors::k8)),
    ("k8-n256", Reader::Test(vectors::k8_n256)),
    ("linked-probe", Reader::Test(vectors::linked_probe)),
    ("linked-probe-k6", Reader::Test(vectors::linked_probe_of_another_kind_of_work)),
    ("n1024", Reader::Test(vectors::n1024)),
    ("n2048", Reader::Test(vectors::n2048)),
    ("one-device", Reader::Test(vectors::one_device)),
    ("openings-k2", Reader::Test(openings::openings_of_the_vectors_are_accepted_and_built_again)),
    ("openings-k5", Reader::Test(openings::openings_of_the_vectors_are_accepted_and_built_again)),
    ("openings-k6", Reader::Test(openings::openings_of_the_vectors_are_accepted_and_built_again)),
    ("openings-k7", Reader::Test(openings::every_judged_answer_is_accepted_or_refused_as_judged)),
    ("openings-k8", Reader::Test(openings::every_judged_answer_is_accepted_or_refused_as_judged)),
    ("openings-n2048", Reader::Test(openings::openings_of_the_vectors_are_accepted_and_built_again)),
    ("openings-n256", Reader::Test(openings::openings_of_the_vectors_are_accepted_and_built_again)),
    ("openings-second-device", Reader::Test(openings::openings_of_the_vectors_are_accepted_and_built_again)),
    ("openings-sweep", Reader::Test(sweeps::every_judged_sweep_is_accepted_or_refused_as_judged)),
    ("operands", Reader::Test(operands::every_byte_stands_for_the_operands_of_the_table)),
    ("probe", Reader::Test(vectors::probe)),
    ("probe-n1024", Reader::Test(vectors::probe_n1024)),
    ("probe-w64", Reader::Test(vectors::probe_w64)),
    ("rules", Reader::Test(rules::rows_of_every_rule_are_those_of_the_specification)),
    ("segments-linked", Reader::Test(probe_files::every_invalid_file_is_refused_for_its_reason)),
    ("segments-plain", Reader::Test(probe_files::every_invalid_file_is_refused_for_its_reason)),
    ("signed", Reader::Test(vectors::commitment_and_answer_are_signed_to_the_byte)),
    ("signed-linked", Reader::Test(vectors::a_linked_answer_is_signed_under_a_name_of_its_own)),
    ("signed-sweep", Reader::Test(sweeps::the_answer_to_a_sweep_is_signed_to_the_byte)),
    ("smallest", Reader::Test(vectors::smallest)),
    ("split", Reader::Test(vectors::matrices_are_split_as_written)),
    ("sweep", Reader::Test(sweeps::sweep_of_two_devices)),
    ("sweep-k7", Reader::Test(sweeps::sweep_of_another_kind_of_work)),
    ("two-devices-three-iterations", Reader::Test(vectors::two_devices_three_iterations)),
    ("uneven-devices", Reader::Test(vectors::uneven_devices)),
];

/// Whether a test comes to read a file. It goes no further than that.
fn reads(test: fn(), file: &str) -> bool {
    let wanted = Wanted::file(file);
    let _ = catch_unwind(AssertUnwindSafe(test));
    wanted.was_read()
}

#[test]
fn every_file_of_the_folder_is_read() {
    let files = std::fs::read_dir(vector_folder()).unwrap().map(|entry| entry.unwrap().file_name());
    let files: BTreeSet<String> = files.map(|name| name.into_string().unwrap()).collect();
    let listed: BTreeSet<String> = READ.iter().map(|(file, _)| format!("{file}.json")).collect();
    assert_eq!(files, listed, "the files of the folder, and those that a test reads");
    for (file, reader) in READ {
        match reader {
            Reader::Test(test) => assert!(reads(*test, file), "its test does not read {file}"),
            Reader::Source(path) => {
                let source = std::fs::read_to_string(vector_folder().join("../..").join(path)).unwrap();
                assert!(source.contains(&format!("{file}.json")), "{path} does not read {file}");
            }
        }
    }
}

#[test]
fn a_test_that_reads_another_file_is_seen() {
    assert!(reads(vectors::smallest, "smallest"));
    assert!(!reads(vectors::smallest, "split"));
    assert!(!reads(|| (), "smallest"));
}
