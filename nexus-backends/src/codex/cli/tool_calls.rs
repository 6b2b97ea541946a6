//! Converts the program's items into tool calls: names, arguments, possible effects, and results.

use nexus_core::{
    CallId, Effects, ErrorKind, ToolAccess, ToolCallStatus, ToolContent,
    harness::Failure,
    turn::{ToolCallArguments, ToolCallFinished, ToolCallStarted, ToolOrigin},
};
use serde_json::{Value, json};

use super::mcp_config;
use super::setting::Setting;
use super::wire::Item;
use crate::cli::caller_tools::{CallerTools, SERVER};

/// Tool call described by an item.
#[derive(Debug)]
pub(super) struct ItemCall {
    /// Id of the item. It is the model's id of the call if the model made the call directly.
    pub(super) id: String,
    name: String,
    origin: ToolOrigin,
    effects: Effects,
    arguments: Value,
    status: ToolCallStatus,
    output: Vec<ToolContent>,
}

impl ItemCall {
    /// Converts an item; `None` for any item that is not a tool call.
    pub(super) fn read(item: Item, setting: &Setting) -> Option<Self> {
        let access = setting.access;
        Some(match item {
            Item::CommandExecution { id, command, cwd, source, status, aggregated_output, exit_code } => {
                let name = match source.as_deref() {
                    Some("unifiedExecInteraction") => "write_stdin",
                    _ => "exec_command",
                };
                let mut output: Vec<_> = aggregated_output.into_iter().map(ToolContent::text).collect();
                if let Some(code) = exit_code {
                    output.push(ToolContent::Json { value: json!({ "exit_code": code }) });
                }
                let arguments = json!({ "command": command, "cwd": cwd });
                Self::harness(id, name, harness_effects(name, access), arguments).ended(&status, output)
            }
            Item::FileChange { id, changes, status } => {
                let arguments = json!({ "changes": changes });
                Self::harness(id, "apply_patch", Effects::Wrote, arguments).ended(&status, Vec::new())
            }
            Item::McpToolCall { id, server, tool, arguments, status, result, error } => {
                let output = result.as_ref().map(mcp_output).unwrap_or_default();
                let error = error.as_ref().and_then(|error| error.get("message")).and_then(Value::as_str);
                let output = output.into_iter().chain(error.map(ToolContent::text)).collect();
                let callers =
                    setting.tools.as_ref().filter(|own| server == SERVER && mcp_config::has(own, &tool));
                match callers {
                    Some(own) => {
                        Self::callers(own, id, &tool, arguments).ended(&status, output).denied_by(own)
                    }
                    None => {
                        let is_helper = mcp_config::is_call_of_helper(&server, &tool);
                        let effects = if is_helper { Effects::None } else { Effects::Unknown };
                        let name = if is_helper { tool } else { format!("mcp__{server}__{tool}") };
                        Self::harness(id, &name, effects, arguments).ended(&status, output)
                    }
                }
            }
            Item::CollabAgentToolCall { id, tool, status, prompt, receiver_thread_ids, agents_states } => {
                let arguments = json!({ "prompt": prompt, "agents": receiver_thread_ids });
                let output = vec![ToolContent::Json { value: agents_states }];
                // Starting a sub-agent has no effect itself, because the program reports each call of the sub-agent.
                Self::harness(id, &snake_case(&tool), Effects::None, arguments).ended(&status, output)
            }
            // This item has no status, so the call counts as succeeded.
            Item::WebSearch { id, query, action } => Self {
                origin: ToolOrigin::Hosted,
                ..Self::harness(id, "web_search", Effects::Read, json!({ "query": query, "action": action }))
            },
            Item::ImageView { id, path } => {
                Self::harness(id, "view_image", Effects::Read, json!({ "path": path }))
            }
            Item::ImageGeneration { id, status, revised_prompt, saved_path } => {
                let arguments = json!({ "prompt": revised_prompt });
                let effects = if saved_path.is_some() { Effects::Wrote } else { Effects::None };
                let output = saved_path.into_iter().map(ToolContent::text).collect();
                Self {
                    origin: ToolOrigin::Hosted,
                    ..Self::harness(id, "image_generation", effects, arguments).ended(&status, output)
                }
            }
            Item::Sleep { id, duration_ms } => {
                Self::harness(id, "sleep", Effects::None, json!({ "duration_ms": duration_ms }))
            }
            Item::AgentMessage { .. }
            | Item::Reasoning { .. }
            | Item::ContextCompaction {}
            | Item::UserMessage { .. }
            | Item::Silent {} => return None,
        })
    }

    fn callers(tools: &CallerTools, id: String, name: &str, arguments: Value) -> Self {
        let arguments = if arguments.is_null() { json!({}) } else { arguments };
        let effects = tools.effects(name);
        Self { origin: ToolOrigin::Caller, ..Self::harness(id, name, effects, arguments) }
    }

