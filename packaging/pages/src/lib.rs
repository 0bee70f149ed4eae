//! Manual pages and shell completions of both programs, from the definition of their command lines. A crate of its own,
//! so that the daemons do not carry code for packages.

#![forbid(unsafe_code)]

mod manual;

use std::fs;
use std::path::Path;

use anyhow::Context;
use clap::{Command, CommandFactory};
use clap_complete::{Shell, generate_to};

/// The arguments whose default depends on the machine, with the text of a page.
const LOCAL_DEFAULTS: [(&str, &str); 2] =
    [("key_file", "in the state directory"), ("control_socket", "in the runtime directory")];

/// Writes `PROGRAM/man/*.1` and `PROGRAM/completions/*` of both programs below a folder.
///
/// # Errors
/// Fails for a file that cannot be written.
pub fn write_all(folder: &Path) -> anyhow::Result<()> {
    write(folder, assay_miner::cli::Cli::command())?;
    write(folder, assay_validator::cli::Cli::command())
}

fn write(folder: &Path, command: Command) -> anyhow::Result<()> {
    let command = everywhere(command);
    let name = command.get_name().to_owned();
    let (manual, completions) = (folder.join(&name).join("man"), folder.join(&name).join("completions"));
    for folder in [&manual, &completions] {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        let path = generate_to(shell, &mut command.clone(), &name, &completions).context("cannot write completions")?;
        if shell == Shell::Bash {
            mend_bash(&path, &name)?;
        }
    }
    manual::write(&manual, command)
}

/// clap_complete 4.6 calls a command of a program with a hyphen by two names in its script for bash, so that none of
/// its words is completed: one name is put in place of the other.
fn mend_bash(path: &Path, program: &str) -> anyhow::Result<()> {
    let (found, meant) = (program.replace('-', "__subcmd__"), program.replace('-', "__"));
    let script = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    fs::write(path, script.replace(&found, &meant)).with_context(|| format!("cannot write {}", path.display()))
}

/// The same on every machine, without options that operators never type.
fn everywhere(command: Command) -> Command {
    let command = command.mut_args(|argument| {
        // A page has all of them; clap_mangen leaves out the help of those that short help does.
        let argument = argument.hide_short_help(false);
        let Some((_, place)) = LOCAL_DEFAULTS.iter().find(|(id, _)| argument.get_id() == id) else { return argument };
        let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
        argument.help(format!("{help} [default: {place}]")).hide_default_value(true)
    });
    let names: Vec<_> = command.get_subcommands().map(|command| command.get_name().to_owned()).collect();
    names.iter().fold(command, |command, name| command.mut_subcommand(name, everywhere))
}
