//! Writes the manual pages and the shell completions of both programs into a folder: `assay-pages DIR`.

use std::path::Path;

use anyhow::Context;

fn main() -> anyhow::Result<()> {
    let folder = std::env::args_os().nth(1).context("name the folder to write into")?;
    assay_pages::write_all(Path::new(&folder))
}