    /// Marks a failed call as denied if the session denied it, which the item does not show.
    fn denied_by(mut self, tools: &CallerTools) -> Self {
        if self.status == ToolCallStatus::Failed && tools.was_denied(&self.name, &self.arguments) {
            self.status = ToolCallStatus::Denied;
        }
        self
    }

    fn harness(id: String, name: &str, effects: Effects, arguments: Value) -> Self {
        Self {
            id,
            name: name.to_owned(),
            origin: ToolOrigin::Harness,
            effects,
            arguments,
            status: ToolCallStatus::Succeeded,
            output: Vec::new(),
        }
    }

    fn ended(mut self, status: &str, output: Vec<ToolContent>) -> Self {
        self.status = match status {
            "completed" => ToolCallStatus::Succeeded,
            "declined" => ToolCallStatus::Denied,
            "inProgress" => ToolCallStatus::Unfinished,
            _ => ToolCallStatus::Failed,
        };
        self.output = output;
        self
    }

    /// Returns the failure of a turn in which the program executes a call of a tool that its model must not have.
    pub(super) fn beyond(&self, access: ToolAccess) -> Option<Failure> {
        let is_own = self.origin != ToolOrigin::Caller && self.effects != Effects::None;
        (access == ToolAccess::ScopedOnly && is_own).then(|| {
            let reason =
                format!("codex runs its own tool {}, which {} does not allow", self.name, access.as_str());
            Failure::new(ErrorKind::Unsupported, reason)
        })
    }

    /// Returns the start event of the call.
    pub(super) fn started(&self, call: CallId, parent: Option<CallId>) -> ToolCallStarted {
        ToolCallStarted::new(call, &*self.name, self.origin, self.effects).with_parent(parent)
    }

    /// Returns the event with the arguments of the call.
    pub(super) fn arguments(&self, call: CallId) -> ToolCallArguments {
        ToolCallArguments::new(call, self.arguments.clone())
    }

    /// Returns the end event of the call.
    pub(super) fn finished(self, call: CallId) -> ToolCallFinished {
        ToolCallFinished::new(call, self.status, self.output)
    }
}

/// Returns the possible effects of a tool of the program, under its sandbox.
pub(super) fn harness_effects(name: &str, access: ToolAccess) -> Effects {
    match (name, access) {
        ("view_image", _) => Effects::Read,
        ("sleep" | "update_plan" | "wait" | "wait_agent" | "spawn_agent" | "tool_search", _) => Effects::None,
        (helper, _) if mcp_config::is_helper(helper) => Effects::None,
        // At this level no other tool should run, so its effects are unknown.
        (_, ToolAccess::ScopedOnly) => Effects::Unknown,
        (_, ToolAccess::ReadOnly) => Effects::Read,
        _ => Effects::Wrote,
    }
}

fn mcp_output(result: &Value) -> Vec<ToolContent> {
    let blocks = result.get("content").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let text = |block: &Value, key: &str| block.get(key).and_then(Value::as_str).map(str::to_owned);
    let blocks = blocks.iter().map(|block| match (text(block, "text"), text(block, "data")) {
        (Some(text), _) => ToolContent::Text { text },
        (None, Some(data)) => {
            let media_type = text(block, "mimeType").unwrap_or_default();
            ToolContent::Image { media_type, data }
        }
        _ => ToolContent::Json { value: block.clone() },
    });
    let structured = result.get("structuredContent").filter(|value| !value.is_null()).cloned();
    blocks.chain(structured.map(|value| ToolContent::Json { value })).collect()
}

fn snake_case(word: &str) -> String {
    let mut snake = String::with_capacity(word.len() + 4);
    for letter in word.chars() {
        if letter.is_uppercase() {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
    }
    snake
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codex::cli::tests::setting;

    #[test]
    fn a_command_in_a_read_only_sandbox_only_reads() {
        assert_eq!(harness_effects("exec_command", ToolAccess::ReadOnly), Effects::Read);
        assert_eq!(harness_effects("exec_command", ToolAccess::WorkspaceWrite), Effects::Wrote);
    }

    #[test]
    fn where_only_the_callers_tools_should_be_another_may_have_changed_anything() {
        assert_eq!(harness_effects("exec_command", ToolAccess::ScopedOnly), Effects::Unknown);
        assert_eq!(harness_effects("update_plan", ToolAccess::ScopedOnly), Effects::None);
        for helper in ["list_mcp_resources", "list_mcp_resource_templates", "read_mcp_resource"] {
            assert_eq!(harness_effects(helper, ToolAccess::ScopedOnly), Effects::None);
        }
    }

    #[test]
    fn a_status_that_nobody_knows_is_no_success() {
        let item = json!({ "type": "commandExecution", "id": "c", "command": "x", "status": "novel" });
        let call =
            ItemCall::read(serde_json::from_value(item).unwrap(), &setting(ToolAccess::ReadOnly)).unwrap();
        assert_eq!(call.status, ToolCallStatus::Failed);
    }

    #[test]
    fn names_of_agents_tools_read_like_the_others() {
        assert_eq!(snake_case("spawnAgent"), "spawn_agent");
    }
}
