//! Manual pages: one for each program and one for each command, in section 1.

use std::fs;
use std::path::Path;

use anyhow::Context;
use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

/// Writes the pages of a program.
pub fn write(folder: &Path, command: Command) -> anyhow::Result<()> {
    let program = command.get_name().to_owned();
    // Commands get the whole line that leads to them.
    let mut command = command.disable_help_subcommand(true).disable_version_flag(true);
    command.build();
    page(folder, &program, &program, &command)?;
    write_commands(folder, &program, &program, &command)
}

fn write_commands(folder: &Path, program: &str, parent: &str, command: &Command) -> anyhow::Result<()> {
    for command in command.get_subcommands().filter(|command| !command.is_hide_set()) {
        let name = format!("{parent}-{}", command.get_name());
        page(folder, program, &name, command)?;
        write_commands(folder, program, &name, command)?;
    }
    Ok(())
}

fn page(folder: &Path, program: &str, name: &str, command: &Command) -> anyhow::Result<()> {
    // The page goes by the name of its file. Names last as long as the program, which is over at once.
    let command = command.clone().name(&*name.to_owned().leak()).display_name(name.to_owned());
    let examples = section_of_help(&command);
    let command = command.after_help("").after_long_help("");
    let man = Man::new(command.clone()).title(name).section("1").source(format!("Assay {}", env!("CARGO_PKG_VERSION")));
    let man = man.manual("Assay").date(date());
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    if command.get_arguments().any(|argument| !argument.is_hide_set()) {
        man.render_options_section(&mut page)?;
    }
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    for (heading, text) in examples {
        verbatim(&heading, &text).to_writer(&mut page)?;
    }
    files(program).to_writer(&mut page)?;
    see_also(program, name).to_writer(&mut page)?;
    let path = folder.join(format!("{name}.1"));
    fs::write(&path, without_doubled_breaks(&String::from_utf8(page)?))
        .with_context(|| format!("cannot write {}", path.display()))
}

/// Without line breaks beside empty lines: they say nothing, and mandoc warns of each.
fn without_doubled_breaks(page: &str) -> String {
    let mut text = page.replace(".br\n\n.br\n", ".sp\n");
    for doubled in [".br\n.sp\n", ".sp\n.br\n"] {
        while text.contains(doubled) {
            text = text.replace(doubled, ".sp\n");
        }
    }
    text
}

/// The paragraphs after a command's help: `Examples:` and `Exit codes:` with lines below them, and text without either.
fn section_of_help(command: &Command) -> Vec<(String, String)> {
    let help = command.get_after_long_help().or_else(|| command.get_after_help()).map(ToString::to_string);
    let short = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let mut text = help.unwrap_or_default();
    // A long help of its own takes the place of the short one, which has the examples.
    if !short.is_empty() && !text.contains(short.trim()) {
        text = format!("{short}\n\n{text}");
    }
    let sections = text.split("\n\n").map(str::trim_end).filter(|part| !part.is_empty());
    let named = sections.map(|part| match part.split_once(":\n") {
        Some((heading, lines)) if !heading.contains('\n') => (heading.to_uppercase(), lines.to_owned()),
        _ => ("SETTINGS".to_owned(), part.to_owned()),
    });
    named.collect()
}

/// A section whose lines stay as they are, but for running text.
fn verbatim(heading: &str, text: &str) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", [heading]);
    if heading == "SETTINGS" {
        roff.text([roman(text)]);
        return roff;
    }
    roff.control("nf", []);
    for line in text.lines() {
        roff.text([roman(line)]);
    }
    roff.control("fi", []);
    roff
}

/// The day of the sources, which is the same wherever a page is made: that of `SOURCE_DATE_EPOCH`, or none.
fn date() -> String {
    let seconds = std::env::var("SOURCE_DATE_EPOCH").ok().and_then(|seconds| seconds.parse().ok());
    seconds.map_or_else(String::new, |seconds| assay_program::utc::text(seconds).chars().take(10).collect())
}

fn files(program: &str) -> Roff {
    let name = program.trim_start_matches("assay-");
    let mut entries = vec![
        (format!("/etc/assay/{name}.toml"), "Settings, read where --config and the environment name no other file."),
        (format!("/var/lib/{program}/{name}.key"), "The secret key, where the package keeps it."),
    ];
    if name == "validator" {
        entries.push(("/run/assay-validator/control.sock".into(), "The socket for commands."));
    }
    let mut roff = Roff::new();
    roff.control("SH", ["FILES"]);
    for (path, about) in entries {
        roff.control("TP", []).text([bold(path)]).text([roman(about)]);
    }
    roff
}

fn see_also(program: &str, name: &str) -> Roff {
    let other = if program == "assay-miner" { "assay-validator" } else { "assay-miner" };
    let mut roff = Roff::new();
    roff.control("SH", ["SEE ALSO"]);
    let pages = [program, other].into_iter().filter(|page| *page != name).map(|page| format!("{page}(1)"));
    let pages: Vec<_> = pages.collect();
    roff.text([roman(format!("{}; /usr/share/doc/{program}/operate.md", pages.join(", ")))]);
    roff
}
