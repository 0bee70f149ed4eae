//! Join tokens.

use std::time::Duration;

use assay_records::{Actor, Approval, Labels, Role, TokenRefusal};

use crate::examples::{THEN_MS, key, status_change};
use crate::store::TestStore;

const HOUR: Duration = Duration::from_secs(3600);

fn operator() -> Actor {
    Actor { name: "ada".to_owned(), uid: Some(1000) }
}

fn labels() -> Labels {
    Labels::from([("rack".to_owned(), "7".to_owned())])
}

pub async fn a_token_lets_one_in_of_many(store: &TestStore) {
    let records = store.open().await;
    let (token, record) = records.create_token(&labels(), HOUR, &operator()).await.unwrap();
    let now_ms = record.created_ms;
    let mut redeeming = tokio::task::JoinSet::new();
    for number in 1..=16_u8 {
        let (records, token) = (store.open().await, token.clone());
        redeeming.spawn(async move { (number, records.redeem(&token, &key(number), now_ms).await.unwrap()) });
    }
    let (let_in, refused): (Vec<_>, Vec<_>) =
        redeeming.join_all().await.into_iter().partition(|(_, redeemed)| redeemed.is_ok());
    assert_eq!((let_in.len(), refused.len()), (1, 15));
    assert!(refused.iter().all(|(_, why)| *why == Err(TokenRefusal::Used)), "{refused:?}");
    let winner = key(let_in[0].0);
    let miners = records.miners(&Default::default()).await.unwrap();
    assert_eq!(miners.len(), 1, "who was refused is not even noted");
    assert_eq!((&miners[0].id, miners[0].status, &miners[0].labels), (&winner, Approval::Approved, &labels()));
    let token = &records.tokens(None, 10).await.unwrap()[0];
    assert_eq!((token.used_by.as_ref(), token.used_ms), (Some(&winner), Some(now_ms)));
    let actions = records.actions(Some(&winner), 0, 10).await.unwrap();
    assert_eq!((actions[0].action.as_str(), actions[0].actor.name.as_str()), ("redeem", "ada"));
}

pub async fn a_token_can_be_shown_again_by_its_user(store: &TestStore) {
    let records = store.open().await;
    let (token, record) = records.create_token(&labels(), HOUR, &operator()).await.unwrap();
    let now_ms = record.created_ms;
    assert_eq!(records.redeem(&token, &key(1), now_ms).await.unwrap(), Ok(labels()));
    // The answer was lost. Later is as good: it is in.
    assert_eq!(records.redeem(&token, &key(1), now_ms + 10_000_000).await.unwrap(), Ok(labels()));
    assert_eq!(records.redeem(&token, &key(2), now_ms).await.unwrap(), Err(TokenRefusal::Used));
    records.change_miner(&key(1), &status_change("revoke", Approval::Revoked), &operator()).await.unwrap();
    assert_eq!(records.redeem(&token, &key(1), now_ms).await.unwrap(), Err(TokenRefusal::Revoked));
    let (fresh, _) = records.create_token(&labels(), HOUR, &operator()).await.unwrap();
    assert_eq!(records.redeem(&fresh, &key(1), now_ms).await.unwrap(), Err(TokenRefusal::Revoked));
    assert_eq!(records.miner(&key(1)).await.unwrap().unwrap().status, Approval::Revoked);
    // Nor is it used up by that.
    assert_eq!(records.redeem(&fresh, &key(3), now_ms).await.unwrap(), Ok(labels()));
    // An operator's suspension is an operator's to end.
    let (of_suspended, _) = records.create_token(&labels(), HOUR, &operator()).await.unwrap();
    records.change_miner(&key(4), &status_change("suspend", Approval::Suspended), &operator()).await.unwrap();
    let _ = records.redeem(&of_suspended, &key(4), now_ms).await.unwrap();
    assert_eq!(records.miner(&key(4)).await.unwrap().unwrap().status, Approval::Suspended);
}

