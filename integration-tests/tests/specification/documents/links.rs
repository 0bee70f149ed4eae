//! Links between pages lead to files and headings that are there.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::documents::source::workspace;

/// The Markdown files below `folder`, without build outputs and hidden folders.
fn pages(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder is readable") {
        let path = entry.expect("an entry of a folder").path();
        let is_hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if path.is_dir() && !is_hidden && path != workspace().join("target") {
            found.extend(pages(&path));
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
    found
}

/// A page without its fenced blocks.
fn prose(page: &Path) -> String {
    let text = std::fs::read_to_string(page).unwrap_or_else(|error| panic!("{}: {error}", page.display()));
    text.split("\n```").step_by(2).collect::<Vec<_>>().join("\n")
}

/// The headings of a page as links name them.
fn anchors(page: &Path) -> BTreeSet<String> {
    let prose = prose(page);
    let headings = prose.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, '-' | '_' | ' ');
    headings.map(|heading| heading.to_lowercase().chars().filter(kept).collect::<String>().replace(' ', "-")).collect()
}

#[test]
fn links_lead_to_files_and_headings() {
    let (mut wrong, mut links) = (Vec::new(), 0);
    for page in pages(&workspace()) {
        let prose = prose(&page);
        let targets = prose.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for target in targets.filter(|target| !target.starts_with("http")) {
            links += 1;
            let (file, heading) = target.split_once('#').unwrap_or((target, ""));
            let path = if file.is_empty() { page.clone() } else { page.parent().expect("a folder").join(file) };
            if !path.exists() || !(heading.is_empty() || anchors(&path).contains(heading)) {
                wrong.push(format!("{}: {target}", page.display()));
            }
        }
    }
    assert!(links > 50, "only {links} links");
    assert!(wrong.is_empty(), "{wrong:#?}");
}
