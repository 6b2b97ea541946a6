//! The section `broker` of `nexus.yaml`.

use std::{collections::BTreeMap, path::PathBuf, time::SystemTime};

use nexus_core::{ConfigSection, SettingsError, ToolAccess, settings_schema, variable_name_fault};
use nexus_router::Router;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    agent::{AgentDocument, AgentScope, AgentStatus},
    broker::{DEFAULT_MAX_HOPS, DEFAULT_MAX_TURNS_PER_MESSAGE},
    message::Address,
};

/// Agents of the configuration, and the limits of a broker.
///
/// ```
/// use std::sync::Arc;
/// use nexus_broker::{BrokerSection, BrokerSettings};
/// use nexus_core::{BuildContext, Registry};
/// use nexus_router::Router;
///
/// let registry = Registry::new().with_section(Arc::new(BrokerSection));
/// let configuration = serde_json::json!({ "broker": { "max_turns_at_once": 2 } });
/// let router = Router::from_value(configuration, registry, BuildContext::in_home("home"))?;
/// assert_eq!(BrokerSettings::of(&router)?.max_turns_at_once, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BrokerSettings {
    /// The agents, by name: 1 to 40 small letters, digits, `_` and `-`.
    pub agents: BTreeMap<String, AgentSettings>,
    /// External programs that receive the messages for `caller:NAME`, by name. Messages for any other caller wait in its inbox.
    pub callers: BTreeMap<String, CallerSettings>,
    /// Maximum number of turns that one broker runs at once. Default 4.
    pub max_turns_at_once: usize,
    /// Deadline of one turn, in seconds. Default 1,800.
    pub turn_seconds: u64,
    /// Maximum number of turns that begin each other by messages. Default 200.
    pub max_hops: u32,
    /// Maximum number of turns that result from one message, at any depth, including its own. Default 200.
    pub max_turns_per_message: u32,
}

impl Default for BrokerSettings {
    fn default() -> Self {
        Self {
            agents: BTreeMap::new(),
            callers: BTreeMap::new(),
            max_turns_at_once: 4,
            turn_seconds: 1_800,
            max_hops: DEFAULT_MAX_HOPS,
            max_turns_per_message: DEFAULT_MAX_TURNS_PER_MESSAGE,
        }
    }
}

/// One agent of the configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentSettings {
    /// The type that runs its turns: a name from `types`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Text that precedes the prompt of each turn.
    #[serde(default)]
    pub instructions: Option<String>,
    /// Folder in which it works: an absolute path. Default: none, it has only its tools.
    #[serde(default)]
    pub folder: Option<PathBuf>,
    /// Access level of its turns in the folder: scoped-only, read-only, workspace-write or unrestricted.
    /// Default: scoped-only.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub access: ToolAccess,
    /// Names of agents that it may write to, in addition to its manager and its own workers; a caller as `caller:NAME`. A `*` at the end stands for any
    /// rest.
    #[serde(default)]
    pub may_write_to: Vec<String>,
    /// Names of agents whose sessions it may search, in addition to its own and those of its workers. A `*` at the end stands for any rest.
    #[serde(default)]
    pub may_search: Vec<String>,
    /// Maximum number of workers at a time. Default 0.
    #[serde(default)]
    pub max_workers: u32,
    /// Maximum depth of workers below it. Default 1: its workers have none.
    #[serde(default = "one")]
    pub max_depth: u32,
    /// Agent types that its workers may have, in addition to its own type.
    #[serde(default)]
    pub worker_types: Vec<String>,
}

/// Destination of the messages for one caller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CallerSettings {
    /// Address that each message is sent to by POST, as JSON: https, or http on this machine.
    pub url: String,
    /// The environment variable with the secret that signs each request: `whsec_` and the base64 of 24 to 64 bytes.
    pub secret_environment: String,
}

fn one() -> u32 {
    1
}

/// Limits of the number of workers of one agent, and of their nesting. Source: our own bounds.
const MOST_WORKERS: u32 = 64;
const MOST_DEPTH: u32 = 8;

impl BrokerSettings {
    /// Returns the settings in the configuration of a router, or the defaults.
    ///
    /// # Errors
    ///
    /// [`SettingsError`] if the section cannot be used; never for a router whose registry has
    /// [`BrokerSection`].
    pub fn of(router: &Router) -> Result<Self, SettingsError> {
        router.section("broker").map_or_else(|| Ok(Self::default()), |value| Self::read(&value))
    }

