//! Command line of the CLI. It contains no prompt, no system text, no schema and no secret; standard input and the
//! environment carry these.

use std::{
    ffi::{OsStr, OsString},
    path::PathBuf,
};

use nexus_core::{AppliedEffort, Effort, ToolAccess, TurnRequest};
use serde_json::{Value, json};

use super::mcp_config::EVERY_TOOL;
use super::tools::{EVERYTHING, READERS};

/// Option that makes the CLI repeat each user message when it is about to give the message to its model. Source:
/// observed with claude 2.1.197 and 2.1.329.
pub(super) const ECHO: &str = "--replay-user-messages";

/// Builds the command line of one process.
///
/// The CLI denies its own tools the folders in `closed`. Programs that its shell runs can still reach them, unless the
/// CLI sees in the command that it reads there. With `has_caller_tools`, the CLI allows every call of the caller's
/// tools at every level, because the session decides about each call.
///
/// With `has_approver`, the CLI asks about calls that its level neither allows nor forbids. Otherwise it denies them.
///
/// Every option that takes a list has the form `--option=value`. In the other form it would swallow the following
/// arguments.
pub(super) fn arguments(
    request: &TurnRequest,
    effort: Option<AppliedEffort>,
    keeps_conversation: bool,
    resume: Option<&str>,
    closed: &[PathBuf],
    has_caller_tools: bool,
    has_approver: bool,
) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = [
        "-p",
        "--output-format=stream-json",
        "--verbose",
        "--include-partial-messages",
        // Version 2.1.197 writes its output completely before it exits only with this input format.
        "--input-format=stream-json",
        // Excludes the user's and the project's settings, hooks, memories, agents, skills and servers.
        "--setting-sources=",
        "--strict-mcp-config",
        "--disable-slash-commands",
    ]
    .map(OsString::from)
    .into();
    let mut option = |name: &str, value: &OsStr| {
        let mut argument = OsString::from(name);
        argument.push("=");
        argument.push(value);
        arguments.push(argument);
    };
    if let Some(model) = &request.model {
        option("--model", OsStr::new(model.as_str()));
    }
    if let Some(effort) = effort {
        option("--effort", OsStr::new(word(effort.applied)));
    }
    let (mode, tools, allowed): (_, Option<&[&str]>, &[&str]) = match request.tool_access {
        ToolAccess::ReadOnly => ("dontAsk", Some(&READERS), &[]),
        ToolAccess::WorkspaceWrite => ("acceptEdits", None, &[]),
        ToolAccess::Unrestricted => ("acceptEdits", None, &EVERYTHING),
        // Unreachable, because the capabilities reject an unknown level. The fallback is the narrowest level.
        _ => ("dontAsk", Some(&[]), &[]),
    };
    option("--permission-mode", OsStr::new(mode));
    if let Some(tools) = tools {
        option("--tools", OsStr::new(&tools.join(",")));
    }
    let allowed: Vec<&str> = allowed.iter().copied().chain(has_caller_tools.then_some(EVERY_TOOL)).collect();
    if !allowed.is_empty() {
        option("--allowedTools", OsStr::new(&allowed.join(",")));
    }
    if has_approver && request.tool_access == ToolAccess::WorkspaceWrite {
        option("--permission-prompt-tool", OsStr::new("stdio"));
    }
    if request.tool_access != ToolAccess::ScopedOnly {
        option("--settings", OsStr::new(&closing(closed).to_string()));
    }
    for root in &request.extra_roots {
        option("--add-dir", std::path::absolute(root).as_deref().unwrap_or(root).as_os_str());
    }
    if let Some(calls) = request.limits.model_calls.filter(|calls| *calls > 0) {
        option("--max-turns", OsStr::new(&calls.to_string()));
    }
    // The CLI crashes at a limit of 0, so the backend enforces that limit itself.
    if let Some(cost) = request.limits.cost.map(|cost| cost.0).filter(|cost| cost.is_finite() && *cost > 0.0)
    {
        option("--max-budget-usd", OsStr::new(&cost.to_string()));
    }
    match resume {
        Some(session) => option("--resume", OsStr::new(session)),
        None if !keeps_conversation => arguments.push("--no-session-persistence".into()),
        None => {}
    }
    arguments
}

/// Returns settings that deny these folders to the CLI's tools, regardless of any other permission.
pub(in crate::claude) fn closing(folders: &[PathBuf]) -> Value {
    let folders = || folders.iter().map(|folder| folder.display());
    // A rule for an absolute path starts with one more slash than the path. A rule for `Read` also covers searches.
    let rules = folders().flat_map(|folder| ["Read", "Edit"].map(|tool| format!("{tool}(/{folder}/**)")));
    json!({ "permissions": { "deny": rules.collect::<Vec<_>>() } })
}

