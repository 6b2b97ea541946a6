//! An answer that is handed in by a tool call, as a value of the caller's type.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use super::{Tool, ToolFault};
use crate::turn::Effects;

/// What the model is told of a submission that was taken.
const TAKEN: &str = "It is handed in, and your work is done.";

/// Check of a submitted value. Its error tells the model what is wrong.
type ValueCheck<T> = Arc<dyn Fn(&T) -> Result<(), String> + Send + Sync>;

/// Where an answer lies that is handed in by a tool: [`Tool::submit`]. Clones share the place.
///
/// ```
/// use nexus_core::{Session, ParticipantScope, Submission, Tool, ToolCall, Toolbox};
/// use schemars::JsonSchema;
/// use serde::Deserialize;
/// use serde_json::json;
///
/// #[derive(Debug, Deserialize, JsonSchema)]
/// struct Verdict {
///     /// What speaks against it.
///     concerns: Vec<String>,
///     /// Whether it goes on all the same.
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
/// // What a model does in a turn:
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
    /// A place where nothing lies yet.
    pub fn new() -> Self {
        Self { place: Arc::default(), check: None }
    }

    /// Takes only values that pass `check`; its error is what the model reads.
    #[must_use]
    pub fn checked_by(mut self, check: impl Fn(&T) -> Result<(), String> + Send + Sync + 'static) -> Self {
        self.check = Some(Arc::new(check));
        self
    }

    /// Takes out what was handed in. The place is empty then, and takes another one.
    pub fn take(&self) -> Option<T> {
        self.place().take()
    }

    /// Whether something was handed in and not taken out.
    pub fn is_there(&self) -> bool {
        self.place().is_some()
    }

    /// Hands a value in, for a tool of the caller's own: [`Tool::submit`] is the common one.
    ///
    /// # Errors
    ///
    /// What is wrong with it, for the model: the words of the check, or that something was handed in before.
    pub fn hand_in(&self, value: T) -> Result<(), String> {
        if let Some(check) = &self.check {
            check(&value)?;
        }
        let mut place = self.place();
        if place.is_some() {
            return Err("an answer was handed in before, and the first one counts".to_owned());
        }
        *place = Some(value);
        Ok(())
    }

    fn place(&self) -> MutexGuard<'_, Option<T>> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tool {
    /// A [terminal](Tool::terminal) tool that hands in a `T`: the first valid one lies in `place` afterwards, and ends the
    /// turn. One that cannot be read, or that the place's check refuses, is answered with what is wrong, and the model may
    /// try again.
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
