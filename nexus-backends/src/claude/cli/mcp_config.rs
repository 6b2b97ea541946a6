//! Connects the CLI to the caller's tools, and verifies its report before the tools count as connected.
//!
//! The control request `mcp_set_servers` on standard input names the server, and its response waits for the connection.
//! So the server's token is on no command line, in no file and in no environment, where a child of the CLI could read
//! it. A second request (`mcp_status`) then asks for the server's list of tools. Both precede the prompt.
//!
//! Source: observed with claude 2.1.197 and 2.1.329, through a gateway and at the vendor's own host.

use nexus_core::{ErrorKind, ToolDefinition, harness::Failure};
use serde_json::{Value, json};

use super::version::VERSIONS;
use super::wire::{ControlAnswer, ServerStatus};
use crate::cli::caller_tools::{CallerTools, SERVER};
use crate::cli::versions::Version;

/// Rule that allows every call of the caller's tools. The session decides which tools exist.
pub(super) const EVERY_TOOL: &str = "mcp__nexus__*";

/// Prefix of the caller's tools in the names that the model sees.
const PREFIX: &str = "mcp__nexus__";

/// Prefix of any server's tool.
const ANY_SERVER: &str = "mcp__";

/// Maximum length of a tool's name at the API, in bytes. Source: the vendor's API; version 2.1.329 drops a tool with a
/// longer name, observed.
const MAX_NAME_BYTES: usize = 128;

/// Time limit of one call within the CLI, in milliseconds. It is close to the maximum that the CLI accepts (2³¹ - 1),
/// so the turn's own limits end a call long before.
const CALL_TIMEOUT_MILLISECONDS: u32 = 2_000_000_000;

/// Returns the caller's name of the tool that the model calls `name`, if it is a tool of the caller's server.
pub(super) fn caller_name(name: &str) -> Option<&str> {
    name.strip_prefix(PREFIX)
}

/// Returns true if the model's tool `name` belongs to any MCP server.
pub(super) fn is_served(name: &str) -> bool {
    name.starts_with(ANY_SERVER)
}

/// Returns true if `name` is a tool of the caller.
pub(super) fn has(tools: &CallerTools, name: &str) -> bool {
    tools.definitions().iter().any(|tool| tool.name == name)
}

/// Returns warnings about the parts of the tools that this CLI changes.
///
/// # Errors
///
/// [`ErrorKind::InvalidRequest`] for a name that the model cannot use.
pub(super) fn inspect(tools: &[ToolDefinition], version: &Version) -> Result<Vec<String>, Failure> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    // Some versions truncate longer descriptions without a message.
    let most = VERSIONS.description_units(version);
    let mut warnings = Vec::new();
    for tool in tools {
        let name = &tool.name;
        let length = PREFIX.len() + name.len();
        if name.is_empty() || length > MAX_NAME_BYTES || !name.bytes().all(fits) {
            let most = MAX_NAME_BYTES - PREFIX.len();
            let reason = format!(
                "the tool {name:?} cannot be offered by this name: Claude Code accepts letters, digits, `_` \
                and `-`, at most {most}"
            );
            return Err(Failure::new(ErrorKind::InvalidRequest, reason));
        }
        if let Some(most) = most.filter(|most| tool.description.encode_utf16().count() > *most) {
            warnings.push(format!(
                "Claude Code {version} shows the model only the first {most} characters of the description \
                of {name:?}"
            ));
        }
    }
    Ok(warnings)
}

/// Returns the servers for `mcp_set_servers`.
pub(super) fn servers(tools: &CallerTools) -> Value {
    let server = json!({
        "type": "http",
        "url": tools.url(),
        "headers": { "Authorization": format!("Bearer {}", tools.token().expose()) },
        // Otherwise the model would have to find the tools by a search first.
        "alwaysLoad": true,
        "timeout": CALL_TIMEOUT_MILLISECONDS,
    });
    json!({ SERVER: server })
}

/// Checks the response to `mcp_set_servers`.
///
/// # Errors
///
/// [`ErrorKind::ToolsUnavailable`] if the server is not connected.
pub(super) fn connected(answer: &ControlAnswer, tools: &CallerTools) -> Result<(), Failure> {
    match answer.errors.get(SERVER) {
        None => Ok(()),
        Some(reason) => Err(unavailable(
            &every(tools),
            reason.as_str().unwrap_or(
                "the CLI reports no reason \
            for it",
            ),
        )),
    }
}

