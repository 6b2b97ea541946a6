//! An answer that a tool call submits, as a value of a caller's type.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use super::{Tool, ToolFault};
use crate::turn::Effects;

/// Answer to the model after an accepted submission.
const TAKEN: &str = "The answer is submitted. Your work is done.";

/// Check of a submitted value. Its error is the message for the model.
type ValueCheck<T> = Arc<dyn Fn(&T) -> Result<(), String> + Send + Sync>;

/// Receiver of an answer that a tool submits: [`Tool::submit`]. Clones share the value.
///
/// ```
/// use nexus_core::{Session, ParticipantScope, Submission, Tool, ToolCall, Toolbox};
/// use schemars::JsonSchema;
/// use serde::Deserialize;
/// use serde_json::json;
///
/// #[derive(Debug, Deserialize, JsonSchema)]
/// struct Verdict {
///     /// Arguments against it.
///     concerns: Vec<String>,
///     /// True if the work advances.
///     advances: bool,
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let verdict = Submission::new().checked_by(|verdict: &Verdict| match verdict.advances && !verdict.concerns.is_empty() {
///     true => Err("what has concerns does not advance".to_owned()),
///     false => Ok(()),
/// });
/// let tools = Toolbox::new().with(Tool::submit("submit_verdict", "Hands in your verdict.", &verdict));
/// let session = Session::mint("reviewer", ParticipantScope::unrestricted(), std::sync::Arc::new(tools));
/// // A model does this in a turn:
/// let submit = |arguments| session.call(session.token(), ToolCall::new("1", "submit_verdict", arguments));
/// assert!(submit(json!({ "concerns": ["it leaks"], "advances": true })).await.is_error);
/// assert!(!submit(json!({ "concerns": [], "advances": true })).await.is_error);
/// assert!(session.is_handed_in() && session.is_closed());
/// assert!(verdict.take().unwrap().advances);
/// # }
/// ```
pub struct Submission<T> {
    place: Arc<Mutex<Option<T>>>,
    check: Option<ValueCheck<T>>,
}

impl<T> Submission<T> {
    /// Creates a receiver without a value.
    pub fn new() -> Self {
        Self { place: Arc::default(), check: None }
    }

    /// Accepts only values that pass `check`. The model reads the error of `check`.
    #[must_use]
    pub fn checked_by(mut self, check: impl Fn(&T) -> Result<(), String> + Send + Sync + 'static) -> Self {
        self.check = Some(Arc::new(check));
        self
    }

    /// Removes and returns the submitted value. Afterwards another value can be submitted.
    pub fn take(&self) -> Option<T> {
        self.place().take()
    }

    /// Returns true if a value was submitted and not taken yet.
    pub fn is_there(&self) -> bool {
        self.place().is_some()
    }

    /// Submits a value from a caller's own tool. [`Tool::submit`] is the usual tool for that.
    ///
    /// # Errors
    ///
    /// The reason for the model: the message of the check, or that a value was already submitted.
    pub fn hand_in(&self, value: T) -> Result<(), String> {
        // Run the caller's check before the lock, because it may be slow or may use this value.
        if let Some(check) = &self.check {
            check(&value)?;
        }
        let mut place = self.place();
        if place.is_some() {
            return Err("an answer was already submitted, and the first one counts".to_owned());
        }
        *place = Some(value);
        Ok(())
    }

    fn place(&self) -> MutexGuard<'_, Option<T>> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tool {
    /// Creates a [terminal](Tool::terminal) tool that submits a `T`. The first valid value is stored in `place`, and ends
    /// the turn. If a value cannot be read or fails the check of `place`, the model gets the fault and may try again.
    pub fn submit<T>(name: impl Into<String>, description: impl Into<String>, place: &Submission<T>) -> Self
    where
        T: DeserializeOwned + JsonSchema + Send + 'static,
    {
        let place = place.clone();
        let handler = move |value: T| {
            let accepted = place.hand_in(value);
            async move { accepted.map(|()| TAKEN).map_err(ToolFault::new) }
        };
        Self::new(name, description, handler).with_effects(Effects::None).terminal()
    }
}

impl<T> Clone for Submission<T> {
    fn clone(&self) -> Self {
        Self { place: Arc::clone(&self.place), check: self.check.clone() }
    }
}

impl<T> Default for Submission<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> fmt::Debug for Submission<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Submission").field("is_there", &self.is_there()).finish_non_exhaustive()
    }
}
