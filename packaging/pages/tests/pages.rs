//! The pages and completions name every command and every flag.

use std::fs;
use std::path::Path;
use std::process::Command;

use clap::CommandFactory;

fn written() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let status = Command::new(env!("CARGO_BIN_EXE_assay-pages")).arg(folder.path()).status().unwrap();
    assert!(status.success());
    folder
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn flags(command: &clap::Command) -> Vec<String> {
    command.get_arguments().filter_map(|argument| argument.get_long().map(str::to_owned)).collect()
}

#[test]
fn every_command_has_a_page_with_its_flags_and_is_completed() {
    let folder = written();
    for mut program in [assay_miner::cli::Cli::command(), assay_validator::cli::Cli::command()] {
        program.build();
        let name = program.get_name().to_owned();
        let folder = folder.path().join(&name);
        let main = read(&folder.join(format!("man/{name}.1")));
        let shells = [format!("{name}.bash"), format!("_{name}"), format!("{name}.fish")];
        let shells = shells.map(|file| read(&folder.join("completions").join(file)));
        for command in program.get_subcommands() {
            let command_name = command.get_name();
            if ["worker", "help"].contains(&command_name) {
                continue;
            }
            let page = read(&folder.join(format!("man/{name}-{command_name}.1")));
            let on_main = format!("{name}-{command_name}").replace('-', "\\-");
            assert!(main.contains(&on_main), "{on_main} is on the page of {name}");
            for help in command.get_arguments().filter(|it| !it.is_hide_set()).filter_map(clap::Arg::get_help) {
                let words = help.to_string().split_whitespace().take(3).collect::<Vec<_>>().join(" ");
                assert!(
                    page.contains(&words.replace('-', "\\-").replace('\'', "\\*(Aq")),
                    "{words:?} is on the page of {name} {command_name}"
                );
            }
            for flag in flags(command) {
                assert!(page.contains(&flag.replace('-', "\\-")), "--{flag} is on the page of {name} {command_name}");
                for completions in &shells {
                    assert!(completions.contains(&flag), "--{flag} of {name} {command_name} is completed");
                }
            }
        }
    }
}

/// Pages of one source are the same wherever they are made: no folder of this machine, no date.
#[test]
fn pages_are_the_same_on_every_machine() {
    let folder = written();
    let home = std::env::var("HOME").unwrap_or_else(|_| "/nonexistent".to_owned());
    for program in ["assay-miner", "assay-validator"] {
        for entry in fs::read_dir(folder.path().join(program).join("man")).unwrap() {
            let path = entry.unwrap().path();
            let page = read(&path);
            assert!(!page.contains(&format!("{home}/")), "{} names a folder of this machine", path.display());
            assert!(page.starts_with(".ie") || page.starts_with(".TH"), "{}", path.display());
        }
    }
}

/// Completions by bash of the words typed, with the script that the package has.
#[test]
fn bash_completes_commands_and_flags() {
    let folder = written();
    for (words, expected) in [
        ("assay-miner conf", "config"),
        ("assay-miner config che", "check"),
        ("assay-miner run --validator-", "--validator-ca"),
        ("assay-validator check-openings --js", "--json"),
        ("assay-validator challenge --mod", "--mode"),
    ] {
        let (before, typed) = words.rsplit_once(' ').unwrap();
        let previous = before.rsplit(' ').next().unwrap();
        let program = words.split(' ').next().unwrap();
        let script = folder.path().join(program).join("completions").join(format!("{program}.bash"));
        let ask = format!(
            ". {}; COMP_WORDS=({words}); COMP_CWORD={}; _{} {program} {typed} {previous}; echo \"${{COMPREPLY[@]}}\"",
            script.display(),
            before.split(' ').count(),
            program.replace('-', "__"),
        );
        let output = Command::new("bash").args(["-c", &ask]).output().unwrap();
        let completed = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(completed.split_whitespace().any(|word| word == expected), "{words}: {completed} {output:?}");
    }
}
