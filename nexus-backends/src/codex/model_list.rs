//! Model list of the endpoint: supported efforts and request shape of each model.
//!
//! Source: `codex debug models --bundled` of 0.169.0, whose entries have the same format as the endpoint's.

use nexus_core::Effort;
use serde::Deserialize;

use crate::native::lenient::Count;
use crate::native::models;

/// Model list. An unreadable entry is skipped; the others are used.
#[derive(Debug, Deserialize)]
pub(super) struct Models {
    #[serde(deserialize_with = "models::readable")]
    models: Vec<ModelEntry>,
}

/// One model's entry.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ModelEntry {
    pub(super) slug: String,
    /// True if requests to this model have the lite shape. No other field shows it.
    #[serde(deserialize_with = "models::or_default")]
    pub(super) use_responses_lite: bool,
    #[serde(deserialize_with = "models::readable")]
    supported_reasoning_levels: Vec<ReasoningLevel>,
    pub(super) context_window: Count,
    visibility: Option<String>,
    priority: Option<i64>,
}

/// Reasoning level that a model supports.
#[derive(Debug, Deserialize)]
struct ReasoningLevel {
    effort: String,
}

impl Models {
    /// Parses the list in a body; `None` for any other body.
    pub(super) fn read(body: &[u8]) -> Option<Self> {
        serde_json::from_slice(body).ok()
    }

    /// Returns the entry for `model`: the one whose name is the longest prefix of `model`, as in the vendor's program.
    pub(super) fn entry(&self, model: &str) -> Option<&ModelEntry> {
        let named = self.entries().filter(|entry| model.starts_with(&entry.slug));
        named.max_by_key(|entry| entry.slug.len())
    }

    /// Returns the entry for requests that name no model: the visible entry with the lowest `priority`.
    pub(super) fn default_entry(&self) -> Option<&ModelEntry> {
        let shown = self.entries().filter(|entry| entry.visibility.as_deref() == Some("list"));
        shown.min_by_key(|entry| entry.priority.unwrap_or(i64::MAX))
    }

    fn entries(&self) -> impl Iterator<Item = &ModelEntry> {
        self.models.iter().filter(|entry| !entry.slug.is_empty())
    }
}

impl ModelEntry {
    /// Returns the effort levels of the model, without those unknown to [`Effort`].
    pub(super) fn efforts(&self) -> Vec<Effort> {
        models::efforts(self.supported_reasoning_levels.iter().map(|level| level.effort.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn models() -> Models {
        let body = br#"{"models":[
            {"slug":"old","visibility":"list","priority":9,"use_responses_lite":false,"context_window":272000,
             "supported_reasoning_levels":[{"effort":"xhigh","description":"x"},{"effort":"low"}]},
            {"slug":"old-fast","visibility":"list","priority":8,"use_responses_lite":true},
            {"slug":"new","visibility":"list","priority":1,"use_responses_lite":true,
             "supported_reasoning_levels":[{"effort":"ultra"},{"effort":"max"}]},
            {"slug":"hidden","visibility":"hide","priority":0}
        ]}"#;
        Models::read(body).unwrap()
    }

    #[test]
    fn the_first_that_is_shown_is_the_default() {
        assert_eq!(models().default_entry().unwrap().slug, "new");
    }

    #[test]
    fn a_longer_name_takes_the_entry_of_its_longest_beginning() {
        let models = models();
        assert_eq!(models.entry("old").unwrap().slug, "old");
        assert_eq!(models.entry("old-2026").unwrap().slug, "old");
        assert_eq!(models.entry("old-fast-2026").unwrap().slug, "old-fast");
        assert!(models.entry("other").is_none());
    }

    #[test]
    fn a_step_that_we_do_not_have_is_no_step() {
        assert_eq!(models().entry("new").unwrap().efforts(), [Effort::Max]);
        assert_eq!(models().entry("old").unwrap().efforts(), [Effort::Low, Effort::XHigh]);
    }

    #[test]
    fn an_odd_entry_costs_no_other() {
        let body = br#"{"models":[
            {"slug":"null","use_responses_lite":true,"supported_reasoning_levels":null,"visibility":null},
            {"slug":"flag","use_responses_lite":null},
            {"slug":"steps","supported_reasoning_levels":[{"level":"low"},{"effort":"high"},null]},
            {"slug":7}, null, "text",
            {"slug":"good","use_responses_lite":true}
        ]}"#;
        let models = Models::read(body).unwrap();
        let is_lite = |slug: &str| models.entry(slug).unwrap().use_responses_lite;
        assert!(is_lite("good") && is_lite("null") && !is_lite("flag"));
        assert_eq!(models.entry("steps").unwrap().efforts(), [Effort::High]);
        assert_eq!(models.entries().count(), 4);
    }

    #[test]
    fn what_has_no_list_of_entries_is_no_list() {
        for body in [&b"{}"[..], b"[]", b"<html>", br#"{"data":[{"id":"x"}]}"#] {
            assert!(Models::read(body).is_none());
        }
    }
}
