//! Grok Build over the Agent Client Protocol, which its program speaks itself.
//!
//! The program asks before each change, and ends its turn after a denial.
//!
//! Source: observed with grok 1.0.41.

use std::time::Duration;

use nexus_core::{AccessEnforcer, CostReport, ErrorKind};
use serde_json::json;

use super::cli::failure;
use super::cli::home::{CONFIG, SWITCHES};
use super::small_pictures;
use crate::acp::agent::{CallNames, Furnishing, KnownAgent, Level, ProcessSetup, UsageReport};

/// Access level at which the program asks before each change. It does so at every level.
const ASKING: Level = Level::Kept { mode: None, by: AccessEnforcer::Vendor };

/// Longest prompt that reaches the model whole. The model sees only the beginning and the end of a longer prompt,
/// without a notice. Source: observed with grok 1.0.41.
const LONGEST_PROMPT: usize = 64 << 10;

/// Facts about this agent.
pub(crate) const AGENT: KnownAgent = KnownAgent {
    name: "grok",
    vendor: "xai",
    program: "grok",
    arguments: &["--no-leader", "stdio"],
    install: "install Grok Build, or name the program as `executable`",
    takes_plan: false,
    levels: [Level::NotKept, ASKING, ASKING, ASKING],
    mode_in_sandbox: None,
    wire: "responses",
    hosts: &["api.x.ai"],
    longest_prompt: Some(LONGEST_PROMPT),
    has_images: true,
    dropped_pictures: small_pictures::warnings,
    is_broken_uncounted: false,
    names: CallNames { in_meta: Some("/x.ai~1tool/name"), wrapper: Some("use_tool"), are_titles: false },
    usage: UsageReport::MetaWithCached,
    cost: CostReport::Never,
    kind_of,
    exit: Duration::from_secs(4),
    set_up,
};

fn set_up(setup: &ProcessSetup<'_>) -> Furnishing {
    // A retried request sends the text of the interrupted response a second time, without a marker.
    let config = CONFIG.replace("max_retries = 3", "max_retries = 0");
    let config = format!("{config}[auth]\npreferred_method = \"api_key\"\n");
    let mut furnishing =
        Furnishing { files: vec![("grok/config.toml".to_owned(), config)], ..Furnishing::default() };
    furnishing.arguments.push("agent".into());
    if let Some(model) = setup.model {
        furnishing.arguments.extend(["--model".into(), model.into()]);
    }
    if let Some(system) = setup.system {
        furnishing.meta = Some(json!({ "rules": system }));
    }
    for (name, value) in SWITCHES {
        furnishing = furnishing.with(name, value);
    }
    furnishing = furnishing.with("GROK_HOME", setup.home.join("grok")).with("XAI_API_KEY", setup.token);
    if let Some(url) = setup.base_url {
        furnishing = furnishing.with("GROK_XAI_API_BASE_URL", url).with("GROK_CLI_CHAT_PROXY_BASE_URL", url);
    }
    furnishing
}

/// Over this protocol the message of a rate limit has a prefix that the program's other output lacks.
fn kind_of(words: &str) -> Option<ErrorKind> {
    let kind = failure::kind_of_words(words.trim_start_matches("Rate limited: "));
    (kind != ErrorKind::VendorFailure).then_some(kind)
}
