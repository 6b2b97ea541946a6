//! The program's own model list: supported efforts and offered tools of each model.
//!
//! Some tools can be disabled only in the model's entry, so a turn without the program's own tools uses an edited
//! entry. Source: `codex debug models --bundled` of 0.169.0, and the tools that it offered to a loopback model.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use nexus_core::{Effort, ErrorKind, Phase, harness::Failure};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::sync::OnceCell;

use nexus_process::environment::Environment;
use nexus_process::executable::{Executable, ExecutableStamp};
use nexus_process::spawn::{Bounds, EndedBy, Invocation};

/// Maximum size of the list, in bytes. Source: our own bound, about a hundred times that of 0.169.0.
const MAX_LIST_BYTES: usize = 16 << 20;

/// Time limit for printing the list.
const TIME_LIMIT: Duration = Duration::from_secs(20);

/// Model list. Entries keep all their fields, because an edited entry must differ in nothing else.
#[derive(Debug, Deserialize)]
pub(super) struct ModelList {
    models: Vec<Map<String, Value>>,
}

/// JSON object of one model.
#[derive(Clone, Copy, Debug)]
pub(super) struct ModelObject<'a>(&'a Map<String, Value>);

impl ModelList {
    /// Returns the list of a program, which runs once per state of its file. Needs a writable `CODEX_HOME`, and no
    /// network.
    pub(super) async fn of(
        executable: &Executable,
        environment: &Environment,
    ) -> Result<Arc<Self>, UnlistedModels> {
        type Known = HashMap<ExecutableStamp, Arc<OnceCell<Arc<ModelList>>>>;
        static KNOWN: Mutex<Option<Known>> = Mutex::new(None);
        let stamp = executable.stamp().map_err(|_| UnlistedModels::NotTold)?;
        // The lock ends with this block, so turns wait for each other only if they need the same list.
        let cell = {
            let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(known.get_or_insert_default().entry(stamp).or_default())
        };
        let asked =
            // A failed run leaves the cell empty, so the next turn tries again.
            cell.get_or_try_init(|| async { ask(executable, environment, TIME_LIMIT).await.map(Arc::new) });
        asked.await.cloned()
    }

    /// Returns the entry that the program uses for `model`: the one whose name is the longest prefix of `model`.
    pub(super) fn entry(&self, model: &str) -> Option<ModelObject<'_>> {
        let named = self.entries().filter(|entry| model.starts_with(entry.slug()));
        named.max_by_key(|entry| entry.slug().len())
    }

    /// Returns the entry that the program uses if the request names no model: the visible entry with the highest
    /// priority.
    pub(super) fn default_entry(&self) -> Option<ModelObject<'_>> {
        let shown =
            self.entries().filter(|entry| entry.0.get("visibility").is_some_and(|word| word == "list"));
        shown.min_by_key(|entry| entry.0.get("priority").and_then(Value::as_i64).unwrap_or(i64::MAX))
    }

    fn entries(&self) -> impl Iterator<Item = ModelObject<'_>> {
        // An empty name would be a prefix of every model.
        self.models.iter().map(ModelObject).filter(|entry| !entry.slug().is_empty())
    }
}

impl ModelObject<'_> {
    fn slug(&self) -> &str {
        self.0.get("slug").and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns the effort levels of the model, without those unknown to [`Effort`].
    pub(super) fn efforts(&self) -> Vec<Effort> {
        let levels = self.0.get("supported_reasoning_levels").and_then(Value::as_array);
        let words =
            levels.into_iter().flatten().filter_map(|level| level.get("effort")?.as_str()?.parse().ok());
        words.collect()
    }

    /// Returns a list with only this model, whose entry disables the program's tools.
    pub(super) fn list_without_own_tools(&self) -> Value {
        // Edit a copy, because all turns share the list.
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

/// Reason why the list is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnlistedModels {
    /// The program took too long.
    TooSlow,
    /// The program printed no readable list.
    NotTold,
}

impl UnlistedModels {
    /// Returns the failure of a turn that needs the list to remove the program's own tools.
    pub(super) fn failure(self) -> Failure {
        match self {
            Self::TooSlow => {
                let seconds = TIME_LIMIT.as_secs();
                let reason = format!(
                    "codex did not list its models within {seconds} s: the machine is busy, or the program hangs"
                );
                Failure::new(ErrorKind::Starved(Phase::Start), reason).with_named_retry(None)
            }
            Self::NotTold => {
                let reason = "codex does not list its models, so its own tools cannot be disabled";
                Failure::new(ErrorKind::Unsupported, reason)
            }
        }
    }
}

async fn ask(
    executable: &Executable,
    environment: &Environment,
    time_limit: Duration,
) -> Result<ModelList, UnlistedModels> {
    let mut bounds = Bounds::default();
    bounds.time_limit = Some(time_limit);
    let process = Invocation::new(executable.clone(), "/")
        .arguments(["debug", "models", "--bundled"])
        .environment(environment.clone())
        .bounds(bounds)
        .spawn()
        .map_err(|_| UnlistedModels::NotTold)?;
    let mut output = Vec::new();
    while let Some(line) = process.next_line().await {
        output.extend_from_slice(&line.bytes);
        output.push(b'\n');
        if output.len() > MAX_LIST_BYTES {
            return Err(UnlistedModels::NotTold);
        }
    }
    let exit = process.wait().await;
    match serde_json::from_slice(&output) {
        Ok(list) if exit.status.is_success() => Ok(list),
        _ if exit.ended_by == EndedBy::TimeLimit => Err(UnlistedModels::TooSlow),
        _ => Err(UnlistedModels::NotTold),
    }
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

    #[tokio::test]
    async fn a_program_that_is_slow_to_list_its_models_is_not_one_that_has_none() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let unlisted = async |name: &str, script: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
            let executable = Executable::at(&path).unwrap();
            let host = [("PATH".into(), "/usr/bin:/bin".into())];
            let environment = Environment::from_host(host).build().unwrap();
            ask(&executable, &environment, Duration::from_secs(2)).await.unwrap_err()
        };
        let slow = unlisted("slow", "sleep 60").await;
        assert_eq!((slow, slow.failure().kind), (UnlistedModels::TooSlow, ErrorKind::Starved(Phase::Start)));
        assert!(slow.failure().retry.is_guessed());
        let mute = unlisted("mute", "echo no").await;
        assert_eq!((mute, mute.failure().kind), (UnlistedModels::NotTold, ErrorKind::Unsupported));
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
