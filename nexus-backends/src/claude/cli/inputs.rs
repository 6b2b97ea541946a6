//! Inputs that the caller sends to the agent during its turn.

use std::collections::BTreeMap;

use crate::cli::TurnOutcome;

/// Number of consecutive silent ticks, about one second each, after which an answer becomes final although an input is
/// waiting. Source: our own bound; the CLI continues within some milliseconds.
const PATIENCE: u32 = 10;

/// Inputs that the process has not yet given to its model.
#[derive(Debug, Default)]
pub(super) struct Inputs {
    /// Input numbers by the message id that the CLI repeats when it takes the input.
    waiting: BTreeMap<String, u64>,
    /// Answer that the CLI gave before it read an input. The CLI continues by itself with the input, and gives another
    /// answer.
    held: Option<TurnOutcome>,
    silences: u32,
}

impl Inputs {
    /// Creates a message id for an input.
    pub(super) fn name(&mut self, number: u64) -> String {
        let name = uuid::Uuid::new_v4().to_string();
        self.waiting.insert(name.clone(), number);
        name
    }

    /// Removes the input with this message id, because the CLI gives it to the model. Returns its number.
    pub(super) fn taken(&mut self, name: &str) -> Option<u64> {
        self.waiting.remove(name)
    }

    /// Returns true if an input is waiting for the CLI.
    pub(super) fn are_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Stores an answer that arrived before an input was taken.
    pub(super) fn hold(&mut self, verdict: TurnOutcome) {
        (self.held, self.silences) = (Some(verdict), 0);
    }

    /// Discards the stored answer, because the CLI calls the model again.
    pub(super) fn goes_on(&mut self) {
        self.held = None;
    }

    /// Resets the count of silent ticks, because the CLI wrote a line.
    pub(super) fn heard(&mut self) {
        self.silences = 0;
    }

    /// Counts a silent tick. Returns the stored answer once it is final because the CLI does not continue.
    pub(super) fn is_silent(&mut self) -> Option<TurnOutcome> {
        self.held.as_ref()?;
        self.silences += 1;
        if self.silences < PATIENCE { None } else { self.held.take() }
    }

    /// Takes the stored answer, which becomes final because the process has ended.
    pub(super) fn held(&mut self) -> Option<TurnOutcome> {
        self.held.take()
    }
}
