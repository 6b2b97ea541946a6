//! The table of judged agents in the repository.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use nexus_backends::acp::AgentJudgement;

/// Recorded judgements of the agents that `kind: acp` names: `judged.json` beside their table.
#[derive(Clone, Debug)]
pub struct JudgedAgents {
    path: PathBuf,
    rows: BTreeMap<String, AgentJudgement>,
}

impl JudgedAgents {
    /// Reads the table.
    ///
    /// # Errors
    ///
    /// A sentence.
    pub fn read(repository: &Path) -> Result<Self, String> {
        let path = repository.join("nexus-backends/src/acp/listed/judged.json");
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let rows = serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self { path, rows })
    }

    /// Returns the judgement of an agent.
    pub fn of(&self, agent: &str) -> Option<&AgentJudgement> {
        self.rows.get(agent)
    }

    /// Inserts a judgement, in place of the earlier one.
    pub fn insert(&mut self, agent: &str, judgement: AgentJudgement) {
        self.rows.insert(agent.to_owned(), judgement);
    }

    /// Writes the table to its file.
    ///
    /// # Errors
    ///
    /// A sentence.
    pub fn write(&self) -> Result<(), String> {
        let text = serde_json::to_string_pretty(&self.rows).map_err(|error| error.to_string())?;
        fs::write(&self.path, text + "\n").map_err(|error| format!("{}: {error}", self.path.display()))
    }
}
