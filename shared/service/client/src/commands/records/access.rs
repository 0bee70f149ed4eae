//! `assay-validator token`, `assay-validator webhook` and `assay-validator page`.

use std::io::Write;

use assay_api::{AddWebhook, CreateApiToken, CreateLoginCode, MAX_DOCUMENTS};
use assay_program::exit::{Exit, Failure, print, print_document};
use assay_program::prefix::MIN_DIGITS;
use assay_program::render::{Screen, table};
use assay_work::text::printable;
use serde_json::Value;

use super::{NOTHING, ask, list, minute, moment, secret, short, shown, text};
use crate::cli::access::{AddWebhookArgs, CreateTokenArgs, ItemArgs, PageArgs};
use crate::cli::records::CommonArgs;
use crate::escaped;
use crate::place::ApiLocation;

/// The most bytes shown of an address.
const MAX_TARGET_BYTES: usize = 256;

/// Creates a token and prints it alone, for scripts.
///
/// # Errors
/// No validator answers, or it refuses.
pub fn create_token(place: &ApiLocation, args: &CreateTokenArgs) -> anyhow::Result<Exit> {
    let token = CreateApiToken { role: args.role, name: args.name.clone(), expires_s: args.expires.seconds };
    let made: Value = ask(place, async |client| client.post("/tokens", &token).await)?;
    secret(&made, "token", args.common.json, || {
        format!(
            "It has role {} until {} UTC, and is shown only here. Commands take it with --server URL --token-file FILE, \
             programs as `Authorization: Bearer`. `assay-validator token revoke {}` takes it back.",
            text(&made, "role"),
            moment(&made, "expires_ms"),
            short(text(&made, "id")),
        )
    })
}

/// Lists the tokens of the API.
///
/// # Errors
/// As [`create_token`].
pub fn tokens(place: &ApiLocation, args: &CommonArgs) -> anyhow::Result<Exit> {
    let tokens = list(place, "/tokens", &(), MAX_DOCUMENTS)?;
    shown(&tokens, args.json, "no token was made", tokens_table)
}

/// Revokes a token.
///
/// # Errors
/// As [`create_token`], or no token has the id.
pub fn revoke_token(place: &ApiLocation, args: &ItemArgs) -> anyhow::Result<Exit> {
    let mut tokens = list(place, "/tokens", &(), MAX_DOCUMENTS)?;
    for mut join in list(place, "/join-tokens", &(), MAX_DOCUMENTS)? {
        (join["id"], join["name"]) = (join["hash"].clone(), "a join token".into());
        tokens.push(join);
    }
    let token = meant(&tokens, "token", &args.id)?;
    let path = format!("/tokens/{}", escaped(text(&token, "id")));
    ask::<Value>(place, async |client| client.delete(&path).await)?;
    Ok(print_document(&token, args.common.json, || {
        format!("token {}, {}, is revoked", short(text(&token, "id")), printable(text(&token, "name"), 64))
    })?)
}

/// Adds a webhook and prints its secret alone.
///
/// # Errors
/// As [`create_token`].
pub fn add_webhook(place: &ApiLocation, args: &AddWebhookArgs) -> anyhow::Result<Exit> {
    let webhook = AddWebhook { url: args.url.clone(), kinds: args.kind.clone() };
    let added: Value = ask(place, async |client| client.post("/webhooks", &webhook).await)?;
    let id = short(text(&added, "id"));
    secret(&added, "secret", args.common.json, || {
        format!(
            "Messages of webhook {id} are signed with it (Standard Webhooks), and it is shown only here. \
             `assay-validator webhook test {id}` sends one now."
        )
    })
}

/// Lists webhooks.
///
/// # Errors
/// As [`create_token`].
pub fn webhooks(place: &ApiLocation, args: &CommonArgs) -> anyhow::Result<Exit> {
    let webhooks = list(place, "/webhooks", &(), MAX_DOCUMENTS)?;
    shown(&webhooks, args.json, "there is no webhook", webhooks_table)
}

