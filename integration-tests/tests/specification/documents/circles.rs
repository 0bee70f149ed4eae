//! No circles: within a crate, no file imports, over however many others, from a file that imports from it.
//!
//! An import is any path that starts with `crate`, `super`, `self` or a child module, followed through `pub use` to the
//! file that holds the item. A module and those inside it may know each other.

use std::collections::{BTreeMap, BTreeSet};

use crate::documents::source::{code, rust_files, shared_crates, tokens, workspace};

/// The crates beside those of `shared/`.
const CRATES: [&str; 4] = ["miner", "validator", "integration-tests/kits", "integration-tests"];

type Module = Vec<String>;

/// A crate's files by the modules that they are, with the paths that each imports.
struct Sources {
    modules: BTreeMap<Module, File>,
}

#[derive(Default)]
struct File {
    path: String,
    /// Every path in the code.
    paths: BTreeSet<Vec<String>>,
    /// The imports of `use`, by their names here.
    imports: BTreeMap<String, Vec<String>>,
}

/// The module that a file is; none for the root of a program, which sees its library from outside.
fn module(path: &str) -> Option<Module> {
    let path = path.strip_suffix(".rs")?;
    let mut parts: Module = path.split('/').map(str::to_owned).collect();
    if path == "main" || parts[0] == "bin" {
        return None;
    }
    if path == "lib" || parts.last().is_some_and(|last| last == "mod") {
        parts.pop();
    }
    Some(parts)
}

/// Code without the modules that are written inside it: these are of the same file.
fn without_inline_modules<'a>(tokens: &[&'a str]) -> Vec<&'a str> {
    let (mut kept, mut at) = (Vec::new(), 0);
    while at < tokens.len() {
        if tokens[at] == "mod" && tokens.get(at + 2) == Some(&"{") {
            let mut depth = 0;
            at += 2;
            loop {
                match tokens.get(at) {
                    Some(&"{") => depth += 1,
                    Some(&"}") => depth -= 1,
                    Some(_) => {}
                    None => break,
                }
                at += 1;
                if depth == 0 {
                    break;
                }
            }
        } else {
            kept.push(tokens[at]);
            at += 1;
        }
    }
    kept
}

/// Takes the tree of paths that starts at `at`, each with the name that it gives; gives where it ends.
fn tree(tokens: &[&str], mut at: usize, before: &[String], take: &mut impl FnMut(String, Vec<String>)) -> usize {
    let mut path = before.to_vec();
    loop {
        match tokens.get(at) {
            Some(&"{") => {
                at += 1;
                while tokens.get(at).is_some_and(|token| *token != "}") {
                    at = tree(tokens, at, &path, take);
                    if tokens.get(at) == Some(&",") {
                        at += 1;
                    } else if tokens.get(at).is_some_and(|token| *token != "}") {
                        return at;
                    }
                }
                return at + 1;
            }
            Some(word) if *word == "*" || word.starts_with(|c: char| c.is_alphabetic() || c == '_') => {
                path.push((*word).to_owned());
                at += 1;
            }
            _ => return at,
        }
        if tokens.get(at) != Some(&"::") {
            let mut name = path.last().cloned().unwrap_or_default();
            if name == "self" && path.len() > 1 {
                path.pop();
                name = path.last().cloned().unwrap_or_default();
            }
            if tokens.get(at) == Some(&"as") {
                name = tokens.get(at + 1).map(ToString::to_string).unwrap_or_default();
                at += 2;
            }
            take(name, path);
            return at;
        }
        at += 1;
        // Generic arguments, as in `crate::x::<T>`: the path ends before them.
        if tokens.get(at) == Some(&"<") {
            take(String::new(), path);
            return at;
        }
    }
}

fn parsed(path: String, source: &str) -> File {
    let text = code(source);
    let all = tokens(&text);
    let tokens = without_inline_modules(&all);
    let mut file = File { path, ..File::default() };
    let mut at = 0;
    while at < tokens.len() {
        if tokens[at] == "use" {
            at = tree(&tokens, at + 1, &[], &mut |name, path| {
                file.paths.insert(path.clone());
                file.imports.insert(name, path);
            });
        } else if tokens.get(at + 1) == Some(&"::") && (at == 0 || !matches!(tokens[at - 1], "::" | "$")) {
            // Not a tree: a brace after a path in the code begins something else.
            let mut path = vec![tokens[at].to_owned()];
            while tokens.get(at + 1) == Some(&"::")
                && tokens.get(at + 2).is_some_and(|word| !matches!(*word, "<" | "{" | "*"))
            {
                path.push(tokens[at + 2].to_owned());
                at += 2;
            }
            file.paths.insert(path);
            at += 1;
        } else {
            at += 1;
        }
    }
    file
}

impl Sources {
    fn read(folder: &str) -> Self {
        let source = workspace().join(folder).join("src");
        let file = |path: String| {
            let text = std::fs::read_to_string(source.join(&path)).expect("a source is text");
            Some((module(&path)?, parsed(path, &text)))
        };
        Self { modules: rust_files(&source).into_iter().filter_map(file).collect() }
    }

