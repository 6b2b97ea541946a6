//! Agents by name, as data: how each is started, and which variables, files and arguments carry its key, address and model.
//!
//! The sandbox of Nexus enforces the access levels of these agents, so no row has to be trusted for that.

mod row;
mod row_fault;
mod template;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

pub(crate) use self::row::ListedAgent;
pub(super) use self::row::ListedInputs;
use super::judgement::AgentJudgement;

/// The agents of Nexus, by name. A test parses the file, so it is never unreadable at run time.
pub(crate) fn table() -> &'static BTreeMap<String, Arc<ListedAgent>> {
    static TABLE: OnceLock<BTreeMap<String, Arc<ListedAgent>>> = OnceLock::new();
    TABLE.get_or_init(|| {
        let rows: BTreeMap<String, ListedAgent> =
            serde_json::from_str(include_str!("table.json")).unwrap_or_default();
        rows.into_iter().map(|(name, row)| (name.clone(), Arc::new(row.named(name)))).collect()
    })
}

/// Recorded judgements of Nexus, by the name of the agent. A test parses the file.
pub(super) fn judgements() -> BTreeMap<String, AgentJudgement> {
    serde_json::from_str(include_str!("judged.json")).unwrap_or_default()
}

/// Returns the agent of this name.
pub(super) fn agent(name: &str) -> Option<Arc<ListedAgent>> {
    table().get(name).cloned()
}

/// Returns the names of all agents.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    table().keys().map(String::as_str)
}

#[cfg(test)]
mod tests;
