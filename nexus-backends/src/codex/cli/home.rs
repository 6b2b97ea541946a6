//! Private home of the program for one run: folders, configuration, and the environment that points to them.
//!
//! The `HOME` of the program itself is always private, so that it finds no skill, plugin or rule of the user. At the
//! levels with commands, those commands get the user's own `HOME`.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use nexus_core::{ToolAccess, TurnRequest};
use serde_json::{Map, Value, json};

use super::PlanLogin;
use super::mcp_config;
use super::sandbox::SandboxPolicy;
use crate::cli::caller_tools;
use crate::cli::caller_tools::CallerTools;
use crate::cli::settings::{Billing, Settings};
use crate::codex::chatgpt;
use nexus_process::environment::{Environment, EnvironmentBuilder, EnvironmentError, NetworkSettings};

/// Variable that carries the token. The agent's commands cannot see it.
pub(super) const TOKEN_VARIABLE: &str = "NEXUS_CODEX_TOKEN";

/// The vendor's endpoint for subscriptions. Source: the built-in provider of codex 0.169.0.
const PLAN_URL: &str = "https://chatgpt.com/backend-api/codex";

/// Number of retries of a request, and of an interrupted stream, by the program. Source: our own choice. The program's
/// defaults of 4 and 5 multiply one request that fails with status 500 to 30.
const RETRIES: u32 = 2;

/// Longest silence of a stream before the program retries, in milliseconds. Source: the program's own default.
const STREAM_IDLE_MILLISECONDS: u64 = 300_000;

/// Folders of a run's home.
#[derive(Debug)]
pub(super) struct Folders {
    root: PathBuf,
}

impl Folders {
    /// Returns the folders below `root`.
    pub(super) fn below(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// Returns the value of `CODEX_HOME`.
    pub(super) fn codex(&self) -> PathBuf {
        self.root.join("codex")
    }

    /// Returns the `HOME` of the program.
    pub(super) fn user(&self) -> PathBuf {
        self.root.join("user")
    }

    /// Returns the value of `TMPDIR`, a folder beside `CODEX_HOME`. The program creates the helpers of its sandbox in
    /// `CODEX_HOME`, but refuses to if `CODEX_HOME` is inside `TMPDIR`. Without the helpers every sandboxed command
    /// fails.
    pub(super) fn temporary(&self) -> PathBuf {
        self.root.join("tmp")
    }

    /// Returns the path of the edited model list.
    pub(super) fn models(&self) -> PathBuf {
        self.codex().join("models.json")
    }
}

/// Returns the folder of the conversations' records in a run's home.
pub(super) fn sessions(root: &Path) -> PathBuf {
    Folders::below(root).codex().join("sessions")
}

/// Server of the model, and the account that is billed.
#[derive(Debug)]
pub(super) struct Provider<'a> {
    pub(super) settings: &'a Settings,
    pub(super) login: PlanLogin,
    pub(super) account: Option<&'a str>,
    pub(super) version: Option<&'a str>,
}

impl Provider<'_> {
    fn table(&self) -> Value {
        let billing = self.settings.billing.unwrap_or(Billing::Plan);
        let own_url = self.settings.base_url.as_deref();
        let is_public_plan = (billing, self.login) == (Billing::Plan, PlanLogin::Chatgpt);
        let url = own_url.unwrap_or(vendor_url(billing, self.login));
        let is_built_in = own_url.is_none() && !is_public_plan;
        let mut headers = Map::new();
        if let (Billing::Plan, false, Some(account)) = (billing, is_public_plan, self.account) {
            headers.insert("ChatGPT-Account-Id".into(), json!(account));
        }
        if let (true, Some(version)) = (is_built_in, self.version) {
            headers.insert("version".into(), json!(version));
        }
        json!({
            // With this name the program treats the vendor's endpoint as its built-in provider does.
            "name": if is_built_in { "OpenAI" } else { "nexus" },
            "base_url": url,
            "wire_api": "responses",
            "env_key": TOKEN_VARIABLE,
            // Otherwise the program first tries a WebSocket, and a server without one costs seconds of retries.
            "supports_websockets": false,
            "request_max_retries": RETRIES,
            "stream_max_retries": RETRIES,
            "stream_idle_timeout_ms": STREAM_IDLE_MILLISECONDS,
            "http_headers": headers,
        })
    }
}

/// Returns the hosts of the vendor's servers. Source: with such a provider codex 0.169.0 makes one request per model call, and no other.
pub(super) fn hosts(settings: &Settings, login: PlanLogin) -> Vec<String> {
    let url = vendor_url(settings.billing.unwrap_or(Billing::Plan), login);
    let host = url.trim_start_matches("https://").split('/').next();
    host.map(str::to_owned).into_iter().collect()
}

