//! Script of a fake.

use std::{io, path::Path};

use serde::{Deserialize, Serialize};

use super::{misbehaviour::Misbehaviour, replay::Replay};
use crate::{model_call::Line, sim::Scenario};

/// Script of a fake: its behaviour when it is called.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FakeScript {
    /// Output of `--version`; the vendor's own if absent.
    #[serde(default)]
    pub version_line: Option<String>,
    /// Behaviour on every other call.
    pub act: Act,
    /// Misbehaviour of the program.
    #[serde(default)]
    pub misbehaviour: Vec<Misbehaviour>,
}

/// Behaviour of a fake on a call that starts a turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Act {
    /// Replays the output of a real CLI.
    Replay(Replay),
    /// Imitates the vendor's harness with a model that plays a scenario.
    Imitate {
        /// Replies of the model.
        scenario: Box<Scenario>,
        /// Connection to the model: open or refused.
        line: Line,
    },
}

impl FakeScript {
    /// Plays `scenario`.
    pub fn imitate(scenario: impl Into<Scenario>) -> Self {
        Self::new(Act::Imitate { scenario: Box::new(scenario.into()), line: Line::Open })
    }

    /// Replays a recording.
    pub fn replay(replay: Replay) -> Self {
        Self::new(Act::Replay(replay))
    }

    /// Does `act`, as well as it can.
    pub fn new(act: Act) -> Self {
        Self { version_line: None, act, misbehaviour: Vec::new() }
    }

    /// Lets it go wrong.
    #[must_use]
    pub fn with(mut self, misbehaviour: Misbehaviour) -> Self {
        self.misbehaviour.push(misbehaviour);
        self
    }

    /// Makes it claim another version.
    #[must_use]
    pub fn with_version_line(mut self, line: impl Into<String>) -> Self {
        self.version_line = Some(line.into());
        self
    }

    pub(super) fn load(path: &Path) -> io::Result<Self> {
        Ok(serde_json::from_slice(&std::fs::read(path)?)?)
    }

    pub(super) fn store(&self, path: &Path) -> io::Result<()> {
        std::fs::write(path, serde_json::to_vec(self)?)
    }
}
