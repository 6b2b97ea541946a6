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

/// Conditions of a process, beside its request.
#[derive(Debug, Default)]
pub(super) struct ArgumentInputs<'a> {
    pub(super) effort: Option<AppliedEffort>,
    pub(super) keeps_conversation: bool,
    /// Conversation to resume, by the CLI's own id.
    pub(super) resume: Option<&'a str>,
    /// Folders that the CLI denies its own tools. Programs that its shell runs can still reach them, unless the CLI sees in the
    /// command that it reads there.
    pub(super) closed: &'a [PathBuf],
    /// True if the caller has tools. The CLI allows every call of them at every level, because the session decides about each call.
    pub(super) has_caller_tools: bool,
    /// True if the CLI asks about calls that its level neither allows nor forbids. Otherwise it denies them.
    pub(super) has_approver: bool,
    pub(super) rules: OwnRules,
}

/// Rules of the CLI about calls of its own tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum OwnRules {
    /// They enforce the level.
    #[default]
    EnforceLevel,
    /// The rules apply in addition to the sandbox of Nexus.
    BesideSandbox,
    /// They allow every tool of the level, because the sandbox of Nexus encloses the calls.
    LeftToSandbox,
}

/// Builds the command line of one process.
///
/// Every option that takes a list has the form `--option=value`. In the other form it would swallow the following
/// arguments.
pub(super) fn arguments(request: &TurnRequest, inputs: &ArgumentInputs<'_>) -> Vec<OsString> {
    let ArgumentInputs { effort, keeps_conversation, resume, closed, has_caller_tools, has_approver, rules } =
        *inputs;
    let mut arguments: Vec<OsString> = [
        "-p",
        "--output-format=stream-json",
        // The CLI rejects this output format without `--verbose`.
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
        ToolAccess::WorkspaceWrite if rules == OwnRules::LeftToSandbox => ("acceptEdits", None, &EVERYTHING),
        ToolAccess::WorkspaceWrite => ("acceptEdits", None, &[]),
        ToolAccess::Unrestricted => ("acceptEdits", None, &EVERYTHING),
        // Unreachable, because the capabilities reject an unknown level. The fallback is the narrowest level.
        _ => ("dontAsk", Some(&[]), &[]),
    };
    option("--permission-mode", OsStr::new(mode));
    // Without this option, the CLI offers all of its tools.
    if let Some(tools) = tools {
        option("--tools", OsStr::new(&tools.join(",")));
    }
    let allowed: Vec<&str> = allowed.iter().copied().chain(has_caller_tools.then_some(EVERY_TOOL)).collect();
    if !allowed.is_empty() {
        option("--allowedTools", OsStr::new(&allowed.join(",")));
    }
    // `stdio` sends permission requests over the control protocol, where the host can answer them.
    if has_approver && request.tool_access == ToolAccess::WorkspaceWrite {
        option("--permission-prompt-tool", OsStr::new("stdio"));
    }
    // `ScopedOnly` has no tool that could read a file, so it needs no deny rules.
    if request.tool_access != ToolAccess::ScopedOnly {
        let mut settings = closing(closed);
        if rules != OwnRules::EnforceLevel {
            settings["sandbox"] = json!({ "enabled": false });
        }
        option("--settings", OsStr::new(&settings.to_string()));
    }
    for root in &request.extra_roots {
        let path = match rules {
            OwnRules::EnforceLevel => std::path::absolute(root),
            // The sandbox of Nexus shows a folder only under its real path.
            _ => root.canonicalize(),
        };
        option("--add-dir", path.as_deref().unwrap_or(root).as_os_str());
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
        // The CLI has no level below `low`.
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
        let closed = ["/nexus/auth".into()];
        let inputs =
            ArgumentInputs { effort, closed: &closed, has_caller_tools, ..ArgumentInputs::default() };
        let arguments = arguments(request, &inputs);
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
    fn in_the_sandbox_of_nexus_the_cli_has_none_of_its_own_and_may_be_left_without_rules() {
        let allowed = |access, rules| {
            let request = TurnRequest::new("x").with_tool_access(access).with_extra_root("/proc/self");
            let words = arguments(&request, &ArgumentInputs { rules, ..ArgumentInputs::default() });
            let words: Vec<String> = words.into_iter().map(|word| word.into_string().unwrap()).collect();
            let is_off = words.iter().any(|word| word.contains(r#""sandbox":{"enabled":false}"#));
            let has_settings = access != ToolAccess::ScopedOnly;
            assert_eq!(is_off, has_settings && rules != OwnRules::EnforceLevel, "{access:?} {rules:?}");
            let is_real = words.contains(&format!("--add-dir=/proc/{}", std::process::id()));
            assert_eq!(is_real, rules != OwnRules::EnforceLevel, "{words:?}");
            words.iter().any(|word| word.starts_with("--allowedTools=") && word.contains("Bash"))
        };
        for rules in [OwnRules::EnforceLevel, OwnRules::BesideSandbox, OwnRules::LeftToSandbox] {
            for access in [ToolAccess::ScopedOnly, ToolAccess::ReadOnly, ToolAccess::WorkspaceWrite] {
                let is_left = rules == OwnRules::LeftToSandbox && access == ToolAccess::WorkspaceWrite;
                assert_eq!(allowed(access, rules), is_left, "{access:?} {rules:?}");
            }
        }
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
