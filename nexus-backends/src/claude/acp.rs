//! Claude Code over the Agent Client Protocol, through the adapter `claude-agent-acp`.
//!
//! The adapter passes options to the SDK that enforce the access level (`_meta.claudeCode.options`): the list of tools,
//! no settings of the user or the project, and a mode in which the agent asks before any change.
//!
//! Source: observed with `@agentclientprotocol/claude-agent-acp` 0.49.0.

use std::time::Duration;

use nexus_core::{AccessEnforcer, CostReport, ErrorKind, ToolAccess};
use serde_json::json;

use super::cli::args::closing;
use super::cli::home::SWITCHES;
use crate::acp::agent::{
    CallNames, Furnishing, KnownAgent, Level, ProcessSetup, UsageReport, no_picture_dropped,
};
use crate::settings::Billing;

/// Access level in the mode in which the agent asks before a change.
const ASKING: Level = Level::Kept { mode: Some("default"), by: AccessEnforcer::Vendor };

/// Variables of every process, in addition to those of the CLI.
const OWN_SWITCHES: [(&str, &str); 4] = [
    // A retried request sends the text of the interrupted response a second time, without a marker.
    ("CLAUDE_CODE_MAX_RETRIES", "0"),
    ("CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK", "1"),
    ("CLAUDE_CODE_ENABLE_PROMPT_SUGGESTION", "0"),
    // The adapter ends the CLI as soon as its input ends, so the CLI must have stored the conversation by then.
    ("CLAUDE_CODE_EAGER_FLUSH", "1"),
];

/// Facts about this agent.
pub(crate) const AGENT: KnownAgent = KnownAgent {
    name: "claude-agent-acp",
    vendor: "anthropic",
    program: "claude-agent-acp",
    arguments: &[],
    install: "install it with `npm install --global @agentclientprotocol/claude-agent-acp`, or name it as `executable`",
    takes_plan: true,
    levels: [ASKING, ASKING, ASKING, ASKING],
    mode_in_sandbox: Some("default"),
    wire: "messages",
    hosts: &["api.anthropic.com"],
    longest_prompt: None,
    has_images: true,
    dropped_pictures: no_picture_dropped,
    is_broken_uncounted: true,
    names: CallNames { in_meta: Some("/claudeCode/toolName"), wrapper: None, are_titles: true },
    usage: UsageReport::Answer,
    cost: CostReport::Estimated,
    kind_of,
    exit: Duration::from_secs(3),
    set_up,
};

fn set_up(setup: &ProcessSetup<'_>) -> Furnishing {
    let tools = match setup.access {
        ToolAccess::ScopedOnly => Some(json!([])),
        ToolAccess::ReadOnly => Some(json!(["Glob", "Grep", "Read"])),
        _ => None,
    };
    let mut options = json!({ "settingSources": [], "settings": closing(setup.closed) });
    if let Some(tools) = tools {
        options["tools"] = tools;
    }
    if let Some(model) = setup.model {
        options["model"] = json!(model);
    }
    let mut meta = json!({ "claudeCode": { "options": options } });
    if let Some(system) = setup.system {
        meta["systemPrompt"] = json!({ "append": system });
    }
    let token = match setup.billing {
        Billing::Plan => "CLAUDE_CODE_OAUTH_TOKEN",
        Billing::Metered => "ANTHROPIC_API_KEY",
    };
    let mut furnishing = Furnishing { meta: Some(meta), ..Furnishing::default() };
    for (name, value) in SWITCHES.into_iter().chain(OWN_SWITCHES) {
        furnishing.variables.retain(|(known, _)| *known != name);
        furnishing = furnishing.with(name, value);
    }
    furnishing = furnishing.with(token, setup.token);
    if let Some(url) = setup.base_url {
        furnishing = furnishing.with("ANTHROPIC_BASE_URL", url);
    }
    furnishing
}

/// Returns the kind of an error whose text names an error class of the model's server. A used-up plan has the class of
/// a rate limit, so the text decides between the two.
fn kind_of(words: &str) -> Option<ErrorKind> {
    match () {
        () if !words.contains(r#""errorKind":"rate_limit""#) => None,
        () if words.contains("You've hit your") => Some(ErrorKind::UsageLimit),
        () => Some(ErrorKind::RateLimited),
    }
}
