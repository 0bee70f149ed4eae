//! Tokens of the API.

use std::time::Duration;

use assay_records::{Actor, ApiTokenCursor, MAX_TOKEN_NAME_BYTES, NewWebhook, RecordsError, Role};
use sqlx::Row;

use crate::store::TestStore;

const HOUR: Duration = Duration::from_secs(3600);

fn operator() -> Actor {
    Actor { name: "ada".to_owned(), uid: Some(1000) }
}

pub async fn a_token_has_its_role_until_it_is_revoked(store: &TestStore) {
    let records = store.open().await;
    let (token, made) = records.create_api_token(Role::Operate, "grafana", HOUR, &operator()).await.unwrap();
    assert!(token.starts_with("assay_operate_") && token.len() == "assay_operate_".len() + 43, "{token}");
    let other = store.open().await;
    let found = other.api_token(&token).await.unwrap().unwrap();
    assert_eq!((found.role, found.name.as_str(), found.created_by.as_str()), (Role::Operate, "grafana", "ada"));
    // The text does not determine the role.
    for text in [&token.replace("operate", "admin"), &token[..token.len() - 1], "", "assay_", &"a".repeat(1 << 20)] {
        assert_eq!(records.api_token(text).await.unwrap(), None, "{}", text.len());
    }
    assert!(other.revoke_api_token(&made.id, &operator()).await.unwrap());
    assert_eq!(records.api_token(&token).await.unwrap(), None);
    assert!(!records.revoke_api_token(&made.id, &operator()).await.unwrap(), "it is revoked");
    assert!(!records.revoke_api_token("none", &operator()).await.unwrap());
    let actions = records.actions(None, 0, 10).await.unwrap();
    let actions: Vec<_> = actions.iter().map(|action| action.action.as_str()).collect();
    assert_eq!(actions, ["revoke token", "create token"]);
}

pub async fn a_token_ends_and_is_nowhere_in_the_store(store: &TestStore) {
    let records = store.open().await;
    let (late, _) = records.create_api_token(Role::Read, "late", Duration::ZERO, &operator()).await.unwrap();
    assert_eq!(records.api_token(&late).await.unwrap(), None);
    let (token, made) = records.create_api_token(Role::Read, "good", HOUR, &operator()).await.unwrap();
    assert!(!made.is_good(made.expires_ms) && made.is_good(made.expires_ms - 1));
    // The secret may have underlines of its own.
    let secret = token.strip_prefix("assay_read_").unwrap();
    for table in ["api_tokens", "actions", "events"] {
        let columns = if table == "api_tokens" { "hash || id || name || role" } else { "id" };
        let detail = if table == "actions" { "detail" } else { "''" };
        for row in store.sql(&format!("SELECT {columns} || {detail} FROM {table}")).await {
            assert!(!row.get::<String, _>(0).contains(secret));
        }
    }
    let name = "x".repeat(MAX_TOKEN_NAME_BYTES + 1);
    let refused = records.create_api_token(Role::Read, &name, HOUR, &operator()).await.unwrap_err();
    assert!(matches!(refused, RecordsError::TooLarge { .. }), "{refused}");
}

pub async fn a_token_ends_with_the_one_that_made_it(store: &TestStore) {
    let records = store.open().await;
    let (_, parent) = records.create_api_token(Role::Admin, "a) (b", HOUR, &operator()).await.unwrap();
    let by = |token: &assay_records::ApiTokenRecord| Actor::token(&token.name, &token.id);
    let (token, child) = records.create_api_token(Role::Admin, "c", 24 * HOUR, &by(&parent)).await.unwrap();
    assert_eq!((child.expires_ms, child.created_by), (parent.expires_ms, format!("token a) (b ({})", parent.id)));
    let (_, child) = records.create_api_token(Role::Read, "d", HOUR / 2, &by(&parent)).await.unwrap();
    assert!(child.expires_ms < parent.expires_ms);
    let grandparent = records.api_token(&token).await.unwrap().unwrap();
    let (grandchild, _) = records.create_api_token(Role::Read, "e", HOUR, &by(&grandparent)).await.unwrap();
    assert!(records.api_token(&grandchild).await.unwrap().is_some());
    // Regression test: webhooks of a leaked token went on telling their author everything.
    let hook = || NewWebhook { url: "https://a/".into(), target: "a".into(), kinds: Vec::new(), secret: vec![1] };
    let theirs = records.add_webhook(&hook(), &by(&child)).await.unwrap();
    let ours = records.add_webhook(&hook(), &operator()).await.unwrap();
    assert!(records.revoke_api_token(&parent.id, &operator()).await.unwrap());
    let theirs = records.webhook(&theirs.id).await.unwrap().unwrap();
    assert_eq!(theirs.disabled_why.as_deref(), Some("the token that made it was revoked"));
    assert_eq!(records.webhook(&ours.id).await.unwrap().unwrap().disabled_ms, None);
    assert_eq!(records.api_token(&token).await.unwrap(), None);
    assert_eq!(records.api_token(&grandchild).await.unwrap(), None);
    let newest = records.actions(None, 0, 1).await.unwrap();
    assert!(newest[0].detail.ends_with(", and 4 made with it"), "{}", newest[0].detail);
    let (late, _) = records.create_api_token(Role::Read, "f", HOUR, &by(&parent)).await.unwrap();
    assert_eq!(records.api_token(&late).await.unwrap(), None, "its maker has ended");
    let late = records.add_webhook(&hook(), &by(&parent)).await.unwrap();
    assert!(late.disabled_ms.is_some(), "a request that was held back");
}

