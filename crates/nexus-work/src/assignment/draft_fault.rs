//! Faults of an agent's submission.

use std::fmt;

/// A fault of a draft: its position and the advice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DraftFault {
    /// The place in the draft, as a path: `plan[2].write_slice[0]`.
    pub place: String,
    /// Problem, with advice.
    pub problem: String,
}

impl fmt::Display for DraftFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.problem)
    }
}

/// A draft was rejected. The error lists all faults, so that the agent can fix them at once.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the {what} is rejected: {}", lines(faults))]
pub struct DraftError {
    /// Kind of the submission: `brief`, `handoff`, `verdict`, `amendment`.
    pub what: &'static str,
    /// At least one fault.
    pub faults: Vec<DraftFault>,
}

fn lines(faults: &[DraftFault]) -> String {
    let lines: Vec<String> = faults.iter().map(ToString::to_string).collect();
    lines.join("; ")
}

/// Maximum number of faults in one error.
const MOST_TOLD: usize = 20;

/// Collects the faults of a draft while it is checked.
#[derive(Debug, Default)]
pub struct Faults {
    found: Vec<DraftFault>,
    more: usize,
}

impl Faults {
    /// Adds one fault. `place` is a path in the draft; `problem` is the fault with advice.
    pub fn add(&mut self, place: impl Into<String>, problem: impl Into<String>) {
        match self.found.len() < MOST_TOLD {
            true => self.found.push(DraftFault { place: place.into(), problem: problem.into() }),
            false => self.more += 1,
        }
    }

    /// Checks that a text has `1..=most` bytes, without control characters except line ends and tabs.
    pub fn text(&mut self, place: &str, text: &str, most: usize) {
        let is_odd = |character: char| character.is_control() && !matches!(character, '\n' | '\t');
        if text.trim().is_empty() {
            self.add(place, "is empty");
        } else if text.len() > most {
            self.add(place, format!("has {} bytes, more than {most}", text.len()));
        } else if text.replace("\r\n", "\n").chars().any(is_odd) {
            self.add(place, "has control characters; only line ends and tabs are allowed");
        }
    }

    /// Checks that a list has at most `most` entries.
    pub fn count(&mut self, place: &str, count: usize, most: usize) {
        if count > most {
            self.add(place, format!("has {count} entries, more than {most}"));
        }
    }

    /// Returns the error, if a fault was added. `what` is the kind of the submission: `brief`.
    ///
    /// # Errors
    ///
    /// [`DraftError`] with all faults, or the first 20 of them.
    pub fn into_result(mut self, what: &'static str) -> Result<(), DraftError> {
        if self.more > 0 {
            let problem = format!("{} more faults are not listed; correct these first", self.more);
            self.found.push(DraftFault { place: "the rest".to_owned(), problem });
        }
        match self.found.is_empty() {
            true => Ok(()),
            false => Err(DraftError { what, faults: self.found }),
        }
    }
}

/// Formats `text` for an error: at most 80 characters of it.
pub fn shown(text: &str) -> String {
    format!("{:?}", text.chars().take(80).collect::<String>())
}
