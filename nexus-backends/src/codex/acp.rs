//! Codex over the Agent Client Protocol, through the adapter `codex-acp`.
//!
//! The session mode enforces the access level: it selects the sandbox of the commands and decides about permission
//! requests. The adapter reports errors of its model's server as errors, and never ends by itself.
//!
//! Source: observed with `@zed-industries/codex-acp` 0.16.0.

use std::time::Duration;

use nexus_core::{AccessEnforcer, CostReport, ToolAccess};
use serde_json::json;

use super::cli::mcp_config::RESULT_TOKENS;
use crate::acp::agent::{
    CallNames, Furnishing, KnownAgent, Level, ProcessSetup, UsageReport, any_kind, no_picture_dropped,
};

/// Variable that carries the token. The agent's commands cannot see it.
const TOKEN_VARIABLE: &str = "NEXUS_CODEX_TOKEN";

/// Facts about this agent.
pub(crate) const AGENT: KnownAgent = KnownAgent {
    name: "codex-acp",
    vendor: "openai",
    program: "codex-acp",
    arguments: &[],
    install: "install it with `npm install --global @zed-industries/codex-acp`, or name it as `executable`",
    takes_plan: false,
    levels: [
        Level::NotKept,
        Level::Kept { mode: Some("read-only"), by: AccessEnforcer::Os },
        Level::Kept { mode: Some("auto"), by: AccessEnforcer::Os },
        Level::Kept { mode: Some("full-access"), by: AccessEnforcer::None },
    ],
    mode_in_sandbox: Some("full-access"),
    wire: "responses",
    hosts: &["api.openai.com"],
    longest_prompt: None,
    has_images: true,
    dropped_pictures: no_picture_dropped,
    is_broken_uncounted: false,
    names: CallNames { in_meta: None, wrapper: None, are_titles: false },
    usage: UsageReport::None,
    cost: CostReport::Never,
    kind_of: any_kind,
    exit: Duration::from_millis(200),
    set_up,
};

fn set_up(setup: &ProcessSetup<'_>) -> Furnishing {
    let mut config = json!({
        "model_provider": "nexus",
        "check_for_update_on_startup": false,
        "analytics": { "enabled": false },
        "web_search": "disabled",
        "tool_output_token_limit": RESULT_TOKENS,
        // A shell snapshot would store the environment in a file, and pass the variables excluded below to commands.
        "features": { "shell_snapshot": false },
        "shell_environment_policy": {
            "inherit": "all",
            "ignore_default_excludes": true,
            "exclude": [TOKEN_VARIABLE, "CODEX_HOME"],
        },
        "model_providers": {
            "nexus": {
                "name": "nexus",
                "base_url": setup.base_url.unwrap_or(super::chatgpt::BASE_URL),
                "wire_api": "responses",
                "env_key": TOKEN_VARIABLE,
                "request_max_retries": 1,
                // A retried request sends the text of the interrupted response a second time, without a marker.
                "stream_max_retries": 0,
            },
        },
    });
    if let Some(model) = setup.model {
        config["model"] = json!(model);
    }
    if let Some(system) = setup.system {
        config["developer_instructions"] = json!(system);
    }
    if setup.access != ToolAccess::Unrestricted {
        config["sandbox_workspace_write"] = json!({ "network_access": false });
    }
    // Cannot fail: the configuration contains no value that TOML lacks.
    let text = toml::to_string(&config).unwrap_or_default();
    Furnishing { files: vec![(".codex/config.toml".to_owned(), text)], ..Furnishing::default() }
        .with(TOKEN_VARIABLE, setup.token)
        .with("CODEX_HOME", setup.home.join(".codex"))
}