pub async fn what_is_no_token_is_refused(store: &TestStore) {
    let records = store.open().await;
    let (token, record) = records.create_token(&labels(), HOUR, &operator()).await.unwrap();
    assert!(token.starts_with("assay-join-") && token.len() == 11 + 64, "{token}");
    for text in ["", "assay-join-", &token[..token.len() - 1], &token.to_uppercase(), &"a".repeat(1 << 20)] {
        assert_eq!(records.redeem(text, &key(1), THEN_MS).await.unwrap(), Err(TokenRefusal::Unknown));
    }
    let late = record.expires_ms;
    assert_eq!(records.redeem(&token, &key(1), late).await.unwrap(), Err(TokenRefusal::Expired));
    assert!(records.redeem(&token, &key(1), late - 1).await.unwrap().is_ok());
    // The store does not have it.
    let rows = store.sql("SELECT hash, created_by, labels FROM tokens").await;
    let hash: String = sqlx::Row::get(&rows[0], 0);
    assert!(rows.len() == 1 && hash.len() == 64 && !token.contains(&hash[..16]));
    let actions = records.actions(None, 0, 10).await.unwrap();
    assert!(actions.iter().all(|action| !action.detail.contains(&token[11..])));
}

pub async fn a_token_is_taken_back_and_ends_with_the_one_that_made_it(store: &TestStore) {
    let records = store.open().await;
    let (leaked, record) = records.create_token(&labels(), HOUR, &operator()).await.unwrap();
    let (used, of_used) = records.create_token(&labels(), HOUR, &operator()).await.unwrap();
    assert!(records.redeem(&used, &key(1), THEN_MS).await.unwrap().is_ok());
    assert!(records.revoke_api_token(&record.hash, &operator()).await.unwrap());
    assert!(!records.revoke_api_token(&record.hash, &operator()).await.unwrap(), "it is gone");
    assert!(!records.revoke_api_token(&of_used.hash, &operator()).await.unwrap(), "it let its miner in");
    assert_eq!(records.redeem(&leaked, &key(2), THEN_MS).await.unwrap(), Err(TokenRefusal::Unknown));
    assert_eq!(records.redeem(&used, &key(1), THEN_MS).await.unwrap(), Ok(labels()));
    let newest = records.actions(None, 0, 1).await.unwrap();
    assert_eq!(newest[0].detail, format!("join token {}", &record.hash[..16]));

    let (_, admin) = records.create_api_token(Role::Admin, "a) (b", HOUR, &operator()).await.unwrap();
    let by = Actor::token(&admin.name, &admin.id);
    let (made, _) = records.create_token(&labels(), 24 * HOUR, &by).await.unwrap();
    let (other, _) = records.create_token(&labels(), HOUR, &operator()).await.unwrap();
    assert!(!records.revoke_api_token("né d'un autre jeton", &operator()).await.unwrap());
    assert!(records.revoke_api_token(&admin.id, &operator()).await.unwrap());
    assert!(!records.revoke_api_token(&admin.id, &operator()).await.unwrap(), "nothing of it is left");
    assert_eq!(records.redeem(&made, &key(3), THEN_MS).await.unwrap(), Err(TokenRefusal::Unknown));
    assert!(records.redeem(&other, &key(4), THEN_MS).await.unwrap().is_ok());
    let (late, record) = records.create_token(&labels(), HOUR, &by).await.unwrap();
    assert_eq!(records.redeem(&late, &key(5), record.created_ms).await.unwrap(), Err(TokenRefusal::Expired));
}

pub async fn a_token_that_expired_long_ago_is_removed_unless_it_was_used(store: &TestStore) {
    let records = store.open().await;
    let (used, record) = records.create_token(&labels(), HOUR, &operator()).await.unwrap();
    let (unused, _) = records.create_token(&labels(), HOUR, &operator()).await.unwrap();
    assert!(records.redeem(&used, &key(1), record.created_ms).await.unwrap().is_ok());
    let old_ms = record.expires_ms + 31 * 86_400_000;
    records.remove_expired_tokens(old_ms - 86_400_000 * 2).await.unwrap();
    assert_eq!(records.redeem(&unused, &key(2), old_ms).await.unwrap(), Err(TokenRefusal::Expired));
    records.remove_expired_tokens(old_ms).await.unwrap();
    assert_eq!(records.redeem(&unused, &key(2), old_ms).await.unwrap(), Err(TokenRefusal::Unknown));
    assert_eq!(records.redeem(&used, &key(1), old_ms).await.unwrap(), Ok(labels()), "its miner may show it again");
}
