//! One attempt at a backend, in the record of spending.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use nexus_core::{BackendId, ErrorKind, Limit, ModelId, Retry, TurnError, TurnRequest, TurnResult, VendorId};
use serde_json::Value;

use super::{
    book::{SpendingBook, SpendingEnd, SpendingEntry, SpendingRefusal},
    labels::WorkLabel,
    line::{PlannedTurn, TurnBilling},
};
use crate::config::{Configuration, ConfiguredBackend};

/// Longest text of a line, in characters.
const MAX_TEXT: usize = 200;

/// The book of a router.
#[derive(Debug)]
pub(crate) struct Spending {
    book: Arc<dyn SpendingBook>,
    /// Backends whose unknown cost was already reported.
    unpriced: Mutex<BTreeSet<BackendId>>,
}

/// An attempt that a book has admitted.
pub(crate) struct SpendingAttempt<'b> {
    spending: &'b Spending,
    entry: SpendingEntry,
    /// True if a budget in dollars applies to the attempt.
    is_bounded_in_usd: bool,
}

impl Spending {
    pub(crate) fn new(book: Arc<dyn SpendingBook>) -> Self {
        Self { book, unpriced: Mutex::default() }
    }

    /// Reserves the expected amount of an attempt. `kind` is the type of the work, if the request does not name it.
    pub(crate) async fn begin(
        &self,
        configuration: &Configuration,
        entry: &ConfiguredBackend,
        kind: &str,
        request: &TurnRequest,
        model: Option<&ModelId>,
    ) -> Result<SpendingAttempt<'_>, SpendingRefusal> {
        let turn = planned(entry, kind, &request.labels, model);
        let budgets = &configuration.budgets;
        let is_bounded_in_usd = budgets.iter().any(|budget| budget.usd.is_some() && budget.applies_to(&turn));
        let entry = self.book.begin(turn, budgets).await?;
        Ok(SpendingAttempt { spending: self, entry, is_bounded_in_usd })
    }
}

impl SpendingAttempt<'_> {
    /// Returns the reservation of an attempt that does not run.
    pub(crate) async fn cancel(self) {
        self.spending.book.cancel(self.entry).await;
    }

    /// Records the end of the attempt. Returns a warning if a budget in dollars cannot count it, once for each backend.
    pub(crate) async fn end(
        self,
        outcome: &Result<TurnResult, TurnError>,
        duration: Duration,
    ) -> Option<String> {
        let (word, usage, cost, provenance) = match outcome {
            Ok(result) => ("ok".to_owned(), result.usage, result.cost, Some(&result.provenance)),
            Err(error) => {
                let partial = error.partial();
                (word_of(error.kind()), partial.usage, partial.cost, partial.provenance.as_ref())
            }
        };
        let mut end = SpendingEnd::new(word, usage, cost, duration);
        let model = provenance.and_then(|provenance| provenance.model.as_ref());
        end.model = model.map(|model| ModelId::new(cut(model.as_str())));
        let backend = self.entry.turn().backend.clone();
        self.spending.book.end(self.entry, end).await;
        let is_uncounted = self.is_bounded_in_usd && cost.is_none() && usage.total_tokens().is_some();
        // Lock only after the await, because the guard of this mutex must not live across it.
        let mut unpriced = self.spending.unpriced.lock().unwrap_or_else(PoisonError::into_inner);
        (is_uncounted && unpriced.insert(backend.clone())).then(|| {
            format!("the cost of turns on {backend} is unknown: budgets count them in tokens and turns alone, not in dollars")
        })
    }
}

impl SpendingRefusal {
    /// Returns the error of a turn that no other backend may run either.
    pub(crate) fn into_error(self, backend: BackendId) -> TurnError {
        let error = TurnError::new(ErrorKind::LimitReached(Limit::Budget), backend);
        error.with_retry(self.until.map_or(Retry::Never, Retry::At)).with_message(self.message)
    }
}

fn planned(
    entry: &ConfiguredBackend,
    kind: &str,
    labels: &BTreeMap<String, String>,
    model: Option<&ModelId>,
) -> PlannedTurn {
    let label = |label: WorkLabel| label.of(labels).map(|value| cut(&value));
    let mut turn = PlannedTurn::new(entry.id.clone(), label(WorkLabel::Type).unwrap_or_else(|| cut(kind)));
    turn.vendor = entry.vendor.as_ref().map(|vendor| VendorId::new(cut(vendor.as_str())));
    turn.model = model.map(|model| ModelId::new(cut(model.as_str())));
    turn.task = label(WorkLabel::Task);
    turn.debate = label(WorkLabel::Debate);
    turn.agent = label(WorkLabel::Agent);
    turn.trigger = label(WorkLabel::Trigger);
    turn.conversation = label(WorkLabel::Conversation);
    let settings = entry.built_from.as_ref().map(|built| &built.settings);
    let setting = |name: &str| settings.and_then(|settings| settings.get(name));
    turn.billing = match setting("billing").and_then(Value::as_str) {
        Some("plan") => Some(TurnBilling::Plan),
        Some("metered") => Some(TurnBilling::Metered),
        _ => None,
    };
    // The key names the account, and never a secret.
    turn.account = setting("credential").and_then(|credential| credential.get("account")?.as_str()).map(cut);
    turn
}

/// Returns the name of an error's kind, as in other output of Nexus.
fn word_of(kind: ErrorKind) -> String {
    match serde_json::to_value(kind) {
        Ok(Value::String(word)) => word,
        Ok(Value::Object(parts)) => parts.keys().next().cloned().unwrap_or_default(),
        _ => "failed".to_owned(),
    }
}

fn cut(text: &str) -> String {
    nexus_files::shortened(text, MAX_TEXT)
}
