//! The section `serve` of `nexus.yaml`.

use std::{
    net::{Ipv4Addr, SocketAddr},
    num::NonZeroUsize,
    time::Duration,
};

use nexus::Router;
use nexus_core::{ConfigSection, SettingsError, settings_schema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Maximum number of tasks at the same time. Source: our own bound.
pub(crate) const MAX_TASKS_AT_ONCE: usize = 64;

/// Settings of `nexus serve`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ServeSettings {
    /// Maximum number of tasks that run at the same time, 1 to 64. Tasks that wait for the reset of a vendor's limit do not count. Default 2.
    pub(crate) max_tasks_at_once: NonZeroUsize,
    /// Address of the tools of `nexus mcp spawn` over HTTP. Default `127.0.0.1:0`, a free port that `nexus mcp spawn --attach` finds.
    #[schemars(with = "String")]
    pub(crate) task_tools: SocketAddr,
    /// Address of the tools of `nexus mcp debate` over HTTP. Default `127.0.0.1:0`.
    #[schemars(with = "String")]
    pub(crate) debate_tools: SocketAddr,
    /// Address for signed requests that fire triggers, such as `127.0.0.1:8791`. By default none are accepted.
    #[schemars(with = "Option<String>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) webhooks: Option<SocketAddr>,
    /// Rules by which the server removes old work, every hour. By default nothing is removed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) retention: Vec<RetentionRule>,
}

/// Rule that selects old work, as the options of `nexus clean` do. An item is removed if it meets every condition of the rule. Work that is not
/// landed stays.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RetentionRule {
    /// Kinds of items. By default all of them except `session`.
    pub(crate) kinds: Vec<RetainedKind>,
    /// Minimum time since the last change, such as `30d` or `12h`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) older_than: Option<String>,
    /// Statuses of tasks and debates. By default any.
    pub(crate) statuses: Vec<String>,
    /// Number of the newest items of each kind that stay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) keep: Option<usize>,
}

/// Kind of items that a rule of retention removes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RetainedKind {
    /// Tasks.
    Task,
    /// Debates.
    Debate,
    /// Named conversations.
    Conversation,
    /// Conversations of agents and editors.
    Session,
    /// Snapshots of folders for `nexus undo`.
    Undo,
}

/// Reads and describes the section [`ServeSettings`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServeSection;

impl ConfigSection for ServeSection {
    fn name(&self) -> &'static str {
        "serve"
    }

    fn schema(&self) -> Value {
        let mut schema = settings_schema::of::<ServeSettings>();
        schema["description"] =
            "The server that `nexus serve` runs: its tasks, addresses and retention.".into();
        schema
    }

    fn check(&self, value: &Value) -> Result<(), SettingsError> {
        ServeSettings::read(value).map(drop)
    }
}

impl ServeSettings {
    /// Reads the section of a router's configuration, or returns the defaults.
    pub(crate) fn of(router: &Router) -> Result<Self, SettingsError> {
        router.section("serve").map_or_else(|| Ok(Self::default()), |value| Self::read(&value))
    }

    fn read(value: &Value) -> Result<Self, SettingsError> {
        let read: Self = SettingsError::reading(value)?;
        let fault = |path: &[&str], reason: &str| {
            Err(SettingsError {
                path: path.iter().map(ToString::to_string).collect(),
                reason: reason.to_owned(),
            })
        };
        if read.max_tasks_at_once.get() > MAX_TASKS_AT_ONCE {
            return fault(&["max_tasks_at_once"], "is more than 64");
        }
        for (index, rule) in read.retention.iter().enumerate() {
            let index = index.to_string();
            if let Some((name, reason)) = rule.fault() {
                return fault(&["retention", &index, name], reason);
            }
        }
        Ok(read)
    }
}

impl Default for ServeSettings {
    fn default() -> Self {
        let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        Self {
            max_tasks_at_once: NonZeroUsize::MIN.saturating_add(1),
            task_tools: any_port,
            debate_tools: any_port,
            webhooks: None,
            retention: Vec::new(),
        }
    }
}

impl RetentionRule {
    /// Returns the key of the first fault, and a description.
    fn fault(&self) -> Option<(&'static str, &'static str)> {
        // `keep: 0` alone would remove everything that ended.
        if self.older_than.is_none() && self.keep.is_none_or(|keep| keep == 0) {
            return Some(("older_than", "is missing: write a time such as 30d, or `keep` above 0"));
        }
        if self.older_than.is_some() && self.age().is_none() {
            return Some(("older_than", "is not a time: write one such as 30d or 12h"));
        }
        let is_status = |status: &String| {
            nexus_tasks::TaskStatusWord::of(status).is_some()
                || nexus_debates::DebateStatusWord::of(status).is_some()
        };
        (!self.statuses.iter().all(is_status))
            .then_some(("statuses", "names no status of tasks or debates, such as complete or cancelled"))
    }

    /// Returns the minimum time since the last change of an item.
    pub(crate) fn age(&self) -> Option<Duration> {
        humantime::parse_duration(self.older_than.as_deref()?).ok().filter(|age| !age.is_zero())
    }
}