/// Removes a webhook, found by the first digits of its id.
///
/// # Errors
/// As [`create_token`], or no webhook has the id.
pub fn remove_webhook(place: &ApiLocation, args: &ItemArgs) -> anyhow::Result<Exit> {
    let webhook = meant(&list(place, "/webhooks", &(), MAX_DOCUMENTS)?, "webhook", &args.id)?;
    let path = format!("/webhooks/{}", escaped(text(&webhook, "id")));
    ask::<Value>(place, async |client| client.delete(&path).await)?;
    Ok(print_document(&webhook, args.common.json, || {
        format!("nothing more is sent to {}", printable(text(&webhook, "target"), MAX_TARGET_BYTES))
    })?)
}

/// Sends a test message to a webhook.
///
/// # Errors
/// As [`remove_webhook`], or the server did not accept the message.
pub fn test_webhook(place: &ApiLocation, args: &ItemArgs) -> anyhow::Result<Exit> {
    let webhook = meant(&list(place, "/webhooks", &(), MAX_DOCUMENTS)?, "webhook", &args.id)?;
    let path = format!("/webhooks/{}/test", escaped(text(&webhook, "id")));
    let tested: Value = ask(place, async |client| client.act_slow(&path).await)?;
    Ok(print_document(&tested, args.common.json, || {
        let target = printable(text(&webhook, "target"), MAX_TARGET_BYTES);
        format!("{target} took the message: HTTP status {}", tested["status"])
    })?)
}

/// Creates a login code for the page, and prints the page's address with it.
///
/// # Errors
/// As [`create_token`], or no page is served.
pub fn page(place: &ApiLocation, args: &PageArgs) -> anyhow::Result<Exit> {
    if !place.is_socket() {
        let message = "a login is made on the validator's own machine: run this command there, without --server; on the page, \
                       log in with a token";
        return Err(Failure::new(Exit::Usage, message).into());
    }
    let code = CreateLoginCode { role: args.role };
    let made: Value = ask(place, async |client| client.post("/login-codes", &code).await)?;
    if args.common.json {
        print(&serde_json::to_string_pretty(&made)?)?;
        return Ok(Exit::Done);
    }
    let Some(url) = made["url"].as_str() else {
        let message = "the validator serves no page: set http_listen, and restart it";
        return Err(Failure::new(Exit::Inconclusive, message).into());
    };
    print(url)?;
    let _ = writeln!(std::io::stderr(), "It can be opened once, for {} s.", made["expires_s"]);
    Ok(Exit::Done)
}

/// Finds the only item whose id starts with these digits.
fn meant(known: &[Value], what: &str, id: &str) -> Result<Value, Failure> {
    let prefix = id.to_ascii_lowercase();
    if prefix.len() < MIN_DIGITS {
        return Err(Failure::new(Exit::Usage, format!("{what}: at least {MIN_DIGITS} digits of its id are needed")));
    }
    let found: Vec<_> = known.iter().filter(|one| text(one, "id").starts_with(&prefix)).collect();
    match found[..] {
        [one] => Ok(one.clone()),
        [] => Err(Failure::new(Exit::Inconclusive, format!("no {what} has an id that starts with {id}"))),
        _ => Err(Failure::new(Exit::Usage, format!("{id} could be any of {} {what}s: give more digits", found.len()))),
    }
}

fn tokens_table(tokens: &[Value], screen: &Screen) -> String {
    let header = ["token", "role", "name", "made (UTC)", "by", "expires (UTC)", "used (UTC)", "revoked (UTC)"];
    let mut table = table::new(screen, &header);
    let at = |token: &Value, field: &str| table::id(token[field].as_i64().map_or_else(|| NOTHING.to_owned(), minute));
    for token in tokens {
        table.add_row([
            table::id(short(text(token, "id"))),
            text(token, "role").into(),
            printable(text(token, "name"), 64).into(),
            at(token, "created_ms"),
            text(token, "created_by").into(),
            at(token, "expires_ms"),
            at(token, "last_used_ms"),
            at(token, "revoked_ms"),
        ]);
    }
    table::text(&table)
}