/// Effort levels that the CLI accepts.
pub(super) const EFFORTS: [Effort; 5] =
    [Effort::Low, Effort::Medium, Effort::High, Effort::XHigh, Effort::Max];

/// Returns the CLI's name of an effort level.
pub(super) fn word(effort: Effort) -> &'static str {
    match effort {
        Effort::Minimal => Effort::Low.as_str(),
        step => step.as_str(),
    }
}

#[cfg(test)]
mod tests {
    use nexus_core::{Limits, OutputSchema, Usd};
    use serde_json::json;

    use super::*;

    fn words(request: &TurnRequest) -> Vec<String> {
        words_with(request, false)
    }

    fn words_with(request: &TurnRequest, has_caller_tools: bool) -> Vec<String> {
        let effort = request.effort.and_then(|effort| effort.clamp_to(&EFFORTS));
        let arguments =
            arguments(request, effort, false, None, &["/nexus/auth".into()], has_caller_tools, false);
        arguments.into_iter().map(|word| word.into_string().unwrap()).collect()
    }

    #[test]
    fn nothing_that_is_said_to_the_model_is_on_the_command_line() {
        let schema = OutputSchema::new(json!({ "const": "canary" })).unwrap();
        let request = TurnRequest::new("canary").with_system("canary").with_output(schema);
        let words = words(&request);
        assert!(words.len() > 8);
        assert!(!words.iter().any(|word| word.contains("canary")), "{words:?}");
    }

    #[test]
    fn every_argument_is_one_word_that_cannot_be_taken_for_another() {
        let request = TurnRequest::new("x")
            .with_model("--dangerously-skip-permissions")
            .with_extra_root("/--model")
            .with_effort(Effort::Minimal)
            .with_limits(Limits::new().with_model_calls(3).with_cost(Usd(0.25)));
        let words = words(&request);
        assert!(words.iter().all(|word| word == "-p" || word.starts_with("--")), "{words:?}");
        for expected in [
            "--model=--dangerously-skip-permissions",
            "--add-dir=/--model",
            "--effort=low",
            "--max-turns=3",
            "--max-budget-usd=0.25",
            "--tools=",
        ] {
            assert!(words.iter().any(|word| word == expected), "{expected} in {words:?}");
        }
    }

    #[test]
    fn each_level_has_its_own_sandbox() {
        let at = |access| words(&TurnRequest::new("x").with_tool_access(access));
        let has = |words: &[String], word: &str| words.iter().any(|one| one == word);
        assert!(has(&at(ToolAccess::ReadOnly), "--tools=Read,Glob,Grep"));
        let closing =
            r#"--settings={"permissions":{"deny":["Read(//nexus/auth/**)","Edit(//nexus/auth/**)"]}}"#;
        for access in ToolAccess::ALL {
            assert_eq!(has(&at(access), closing), access != ToolAccess::ScopedOnly, "{access:?}");
        }
        let sandboxed = at(ToolAccess::WorkspaceWrite);
        assert!(has(&sandboxed, "--permission-mode=acceptEdits"));
        assert!(!sandboxed.iter().any(|word| word.starts_with("--allowedTools")));
        assert!(at(ToolAccess::Unrestricted).iter().any(|word| word.starts_with("--allowedTools=")));
    }

    #[test]
    fn the_callers_tools_are_let_through_at_every_level() {
        for access in ToolAccess::ALL {
            let request = TurnRequest::new("x").with_tool_access(access);
            let is_rule = |word: &String| word.starts_with("--allowedTools=");
            let rule = words_with(&request, true).into_iter().find(is_rule);
            assert!(rule.is_some_and(|rule| rule.ends_with("mcp__nexus__*")), "{access:?}");
            let rule = words_with(&request, false).into_iter().find(is_rule);
            assert!(!rule.is_some_and(|rule| rule.contains("mcp__")), "{access:?}");
        }
    }

    #[test]
    fn a_limit_that_the_cli_does_not_take_is_not_given_to_it() {
        for cost in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let limits = Limits::new().with_cost(Usd(cost)).with_model_calls(0);
            let words = words(&TurnRequest::new("x").with_limits(limits));
            assert!(!words.iter().any(|word| word.starts_with("--max-")), "{cost}: {words:?}");
        }
    }
}