/// Compares the CLI's list of connected tools with the tools of the turn.
///
/// # Errors
///
/// [`ErrorKind::ToolsUnavailable`] if one is missing.
pub(super) fn ready(answer: &ControlAnswer, tools: &CallerTools) -> Result<(), Failure> {
    let Some(server) = answer.mcp_servers.iter().find(|server| server.name == SERVER) else {
        return Err(unavailable(&every(tools), "the CLI does not know their MCP server"));
    };
    if server.status != "connected" {
        let reason = server.error.as_deref().unwrap_or(&server.status);
        return Err(unavailable(&every(tools), reason));
    }
    all_there(tools, "the CLI does not list them", |name| lists(server, name))
}

/// Compares the tools offered to the model with the tools of the turn.
///
/// # Errors
///
/// [`ErrorKind::ToolsUnavailable`] if one is missing.
pub(super) fn offered(offered: &[String], tools: &CallerTools) -> Result<(), Failure> {
    let is_offered = |name: &str| offered.iter().any(|tool| caller_name(tool) == Some(name));
    all_there(tools, "the CLI does not offer them to the model", is_offered)
}

/// Returns the failure for a CLI that rejected a request about the server.
pub(super) fn refused(tools: &CallerTools, error: Option<String>) -> Failure {
    let reason = error.unwrap_or_else(|| "the CLI reports no reason for it".to_owned());
    unavailable(&every(tools), &reason)
}

fn lists(server: &ServerStatus, name: &str) -> bool {
    server.tools.iter().any(|tool| tool.name == name)
}

fn all_there(tools: &CallerTools, reason: &str, is_connected: impl Fn(&str) -> bool) -> Result<(), Failure> {
    match tools.missing(is_connected) {
        missing if missing.is_empty() => Ok(()),
        missing => Err(unavailable(&missing, reason)),
    }
}

fn every(tools: &CallerTools) -> Vec<&str> {
    tools.missing(|_| false)
}

/// Maximum number of names that an error lists.
const MAX_LISTED: usize = 20;

fn unavailable(missing: &[&str], reason: &str) -> Failure {
    let mut names = missing.iter().take(MAX_LISTED).copied().collect::<Vec<_>>().join(", ");
    if let Some(rest @ 1..) = missing.len().checked_sub(MAX_LISTED) {
        names.push_str(&format!(", and {rest} more"));
    }
    Failure::new(ErrorKind::ToolsUnavailable, format!("the model would lack the tools {names}: {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claude::cli::tests::callers;

    #[test]
    fn a_name_that_the_model_cannot_be_given_is_refused() {
        let version = "2.1.329".parse().unwrap();
        let inspected = |name: &str| inspect(callers(&[name]).definitions(), &version).map(drop);
        for name in ["add", &"a".repeat(64), &"a".repeat(116), "a__b", "A-1"] {
            assert!(inspected(name).is_ok(), "{name}");
        }
        for name in ["", "a.b", "a b", "ä", &"a".repeat(117)] {
            let failure = inspected(name).unwrap_err();
            assert_eq!(failure.kind, ErrorKind::InvalidRequest, "{name}");
            assert!(failure.message.unwrap().contains(&format!("{name:?}")));
        }
    }

    #[test]
    fn a_description_that_is_cut_is_said_of_every_version_that_cuts() {
        let tool = |length| ToolDefinition::new("add", "d".repeat(length), json!({}));
        let warnings = |length, version: &str| inspect(&[tool(length)], &version.parse().unwrap()).unwrap();
        for version in ["2.1.126", "2.1.197", "2.1.210", "2.1.250"] {
            assert_eq!(warnings(2048, version), [""; 0], "{version}");
            assert!(warnings(2049, version)[0].contains("add"), "{version}");
        }
        for version in ["2.1.329", "2.1.330", "9.0.0"] {
            assert_eq!(warnings(1 << 20, version), [""; 0], "{version}");
        }
    }

    #[test]
    fn an_error_names_the_tools_but_not_hundreds_of_them() {
        let names: Vec<String> = (0..300).map(|n| format!("tool_{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let failure = offered(&[], &callers(&names)).unwrap_err();
        let message = failure.message.unwrap();
        assert!(
            message.contains("tool_0, ") && message.contains("280 more") && message.len() < 500,
            "{message}"
        );
    }

    #[test]
    fn a_server_of_another_name_is_not_the_callers() {
        assert_eq!(caller_name("mcp__nexus__add"), Some("add"));
        assert_eq!(caller_name("mcp__nexus__a__b"), Some("a__b"));
        assert_eq!(caller_name("mcp__nexus2__add"), None);
        assert!(EVERY_TOOL.starts_with(PREFIX) && PREFIX.contains(SERVER));
    }
}
