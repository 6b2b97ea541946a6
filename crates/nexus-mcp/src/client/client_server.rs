//! One server that a client may start, with the rules for its tools.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use super::{connection::ServerConnection, source::ServerSource};

/// Longest time of a call without progress, unless the owner of a server sets another limit.
const CALL_WITHIN: Duration = Duration::from_secs(600);

/// One server that a client may start.
#[non_exhaustive]
#[derive(Clone, Debug)]
pub struct ClientServer {
    /// Name of the server. It is part of the names of its tools.
    pub name: String,
    pub(super) source: Arc<dyn ServerSource>,
    /// Longest time of a call without progress.
    pub(super) call_within: Duration,
    /// True if the host has to approve each call.
    pub(super) needs_approval: bool,
    /// The tools that are offered, by their names at the server. `None` for all.
    only: Option<BTreeSet<String>>,
    pub(super) is_required: bool,
}

impl ClientServer {
    /// Creates a server. Each call of its tools needs an approval.
    pub fn new(name: impl Into<String>, source: Arc<dyn ServerSource>) -> Self {
        Self {
            name: name.into(),
            source,
            call_within: CALL_WITHIN,
            needs_approval: true,
            only: None,
            is_required: false,
        }
    }

    /// Sets the longest time of a call without progress. Default: ten minutes.
    #[must_use]
    pub fn with_call_within(mut self, within: Duration) -> Self {
        self.call_within = within;
        self
    }

    /// Offers the tools without an approval of each call.
    #[must_use]
    pub fn without_approval(mut self) -> Self {
        self.needs_approval = false;
        self
    }

    /// Marks the server as one without which no turn may run. Its problem is reported with each offer.
    #[must_use]
    pub fn required(mut self) -> Self {
        self.is_required = true;
        self
    }

    /// Offers only these tools, by their names at the server.
    #[must_use]
    pub fn with_tools(mut self, only: impl IntoIterator<Item = String>) -> Self {
        self.only = Some(only.into_iter().collect());
        self
    }

    pub(super) fn offers(&self, tool: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only.contains(tool))
    }

    /// Returns the problems of a list of tools, for a person.
    pub(super) fn list_faults(&self, running: &ServerConnection) -> Vec<String> {
        let mut faults = Vec::new();
        if running.left_out > 0 {
            faults.push(format!(
                "{} of its tools are left out: it lists too many, or names that are too long or contain a lent secret",
                running.left_out
            ));
        }
        let is_listed = |name: &String| running.tools.iter().any(|tool| tool.name == *name);
        let missing = self.only.iter().flatten().filter(|name| !is_listed(name));
        faults.extend(missing.map(|name| format!("it has no tool {name:?}, which `tools` names")));
        faults
    }
}
