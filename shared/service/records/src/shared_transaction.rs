//! Writes in transactions that several requests share: challenges that begin, and verdicts.

use std::sync::Arc;

use crate::conclude::{conclude, conclude_all};
use crate::grouped_write::GroupedWrite;
use crate::request_group::PendingRequest;
use crate::store::{Store, with_limit};
use crate::tx::Tx;
use crate::{ChallengeStart, Conclusion, Records, Result, challenges};

impl Records {
    /// Notes a challenge before its offer goes out, so that it is not lost with its validator.
    pub async fn begin_challenge(&self, begun: &ChallengeStart) -> Result<()> {
        let write = GroupedWrite::Begin(Box::new(begun.clone()));
        self.write("note a challenge", self.store.write_grouped(write)).await
    }

    /// Writes a verdict and all that becomes known with it, whole or not at all; it is on disk when this returns.
    /// The same verdict again changes nothing.
    ///
    /// # Errors
    /// [`ConcludedBefore`](crate::RecordsError::ConcludedBefore) when the challenge has another verdict: this one must not be given out.
    /// [`StandingChanged`](crate::RecordsError::StandingChanged): nothing is written. Else the store cannot be written, and the same call can
    /// be tried again.
    pub async fn conclude(&self, conclusion: &Conclusion) -> Result<()> {
        let write = GroupedWrite::Conclude(Box::new(conclusion.clone()));
        self.write("record a verdict", self.store.write_grouped(write)).await
    }
}

impl GroupedWrite {
    /// False where it was written before.
    async fn write(&self, tx: &mut Tx) -> Result<bool> {
        match self {
            Self::Begin(begun) => challenges::begin(tx, &[&**begun]).await.map(|()| true),
            Self::Conclude(conclusion) => conclude(tx, conclusion).await,
        }
    }
}

impl Store {
    /// Writes with others, and waits until it is on disk.
    async fn write_grouped(self: &Arc<Self>, write: GroupedWrite) -> Result<()> {
        self.writing.ask(write, || self.clone().call_for_others(write_waiting(self.clone()))).await
    }

    /// Writes all of them in one transaction; false, without a write, where one of them was written before.
    async fn write_together(&self, group: &[PendingRequest<GroupedWrite, ()>]) -> Result<bool> {
        let (mut begun, mut conclusions) = (Vec::new(), Vec::new());
        for waiting in group {
            match &waiting.asked {
                GroupedWrite::Begin(challenge) => begun.push(&**challenge),
                GroupedWrite::Conclude(conclusion) => conclusions.push(&**conclusion),
            }
        }
        let mut tx = self.begin_told().await?;
        challenges::begin(&mut tx, &begun).await?;
        let all = conclude_all(&mut tx, &conclusions).await?;
        if all {
            tx.commit().await?;
        }
        Ok(all)
    }

    async fn write_alone(&self, write: &GroupedWrite) -> Result<()> {
        let mut tx = self.begin_told().await?;
        if write.write(&mut tx).await? {
            tx.commit().await?;
        }
        Ok(())
    }
}

/// Writes the waiting requests until the queue is empty.
async fn write_waiting(store: Arc<Store>) {
    let mut worker = store.writing.worker();
    while let Some(group) = worker.next() {
        if group.len() > 1 && with_limit(store.write_together(&group)).await.is_ok_and(|all| all) {
            // A caller that has gone does not want to know.
            group.into_iter().for_each(|waiting| drop(waiting.done.send(Ok(()))));
            continue;
        }
        // One that cannot be written keeps none of the others from it.
        for PendingRequest { asked, done } in group.into_iter().filter(|waiting| !waiting.done.is_closed()) {
            let written = with_limit(store.write_alone(&asked)).await;
            drop(done.send(written));
        }
    }
}
