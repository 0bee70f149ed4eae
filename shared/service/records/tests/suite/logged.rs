//! Which verdicts are in their validator's log.

use crate::examples::{challenge, conclusion};
use crate::store::TestStore;

pub async fn verdicts_are_logged_in_order_and_once(store: &TestStore) {
    let records = store.open().await;
    let concluded: Vec<_> = [3, 1, 2].into_iter().map(|number| conclusion(number, 1, &[], u64::from(number))).collect();
    for conclusion in &concluded {
        records.conclude(conclusion).await.unwrap();
    }
    let validator = concluded[0].verdict.validator_key.to_string();
    let unlogged = async |limit| records.unlogged(&validator, limit).await.unwrap();
    let challenges = async |limit| unlogged(limit).await.into_iter().map(|it| it.challenge).collect::<Vec<_>>();
    assert_eq!(challenges(2).await, [challenge(1), challenge(2)]);
    assert_eq!(records.unlogged("another", 9).await.unwrap(), []);
    assert_eq!((records.logged(&validator).await.unwrap(), records.log_index(&challenge(1)).await.unwrap()), (0, None));
    let first = unlogged(1).await.remove(0);
    let kept = records.verdict(&challenge(1)).await.unwrap().unwrap();
    assert_eq!(first.document, kept.record.verdict.get());
    assert_eq!(first.receipt, kept.receipts.first().map(|receipt| receipt.token.clone()));

    records.note_logged(0, &[challenge(1), challenge(2)]).await.unwrap();
    // Again, after a crash; one that has an index keeps it, and one that the records lost changes nothing.
    let again = [challenge(1), challenge(2), challenge(3), challenge(99)];
    records.note_logged(0, &again).await.unwrap();
    assert_eq!(challenges(9).await, Vec::<String>::new());
    assert_eq!(records.logged(&validator).await.unwrap(), 3);
    assert_eq!(records.log_index(&challenge(3)).await.unwrap(), Some((validator.clone(), 2)));
    // No two verdicts have one place.
    records.conclude(&conclusion(4, 1, &[], 4)).await.unwrap();
    assert!(records.note_logged(2, &[challenge(4)]).await.is_err());
    assert_eq!(challenges(9).await, [challenge(4)]);
}
