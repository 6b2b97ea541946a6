//! Model list of the endpoint, with the allowed fields of a request to each model.
//!
//! Source: the public source of the vendor's program, and the fields that public clients read.

use nexus_core::Effort;
use serde::Deserialize;

use crate::native::lenient::Count;
use crate::native::models;

/// Effort levels of a model that supports effort but lists no levels.
const USUAL_EFFORTS: [Effort; 3] = [Effort::Low, Effort::Medium, Effort::High];

/// Model list. An unreadable entry is skipped; the others are used.
#[derive(Debug, Deserialize)]
pub(super) struct Models {
    #[serde(alias = "models", deserialize_with = "models::readable")]
    data: Vec<ModelEntry>,
}

/// One model's entry.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ModelEntry {
    pub(super) id: String,
    #[serde(deserialize_with = "models::or_default")]
    hidden: bool,
    supports_reasoning_effort: Option<bool>,
    pub(super) context_window: Count,
    #[serde(deserialize_with = "models::readable")]
    reasoning_efforts: Vec<EffortStep>,
}

/// Effort level: only a name, or an object with a description.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum EffortStep {
    Name(String),
    ModelEntry {
        #[serde(alias = "id", alias = "effort")]
        value: String,
    },
}

impl Models {
    /// Parses the list in a body; `None` for any other body.
    pub(super) fn read(body: &[u8]) -> Option<Self> {
        serde_json::from_slice(body).ok()
    }

    /// Returns the entry with this name.
    pub(super) fn entry(&self, model: &str) -> Option<&ModelEntry> {
        self.data.iter().find(|entry| entry.id == model)
    }

    /// Returns the entry for requests that name no model: the first visible entry.
    pub(super) fn default_entry(&self) -> Option<&ModelEntry> {
        self.data.iter().find(|entry| !entry.hidden && !entry.id.is_empty())
    }
}

impl ModelEntry {
    /// Returns the effort levels of the model; empty if it supports no effort.
    pub(super) fn efforts(&self) -> Vec<Effort> {
        let names = self.reasoning_efforts.iter().map(|step| match step {
            EffortStep::Name(name) | EffortStep::ModelEntry { value: name } => name.as_str(),
        });
        match (self.supports_reasoning_effort, models::efforts(names)) {
            (Some(false), _) => Vec::new(),
            (Some(true), offered) if offered.is_empty() => USUAL_EFFORTS.to_vec(),
            // An entry may lack the flag. Its list of levels then decides alone.
            (_, offered) => offered,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn models() -> Models {
        let body = br#"{"object":"list","data":[
            {"id":"secret","hidden":true},
            {"id":"grok-4.6","name":"Grok 4.6","context_window":500000,"supports_reasoning_effort":true,
             "reasoning_effort":"high","reasoning_efforts":[{"value":"xhigh","label":"Extra"},{"value":"low"},"none"]},
            {"id":"grok-4.5","supports_reasoning_effort":true},
            {"id":"grok-build","supports_reasoning_effort":false,"reasoning_efforts":["low"]},
            {"id":"plain","object":"model"}
        ]}"#;
        Models::read(body).unwrap()
    }

    #[test]
    fn effort_is_what_the_menu_offers() {
        let models = models();
        let efforts = |model: &str| models.entry(model).unwrap().efforts();
        assert_eq!(efforts("grok-4.6"), [Effort::Low, Effort::XHigh]);
        assert_eq!(efforts("grok-4.5"), USUAL_EFFORTS);
        assert!(efforts("grok-build").is_empty());
        assert!(efforts("plain").is_empty());
        assert!(models.entry("grok").is_none());
    }

    #[test]
    fn the_first_that_is_shown_is_the_default() {
        assert_eq!(models().default_entry().unwrap().id, "grok-4.6");
    }

    #[test]
    fn an_odd_entry_costs_no_other() {
        let body = br#"{"data":[
            {"id":"null","hidden":null,"supports_reasoning_effort":true,"reasoning_efforts":null},
            {"id":"steps","reasoning_efforts":[{"label":"Low"},"high",null]},
            {"id":null}, null, {"id":"text","hidden":"no"},
            {"id":"good","supports_reasoning_effort":true,"reasoning_efforts":["low"]}
        ]}"#;
        let models = Models::read(body).unwrap();
        let efforts = |model: &str| models.entry(model).unwrap().efforts();
        assert_eq!(efforts("good"), [Effort::Low]);
        assert_eq!(efforts("null"), USUAL_EFFORTS);
        assert_eq!(efforts("steps"), [Effort::High]);
        assert_eq!(models.default_entry().unwrap().id, "null");
        assert!(models.entry("text").is_none());
    }

    #[test]
    fn what_has_no_list_of_entries_is_no_list() {
        for body in [&b"{}"[..], b"null", b"<html>", br#"{"code":"x","error":"y"}"#] {
            assert!(Models::read(body).is_none());
        }
    }
}
