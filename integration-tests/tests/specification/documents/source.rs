//! The workspace's sources as the tests of documents read them: files, and code without comments and literals.

use std::fs;
use std::path::{Path, PathBuf};

pub fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().expect("the workspace has a folder")
}

/// The folders of the crates below `shared/`, each in the folder of its storey.
pub fn shared_crates() -> Vec<String> {
    let entries = |folder: &str| {
        let entries = fs::read_dir(workspace().join(folder)).unwrap_or_else(|error| panic!("{folder}: {error}"));
        let name = |entry: fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
        entries.map(|entry| format!("{folder}/{}", name(entry.expect("an entry")))).collect::<Vec<_>>()
    };
    let mut found: Vec<_> = entries("shared").iter().flat_map(|storey| entries(storey)).collect();
    found.sort();
    found
}

/// A file of the workspace, as text.
pub fn read(path: &str) -> String {
    fs::read_to_string(workspace().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The value of the constant `name` as a file writes it.
pub fn written<'a>(source: &'a str, name: &str) -> Option<&'a str> {
    source.lines().find_map(|line| {
        let line = line.strip_prefix("pub ").unwrap_or(line);
        let rest = line.strip_prefix("const ")?.strip_prefix(name)?.strip_prefix(':')?;
        rest.split_once(" = ")?.1.strip_suffix(';')
    })
}

/// The Rust files under `folder`, relative to it, sorted; with `/` on every system.
pub fn rust_files(folder: &Path) -> Vec<String> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).unwrap_or_else(|error| panic!("{}: {error}", next.display())) {
            let path = entry.expect("an entry of a folder").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let relative = path.strip_prefix(folder).expect("it is in the folder");
                found
                    .push(relative.components().map(|c| c.as_os_str().to_string_lossy()).collect::<Vec<_>>().join("/"));
            }
        }
    }
    found.sort();
    found
}

/// A source's code: comments, strings and characters are left out, each with a space in its place.
pub fn code(source: &str) -> String {
    let (mut code, mut rest) = (String::with_capacity(source.len()), source);
    while let Some(first) = rest.chars().next() {
        let after_word = code.ends_with(|last: char| last.is_alphanumeric() || last == '_');
        let skipped = skipped(rest, after_word);
        if skipped > 0 {
            code.push(' ');
            rest = &rest[skipped..];
        } else {
            code.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    code
}

/// How many bytes at the start of `text` are a comment or a literal; `after_word` is whether a word ends before them.
fn skipped(text: &str, after_word: bool) -> usize {
    if text.starts_with("//") {
        return text.find('\n').unwrap_or(text.len());
    }
    if text.starts_with("/*") {
        return block_comment(text);
    }
    let prefix = if after_word {
        0
    } else {
        ["br", "cr", "b", "c", "r"].iter().find(|p| literal(text, p)).map_or(0, |p| p.len())
    };
    let body = &text[prefix..];
    let hashes = body.len() - body.trim_start_matches('#').len();
    if prefix > 0 && text[..prefix].ends_with('r') {
        let end = format!("\"{}", "#".repeat(hashes));
        let inside = &body[hashes + 1..];
        return text.len() - inside.len() + inside.find(&end).map_or(inside.len(), |at| at + end.len());
    }
    if body.starts_with('"') {
        return prefix + quoted(body, '"');
    }
    let mut after = body.chars().skip(1);
    let is_character = body.starts_with('\'') && (after.next() == Some('\\') || after.next() == Some('\''));
    if is_character { prefix + quoted(body, '\'') } else { 0 }
}

/// Whether `text` starts with a literal that has this prefix.
fn literal(text: &str, prefix: &str) -> bool {
    let Some(body) = text.strip_prefix(prefix) else { return false };
    let body = if prefix.ends_with('r') { body.trim_start_matches('#') } else { body };
    body.starts_with('"') || (prefix == "b" && body.starts_with('\''))
}

/// The bytes of a literal that starts and ends with `quote`.
fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, next) in text.char_indices().skip(1) {
        if !escaped && next == quote {
            return at + 1;
        }
        escaped = !escaped && next == '\\';
    }
    text.len()
}

/// The bytes of a block comment, which may hold others.
fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0_u32, 0);
    while at < text.len() {
        let step = match text.as_bytes().get(at..at + 2) {
            Some(b"/*") => {
                depth += 1;
                2
            }
            Some(b"*/") => {
                depth -= 1;
                2
            }
            _ => 1,
        };
        at += step;
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

/// The words and signs of code, in order; `::` is one sign.
pub fn tokens(code: &str) -> Vec<&str> {
    let (mut found, mut rest) = (Vec::new(), code.trim_start());
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let bytes = if is_word(first) {
            rest.find(|c| !is_word(c)).unwrap_or(rest.len())
        } else if rest.starts_with("::") {
            2
        } else {
            first.len_utf8()
        };
        found.push(&rest[..bytes]);
        rest = rest[bytes..].trim_start();
    }
    found
}

#[test]
fn comments_and_literals_are_no_code() {
    let source = r####"a/* b /* c */ d */e"f\"g"h'i'j'\''k<'l>m r"n\"o r#"p"q"#r b"s"t b'u'v // w
x br##"y"#z"##A attr"####;
    assert_eq!(code(source).split_whitespace().collect::<String>(), "aehjk<'l>mortvxAattr");
    assert_eq!(tokens("use crate::{a_1, b};"), ["use", "crate", "::", "{", "a_1", ",", "b", "}", ";"]);
}
