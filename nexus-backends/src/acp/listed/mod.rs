//! Agents by name, as data: how each is started, and which variables, files and arguments carry its key, address and model.
//!
//! The sandbox of Nexus enforces the access levels of these agents, so no row has to be trusted for that.

mod row;
mod template;

use std::collections::BTreeMap;
use std::sync::OnceLock;

pub(crate) use self::row::ListedAgent;
pub(super) use self::row::ListedInputs;

/// The agents of Nexus, by name. A test parses the file, so it is never unreadable at run time.
pub(crate) fn table() -> &'static BTreeMap<String, ListedAgent> {
    static TABLE: OnceLock<BTreeMap<String, ListedAgent>> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut rows: BTreeMap<String, ListedAgent> =
            serde_json::from_str(include_str!("table.json")).unwrap_or_default();
        for (name, row) in &mut rows {
            row.name.clone_from(name);
        }
        rows
    })
}

/// Returns the agent of this name.
pub(super) fn agent(name: &str) -> Option<&'static ListedAgent> {
    table().get(name)
}

/// Returns the names of all agents.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    table().keys().map(String::as_str)
}

#[cfg(test)]
mod tests;
