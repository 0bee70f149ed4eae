//! Where records are.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use sqlx::postgres::PgConnectOptions;

/// Where records are: a file of SQLite, or a database of PostgreSQL. Shown without its password.
#[derive(Clone, PartialEq, Eq)]
pub enum Location {
    /// A file, made when it is not there.
    File(PathBuf),
    /// A URL, `postgres://user@host/database`.
    Postgres(String),
}

/// A text is not a location.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LocationError {
    /// The text is empty.
    #[error("the location of the records is empty: give a file, or the URL of a PostgreSQL database")]
    Empty,
    /// A URL of PostgreSQL that sqlx does not take.
    #[error("invalid URL of a PostgreSQL database: {0}; it has the form postgres://user@host/database")]
    Url(String),
    /// A URL of something else.
    #[error("records are in a file or in PostgreSQL: there is no support for {0}://")]
    Scheme(String),
}

impl FromStr for Location {
    type Err = LocationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once("://").map(|(scheme, _)| scheme) {
            Some("postgres" | "postgresql") => {
                let parsed = PgConnectOptions::from_str(text).map_err(|error| LocationError::Url(error.to_string()))?;
                if parsed.get_database().is_none() {
                    return Err(LocationError::Url("no database is named".to_owned()));
                }
                Ok(Self::Postgres(text.to_owned()))
            }
            Some(scheme) if scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()) => {
                Err(LocationError::Scheme(scheme.to_owned()))
            }
            _ if text.is_empty() => Err(LocationError::Empty),
            _ => Ok(Self::File(text.into())),
        }
    }
}

impl Location {
    /// The URL that sqlx opens. It has the password.
    pub(crate) fn url(&self) -> String {
        match self {
            Self::File(path) => {
                let path = path.to_string_lossy();
                let escaped: String = path
                    .bytes()
                    .map(|byte| match byte {
                        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' => char::from(byte).into(),
                        _ => format!("%{byte:02x}"),
                    })
                    .collect();
                format!("sqlite://{escaped}?mode=rw")
            }
            Self::Postgres(url) => url.clone(),
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = match self {
            Self::File(path) => return write!(f, "{}", path.display()),
            Self::Postgres(url) => url,
        };
        match PgConnectOptions::from_str(url) {
            Ok(url) => {
                let (user, host, port) = (url.get_username(), url.get_host(), url.get_port());
                write!(f, "postgres://{user}@{host}:{port}/{}", url.get_database().unwrap_or_default())
            }
            Err(_) => f.write_str("postgres://"),
        }
    }
}

impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Location({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_postgresql_and_everything_else_a_file() {
        for (text, shown) in [
            ("validator.db", "validator.db"),
            ("/var/lib/assay validator/100%.db", "/var/lib/assay validator/100%.db"),
            ("postgres://fleet:hunter2@db.example:5433/assay", "postgres://fleet@db.example:5433/assay"),
            ("postgresql://fleet@db.example/assay?password=hunter2", "postgres://fleet@db.example:5432/assay"),
        ] {
            let location: Location = text.parse().unwrap();
            assert_eq!(location.to_string(), shown);
            assert!(!format!("{location:?}").contains("hunter2"));
            assert_eq!(matches!(location, Location::File(_)), !text.starts_with("postgres"), "{text}");
        }
    }

    #[test]
    fn what_is_no_location_is_refused() {
        assert_eq!("".parse::<Location>(), Err(LocationError::Empty));
        assert_eq!("mysql://a/b".parse::<Location>(), Err(LocationError::Scheme("mysql".into())));
        for url in ["postgres://fleet@db.example", "postgres://fleet@db.example:port/assay"] {
            assert!(matches!(url.parse::<Location>(), Err(LocationError::Url(_))), "{url}");
        }
    }

    #[test]
    fn a_file_keeps_its_name_in_the_url() {
        let location = Location::File("/a b/c?d%e#f.db".into());
        assert_eq!(location.url(), "sqlite:///a%20b/c%3fd%25e%23f.db?mode=rw");
    }
}
