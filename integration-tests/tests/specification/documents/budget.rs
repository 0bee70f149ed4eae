//! The size of the whole, held by one table: a change that adds names what it replaces, or raises a ceiling here and says why.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use crate::documents::source::{code, read, rust_files, shared_crates, workspace};

/// A figure, its ceiling, and the way it is counted.
type Row = (&'static str, usize, fn() -> usize);

const BUDGET: &[Row] = &[
    ("lines of code in the largest crate, without its tests", 6_000, largest_crate),
    ("lines of code in all crates, without tests", 80_820, all_crates),
    ("packages in Cargo.lock", 508, packages),
    ("settings of both programs", 90, settings),
    ("commands and subcommands of both programs", 71, commands),
    ("metrics of both programs", 54, metrics),
    ("pages of documentation", 21, pages),
    ("words of documentation", 50_000, words),
    ("rows of GUARANTEES.md", 143, guarantees),
    ("clauses such as \"what is\" and \"whoever\" in comments of crates", 66, clauses),
    ("test executables of integration-tests", 3, executables),
    ("test executables", 43, all_executables),
];

#[test]
fn nothing_exceeds_its_ceiling() {
    let figures: Vec<_> = BUDGET.iter().map(|(name, ceiling, count)| (*name, *ceiling, count())).collect();
    for (name, ceiling, count) in &figures {
        println!("{count:>7} of {ceiling:>7}  {name}");
        assert!(*count > ceiling / 2, "{name}: {count} of {ceiling} is no count, or the ceiling is to be lowered");
    }
    let over: Vec<_> = figures.into_iter().filter(|(_, ceiling, count)| count > ceiling).collect();
    assert!(over.is_empty(), "over budget (name, ceiling, count): {over:#?}");
}

/// The folders of crates whose sources ship or serve those that ship.
fn crate_folders() -> Vec<String> {
    shared_crates().into_iter().chain(["miner", "validator", "packaging/pages"].map(str::to_owned)).collect()
}

fn largest_crate() -> usize {
    crate_folders().iter().map(|folder| crate_lines(folder)).max().unwrap_or(0)
}

fn all_crates() -> usize {
    crate_folders().iter().map(|folder| crate_lines(folder)).sum()
}

fn crate_lines(folder: &str) -> usize {
    let files = rust_files(&workspace().join(folder).join("src")).into_iter().filter(|file| !is_test_file(file));
    files.map(|file| code_lines(&read(&format!("{folder}/src/{file}")))).sum()
}

/// Files of tests by the names that this workspace gives them.
fn is_test_file(file: &str) -> bool {
    file.split('/').any(|part| part == "tests") || file.ends_with("tests.rs")
}

/// Lines that hold a token outside comments, without items for tests alone.
fn code_lines(source: &str) -> usize {
    without_tests(&code(source)).lines().filter(|line| !line.trim().is_empty()).count()
}

/// Code without the items behind `#[cfg(test)]`.
fn without_tests(code: &str) -> String {
    let (mut kept, mut rest) = (String::new(), code);
    while let Some(at) = rest.find("#[cfg(test)]") {
        kept.push_str(&rest[..at]);
        rest = after_item(&rest[at..]);
    }
    kept + rest
}

/// The rest behind the first item of `code`, which ends with its block or with a semicolon.
fn after_item(code: &str) -> &str {
    let mut depth = 0_usize;
    for (at, sign) in code.char_indices() {
        match sign {
            '{' => depth += 1,
            '}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return &code[at + 1..];
                }
            }
            ';' if depth == 0 => return &code[at + 1..],
            _ => {}
        }
    }
    ""
}

fn packages() -> usize {
    read("Cargo.lock").lines().filter(|line| *line == "[[package]]").count()
}

/// Each has a line with its variable of the environment.
fn settings() -> usize {
    read("docs/settings.md")
        .lines()
        .filter(|line| line.contains("`ASSAY_MINER_") || line.contains("`ASSAY_VALIDATOR_"))
        .count()
}

/// The variants of the enums that clap derives commands from.
fn commands() -> usize {
    let sources = ["miner", "validator", "shared/service/client"].into_iter().flat_map(|folder| {
        let files = rust_files(&workspace().join(folder).join("src"));
        files.into_iter().map(move |file| code(&read(&format!("{folder}/src/{file}"))))
    });
    sources.map(|source| source.split("Subcommand)]").skip(1).map(variants).sum::<usize>()).sum()
}