    /// The module whose file holds the item that `path` names in `from`; `None` where that is outside the crate.
    fn holder(&self, from: &Module, path: &[String], hops: u32) -> Option<Module> {
        let mut here = from.clone();
        let mut rest = path;
        match rest.first()?.as_str() {
            "crate" => {
                here.clear();
                rest = &rest[1..];
            }
            "self" => rest = &rest[1..],
            "super" => {
                while rest.first().is_some_and(|word| word == "super") {
                    here.pop();
                    rest = &rest[1..];
                }
            }
            first => {
                let is_here =
                    self.modules.contains_key(&child(from, first)) || self.modules[from].imports.contains_key(first);
                if !is_here {
                    return None;
                }
            }
        }
        // A module written inside its file counts as that file.
        while !self.modules.contains_key(&here) {
            here.pop()?;
        }
        for (at, word) in rest.iter().enumerate() {
            let inside = child(&here, word);
            if self.modules.contains_key(&inside) {
                here = inside;
            } else if let Some(import) = self.modules[&here].imports.get(word).filter(|_| hops < 8) {
                // An import from another crate ends here: it belongs to no file of this one.
                let mut onward = import.clone();
                onward.extend_from_slice(&rest[at + 1..]);
                return self.holder(&here, &onward, hops + 1);
            } else {
                break;
            }
        }
        Some(here)
    }

    /// Which modules each imports from.
    fn imports(&self) -> BTreeMap<&Module, BTreeSet<Module>> {
        let holders = |(module, file): (&'_ Module, &File)| -> BTreeSet<Module> {
            let holders = file.paths.iter().filter_map(|path| self.holder(module, path, 0));
            holders.filter(|holder| !holder.starts_with(module) && !module.starts_with(holder)).collect()
        };
        self.modules.iter().map(|(module, file)| (module, holders((module, file)))).collect()
    }

    /// Sets of files that import from each other, each file over any number of others.
    fn circles(&self) -> BTreeSet<Vec<String>> {
        let path = |module: Module| self.modules[&module].path.clone();
        let imports = self.imports().into_iter();
        circles(imports.map(|(of, from)| (path(of.clone()), from.into_iter().map(path).collect())).collect())
    }

    /// Sets of the crate's own modules that import from each other, each with all that is inside it. The root, and tests,
    /// know all.
    fn circles_of_modules(&self) -> BTreeSet<Vec<String>> {
        let mut imports = BTreeMap::<String, BTreeSet<String>>::new();
        for (of, from) in self.imports() {
            let Some(name) = of.first().filter(|_| !of.iter().any(|part| part == "tests")) else { continue };
            let others = from.iter().filter_map(|module| module.first()).filter(|other| *other != name).cloned();
            imports.entry(name.clone()).or_default().extend(others);
        }
        circles(imports)
    }
}

/// Sets of names that import from each other, each over any number of others.
fn circles(imports: BTreeMap<String, BTreeSet<String>>) -> BTreeSet<Vec<String>> {
    let reached = |from: &String| {
        let (mut reached, mut next) = (BTreeSet::new(), vec![from]);
        while let Some(name) = next.pop() {
            next.extend(imports.get(name).into_iter().flatten().filter(|name| reached.insert((*name).clone())));
        }
        reached
    };
    let reached: BTreeMap<_, _> = imports.keys().map(|name| (name, reached(name))).collect();
    let in_circle = reached.keys().filter(|name| reached[*name].contains(**name));
    in_circle
        .map(|name| {
            let others =
                reached.keys().filter(|other| reached[*name].contains(**other) && reached[*other].contains(*name));
            others.map(ToString::to_string).collect()
        })
        .collect()
}

fn child(module: &[String], name: &str) -> Module {
    module.iter().cloned().chain([name.to_owned()]).collect()
}

fn crates() -> Vec<String> {
    shared_crates().into_iter().chain(CRATES.map(str::to_owned)).collect()
}

#[test]
fn files_import_in_no_circle() {
    let all = crates().into_iter().flat_map(|name| {
        let circles = Sources::read(&name).circles();
        circles.into_iter().map(move |files| (name.clone(), files))
    });
    let found: Vec<_> = all.collect();
    assert_eq!(found, Vec::<(String, Vec<String>)>::new(), "circles of files");
}

#[test]
fn modules_import_in_no_circle() {
    let all = crates().into_iter().flat_map(|name| {
        let circles = Sources::read(&name).circles_of_modules();
        circles.into_iter().map(move |modules| (name.clone(), modules))
    });
    let found: Vec<_> = all.collect();
    assert_eq!(found, Vec::<(String, Vec<String>)>::new(), "circles of modules");
}

#[test]
fn a_circle_of_modules_is_found_over_the_files_inside_them() {
    let file = |path: &str, source: &str| (module(path).unwrap(), parsed(path.to_owned(), source));
    let files = [
        file("lib.rs", "mod a; mod b;"),
        file("a.rs", "mod inner;"),
        file("a/inner.rs", "use crate::b::B;"),
        file("b.rs", "mod inner; struct B;"),
        file("b/inner.rs", "use crate::a::A;"),
    ];
    let sources = Sources { modules: files.into() };
    assert_eq!(sources.circles(), BTreeSet::new());
    assert_eq!(sources.circles_of_modules(), BTreeSet::from([vec!["a".to_owned(), "b".to_owned()]]));
}

#[test]
fn a_circle_is_found_through_an_export() {
    let file = |path: &str, source: &str| (module(path).unwrap(), parsed(path.to_owned(), source));
    let files = [
        file("lib.rs", "mod a; mod b; pub mod c; pub use a::{A, f as g};"),
        file("a.rs", "use crate::b::{self, B}; use std::fmt; mod tests { use crate::c::C; } struct A;"),
        file("b/mod.rs", "fn x() { crate::g(); } mod inner; use inner::I;"),
        file("b/inner.rs", "use super::{super::c::C, x};"),
        file("c.rs", "// use crate::a::A;\nstruct C;"),
    ];
    let sources = Sources { modules: files.into() };
    assert_eq!(sources.circles(), BTreeSet::from([vec!["a.rs".to_owned(), "b/mod.rs".to_owned()]]));
}
