//! Notes operators' actions.

use crate::tx::Tx;
use crate::{Actor, EventDocument, OperatorAction, Result, id};

pub(crate) async fn note_action(
    tx: &mut Tx,
    actor: &Actor,
    action: &str,
    miner: Option<&str>,
    detail: &str,
) -> Result<()> {
    let at_ms = id::now_ms();
    let sql = "INSERT INTO actions (id, at_ms, actor, uid, action, miner, detail) VALUES ($1, $2, $3, $4, $5, $6, $7)";
    let id = id::new(at_ms)?;
    let insert = sqlx::query(sql).bind(&id).bind(at_ms).bind(&actor.name).bind(actor.uid.map(i64::from));
    insert.bind(action).bind(miner).bind(detail).execute(&mut **tx).await?;
    let (action, detail) = (action.to_owned(), detail.to_owned());
    let noted = OperatorAction { id, at_ms, actor: actor.clone(), action, miner: miner.map(str::to_owned), detail };
    tx.tell(at_ms, miner, None, EventDocument::Action(noted));
    Ok(())
}
