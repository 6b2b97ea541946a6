//! What came in by a door, for the turn that it belongs to.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

use nexus_core::Denial;
use serde_json::{Map, Value};
use tokio::sync::Notify;

/// Most denied calls that are remembered. Source: our own bound.
const MAX_DENIED: usize = 1024;

/// The calls of one turn, as far as the turn needs to know about them.
#[derive(Debug, Default)]
pub(crate) struct CallRecord {
    calls: Mutex<Calls>,
    news: Notify,
}

#[derive(Debug, Default)]
struct Calls {
    begun: u64,
    under_way: u32,
    over_budget: u32,
    denied: VecDeque<(String, Value)>,
}

impl CallRecord {
    /// A call was decided on.
    pub(super) fn decided(&self, tool: &str, arguments: &Value, denial: Option<&Denial>) {
        self.news.notify_one();
        let mut calls = self.calls();
        calls.begun += 1;
        let Some(denial) = denial else { return };
        if matches!(denial, Denial::OverBudget { .. }) {
            calls.over_budget += 1;
        }
        if calls.denied.len() == MAX_DENIED {
            calls.denied.pop_front();
        }
        calls.denied.push_back((tool.to_owned(), plain(arguments)));
    }

    /// A tool runs, until what comes back is dropped.
    pub(super) fn running(&self) -> Running<'_> {
        self.calls().under_way += 1;
        Running(self)
    }

    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One tool that runs.
pub(super) struct Running<'r>(&'r CallRecord);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.calls().under_way -= 1;
        self.0.news.notify_one();
    }
}

/// Arguments as they are compared: none at all are the empty object.
fn plain(arguments: &Value) -> Value {
    if arguments.is_null() { Value::Object(Map::new()) } else { arguments.clone() }
}

#[cfg(any(feature = "claude", feature = "codex", feature = "grok"))]
impl CallRecord {
    /// Calls so far, whatever was decided.
    pub(crate) fn begun(&self) -> u64 {
        self.calls().begun
    }

    /// Waits until a call was decided on, or has ended. One waits at a time.
    pub(crate) async fn news(&self) {
        self.news.notified().await;
    }

    /// Whether a tool runs.
    pub(crate) fn is_busy(&self) -> bool {
        self.calls().under_way > 0
    }

    /// Calls that were denied because the budget was used up.
    pub(crate) fn over_budget(&self) -> u32 {
        self.calls().over_budget
    }

    /// Whether a call like this was denied.
    pub(crate) fn was_denied(&self, tool: &str, arguments: &Value) -> bool {
        let arguments = plain(arguments);
        let calls = self.calls();
        calls.denied.iter().any(|(name, denied)| name == tool && *denied == arguments)
    }
}
