//! JSON formats of the input and output of programs' hooks.

use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::program::Harness;
use crate::hook::{HookEvent, HookInput, HookReply, HookTool};

/// Prefixes of the lines of a patch that name a file. Source: the grammar of `apply_patch`.
const PATCHED: [&str; 4] = ["*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: "];

impl Harness {
    /// Reads the program's input. Skips missing parts, because a program of another version must not be blocked.
    pub fn read(&self, input: &Value) -> HookInput {
        let text = |names: &[&str]| {
            names
                .iter()
                .find_map(|name| input.get(name)?.as_str())
                .filter(|text| !text.is_empty())
                .map(str::to_owned)
        };
        HookInput {
            session: text(&["session_id", "sessionId"]).unwrap_or_default(),
            working_directory: text(&["cwd", "workspaceRoot"]).map(PathBuf::from).unwrap_or_default(),
            agent: text(&["agent_id", "agentId", "subagent_id", "subagentId"]),
            agent_type: text(&["agent_type", "agentType", "subagent_type", "subagentType"]),
            message: text(&["prompt", "user_prompt", "userPrompt"]),
            tool: text(&["tool_name", "toolName"]).map(|name| {
                let arguments = input.get("tool_input").or_else(|| input.get("toolInput"));
                self.tool(name, arguments.unwrap_or(&Value::Null))
            }),
        }
    }

    fn tool(&self, name: String, arguments: &Value) -> HookTool {
        let hooks = &self.hooks;
        let use_of_files = self.use_of_files(&name);
        let argument = |name: &String| arguments.get(name)?.as_str();
        let path = |name: &String| match arguments.get(name)? {
            Value::Null => None,
            Value::String(path) => Some(PathBuf::from(path)),
            // A path that is not a text must not name a file outside of the project.
            other => Some(PathBuf::from(other.to_string().replace(['/', '\\'], "_"))),
        };
        let mut paths: Vec<PathBuf> = hooks.path_arguments.iter().filter_map(path).collect();
        for patch in hooks.patch_arguments.iter().filter_map(argument).chain(arguments.as_str()) {
            let named =
                patch.lines().filter_map(|line| PATCHED.iter().find_map(|word| line.strip_prefix(word)));
            paths.extend(named.map(|path| PathBuf::from(path.trim())));
        }
        HookTool { name, use_of_files, paths }
    }

    /// Returns the answer in the program's format; `None`: no answer is needed.
    pub fn answer(&self, event: HookEvent, reply: &HookReply) -> Option<Value> {
        let name = &self.hooks.events.get(event.as_str())?.name;
        let mut output = Map::new();
        if let Some(refusal) = &reply.refusal {
            output.insert("permissionDecision".to_owned(), "deny".into());
            output.insert("permissionDecisionReason".to_owned(), refusal.as_str().into());
        }
        // Skipped notes are reported only to a model that reads the answer. They are never the only reason to
        // answer a session that is over.
        let skipped =
            reply.skipped.iter().filter(|_| !self.is_unheard(event) && event != HookEvent::SessionEnd);
        let context: Vec<_> = reply.context.iter().chain(skipped).map(String::as_str).collect();
        if !context.is_empty() {
            output.insert("additionalContext".to_owned(), context.join("\n\n").into());
        }
        if output.is_empty() {
            return None;
        }
        output.insert("hookEventName".to_owned(), name.as_str().into());
        Some(json!({ "hookSpecificOutput": output }))
    }
}
