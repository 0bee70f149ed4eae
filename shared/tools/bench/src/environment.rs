//! The environment that backends ask for, in a process that opens devices itself.

use std::ffi::OsString;
use std::process::Command;
use std::{env, io};

use assay_backends::HostConfig;

/// Replaces this process with a new one of this program, unless the variables that the backends of `config` ask for are
/// set: drivers read them as they are loaded. Returns once they are set.
///
/// # Errors
/// The system's, when the program cannot be started.
pub fn restart_with(config: &HostConfig) -> io::Result<()> {
    let backends = config.backends();
    let allowed = backends.iter().filter(|backend| config.choice.allows(backend.kind()));
    let missing = missing(allowed.flat_map(|backend| backend.environment()).collect());
    if missing.is_empty() {
        return Ok(());
    }
    let mut command = Command::new(env::current_exe()?);
    restart(command.args(env::args_os().skip(1)).envs(missing))
}

/// The variables that this process lacks, or has with another value.
fn missing(mut variables: Vec<(&'static str, OsString)>) -> Vec<(&'static str, OsString)> {
    variables.retain(|(name, value)| env::var_os(name).as_ref() != Some(value));
    variables
}

#[cfg(unix)]
fn restart(command: &mut Command) -> io::Result<()> {
    Err(std::os::unix::process::CommandExt::exec(command))
}

#[cfg(not(unix))]
fn restart(command: &mut Command) -> io::Result<()> {
    std::process::exit(command.status()?.code().unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_variables_that_differ_are_missing() {
        let path = env::var_os("PATH").unwrap();
        assert_eq!(missing(vec![("PATH", path)]), []);
        let absent = vec![("PATH", "elsewhere".into()), ("ASSAY_NO_SUCH_VARIABLE", "1".into())];
        assert_eq!(missing(absent.clone()), absent);
    }
}
