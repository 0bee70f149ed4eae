//! Default directories for state, sockets and caches.

use std::env;
use std::path::{Path, PathBuf};

/// The folder's name below the folders of a user.
const FOLDER: &str = "assay";

/// A file that persists: below `STATE_DIRECTORY` (a systemd unit's), `XDG_STATE_HOME/assay`, `HOME/.local/state/assay`,
/// or `/var/lib/assay`. On Windows below `LOCALAPPDATA\assay`, or its default place: only its user, administrators and
/// the system can read files made there.
pub fn state_file(name: &str) -> PathBuf {
    state_folder(|variable| env::var_os(variable).map(PathBuf::from)).join(name)
}

/// A socket: below `RUNTIME_DIRECTORY`, `XDG_RUNTIME_DIR/assay`, or else where
/// [`state_file`] is.
pub fn runtime_file(name: &str) -> PathBuf {
    let variable = |variable: &str| env::var_os(variable).map(PathBuf::from);
    runtime_folder(variable).unwrap_or_else(|| state_folder(variable)).join(name)
}

/// A file of this machine's settings: in `/etc/assay`. `None` on Windows.
pub fn system_file(name: &str) -> Option<PathBuf> {
    cfg!(unix).then(|| Path::new("/etc").join(FOLDER).join(name))
}

/// A folder for caches: below `XDG_CACHE_HOME/assay` or `HOME/.cache/assay`; none where neither is
/// known.
pub fn cache_folder(name: &str) -> Option<PathBuf> {
    cache_parent(|variable| env::var_os(variable).map(PathBuf::from)).map(|folder| folder.join(name))
}

fn cache_parent(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let home = || absolute(variable("HOME")).map(|home| home.join(".cache"));
    Some(absolute(variable("XDG_CACHE_HOME")).or_else(home)?.join(FOLDER))
}

fn state_folder(variable: impl Fn(&str) -> Option<PathBuf>) -> PathBuf {
    absolute(variable("STATE_DIRECTORY"))
        .or_else(|| absolute(variable("XDG_STATE_HOME")).map(|p| p.join(FOLDER)))
        .or_else(|| user_folder(&variable))
        .unwrap_or_else(|| Path::new("/var/lib").join(FOLDER))
}

#[cfg(not(windows))]
fn user_folder(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    absolute(variable("HOME")).map(|p| p.join(".local/state").join(FOLDER))
}

#[cfg(windows)]
fn user_folder(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let by_default = || env::home_dir().map(|home| home.join("AppData").join("Local"));
    absolute(variable("LOCALAPPDATA").or_else(by_default)).map(|p| p.join(FOLDER))
}

fn runtime_folder(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    absolute(variable("RUNTIME_DIRECTORY")).or_else(|| absolute(variable("XDG_RUNTIME_DIR")).map(|p| p.join(FOLDER)))
}

/// The XDG specification has relative paths ignored.
fn absolute(path: Option<PathBuf>) -> Option<PathBuf> {
    path.filter(|p| p.is_absolute())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(variables: &'static [(&str, &str)]) -> impl Fn(&str) -> Option<PathBuf> + Copy {
        move |name| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| PathBuf::from(value))
    }

    #[test]
    fn the_first_folder_that_is_known_is_taken() {
        let all = with(&[("STATE_DIRECTORY", "/s"), ("XDG_STATE_HOME", "/x"), ("HOME", "/h")]);
        assert_eq!(state_folder(all), Path::new("/s"));
        assert_eq!(state_folder(with(&[("XDG_STATE_HOME", "/x"), ("HOME", "/h")])), Path::new("/x/assay"));
        let relative = with(&[("XDG_STATE_HOME", "x"), ("HOME", "/h")]);
        assert_eq!(state_folder(relative), Path::new("/h/.local/state/assay"));
        assert_eq!(state_folder(with(&[])), Path::new("/var/lib/assay"));
    }

    #[test]
    fn what_can_be_made_again_lies_in_the_users_cache() {
        assert_eq!(cache_parent(with(&[("XDG_CACHE_HOME", "/c"), ("HOME", "/h")])), Some("/c/assay".into()));
        assert_eq!(cache_parent(with(&[("XDG_CACHE_HOME", "c"), ("HOME", "/h")])), Some("/h/.cache/assay".into()));
        assert_eq!(cache_parent(with(&[("HOME", "h")])), None);
    }

    #[test]
    fn sockets_live_in_the_runtime_folder_when_there_is_one() {
        assert_eq!(runtime_folder(with(&[("XDG_RUNTIME_DIR", "/run/user/1")])), Some("/run/user/1/assay".into()));
        assert_eq!(runtime_folder(with(&[("HOME", "/h")])), None);
    }
}
