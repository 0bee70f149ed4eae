//! `assay-validator verdicts --follow`: a log of verdicts, from the events of the records.

use std::convert::Infallible;
use std::io::{self, Write};
use std::time::Duration;

use assay_api::{Gap, LiveEvent, ProblemCode};
use assay_program::exit::{Exit, Failure};
use assay_program::standard_error;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::place::ApiLocation;
use crate::{Client, ClientError, Result, escaped};

/// Pause before reconnecting to a lost validator.
const PAUSE: Duration = Duration::from_secs(2);

/// Reason for the end of a connection.
enum FollowEnd {
    /// The validator is lost, or refuses.
    Lost(ClientError),
    /// Standard output cannot be written.
    Output(io::Error),
}

impl From<ClientError> for FollowEnd {
    fn from(error: ClientError) -> Self {
        Self::Lost(error)
    }
}

/// State of the verdicts printed.
struct FollowState {
    /// Event of the last one.
    sequence: i64,
    /// Whether a validator answered since the last loss.
    is_connected: bool,
}

/// Prints each verdict behind an event, then each new one, as one JSON object per line. Reconnects to a lost validator.
///
/// # Errors
/// No validator answers at the beginning, it refuses, or standard output cannot be written.
pub fn execute(place: &ApiLocation, after: i64) -> anyhow::Result<Exit> {
    crate::block_on(async {
        let client = Client::of(place);
        let mut printed = FollowState { sequence: after, is_connected: false };
        let mut has_begun = false;
        loop {
            let Err(end) = print_verdicts(&client, &mut printed).await;
            let lost = match end {
                FollowEnd::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(Exit::Done),
                FollowEnd::Output(error) => {
                    return Err(Failure::because(Exit::Io, "cannot write to standard output", error).into());
                }
                FollowEnd::Lost(error) => Failure::from(error),
            };
            let was_connected = std::mem::take(&mut printed.is_connected);
            has_begun |= was_connected;
            if !has_begun || matches!(lost.exit, Exit::Usage | Exit::Config) {
                return Err(lost.into());
            }
            if was_connected {
                standard_error::print(&format!("{lost}; the command connects again"));
            }
            tokio::time::sleep(PAUSE).await;
        }
    })
}

/// Prints verdicts until the connection is lost.
async fn print_verdicts(client: &Client, printed: &mut FollowState) -> Result<Infallible, FollowEnd> {
    let mut events = client.events("/events?kinds=verdict", Some(&printed.sequence.to_string())).await?;
    printed.is_connected = true;
    loop {
        let ended = || ClientError::Broken("the stream of events ended".to_owned());
        let event = events.next().await?.ok_or_else(ended)?;
        if event.name == "gap" {
            let gap: Gap = read(&event.data)?;
            if let Some(sentence) = lacking(gap) {
                standard_error::print(&sentence);
            }
            printed.sequence = gap.oldest - 1;
            continue;
        }
        let LiveEvent { seq, challenge, .. } = read(&event.data)?;
        if let Some(line) = line(client, seq, &challenge.unwrap_or_default()).await? {
            let mut out = io::stdout().lock();
            out.write_all(line.as_bytes()).and_then(|()| out.flush()).map_err(FollowEnd::Output)?;
        }
        printed.sequence = seq;
    }
}

/// A sentence about events that are not printed.
fn lacking(Gap { after, oldest }: Gap) -> Option<String> {
    let newest = oldest - 1;
    (after > 0).then(|| match newest < after {
        true => {
            format!("the validator has no event {after} yet: the verdicts after its newest event, {newest}, follow")
        }
        false => format!(
            "the validator keeps no events between {after} and {oldest}: `assay-validator export` has their verdicts"
        ),
    })
}

/// The verdict of an event with its records; `None` where they are no longer kept.
async fn line(client: &Client, sequence: i64, challenge: &str) -> Result<Option<String>> {
    match client.get::<Map<String, Value>>(&format!("/verdicts/{}", escaped(challenge))).await {
        Ok(mut verdict) => {
            verdict.insert("sequence".to_owned(), sequence.into());
            Ok(Some(format!("{}\n", Value::Object(verdict))))
        }
        Err(error) if error.code() == Some(ProblemCode::NotFound) => Ok(None),
        Err(error) => Err(error),
    }
}

fn read<'a, T: Deserialize<'a>>(data: &'a str) -> Result<T> {
    serde_json::from_str(data).map_err(|error| ClientError::Broken(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_before_and_one_behind_the_records_are_told_apart() {
        let lacking = |after, oldest| lacking(Gap { after, oldest });
        assert_eq!(lacking(0, 7), None);
        assert!(lacking(3, 7).unwrap().starts_with("the validator keeps no events between 3 and 7: "));
        let ahead = lacking(999_999, 7).unwrap();
        assert_eq!(ahead, "the validator has no event 999999 yet: the verdicts after its newest event, 6, follow");
    }
}