/// The variants of the first enum in `code`.
fn variants(code: &str) -> usize {
    let start = code.find('{').map_or(code.len(), |at| at + 1);
    let (mut depth, mut body) = (0_usize, String::new());
    for sign in code[start..].chars() {
        match sign {
            '{' | '(' | '[' => depth += 1,
            '}' if depth == 0 => break,
            '}' | ')' | ']' => depth = depth.saturating_sub(1),
            sign if depth == 0 => body.push(sign),
            _ => {}
        }
    }
    body.split(',').filter(|variant| !variant.trim().trim_start_matches('#').trim().is_empty()).count()
}

fn metrics() -> usize {
    let page = read("docs/metrics.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")).filter_map(|row| row.split('`').next());
    let name = |cell: &str| cell.split('{').next().unwrap_or(cell).to_owned();
    let of_programs = |name: &String| ["assay_", "process_"].iter().any(|prefix| name.starts_with(prefix));
    rows.map(name).filter(of_programs).collect::<BTreeSet<_>>().len()
}

/// The Markdown files of the workspace.
fn markdown() -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![workspace()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder is readable") {
            let path = entry.expect("an entry of a folder").path();
            let is_hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
            if path.is_dir() && !is_hidden && path != workspace().join("target") {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(text(&path));
            }
        }
    }
    found
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn pages() -> usize {
    markdown().len()
}

/// Words with a letter or a digit: the lines of a table are none.
fn words() -> usize {
    let is_word = |word: &&str| word.contains(char::is_alphanumeric);
    markdown().iter().map(|page| page.split_whitespace().filter(is_word).count()).sum()
}

fn guarantees() -> usize {
    read("GUARANTEES.md").lines().filter(|line| line.starts_with('|') && !line.starts_with("|--")).count()
}

/// Clauses of comments that have a question word or `nobody` where a noun belongs. Help texts have some.
fn clauses() -> usize {
    let folders = crate_folders().into_iter().flat_map(|folder| {
        rust_files(&workspace().join(&folder).join("src")).into_iter().map(move |file| format!("{folder}/src/{file}"))
    });
    folders.map(|file| read(&file).lines().filter_map(comment).map(clauses_of).sum::<usize>()).sum()
}

/// The text of a line that is a comment.
fn comment(line: &str) -> Option<&str> {
    line.trim_start().strip_prefix("//").map(|text| text.trim_start_matches(['/', '!']))
}

fn clauses_of(comment: &str) -> usize {
    const VERBS: [&str; 18] = [
        "is", "was", "are", "were", "it", "they", "a", "the", "its", "has", "had", "does", "comes", "makes", "follows",
        "can", "may", "must",
    ];
    let lower = comment.to_lowercase();
    let words: Vec<_> = lower.split(|sign: char| !sign.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let asks = |pair: &&[&str]| ["what", "whatever"].contains(&pair[0]) && VERBS.contains(&pair[1]);
    let people = words.iter().filter(|word| ["whoever", "nobody"].contains(word));
    words.windows(2).filter(asks).count() + people.count()
}

fn executables() -> usize {
    let folder = workspace().join("integration-tests/tests");
    let entries = std::fs::read_dir(folder).expect("it is a folder").map(|entry| entry.expect("an entry").path());
    entries.filter(|path| path.join("main.rs").is_file() || path.extension().is_some_and(|e| e == "rs")).count()
}

/// Targets that `cargo test --tests` links.
fn all_executables() -> usize {
    let metadata: Value = crate::documents::crates::metadata();
    let packages = metadata["packages"].as_array().expect("a list");
    let targets = packages.iter().flat_map(|package| package["targets"].as_array().expect("a list"));
    targets.filter(|target| target["test"] == true).count()
}

#[test]
fn tests_are_no_code_of_a_crate() {
    let source = "fn a() {}\n// b\n#[cfg(test)]\nmod tests {\n fn c() { {} }\n}\n#[cfg(test)]\nuse d;\n\nfn e() {\n}\n";
    assert_eq!(code_lines(source), 3);
}

#[test]
fn clauses_of_comments_are_counted() {
    assert_eq!(clauses_of(" What is asked of whoever asks: a list, what the list has, and what nobody knows."), 4);
    assert_eq!(clauses_of(" The bytes of a slot."), 0);
    assert_eq!((comment("    /// A."), comment("    let a = 1; // b")), (Some(" A."), None));
}

#[test]
fn variants_of_a_command_are_counted() {
    assert_eq!(variants("pub enum Command { Run(Args), #[command(name = )] Key, Show { a: u8, b: u8 }, }"), 3);
}
