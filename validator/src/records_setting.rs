//! The setting `records`: a location without a secret in it, over a channel that cannot be read by others.

use assay_program::settings::{Settings, SettingsError};
use assay_records::Location;
use clap::Args;

/// Hosts of a URL that are this machine, paths of sockets included.
const LOCAL: [&str; 6] = ["localhost", "127.", "[::1]", "::1", "/", "%2F"];

/// Checks the location of the records. A password is refused, since settings are shown; so is another machine without
/// `sslmode`, since PostgreSQL's clients fall back to plaintext by default.
///
/// # Errors
/// [`SettingsError::Value`], without the URL.
pub fn check<R: Args>(settings: &Settings<R>, written: &str) -> Result<Location, SettingsError> {
    let wrong = |reason: String| match settings.wrong("records", reason) {
        SettingsError::Value { key, origin, reason, .. } if written.contains("://") => {
            SettingsError::Value { key, value: "a URL".to_owned(), origin, reason }
        }
        error => error,
    };
    let location: Location = written.parse().map_err(|error| wrong(format!("{error}")))?;
    match location {
        Location::Postgres(_) => problem(written).map_or(Ok(location), |why| Err(wrong(why.to_owned()))),
        Location::File(_) => Ok(location),
    }
}

/// The problem with a PostgreSQL URL.
pub fn problem(url: &str) -> Option<&'static str> {
    let (_, rest) = url.split_once("://")?;
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let authority = place.split('/').next().unwrap_or("");
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    let value = |name: &str| query.split('&').find_map(|pair| pair.split_once('=').filter(|(key, _)| *key == name));
    let has = |name: &str| value(name).is_some();
    if user.contains(':') || has("password") {
        return Some("settings are shown: put the password into a file (~/.pgpass or PGPASSFILE), not into the URL");
    }
    let is_local = |host: &str| host.is_empty() || LOCAL.iter().any(|local| host.starts_with(local));
    // The query takes precedence.
    let host = ["hostaddr", "host"].iter().find_map(|name| value(name)).map_or(host, |(_, host)| host);
    if !is_local(host) && !has("sslmode") {
        return Some(
            "say how the database on another machine is reached: ?sslmode=verify-full&sslrootcert=FILE, or \
             ?sslmode=disable where nobody can listen in",
        );
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_no_secret_and_says_how_it_is_reached() {
        for good in [
            "postgres://assay@localhost/assay",
            "postgres://assay@127.0.0.1:5433/assay",
            "postgres://assay@%2Fvar%2Frun%2Fpostgresql/assay",
            "postgres:///assay?user=assay",
            "postgres://assay@localhost/assay?host=/var/run/postgresql",
            "postgres://assay@db.example/assay?sslmode=verify-full&sslrootcert=/etc/assay/db.pem",
            "postgres://assay@db.example/assay?sslmode=disable",
        ] {
            assert_eq!(problem(good), None, "{good}");
        }
        for secret in ["postgres://assay:hunter2@localhost/assay", "postgres://assay@localhost/assay?password=hunter2"]
        {
            assert!(problem(secret).unwrap().contains("PGPASSFILE"), "{secret}");
        }
        for open in ["postgres://assay@db.example/assay", "postgres://assay@localhost/assay?host=db.example"] {
            assert!(problem(open).unwrap().contains("sslmode=verify-full"), "{open}");
        }
    }
}
