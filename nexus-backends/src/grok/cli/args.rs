//! Arguments of one headless run. Every process on the machine can read them, so they contain neither prompt nor system
//! text, schema or token.
//!
//! Below `WorkspaceWrite` they approve nothing except calls of the caller's tools.
//!
//! Source: observed with grok 1.0.41.

use std::{ffi::OsString, path::PathBuf};

use nexus_core::{Effort, ToolAccess};

use super::{mcp_config, tools};

/// Longest wait for the agent's background commands after its answer, in seconds.
const BACKGROUND_WAIT_SECONDS: &str = "30";

/// Values from which the arguments are built.
#[derive(Debug)]
pub(super) struct Arguments {
    /// File with the content blocks of the prompt.
    pub(super) prompt_file: PathBuf,
    /// Working directory, absolute.
    pub(super) directory: PathBuf,
    pub(super) access: ToolAccess,
    /// True if the caller has tools.
    pub(super) has_callers: bool,
    pub(super) session: ConversationId,
    pub(super) model: Option<String>,
    pub(super) effort: Option<Effort>,
    pub(super) model_calls: Option<u32>,
    /// Agent file with the system text.
    pub(super) agent_file: Option<PathBuf>,
    /// The CLI's own folder, which tools that read or write files must not access.
    pub(super) grok_home: PathBuf,
    /// Further folders that these tools must not access: the folders of logins.
    pub(super) closed: Vec<PathBuf>,
    /// True if the sandbox of Nexus encloses the program.
    pub(super) has_sandbox: bool,
}

/// Conversation of the turn.
#[derive(Clone, Debug)]
pub(super) enum ConversationId {
    /// New conversation with this id.
    New(String),
    /// Existing conversation in the home.
    Resume(String),
}

impl ConversationId {
    pub(super) fn id(&self) -> &str {
        match self {
            Self::New(id) | Self::Resume(id) => id,
        }
    }
}

impl Arguments {
    /// Returns the arguments, in order.
    pub(super) fn build(&self) -> Vec<OsString> {
        let mut all: Vec<OsString> = Vec::new();
        let mut option = |name: &str, value: OsString| all.extend([name.into(), value]);
        option("--prompt-file", self.prompt_file.clone().into());
        option("--output-format", "streaming-json".into());
        option("--cwd", self.directory.clone().into());
        match &self.session {
            ConversationId::New(id) => option("--session-id", id.into()),
            ConversationId::Resume(id) => option("--resume", id.into()),
        }
        if let Some(model) = &self.model {
            option("--model", model.into());
        }
        if let Some(effort) = self.effort {
            option("--reasoning-effort", effort.as_str().into());
        }
        if let Some(calls) = self.model_calls {
            option("--max-turns", calls.to_string().into());
        }
        if let Some(file) = &self.agent_file {
            option("--agent", file.clone().into());
        }
        if let Some(tools) = tools::allowed(self.access) {
            option("--tools", tools.into());
        }
        option("--disallowed-tools", tools::disallowed(self.access, self.has_callers).into());
        for rule in tools::denied(self.access) {
            option("--deny", rule.into());
        }
        if self.has_callers {
            option("--allow", mcp_config::ALLOW_RULE.into());
        }
        for folder in [&self.grok_home].into_iter().chain(&self.closed) {
            // The rule without a suffix denies the folder itself, which only a search gets as its path.
            for (tool, below) in [("Read", "/**"), ("Grep", "/**"), ("Grep", ""), ("Edit", "/**")] {
                let mut rule = OsString::from(format!("{tool}("));
                rule.push(folder);
                rule.push(below);
                rule.push(")");
                option("--deny", rule);
            }
        }
        if self.has_sandbox {
            // The program's own sandbox needs namespaces, which that of Nexus does not allow.
            option("--sandbox", "off".into());
        }
        option("--background-wait-timeout", BACKGROUND_WAIT_SECONDS.into());
        // Without `--verbatim`, the CLI wraps the prompt and reads a leading `/word` as a command.
        all.extend(["--verbatim".into(), "--no-auto-update".into()]);
        // A headless run cannot ask a person, so a call that needs approval would cancel the turn.
        if matches!(self.access, ToolAccess::WorkspaceWrite | ToolAccess::Unrestricted) {
            all.push("--always-approve".into());
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(access: ToolAccess) -> Arguments {
        Arguments {
            prompt_file: "/h/prompt.json".into(),
            directory: "/w".into(),
            access,
            has_callers: false,
            session: ConversationId::New("s".into()),
            model: Some("grok-4.6".into()),
            effort: Some(Effort::XHigh),
            model_calls: Some(7),
            agent_file: Some("/h/agent.md".into()),
            grok_home: "/h/grok".into(),
            closed: vec!["/nexus/auth".into()],
            has_sandbox: false,
        }
    }

    fn text(arguments: &Arguments) -> String {
        let all: Vec<_> = arguments.build().iter().map(|one| one.to_string_lossy().into_owned()).collect();
        all.join(" ")
    }

    #[test]
    fn every_setting_has_its_option() {
        let text = text(&arguments(ToolAccess::ReadOnly));
        for part in [
            "--session-id s",
            "--model grok-4.6",
            "--reasoning-effort xhigh",
            "--max-turns 7",
            "--agent /h/agent.md",
            "--tools read_file,list_dir,grep,todo_write",
            "--deny Read(/h/grok/**)",
            "--deny Read(/nexus/auth/**)",
            "--deny Grep(/nexus/auth/**)",
            "--verbatim",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    #[test]
    fn only_levels_that_write_approve_everything() {
        for access in ToolAccess::ALL {
            let approves = text(&arguments(access)).contains("--always-approve");
            assert_eq!(approves, access >= ToolAccess::WorkspaceWrite, "{access:?}");
        }
    }

    #[test]
    fn a_turn_without_tools_names_some_and_forbids_all() {
        let text = text(&arguments(ToolAccess::ScopedOnly));
        assert!(text.contains("--tools search_tool,use_tool"), "{text}");
        assert!(text.contains(",search_tool,use_tool,"), "{text}");
        assert!(!text.contains("--allow"), "{text}");
    }

    #[test]
    fn the_callers_tools_are_kept_and_approved() {
        for access in ToolAccess::ALL {
            let text = text(&Arguments { has_callers: true, ..arguments(access) });
            assert!(text.contains("--allow MCPTool(*)"), "{text}");
            assert!(!text.contains(",search_tool,use_tool,"), "{text}");
        }
    }

    #[test]
    fn in_the_sandbox_of_nexus_the_programs_own_is_off() {
        for has_sandbox in [false, true] {
            let text = text(&Arguments { has_sandbox, ..arguments(ToolAccess::WorkspaceWrite) });
            assert_eq!(text.contains("--sandbox off"), has_sandbox, "{text}");
        }
    }

    #[test]
    fn with_the_callers_tools_alone_no_file_is_read() {
        let text = text(&Arguments { has_callers: true, ..arguments(ToolAccess::ScopedOnly) });
        for rule in ["--deny Read(**)", "--deny Bash ", "--deny Edit ", "--deny Grep "] {
            assert!(text.contains(rule), "{rule} in {text}");
        }
    }
}
