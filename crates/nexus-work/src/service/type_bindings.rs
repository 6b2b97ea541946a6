//! Backends that a configuration binds to its types, as stored with a piece of work.

use std::collections::BTreeMap;

use nexus_router::{ExplainedChain, ExplainedTarget, Router};
use serde::{Deserialize, Serialize};

use crate::{Workspace, WorkspaceError, WorkspaceEvent, WorkspaceState};

/// Kind of the event that stores the bindings.
const CONFIGURED: &str = "configured";

/// Backends of each type, in the order in which a turn tries them. They contain no credential.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TypeBindings {
    /// Description of the backends of each type, by the name of the type.
    pub types: BTreeMap<String, String>,
}

impl TypeBindings {
    /// Returns the bindings of a router as it is now.
    pub fn of(router: &Router) -> Self {
        let router = router.snapshot();
        let binding = |kind: String| {
            let target = router.explain(kind.as_str()).ok()?.target;
            Some((kind, target_in_words(&target)))
        };
        Self { types: router.kinds().into_iter().filter_map(binding).collect() }
    }

    /// Returns the bindings with which the work began, if it stored any.
    pub fn at_beginning(events: &[WorkspaceEvent]) -> Option<Self> {
        stored(events).next()
    }

    /// Returns the bindings that were stored last.
    pub fn latest(events: &[WorkspaceEvent]) -> Option<Self> {
        stored(events).last()
    }

    /// Lists the types that are bound otherwise than `before`.
    pub fn changes_since(&self, before: &Self) -> Vec<String> {
        let kinds =
            before.types.keys().chain(self.types.keys().filter(|kind| !before.types.contains_key(*kind)));
        let words = |bindings: &Self, kind: &str| {
            bindings.types.get(kind).map_or_else(|| "unbound".to_owned(), Clone::clone)
        };
        kinds
            .map(|kind| (kind, words(self, kind), words(before, kind)))
            .filter(|(_, now, then)| now != then)
            .map(|(kind, now, then)| format!("{kind} is now {now}, and was {then}"))
            .collect()
    }
}

/// Stores the bindings, unless the latest stored ones are equal. Returns the differences to the bindings at the beginning if
/// it stored others.
pub(super) fn store_bindings<S: WorkspaceState>(
    workspace: &Workspace<S>,
    now: &TypeBindings,
) -> Result<Vec<String>, WorkspaceError> {
    if now.types.is_empty() {
        return Ok(Vec::new());
    }
    let events = workspace.events()?.events;
    if TypeBindings::latest(&events).as_ref() == Some(now) {
        return Ok(Vec::new());
    }
    workspace.append(CONFIGURED, serde_json::to_value(now).unwrap_or_default())?;
    Ok(TypeBindings::at_beginning(&events).map(|before| now.changes_since(&before)).unwrap_or_default())
}

fn stored(events: &[WorkspaceEvent]) -> impl Iterator<Item = TypeBindings> + '_ {
    let configured = events.iter().filter(|event| event.kind == CONFIGURED);
    configured.filter_map(|event| serde_json::from_value(event.data.clone()).ok())
}

fn target_in_words(target: &ExplainedTarget) -> String {
    match target {
        ExplainedTarget::Chain(chain) => chain_in_words(chain),
        ExplainedTarget::Panel { seats, .. } => {
            let seats: Vec<String> = seats.iter().map(|seat| chain_in_words(&seat.chain)).collect();
            format!("a panel of {}", seats.join(" | "))
        }
        _ => "unknown".to_owned(),
    }
}

fn chain_in_words(chain: &ExplainedChain) -> String {
    let backends = chain.entries.iter().map(|entry| match entry.model.as_ref().or(chain.model.as_ref()) {
        Some(model) => format!("{} ({model})", entry.backend),
        None => entry.backend.to_string(),
    });
    let backends = backends.collect::<Vec<_>>().join(", ");
    match chain.effort {
        Some(effort) => format!("{backends} at effort {effort}"),
        None => backends,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bindings(types: &[(&str, &str)]) -> TypeBindings {
        TypeBindings { types: types.iter().map(|(kind, words)| ((*kind).into(), (*words).into())).collect() }
    }

    #[test]
    fn a_type_that_changed_appeared_or_went_is_named() {
        let before = bindings(&[("executor", "claude"), ("reviewer", "codex"), ("gone", "grok")]);
        let now = bindings(&[("executor", "codex"), ("reviewer", "codex"), ("new", "grok")]);
        assert_eq!(
            now.changes_since(&before),
            [
                "executor is now codex, and was claude",
                "gone is now unbound, and was grok",
                "new is now grok, and was unbound"
            ]
        );
        assert!(now.changes_since(&now).is_empty());
    }
}