/// Regression test: on PostgreSQL a revocation did not see the tokens whose transactions were open.
pub async fn a_token_that_is_being_made_ends_with_its_maker(store: &TestStore) {
    let records = store.open().await;
    for _ in 0..8 {
        let (_, stolen) = records.create_api_token(Role::Admin, "stolen", HOUR, &operator()).await.unwrap();
        let making: Vec<_> = (0..4)
            .map(|_| {
                let (records, by) = (records.clone(), Actor::token(&stolen.name, &stolen.id));
                tokio::spawn(async move { records.create_api_token(Role::Admin, "child", HOUR, &by).await.unwrap().0 })
            })
            .collect();
        assert!(records.revoke_api_token(&stolen.id, &operator()).await.unwrap());
        for child in making {
            assert_eq!(records.api_token(&child.await.unwrap()).await.unwrap(), None);
        }
    }
}

pub async fn a_token_that_ended_long_ago_is_removed(store: &TestStore) {
    let records = store.open().await;
    for name in ["expired", "revoked", "lately", "good"] {
        let (_, made) = records.create_api_token(Role::Read, name, HOUR, &operator()).await.unwrap();
        let long_ago = made.created_ms - 31 * 86_400_000;
        let set = match name {
            "expired" => format!("expires_ms = {long_ago}"),
            "revoked" => format!("revoked_ms = {long_ago}"),
            "lately" => format!("expires_ms = {}", made.created_ms - 1),
            _ => continue,
        };
        store.sql(&format!("UPDATE api_tokens SET {set} WHERE id = '{}'", made.id)).await;
    }
    records.create_api_token(Role::Read, "next", HOUR, &operator()).await.unwrap();
    let mut names: Vec<_> = records.api_tokens(None, 9).await.unwrap().into_iter().map(|token| token.name).collect();
    names.sort();
    assert_eq!(names, ["good", "lately", "next"]);
}

pub async fn a_use_is_noted_once_a_minute(store: &TestStore) {
    let records = store.open().await;
    let (token, made) = records.create_api_token(Role::Admin, "", HOUR, &operator()).await.unwrap();
    let used = async || records.api_tokens(None, 1).await.unwrap()[0].last_used_ms;
    assert_eq!(used().await, None);
    for _ in 0..20 {
        records.api_token(&token).await.unwrap().unwrap();
    }
    let until = tokio::time::Instant::now() + HOUR;
    while used().await.is_none() {
        assert!(tokio::time::Instant::now() < until);
        tokio::task::yield_now().await;
    }
    let first = used().await;
    // Another process that sees the note writes none.
    store.open().await.api_token(&token).await.unwrap().unwrap();
    assert_eq!(used().await, first);
    let past = made.created_ms - 120_000;
    store.sql(&format!("UPDATE api_tokens SET last_used_ms = {past}")).await;
    store.open().await.api_token(&token).await.unwrap().unwrap();
    while used().await == Some(past) {
        assert!(tokio::time::Instant::now() < until);
        tokio::task::yield_now().await;
    }
}

pub async fn tokens_are_listed_in_pages(store: &TestStore) {
    let records = store.open().await;
    for number in 0..5 {
        records.create_api_token(Role::Read, &number.to_string(), HOUR, &operator()).await.unwrap();
    }
    let mut names = Vec::new();
    let mut before = None;
    loop {
        let page = records.api_tokens(before.as_ref(), 2).await.unwrap();
        let Some(last) = page.last() else { break };
        before = Some(ApiTokenCursor { created_ms: last.created_ms, id: last.id.clone() });
        names.extend(page.into_iter().map(|token| token.name));
    }
    names.sort();
    assert_eq!(names, ["0", "1", "2", "3", "4"]);
}
