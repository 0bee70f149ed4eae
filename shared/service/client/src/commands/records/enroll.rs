//! `assay-validator enroll`.

use assay_api::{CreateJoinToken, MAX_DOCUMENTS};
use assay_program::exit::Exit;
use assay_program::render::{Screen, table};
use serde_json::Value;

use super::{NOTHING, ask, labels, list, moment, secret, short, shown, text};
use crate::cli::records::EnrollArgs;
use crate::place::ApiLocation;

/// Creates a join token and prints it alone, for scripts; or lists the tokens.
///
/// # Errors
/// No validator answers, or it refuses.
pub fn execute(place: &ApiLocation, args: &EnrollArgs) -> anyhow::Result<Exit> {
    if args.list {
        let tokens = list(place, "/join-tokens", &(), MAX_DOCUMENTS)?;
        return shown(&tokens, args.common.json, "no token was made", listed);
    }
    let token = CreateJoinToken { labels: args.label.iter().cloned().collect(), expires_s: args.expires.seconds };
    let made: Value = ask(place, async |client| client.post("/join-tokens", &token).await)?;
    secret(&made, "token", args.common.json, || {
        format!(
            "It lets one miner in, until {} UTC, and is shown only here. The miner takes it at its first start:\n  \
             assay-miner run --join-token-file FILE      (- for standard input), or\n  \
             ASSAY_MINER_JOIN_TOKEN in its environment\n\
             `assay-validator token revoke {}` takes it back.",
            moment(&made, "expires_ms"),
            short(text(&made, "hash"))
        )
    })
}

/// One line per token.
fn listed(tokens: &[Value], screen: &Screen) -> String {
    let mut table =
        table::new(screen, &["token", "made (UTC)", "by", "labels", "used (UTC)", "miner", "expires (UTC)"]);
    for token in tokens {
        let used_by = token["used_by"].as_str().map_or(NOTHING, short);
        table.add_row([
            table::id(short(text(token, "hash"))),
            table::id(moment(token, "created_ms")),
            text(token, "created_by").into(),
            labels(token).into(),
            table::id(moment(token, "used_ms")),
            table::id(used_by),
            table::id(moment(token, "expires_ms")),
        ]);
    }
    table::text(&table)
}
