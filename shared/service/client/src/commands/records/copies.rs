//! `assay-validator export` and `assay-validator backup`: the validator writes, on its machine and as its user.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::Context;
use assay_api::{BackupRequest, ExportRequest, ProblemCode};
use assay_program::exit::{Exit, Failure, print_document};
use serde::Serialize;
use serde_json::Value;

use super::{ask, text};
use crate::cli::records::{BackupArgs, ExportArgs};
use crate::failure::ClientError;
use crate::place::ApiLocation;

/// Writes all records into a folder.
///
/// # Errors
/// No validator answers, or it cannot write there.
pub fn export(place: &ApiLocation, args: &ExportArgs) -> anyhow::Result<Exit> {
    let folder = absolute(&args.folder)?;
    let made = written(place, ("/export", &folder), &ExportRequest { folder: folder.clone() })?;
    Ok(print_document(&made, args.common.json, || {
        let tables = made["tables"].as_object().into_iter().flatten();
        let rows: Vec<_> = tables.map(|(table, rows)| format!("{rows} {table}")).collect();
        let (folder, schema) = (text(&made, "folder"), &made["schema_version"]);
        format!("exported to {folder}, schema version {schema}: {}", rows.join(", "))
    })?)
}

/// Copies the records into a file.
///
/// # Errors
/// No validator answers, or it cannot write there.
pub fn backup(place: &ApiLocation, args: &BackupArgs) -> anyhow::Result<Exit> {
    let file = absolute(&args.to)?;
    let made = written(place, ("/backup", &file), &BackupRequest { file: file.clone(), check: args.check })?;
    Ok(print_document(&made, args.common.json, || {
        format!("copied to {}: {} bytes", text(&made, "file"), made["bytes"])
    })?)
}

/// Refuses a validator of another machine.
///
/// # Errors
/// [`Exit::Usage`].
pub fn refuse_server(place: &ApiLocation) -> Result<(), Failure> {
    let message = "the validator writes into files of its own machine: run this command there, without --server (and \
                   without ASSAY_VALIDATOR_SERVER)";
    if place.is_socket() { Ok(()) } else { Err(Failure::new(Exit::Usage, message)) }
}

/// Has the validator write to this path, without a time limit.
fn written(place: &ApiLocation, (route, path): (&str, &str), what: &impl Serialize) -> anyhow::Result<Value> {
    refuse_server(place)?;
    let made = ask(place, async |client| client.post_slow(route, what).await.map_err(not_written))?;
    check_visible(Path::new(path))?;
    Ok(made)
}

/// Refuses a copy that is elsewhere for this command: a service or a container may have another `/tmp`.
fn check_visible(path: &Path) -> Result<(), Failure> {
    match path.symlink_metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => Err(Failure::new(
            Exit::Io,
            format!(
                "the validator wrote {}, whole, where this command does not see it, as in the private /tmp of its \
                 service or in its container: name a path below its state folder, such as /var/lib/assay-validator, or \
                 run this command in the container",
                path.display()
            ),
        )),
        // A folder that this user may not read hides nothing from its own.
        _ => Ok(()),
    }
}

/// A copy that cannot be written ends as any other file does.
fn not_written(error: ClientError) -> ClientError {
    let is_refused = matches!(error.code(), Some(ProblemCode::NotPossible | ProblemCode::Records));
    if is_refused { ClientError::Failed(Failure { exit: Exit::Io, ..error.into() }) } else { error }
}

/// The absolute path, since the validator runs in another folder.
fn absolute(path: &Path) -> anyhow::Result<String> {
    let path: PathBuf = std::path::absolute(path).context("the path cannot be made absolute")?;
    path.into_os_string().into_string().map_err(|path| anyhow::anyhow!("{} is not UTF-8", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression test: a copy in the private `/tmp` of the service was reported as made, and is gone with the service.
    #[test]
    fn a_copy_that_this_command_does_not_see_is_a_failure() {
        let folder = tempfile::tempdir().unwrap();
        let (socket, path) = (folder.path().join("socket"), folder.path().join("copy"));
        let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let served = axum::Router::new().fallback(async || axum::Json(serde_json::json!({ "bytes": 1 })));
        std::thread::spawn(move || {
            crate::block_on(async {
                listener.set_nonblocking(true).unwrap();
                let listener = tokio::net::UnixListener::from_std(listener).unwrap();
                Ok(axum::serve(listener, served).await?)
            })
        });
        let place = ApiLocation::Socket(socket);
        let ask = || written(&place, ("/backup", path.to_str().unwrap()), &Value::Null);
        let refused = ask().unwrap_err().downcast::<Failure>().unwrap();
        assert!(refused.exit == Exit::Io && refused.message.contains("private /tmp"), "{refused}");
        std::fs::write(&path, "a copy").unwrap();
        assert_eq!(ask().unwrap()["bytes"], 1);
    }
}
