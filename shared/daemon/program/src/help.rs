//! Help that is read at once: commands in groups, and of a command's settings those that a beginner needs.

use std::fmt::Write;

use clap::{Arg, Command, CommandFactory, Subcommand};

/// The heading of the commands that no group names.
const OTHERS: &str = "Others";
/// Characters of a command's description: a line of 100 has its name besides.
const MAX_CLAUSE_CHARS: usize = 80;

/// A template of a program's help with its commands in groups, each with the first clause of its description.
pub fn template<C: Subcommand>(groups: &[(&str, &[&str])]) -> String {
    let commands = C::augment_subcommands(Command::new("commands"));
    let shown: Vec<&Command> = commands.get_subcommands().filter(|command| !command.is_hide_set()).collect();
    let width = shown.iter().map(|command| command.get_name().len()).max().unwrap_or(0);
    let named = |name: &&str| shown.iter().copied().find(|command| command.get_name() == *name);
    let rest = shown.iter().copied().filter(|c| !groups.iter().any(|(_, names)| names.contains(&c.get_name())));
    let mut groups: Vec<(&str, Vec<&Command>)> =
        groups.iter().map(|(title, names)| (*title, names.iter().filter_map(named).collect())).collect();
    groups.push((OTHERS, rest.collect()));
    let mut text = "{about-with-newline}\n{usage-heading} {usage}\n".to_owned();
    for (title, commands) in groups.iter().filter(|(_, commands)| !commands.is_empty()) {
        // Writing into memory cannot fail.
        let _ = writeln!(text, "\n{title}:");
        for command in commands {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(text, "  {:width$}  {}", command.get_name(), clause(&about));
        }
    }
    text + "\nOptions:\n{options}{after-help}"
}

/// The text up to its further explanation, and no longer than fits a line.
fn clause(about: &str) -> &str {
    let end = [": ", "; ", " ("].into_iter().filter_map(|sign| about.find(sign)).min();
    let mut clause = &about[..end.unwrap_or(about.len())];
    while let Some(comma) = clause.rfind(", ").filter(|_| clause.chars().count() > MAX_CLAUSE_CHARS) {
        clause = &clause[..comma];
    }
    clause
}

/// Shows an argument in short help where it is one of these, by its id.
pub fn first(argument: Arg, ids: &[&str]) -> Arg {
    let is_first = ids.contains(&argument.get_id().as_str());
    argument.hide_short_help(!is_first)
}

/// The short help of a program, or of a command of it. For tests.
///
/// # Panics
/// The program has no such command.
pub fn short<C: CommandFactory>(path: &[&str]) -> String {
    let mut program = C::command();
    program.build();
    let found = path.iter().try_fold(&mut program, |command, name| command.find_subcommand_mut(name));
    found.map(|command| command.render_help().to_string()).unwrap_or_default()
}
