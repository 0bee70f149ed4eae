//! Webhooks, and how far each is.

use assay_records::{Actor, EventKind, MAX_WEBHOOKS, NewWebhook, RecordsError};

use crate::examples::begun;
use crate::store::TestStore;

fn operator() -> Actor {
    Actor { name: "ada".to_owned(), uid: Some(1000) }
}

fn webhook(kinds: &[EventKind]) -> NewWebhook {
    NewWebhook {
        url: "https://hooks.example/a?token=hunter2".to_owned(),
        target: "https://hooks.example:443/a".to_owned(),
        kinds: kinds.to_vec(),
        secret: vec![7; 32],
    }
}

pub async fn a_webhook_begins_with_what_happens_next(store: &TestStore) {
    let records = store.open().await;
    records.begin_challenge(&begun(1, 1, "run-1")).await.unwrap();
    let added = records.add_webhook(&webhook(&[EventKind::Verdict, EventKind::State]), &operator()).await.unwrap();
    // That it was added is an event of its own.
    assert_eq!((added.delivery.last_event, records.last_event().await.unwrap()), (1, 2));
    assert_eq!(added.created_by, "ada");
    let other = store.open().await;
    assert_eq!(other.webhooks().await.unwrap(), std::slice::from_ref(&added));
    assert_eq!(added.kinds, [EventKind::Verdict, EventKind::State]);
    let secrets = other.webhook_secrets(&added.id).await.unwrap().unwrap();
    assert_eq!((secrets.url.as_str(), secrets.secret), ("https://hooks.example/a?token=hunter2", vec![7; 32]));
    let shown = format!("{:?}", records.webhook_secrets(&added.id).await.unwrap());
    assert!(!shown.contains("hunter2"), "{shown}");
    assert!(!serde_json::to_string(&added).unwrap().contains("hunter2"));
    let events = serde_json::to_string(&records.events(0, 10).await.unwrap()).unwrap();
    assert!(events.contains("hooks.example:443/a") && !events.contains("hunter2"), "{events}");
    assert!(records.remove_webhook(&added.id, &operator()).await.unwrap());
    assert!(!records.remove_webhook(&added.id, &operator()).await.unwrap());
    assert_eq!(records.webhook(&added.id).await.unwrap(), None);
}

pub async fn a_delivery_goes_forward_only(store: &TestStore) {
    let records = store.open().await;
    let id = records.add_webhook(&webhook(&[]), &operator()).await.unwrap().id;
    let delivery = async || records.webhook(&id).await.unwrap().unwrap().delivery;
    records.not_delivered(&id, &"é".repeat(1000), 7).await.unwrap();
    records.not_delivered(&id, "no\0 route", 8).await.unwrap();
    let failed = delivery().await;
    assert_eq!((failed.attempts, failed.next_ms, failed.last_error.as_deref()), (2, Some(8), Some("no  route")));
    assert!(failed.failing_ms.is_some());
    records.delivered(&id, 5, 3).await.unwrap();
    let done = delivery().await;
    assert_eq!((done.last_event, done.delivered, done.attempts), (5, 3, 0));
    assert_eq!((done.failing_ms, done.next_ms, &done.last_error), (None, None, &None));
    assert!(done.delivered_ms.is_some());
    // One that lost its lease comes late.
    records.delivered(&id, 4, 3).await.unwrap();
    assert_eq!(delivery().await, done);
    records.skipped(&id, 9).await.unwrap();
    let skipped = delivery().await;
    assert_eq!((skipped.last_event, skipped.skipped, skipped.delivered), (9, 4, 3));
}

pub async fn a_disabled_webhook_is_enabled_where_it_was(store: &TestStore) {
    let records = store.open().await;
    let id = records.add_webhook(&webhook(&[]), &operator()).await.unwrap().id;
    records.not_delivered(&id, "503", 8).await.unwrap();
    records.disable_webhook(&id, "it failed for 5 days").await.unwrap();
    records.disable_webhook(&id, "again").await.unwrap();
    let disabled = records.webhook(&id).await.unwrap().unwrap();
    assert_eq!(disabled.disabled_why.as_deref(), Some("it failed for 5 days"));
    let actions = records.actions(None, 0, 1).await.unwrap();
    assert_eq!((actions[0].action.as_str(), actions[0].actor.name.as_str()), ("disable webhook", "validator"));
    let disabled_ms = records.webhook(&id).await.unwrap().unwrap().disabled_ms;
    records.enable_webhook(&id, None).await.unwrap();
    assert!(records.webhook(&id).await.unwrap().unwrap().disabled_ms.is_some(), "it was disabled since");
    records.enable_webhook(&id, disabled_ms).await.unwrap();
    let enabled = records.webhook(&id).await.unwrap().unwrap();
    assert_eq!((enabled.disabled_ms, enabled.delivery.attempts, enabled.delivery.next_ms), (None, 0, None));
    assert_eq!(enabled.delivery.last_event, disabled.delivery.last_event);
}

/// Another release has other kinds, also while both share the records.
pub async fn kinds_of_another_release_are_passed_over(store: &TestStore) {
    let records = store.open().await;
    records.add_webhook(&webhook(&[EventKind::Verdict]), &operator()).await.unwrap();
    let listed = async |kinds: &str| {
        store.sql(&format!("UPDATE webhooks SET kinds = '{kinds}'")).await;
        records.webhooks().await.unwrap().remove(0)
    };
    let some = listed(r#"["eclipse","verdict"]"#).await;
    assert_eq!((some.kinds, some.disabled_ms), (vec![EventKind::Verdict], None));
    let none = listed(r#"["eclipse"]"#).await;
    assert_eq!((none.kinds, none.disabled_ms), (Vec::new(), Some(none.created_ms)));
    assert_eq!(none.disabled_why.as_deref(), Some("no events of kind eclipse"));
}

pub async fn there_are_only_so_many(store: &TestStore) {
    let records = store.open().await;
    for _ in 0..MAX_WEBHOOKS {
        records.add_webhook(&webhook(&[]), &operator()).await.unwrap();
    }
    let refused = records.add_webhook(&webhook(&[]), &operator()).await.unwrap_err();
    assert_eq!(refused.to_string(), "there are 32 webhooks already: remove one first");
    assert!(matches!(refused, RecordsError::TooMany { .. }) && !refused.is_trouble());
}
