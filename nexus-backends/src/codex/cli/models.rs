//! The program's own list of models: what each takes, and which tools each is given.
//!
//! Some tools have no switch but the model's entry, so a turn without the program's own tools runs on an edited entry. Source:
//! `codex debug models --bundled` of 0.169.0, and the tools that a loopback model was offered with it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use nexus_core::Effort;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::sync::OnceCell;

use nexus_process::environment::Environment;
use nexus_process::executable::{Executable, ExecutableStamp};
use nexus_process::spawn::{Bounds, Invocation};

/// Largest list, in bytes. Source: our own bound, some hundred times that of 0.169.0.
const MAX_LIST_BYTES: usize = 16 << 20;

/// How long the program may take to print the list.
const TIME_LIMIT: Duration = Duration::from_secs(20);

/// The list. Entries are kept whole, since an edited one must lack nothing else.
#[derive(Debug, Deserialize)]
pub(super) struct ModelList {
    models: Vec<Map<String, Value>>,
}

/// JSON object of one model.
#[derive(Clone, Copy, Debug)]
pub(super) struct ModelObject<'a>(&'a Map<String, Value>);

impl ModelList {
    /// Asks the program, once per state of its file; `None` if it does not tell. Needs a `CODEX_HOME` that
    /// can be written, and no network.
    pub(super) async fn of(executable: &Executable, environment: &Environment) -> Option<Arc<Self>> {
        type Known = HashMap<ExecutableStamp, Arc<OnceCell<Arc<ModelList>>>>;
        static KNOWN: Mutex<Option<Known>> = Mutex::new(None);
        let stamp = executable.stamp().ok()?;
        let cell = {
            let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(known.get_or_insert_default().entry(stamp).or_default())
        };
        let asked =
            cell.get_or_try_init(|| async { ask(executable, environment).await.map(Arc::new).ok_or(()) });
        asked.await.ok().cloned()
    }

    /// The entry that the program uses for `model`: of that name, else of the longest beginning of it.
    pub(super) fn entry(&self, model: &str) -> Option<ModelObject<'_>> {
        let named = self.entries().filter(|entry| model.starts_with(entry.slug()));
        named.max_by_key(|entry| entry.slug().len())
    }

    /// The entry that the program uses where no model is named: the first of those it shows.
    pub(super) fn default_entry(&self) -> Option<ModelObject<'_>> {
        let shown =
            self.entries().filter(|entry| entry.0.get("visibility").is_some_and(|word| word == "list"));
        shown.min_by_key(|entry| entry.0.get("priority").and_then(Value::as_i64).unwrap_or(i64::MAX))
    }

    fn entries(&self) -> impl Iterator<Item = ModelObject<'_>> {
        self.models.iter().map(ModelObject).filter(|entry| !entry.slug().is_empty())
    }
}

impl ModelObject<'_> {
    fn slug(&self) -> &str {
        self.0.get("slug").and_then(Value::as_str).unwrap_or_default()
    }

    /// The steps of effort that the model takes, of those we know.
    pub(super) fn efforts(&self) -> Vec<Effort> {
        let levels = self.0.get("supported_reasoning_levels").and_then(Value::as_array);
        let words =
            levels.into_iter().flatten().filter_map(|level| level.get("effort")?.as_str()?.parse().ok());
        words.collect()
    }

    /// A list that holds this model alone, with none of the program's tools.
    pub(super) fn list_without_own_tools(&self) -> Value {
        let mut entry = self.0.clone();
        let edits = [
            ("apply_patch_tool_type", Value::Null),
            ("shell_type", json!("disabled")),
            ("tool_mode", json!("direct")),
            ("supports_search_tool", json!(false)),
            ("experimental_supported_tools", json!([])),
            ("multi_agent_version", Value::Null),
        ];
        entry.extend(edits.map(|(key, value)| (key.to_owned(), value)));
        json!({ "models": [entry] })
    }
}

async fn ask(executable: &Executable, environment: &Environment) -> Option<ModelList> {
    let mut bounds = Bounds::default();
    bounds.time_limit = Some(TIME_LIMIT);
    let process = Invocation::new(executable.clone(), "/")
        .arguments(["debug", "models", "--bundled"])
        .environment(environment.clone())
        .bounds(bounds)
        .spawn()
        .ok()?;
    let mut output = Vec::new();
    while let Some(line) = process.next_line().await {
        output.extend_from_slice(&line.bytes);
        output.push(b'\n');
        if output.len() > MAX_LIST_BYTES {
            return None;
        }
    }
    let exit = process.wait().await;
    exit.status.is_success().then(|| serde_json::from_slice(&output).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn models() -> ModelList {
        let levels = |words: &[&str]| words.iter().map(|word| json!({ "effort": word })).collect::<Vec<_>>();
        serde_json::from_value(json!({ "models": [
            { "slug": "old", "visibility": "list", "priority": 9,
              "supported_reasoning_levels": levels(&["low", "xhigh"]), "shell_type": "unified_exec",
              "use_responses_lite": true },
            { "slug": "new", "visibility": "list", "priority": 1, "supported_reasoning_levels": levels(&["ultra", "max"]) },
            { "slug": "hidden", "visibility": "hide", "priority": 0 },
        ] }))
        .unwrap()
    }

    #[test]
    fn the_first_that_is_shown_is_the_default() {
        assert_eq!(models().default_entry().unwrap().slug(), "new");
    }

    #[test]
    fn a_longer_name_takes_the_entry_of_its_beginning() {
        let models = models();
        assert_eq!(models.entry("old-2026").unwrap().slug(), "old");
        assert!(models.entry("other").is_none());
    }

    #[test]
    fn a_step_that_we_do_not_have_is_no_step() {
        let models = models();
        assert_eq!(models.entry("new").unwrap().efforts(), [Effort::Max]);
        assert_eq!(models.entry("old").unwrap().efforts(), [Effort::Low, Effort::XHigh]);
    }

    #[test]
    fn an_edited_entry_keeps_everything_but_the_tools() {
        let list = models().entry("old").unwrap().list_without_own_tools();
        assert_eq!(list["models"][0]["shell_type"], "disabled");
        assert_eq!(list["models"][0]["use_responses_lite"], true);
        assert_eq!(list["models"].as_array().unwrap().len(), 1);
    }
}
