//! `assay-validator cancel`.

use assay_api::{ProblemCode, ServerStatus};
use assay_program::exit::{Exit, Failure, print};
use assay_program::prefix::{Prefix, PrefixError};
use assay_work::{ChallengeId, PublicKey};
use serde_json::Value;

use crate::Client;
use crate::cli::challenge::CancelArgs;
use crate::place::ApiLocation;

/// Cancels challenges of a running validator.
///
/// # Errors
/// No validator answers, or no such challenge runs.
pub fn execute(place: &ApiLocation, args: &CancelArgs) -> anyhow::Result<Exit> {
    let cancelled = crate::block_on(async {
        let client = Client::of(place);
        let running = running(&client).await?;
        let meant = match &args.target {
            Some(target) => vec![meant(target, &running)?],
            None => running,
        };
        let mut cancelled = Vec::new();
        for challenge in meant {
            if cancel(&client, challenge).await? {
                cancelled.push(challenge);
            }
        }
        Ok(cancelled)
    })?;
    if args.common.json {
        let row = |(id, key): &_| serde_json::json!({ "challenge_id": id, "miner_key": key });
        print(&serde_json::to_string_pretty(&cancelled.iter().map(row).collect::<Vec<_>>())?)?;
    } else if cancelled.is_empty() {
        print("no challenge runs")?;
    } else {
        for (id, key) in &cancelled {
            print(&format!("cancelled challenge {id} of miner {key}"))?;
        }
    }
    Ok(if cancelled.is_empty() && args.target.is_some() { Exit::Inconclusive } else { Exit::Done })
}

/// The running challenges, each with its miner.
async fn running(client: &Client) -> Result<Vec<(ChallengeId, PublicKey)>, Failure> {
    let status: ServerStatus = client.get("/status").await?;
    Ok(status.challenges.iter().map(|running| (running.challenge_id, running.miner_key)).collect())
}

/// Finds the challenge with this prefix of its id or of its miner's key.
fn meant(target: &Prefix, running: &[(ChallengeId, PublicKey)]) -> Result<(ChallengeId, PublicKey), Failure> {
    let names = running.iter().flat_map(|(id, key)| [id.0.to_vec(), key.0.to_vec()]);
    let name = target.find(names).map_err(|error| match error {
        PrefixError::None { .. } => Failure::new(Exit::Inconclusive, format!("no such challenge runs: {error}")),
        PrefixError::Several { .. } => Failure::new(Exit::Usage, error.to_string()),
    })?;
    let found = running.iter().find(|(id, key)| id.0[..] == name[..] || key.0[..] == name[..]);
    found.copied().ok_or_else(|| Failure::new(Exit::Inconclusive, "no such challenge runs"))
}

/// Cancels a challenge; false when it has just ended.
async fn cancel(client: &Client, (id, _): (ChallengeId, PublicKey)) -> Result<bool, Failure> {
    match client.delete::<Value>(&format!("/challenges/{id}")).await {
        Ok(_) => Ok(true),
        Err(error) if error.code() == Some(ProblemCode::NoChallenge) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_challenge_is_named_by_its_id_or_its_miner() {
        let running = [(ChallengeId([1; 16]), PublicKey([2; 32])), (ChallengeId([3; 16]), PublicKey([1; 32]))];
        let of = |text: &str| meant(&text.parse().unwrap(), &running);
        assert_eq!(of("0303").unwrap(), running[1]);
        assert_eq!(of("0202").unwrap(), running[0]);
        assert_eq!(of("0101").unwrap_err().exit, Exit::Usage, "an id and a key start so");
        assert_eq!(of("ffff").unwrap_err().exit, Exit::Inconclusive);
    }
}
