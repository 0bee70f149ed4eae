//! Places of callers among the streams and requests at once, so that one caller leaves some for others.

use std::collections::HashMap;
use std::sync::Arc;

use assay_api::{ProblemCode, ProblemDetails};
use parking_lot::Mutex;

use super::caller::{Caller, Credential};
use super::problem::Result;

/// Number of open streams, or of requests, of each caller. All logins of a token are one caller.
#[derive(Debug, Clone, Default)]
pub struct CallerCounts(Arc<Mutex<HashMap<String, usize>>>);

/// The place of an open stream or a request, until it is dropped.
#[derive(Debug)]
pub struct CallerPlace {
    counts: CallerCounts,
    caller: String,
}

impl CallerCounts {
    /// Takes a place: at most `most_own` of a caller, and `most` of all from the network.
    ///
    /// # Errors
    /// [`ProblemCode::TooManyRequests`] when the caller, or all callers together, have reached the limit.
    pub fn enter(&self, caller: &Caller, most_own: usize, most: usize) -> Result<CallerPlace> {
        let key = format!("{:?}", caller.actor);
        let mut counts = self.0.lock();
        let (own, all) = (counts.get(&key).copied().unwrap_or_default(), counts.values().sum::<usize>());
        if own >= most_own || (all >= most && !matches!(caller.credential(), Credential::Socket(_))) {
            let why = format!("open at once, of this caller and in all: {own}, {all}: end one first");
            return Err(ProblemDetails::new(ProblemCode::TooManyRequests, why).after(10).into());
        }
        *counts.entry(key.clone()).or_default() += 1;
        Ok(CallerPlace { counts: self.clone(), caller: key })
    }
}

impl Drop for CallerPlace {
    fn drop(&mut self) {
        let mut counts = self.counts.0.lock();
        if let Some(count) = counts.get_mut(&self.caller) {
            *count -= 1;
        }
        counts.retain(|_, count| *count > 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_caller_leaves_places_for_others() {
        let counts = CallerCounts::default();
        let caller = |name: &str| {
            let mut caller = Caller::for_tests();
            caller.actor.name = name.to_owned();
            caller
        };
        let held: Vec<_> = (0..2).map(|_| counts.enter(&caller("a"), 2, 3).unwrap()).collect();
        assert_eq!(counts.enter(&caller("a"), 2, 3).unwrap_err().0.code, ProblemCode::TooManyRequests);
        let _other = counts.enter(&caller("b"), 2, 3).unwrap();
        assert!(counts.enter(&caller("c"), 2, 3).is_err(), "all places are taken");
        drop(held);
        assert!(counts.enter(&caller("a"), 2, 3).is_ok() && counts.0.lock().len() == 1);
    }
}