fn webhooks_table(webhooks: &[Value], screen: &Screen) -> String {
    let mut table = table::new(screen, &["webhook", "to", "events", "sent", "last (UTC)", "state"]);
    for webhook in webhooks {
        let kinds = webhook["kinds"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let kinds = kinds.collect::<Vec<_>>().join(", ");
        let delivery = &webhook["delivery"];
        table.add_row([
            table::id(short(text(webhook, "id"))),
            printable(text(webhook, "target"), MAX_TARGET_BYTES).into(),
            if kinds.is_empty() { "all".into() } else { kinds.into() },
            table::figure(&delivery["delivered"]),
            table::id(delivery["delivered_ms"].as_i64().map_or_else(|| NOTHING.to_owned(), minute)),
            state(webhook).into(),
        ]);
    }
    table::text(&table)
}

/// Delivery state of a webhook.
fn state(webhook: &Value) -> String {
    let delivery = &webhook["delivery"];
    let why = |field: &str, of: &Value| printable(text(of, field), MAX_TARGET_BYTES);
    if webhook["disabled_ms"].is_i64() {
        return format!("off: {}", why("disabled_why", webhook));
    }
    match delivery["failing_ms"].as_i64() {
        Some(since) => format!("fails since {}: {}", minute(since), why("last_error", delivery)),
        None => "good".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const AT_MS: i64 = 1_767_225_599_000;

    #[test]
    fn one_is_meant_by_the_first_digits_of_its_id() {
        let known = [json!({ "id": "ab12cd" }), json!({ "id": "ab12ef" })];
        assert_eq!(meant(&known, "token", "AB12C").unwrap()["id"], "ab12cd");
        assert_eq!(meant(&known, "token", "cd34").unwrap_err().exit, Exit::Inconclusive);
        // Few digits are a typing error, also where one alone begins so.
        for few in ["", "a", "ab1", "ab12"] {
            assert_eq!(meant(&known, "token", few).unwrap_err().exit, Exit::Usage, "{few}");
        }
        assert_eq!(meant(&known[..1], "token", "a").unwrap_err().exit, Exit::Usage);
    }

    #[test]
    fn webhooks_say_whether_they_take_what_they_are_sent() {
        let webhook = |more: Value, disabled: Option<i64>| {
            let mut delivery = json!({ "delivered": 7, "delivered_ms": AT_MS, "failing_ms": null });
            delivery.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            json!({
                "id": "ab".repeat(16), "target": "https://ops.example/assay", "kinds": ["verdict", "state"],
                "disabled_ms": disabled, "disabled_why": "too many failures\u{1b}", "delivery": delivery,
            })
        };
        let failing = webhook(json!({ "failing_ms": AT_MS, "last_error": "503\u{1b}" }), None);
        let all = [webhook(json!({}), None), failing, webhook(json!({}), Some(AT_MS))];
        let plain = webhooks_table(&all, &Screen::FILE);
        for part in
            ["verdict, state", "good", "fails since 2025-12-31 23:59: 503", "off: too many failures", "abababab"]
        {
            assert!(plain.contains(part), "{part} in\n{plain}");
        }
        assert!(!plain.contains('\u{1b}'));
    }

    #[test]
    fn tokens_fit_a_terminal() {
        let token = json!({
            "id": "cd".repeat(16), "role": "operate", "name": "laptop", "created_ms": AT_MS, "created_by": "root",
            "expires_ms": AT_MS, "revoked_ms": null, "last_used_ms": null,
        });
        let narrow = tokens_table(std::slice::from_ref(&token), &Screen { width: Some(80), colour: false });
        assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
        assert!(tokens_table(&[token], &Screen::FILE).contains("cdcdcdcd   operate   laptop"));
    }
}