/// Returns the vendor's endpoint.
fn vendor_url(billing: Billing, login: PlanLogin) -> &'static str {
    match (billing, login) {
        (Billing::Plan, PlanLogin::Codex) => PLAN_URL,
        _ => chatgpt::BASE_URL,
    }
}

/// Returns the configuration of one run, as TOML.
///
/// # Errors
///
/// If the configuration cannot be written as TOML, which none of its values causes.
pub(super) fn configuration(
    request: &TurnRequest,
    policy: &SandboxPolicy,
    tools: Option<&CallerTools>,
    provider: &Provider<'_>,
    folders: &Folders,
    host_home: Option<&str>,
) -> Result<String, toml::ser::Error> {
    let mut config = json!({
        "model_provider": "nexus",
        // The default of the program's catalog is `none`, with which no thinking arrives.
        "model_reasoning_summary": "auto",
        "check_for_update_on_startup": false,
        // An unreachable metrics host would delay the exit of the program by about 5 seconds.
        "analytics": { "enabled": false },
        "features": {
            "apps": false,
            "hooks": false,
            "memories": false,
            "plugins": false,
            // Otherwise the program retries a connection that cannot be opened for ever.
            "unbounded_connection_retries": false,
        },
        "skills": { "bundled": { "enabled": false } },
        "shell_environment_policy": {
            "inherit": "all",
            // `false` would hide each variable with KEY, SECRET or TOKEN in its name, even those of the request.
            "ignore_default_excludes": true,
            "exclude": [TOKEN_VARIABLE, caller_tools::TOKEN_VARIABLE, "CODEX_HOME"],
        },
        "model_providers": { "nexus": provider.table() },
    });
    if let Some(home) = host_home {
        config["shell_environment_policy"]["set"] = json!({ "HOME": home });
    }
    if request.tool_access == ToolAccess::ScopedOnly {
        merge(&mut config, without_own_tools(folders));
    }
    merge(&mut config, policy.configuration());
    if let Some(tools) = tools {
        merge(&mut config, mcp_config::configuration(tools));
    }
    toml::to_string(&config)
}

/// Returns the settings that remove the program's own tools and the instructions about them. The model's entry in the
/// model list removes the rest.
pub(super) fn without_own_tools(folders: &Folders) -> Value {
    json!({
        "model_catalog_json": folders.models(),
        "web_search": "disabled",
        "project_doc_max_bytes": 0,
        "include_environment_context": false,
        "include_permissions_instructions": false,
        "include_collaboration_mode_instructions": false,
        "agents": { "enabled": false },
        "skills": { "include_instructions": false },
        "tools": {
            "experimental_request_user_input": { "enabled": false },
            "update_plan": { "enabled": false },
        },
        "features": {
            "goals": false,
            "image_generation": false,
            "shell_tool": false,
            "skill_search": false,
            "tool_suggest": false,
            "unified_exec": false,
            "view_image": false,
        },
    })
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

/// Adds the variables that the program needs, without the token.
pub(super) fn with_variables(
    mut builder: EnvironmentBuilder,
    settings: &Settings,
    request: Option<&TurnRequest>,
    folders: &Folders,
) -> EnvironmentBuilder {
    if let Some(request) = request {
        if request.tool_access != ToolAccess::ScopedOnly {
            builder = builder.pass(["USER", "LOGNAME", "SHELL"]);
        }
        builder = builder.pass(&request.environment);
    }
    builder = builder
        .with("HOME", folders.user())
        .with("CODEX_HOME", folders.codex())
        .with("TMPDIR", folders.temporary())
        // Logs the wait before a retry, which the protocol omits.
        .with("RUST_LOG", "error,codex_core::responses_retry=warn");
    match &settings.network.ca_file {
        Some(file) => builder.with("CODEX_CA_CERTIFICATE", file),
        None => builder,
    }
}

/// Returns the environment of a query of the program's version or models.
///
/// # Errors
///
/// If a variable of the host cannot be passed on.
pub(super) fn bare_environment(
    host: &BTreeMap<String, String>,
    settings: &Settings,
    folders: &Folders,
) -> Result<Environment, EnvironmentError> {
    let network = match settings.network.inherit_proxy {
        true => NetworkSettings::Pass,
        false => NetworkSettings::Hide,
    };
    let host = host.iter().map(|(name, value)| (name.into(), value.into()));
    with_variables(Environment::from_host(host).network(network), settings, None, folders).build()
}
