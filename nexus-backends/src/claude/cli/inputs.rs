//! Inputs for the agent during its turn, on their way through the CLI.

use std::collections::BTreeMap;

use crate::cli::TurnOutcome;

/// Number of silent ticks in a row, about a second each, after which an answer stands although an input waits.
/// Source: our own bound; the CLI continues within some milliseconds.
const PATIENCE: u32 = 10;

/// The inputs of one process that it has not taken.
#[derive(Debug, Default)]
pub(super) struct Inputs {
    /// By the names that the CLI is given, which come back.
    waiting: BTreeMap<String, u64>,
    /// Answer that the CLI gave before it read an input: it continues by itself with the input, and gives
    /// another answer.
    held: Option<TurnOutcome>,
    silences: u32,
}

impl Inputs {
    /// A name for an input.
    pub(super) fn name(&mut self, number: u64) -> String {
        let name = uuid::Uuid::new_v4().to_string();
        self.waiting.insert(name.clone(), number);
        name
    }

    /// The CLI gives the input of this name to the model.
    pub(super) fn taken(&mut self, name: &str) -> Option<u64> {
        self.waiting.remove(name)
    }

    /// Returns true if the CLI has not read an input.
    pub(super) fn are_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// An answer came before an input was taken.
    pub(super) fn hold(&mut self, verdict: TurnOutcome) {
        (self.held, self.silences) = (Some(verdict), 0);
    }

    /// The CLI asks the model again.
    pub(super) fn goes_on(&mut self) {
        self.held = None;
    }

    /// A line was read.
    pub(super) fn heard(&mut self) {
        self.silences = 0;
    }

    /// Handles a silent tick. Returns the answer that stands, if the CLI does not continue.
    pub(super) fn is_silent(&mut self) -> Option<TurnOutcome> {
        self.held.as_ref()?;
        self.silences += 1;
        if self.silences < PATIENCE { None } else { self.held.take() }
    }

    /// The answer that stands if the process ends now.
    pub(super) fn held(&mut self) -> Option<TurnOutcome> {
        self.held.take()
    }
}
