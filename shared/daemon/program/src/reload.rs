//! SIGHUP: settings are read again, and log files opened anew.

use std::io;

use super::settings::Settings;

/// Receives SIGHUP. Windows has no such signal.
#[derive(Debug)]
pub struct Hangups(#[cfg(unix)] tokio::signal::unix::Signal);

impl Hangups {
    /// Listens from now on, inside a Tokio runtime: SIGHUP does not end this program any more.
    ///
    /// # Errors
    /// The system's error, when it takes no signal handlers.
    pub fn new() -> io::Result<Self> {
        #[cfg(unix)]
        {
            use tokio::signal::unix::{SignalKind, signal};
            Ok(Self(signal(SignalKind::hangup())?))
        }
        #[cfg(not(unix))]
        Ok(Self())
    }

    /// Waits for the next one. Several that come before anyone waits are one.
    pub async fn next(&mut self) {
        #[cfg(unix)]
        if self.0.recv().await.is_some() {
            return;
        }
        // There are no more.
        std::future::pending::<()>().await;
    }
}

/// The names of the settings whose values differ, from any layer.
pub fn changed<R: clap::Args>(old: &Settings<R>, new: &Settings<R>) -> Vec<String> {
    let pairs = old.settings().iter().zip(new.settings());
    pairs.filter(|(old, new)| old.values != new.values).map(|(_, new)| new.key.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Environment, Flags};
    use clap::FromArgMatches;

    #[derive(Debug, Clone, clap::Args)]
    struct Raw {
        /// A number
        #[arg(long, default_value_t = 1)]
        count: u32,
        /// A list
        #[arg(long, action = clap::ArgAction::Append, value_delimiter = ',')]
        friends: Vec<String>,
    }

    fn settings(variables: &[(&str, &str)]) -> Settings<Raw> {
        let command = <Flags<Raw> as clap::Args>::augment_args(clap::Command::new("test"));
        let flags = Flags::<Raw>::from_arg_matches(&command.get_matches_from(["test"])).unwrap();
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Settings::resolve(&flags, &Environment::new("TEST_", variables)).unwrap()
    }

    #[test]
    fn what_differs_is_named_and_another_origin_is_no_difference() {
        let old = settings(&[]);
        assert!(changed(&old, &settings(&[("TEST_COUNT", "1")])).is_empty());
        assert_eq!(changed(&old, &settings(&[("TEST_COUNT", "2")])), ["count"]);
        assert_eq!(changed(&old, &settings(&[("TEST_COUNT", "2"), ("TEST_FRIENDS", "a")])), ["count", "friends"]);
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn a_real_signal_is_heard_and_ends_nothing() {
        let mut hangups = Hangups::new().unwrap();
        let pid = std::process::id().to_string();
        for _ in 0..2 {
            assert!(std::process::Command::new("kill").args(["-HUP", &pid]).status().unwrap().success());
            hangups.next().await;
        }
    }
}