    fn read(value: &Value) -> Result<Self, SettingsError> {
        let read: Self = SettingsError::reading(value)?;
        let fault = |path: &[&str], reason: String| {
            Err(SettingsError { path: path.iter().map(|part| (*part).to_owned()).collect(), reason })
        };
        if read.max_turns_at_once == 0 {
            return fault(&["max_turns_at_once"], "is 0".to_owned());
        }
        if read.max_turns_per_message == 0 {
            return fault(&["max_turns_per_message"], "is 0".to_owned());
        }
        if read.turn_seconds == 0 {
            return fault(&["turn_seconds"], "is 0".to_owned());
        }
        for (name, caller) in &read.callers {
            if let Err(error) = format!("caller:{name}").parse::<Address>() {
                return fault(&["callers", name], error.to_string());
            }
            if let Some(reason) = url_fault(&caller.url) {
                return fault(&["callers", name, "url"], reason.to_owned());
            }
            if let Some(reason) = variable_name_fault(&caller.secret_environment) {
                return fault(&["callers", name, "secret_environment"], reason.to_owned());
            }
        }
        for (name, agent) in &read.agents {
            if let Err(error) = Address::agent(name) {
                return fault(&["agents", name], error.to_string());
            }
            if agent.folder.as_ref().is_some_and(|folder| !folder.is_absolute()) {
                return fault(&["agents", name, "folder"], "is not absolute: write a full path".to_owned());
            }
            if agent.folder.is_none() && agent.access != ToolAccess::ScopedOnly {
                let reason = format!("is {}, but the agent has no folder", agent.access.as_str());
                return fault(&["agents", name, "access"], reason);
            }
            if agent.max_workers > MOST_WORKERS {
                return fault(&["agents", name, "max_workers"], format!("is over {MOST_WORKERS}"));
            }
            if agent.max_depth > MOST_DEPTH {
                return fault(&["agents", name, "max_depth"], format!("is over {MOST_DEPTH}"));
            }
        }
        Ok(read)
    }

    /// Returns the configured agents as records.
    #[must_use]
    pub fn records(&self) -> Vec<AgentDocument> {
        let record = |(name, agent): (&String, &AgentSettings)| AgentDocument {
            name: name.clone(),
            kind: agent.kind.clone(),
            instructions: agent.instructions.clone(),
            folder: agent.folder.clone(),
            access: agent.access,
            machine: None,
            manager: None,
            depth: 0,
            scope: AgentScope {
                may_write_to: agent.may_write_to.clone(),
                may_search: agent.may_search.clone(),
                max_workers: agent.max_workers,
                max_depth: agent.max_depth,
                worker_kinds: agent.worker_types.clone(),
            },
            status: AgentStatus::Started,
            task_id: None,
            report: None,
            turn: None,
            unended: Vec::new(),
            tree: None,
            changed_at: SystemTime::now(),
            other: Map::new(),
        };
        self.agents.iter().map(record).collect()
    }
}

/// Returns the reason why messages cannot be sent to this address.
fn url_fault(url: &str) -> Option<&'static str> {
    let (scheme, rest) = url.split_once("://").unwrap_or_default();
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next(),
        None => authority.split(':').next(),
    };
    let is_here = matches!(host, Some("127.0.0.1" | "localhost" | "::1"));
    if authority.contains('@') {
        return Some("must not contain a user or a password: the signature identifies the sender");
    }
    match scheme {
        "https" if !authority.is_empty() => None,
        "http" if is_here => None,
        "http" => Some("uses http for another machine: write https"),
        _ => Some("must be an address that begins with https://"),
    }
}

/// Reads and describes the section [`BrokerSettings`]: for [`Registry::with_section`](nexus_core::Registry::with_section).
#[derive(Clone, Copy, Debug)]
pub struct BrokerSection;

impl ConfigSection for BrokerSection {
    fn name(&self) -> &'static str {
        "broker"
    }

    fn schema(&self) -> Value {
        let mut schema = settings_schema::of::<BrokerSettings>();
        schema["description"] = "Agents that exchange messages through a broker.".into();
        schema
    }

    fn check(&self, value: &Value) -> Result<(), SettingsError> {
        BrokerSettings::read(value).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn callers_are_called_back_over_tls_or_on_this_machine() {
        let read = |url: &str| {
            let caller = json!({ "url": url, "secret_environment": "CI_SECRET" });
            BrokerSettings::read(&json!({ "callers": { "ci": caller } }))
        };
        for url in
            ["https://ci.example/hook", "http://127.0.0.1:80/", "http://localhost:1/x?y", "http://[::1]:80/"]
        {
            assert!(read(url).is_ok(), "{url}");
        }
        for url in [
            "",
            "ci.example",
            "https://",
            "http://ci.example/",
            "http://127.0.0.1.ci.example/",
            "https://me:pw@ci.example/",
        ] {
            let error = read(url).unwrap_err();
            assert_eq!(error.path, ["callers", "ci", "url"]);
            assert!(!error.reason.contains("pw"), "{}", error.reason);
        }
        for key in
            ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "two words", "a-b", "1A", "sk-canary0123456789abcdef"]
        {
            let caller = json!({ "callers": { "ci": { "url": "https://a", "secret_environment": key } } });
            let error = BrokerSettings::read(&caller).unwrap_err();
            assert_eq!(error.path, ["callers", "ci", "secret_environment"]);
            assert!(!format!("{error} {error:?}").contains(key), "{error:?}");
        }
        let named = json!({ "callers": { "Not A Name": { "url": "https://a", "secret_environment": "A" } } });
        assert_eq!(BrokerSettings::read(&named).unwrap_err().path, ["callers", "Not A Name"]);
    }
}
