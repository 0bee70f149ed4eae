//! The table of crates in ARCHITECTURE.md: who depends on whom, downwards only, and where `unsafe` is.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::documents::source::{code, read, rust_files, tokens, workspace};

struct Row {
    name: String,
    dependencies: BTreeSet<String>,
    /// Files and folders of the crate that contain `unsafe`; none where the crate forbids it.
    with_unsafe: Vec<String>,
}

/// A crate as cargo has it.
struct Package {
    name: String,
    folder: PathBuf,
    dependencies: BTreeSet<String>,
}

fn rows() -> Vec<Row> {
    let text = read("ARCHITECTURE.md");
    let (_, section) = text.split_once("\n## Crates\n").expect("ARCHITECTURE.md has a section of crates");
    let section = section.split("\n## ").next().expect("a section has an end");
    let mut lines = section.lines().skip_while(|line| !line.starts_with('|'));
    assert_eq!(lines.next(), Some("| crate | what it is | depends on | unsafe |"));
    let rows: Vec<_> = lines.skip(1).take_while(|line| line.starts_with('|')).map(row).collect();
    assert!(!rows.is_empty(), "the table of crates has rows");
    rows
}

fn row(line: &str) -> Row {
    let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
    let [name, about, dependencies, with_unsafe] = cells[..] else { panic!("not four cells: {line}") };
    assert!(!about.is_empty(), "{line}");
    let list = |cell: &str| -> Vec<String> {
        cell.split(',').map(|part| part.trim().trim_matches('`').to_owned()).filter(|part| !part.is_empty()).collect()
    };
    let with_unsafe = if with_unsafe == "no" { Vec::new() } else { list(with_unsafe) };
    assert!(cells[3] == "no" || !with_unsafe.is_empty(), "`no`, or files and folders: {line}");
    Row { name: name.trim_matches('`').to_owned(), dependencies: list(dependencies).into_iter().collect(), with_unsafe }
}

/// The workspace as cargo has it.
pub fn metadata() -> Value {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let arguments = ["metadata", "--format-version", "1", "--no-deps", "--offline", "--locked"];
    let output = Command::new(cargo).args(arguments).current_dir(workspace()).output().expect("cargo starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("cargo writes JSON")
}

/// The members of the workspace, without the prefix of their names.
fn packages() -> Vec<Package> {
    let metadata = metadata();
    let list = |value: &Value| value.as_array().cloned().expect("a list");
    let short = |value: &Value| value["name"].as_str().and_then(|name| name.strip_prefix("assay-")).map(str::to_owned);
    let package = |package: &Value| {
        let manifest = PathBuf::from(package["manifest_path"].as_str().expect("a package has a manifest"));
        let normal = list(&package["dependencies"]).into_iter().filter(|d| d["kind"].is_null() && !d["path"].is_null());
        Package {
            name: short(package).expect("crates of the workspace are named assay-"),
            folder: manifest.parent().expect("a manifest lies in a folder").to_owned(),
            dependencies: normal.map(|dependency| short(&dependency).expect("as its crate is named")).collect(),
        }
    };
    list(&metadata["packages"]).iter().map(package).collect()
}

/// Each row with its crate.
fn table() -> Vec<(Row, Package)> {
    let (rows, mut packages) = (rows(), packages());
    let found: Vec<_> = rows
        .into_iter()
        .map(|row| {
            let at = packages.iter().position(|package| package.name == row.name);
            let package =
                packages.swap_remove(at.unwrap_or_else(|| panic!("one row for {}, which is a crate", row.name)));
            (row, package)
        })
        .collect();
    let left: Vec<_> = packages.iter().map(|package| &package.name).collect();
    assert!(left.is_empty(), "crates without a row in ARCHITECTURE.md: {left:?}");
    found
}

#[test]
fn every_crate_depends_on_what_its_row_says() {
    for (row, package) in table() {
        assert_eq!(row.dependencies, package.dependencies, "what {} depends on: the row, and its Cargo.toml", row.name);
    }
}

#[test]
fn every_dependency_is_in_a_row_above() {
    let mut above = BTreeSet::new();
    for (row, package) in table() {
        let upward: Vec<_> = package.dependencies.difference(&above).collect();
        assert!(upward.is_empty(), "{} depends on {upward:?}, which no row above it is", row.name);
        above.insert(row.name);
    }
}

#[test]
fn sql_and_the_web_server_are_named_by_one_crate_each() {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().expect("a list");
    let naming = |library: &str| -> Vec<_> {
        let names = |package: &&Value| {
            let dependencies = package["dependencies"].as_array().expect("a list");
            dependencies.iter().any(|it| it["kind"].is_null() && it["name"] == library)
        };
        packages.iter().filter(names).filter_map(|package| package["name"].as_str()).collect()
    };
    assert_eq!((naming("sqlx"), naming("axum")), (vec!["assay-records"], vec!["assay-web"]));
    // Neither the client nor the miner comes to them over other crates.
    let table = table();
    let dependencies = |name: &str| table.iter().find(|(row, _)| row.name == name).map(|(row, _)| &row.dependencies);
    for name in ["client", "miner"] {
        let (mut reached, mut next) = (BTreeSet::new(), vec![name.to_owned()]);
        while let Some(name) = next.pop() {
            next.extend(dependencies(&name).expect("a row").iter().filter(|it| reached.insert((*it).clone())).cloned());
        }
        assert!(!reached.contains("records") && !reached.contains("web"), "{name} links {reached:?}");
    }
}

#[test]
fn unsafe_code_is_where_the_table_says_and_forbidden_elsewhere() {
    let mut wrong = Vec::new();
    for (row, package) in table() {
        let name = &row.name;
        let source = |file: &str| code(&std::fs::read_to_string(package.folder.join(file)).expect("a source is text"));
        let files = rust_files(&package.folder.join("src")).into_iter().map(|file| format!("src/{file}"));
        let with_unsafe: Vec<_> = files.filter(|file| tokens(&source(file)).contains(&"unsafe")).collect();
        let covers = |entry: &str, file: &str| entry == file || (entry.ends_with('/') && file.starts_with(entry));
        let listed = |file: &&String| row.with_unsafe.iter().any(|entry| covers(entry, file));
        let has_unsafe = |entry: &&String| with_unsafe.iter().any(|file| covers(entry, file));
        let unlisted = with_unsafe.iter().filter(|file| !listed(file));
        wrong.extend(unlisted.map(|file| format!("{name}: {file} contains unsafe and is not in the row")));
        let idle = row.with_unsafe.iter().filter(|entry| !has_unsafe(entry));
        wrong.extend(idle.map(|entry| format!("{name}: the row lists {entry}, which contains no unsafe")));
        let forbids = source("src/lib.rs").split_whitespace().collect::<String>().contains("#![forbid(unsafe_code)]");
        if forbids != row.with_unsafe.is_empty() {
            wrong.push(format!(
                "{name}: #![forbid(unsafe_code)] is to stand in src/lib.rs where the row says no, only there"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
