//! Tool calls of an agent, assembled from its partial updates.

use std::{collections::BTreeMap, path::PathBuf};

use agent_client_protocol_schema::v1::{
    ContentBlock, Meta, PermissionOption, PermissionOptionId, PermissionOptionKind, ToolCallContent,
    ToolCallStatus as Status, ToolCallUpdate, ToolKind,
};
use nexus_core::{
    ApprovalAction, CallId, Effects, ToolCallStatus, ToolContent, TurnEvent,
    turn::{ToolCallArguments, ToolCallFinished, ToolCallStarted, ToolOrigin},
};
use serde_json::{Value, json};

use super::agent::CallNames;
use crate::cli::caller_tools::{CallerTools, SERVER};

/// Separators between a server's name and a tool's. Source: observed with each known agent.
const JOINTS: [&str; 4] = ["__", ".", "/", "_"];
/// JSON pointer to the text of a result in the raw output. Source: observed with one of the known agents.
const TEXT_IN_OUTPUT: &str = "/output/OkayOutput";
/// Keys under which agents name the files of a call. Source: observed with each known agent.
const PATH_KEYS: [&str; 8] =
    ["file_path", "filePath", "filepath", "path", "abs_path", "target_file", "notebook_path", "parsed_path"];

/// Tool calls of one process.
#[derive(Debug)]
pub(super) struct ReportedCalls {
    tools: Option<CallerTools>,
    names: CallNames,
    prefix: String,
    calls: BTreeMap<String, ReportedCall>,
    /// Number of calls whose id the agent had used before.
    repeats: u32,
}

/// Call in the state that the agent has reported so far.
#[derive(Debug, Default)]
struct ReportedCall {
    name: String,
    /// True if the agent named the tool. Otherwise `name` is a title, which may contain a command.
    is_named: bool,
    title: String,
    kind: ToolKind,
    /// True if the agent sent the kind of the call.
    has_kind: bool,
    input: Value,
    paths: Vec<PathBuf>,
    output: Vec<ToolContent>,
    /// Distinguishes calls with the same id: 0 for the first.
    repeat: u32,
    is_begun: bool,
    is_over: bool,
    is_denied: bool,
}

/// Call for which an agent requests permission.
#[derive(Debug)]
pub(super) struct AskedCall {
    pub(super) tool: String,
    pub(super) title: String,
    pub(super) action: ApprovalAction,
    pub(super) paths: Vec<PathBuf>,
    pub(super) input: Value,
    /// True for a tool of the caller, about which the session decides.
    pub(super) is_callers: bool,
    /// True if the call would change the mode of the session, and so the access level.
    pub(super) changes_mode: bool,
}

impl ReportedCalls {
    /// Creates an empty list of calls. `prefix` distinguishes the calls of several processes.
    pub(super) fn new(tools: Option<CallerTools>, names: CallNames, prefix: String) -> Self {
        Self { tools, names, prefix, calls: BTreeMap::new(), repeats: 0 }
    }

    /// Returns true if a call has no result yet.
    pub(super) fn are_open(&self) -> bool {
        self.calls.values().any(|call| call.is_begun && !call.is_over)
    }

    /// Returns true if the agent reported a call.
    pub(super) fn are_known(&self) -> bool {
        !self.calls.is_empty()
    }

    /// Handles an update of a call: its start, its arguments, or its result.
    pub(super) fn update(&mut self, update: ToolCallUpdate, events: &mut Vec<TurnEvent>) {
        let id = update.tool_call_id.to_string();
        let meta = update.meta;
        let fields = update.fields;
        // A start under the id of a finished call is another call.
        let begins = matches!(fields.status, Some(Status::Pending | Status::InProgress));
        if begins && self.calls.get(&id).is_some_and(|call| call.is_over) {
            self.repeats += 1;
            let call = ReportedCall { repeat: self.repeats, ..ReportedCall::default() };
            self.calls.insert(id.clone(), call);
        }
        let call = self.calls.entry(id.clone()).or_default();
        let name =
            fields.name.or_else(|| self.names.in_meta.and_then(|pointer| name_in(meta.as_ref(), pointer)));
        if let Some(name) = name.filter(|name| !name.is_empty()) {
            call.name = name;
            call.is_named = true;
        }
        if let Some(title) = fields.title {
            // Agents without names put the tool's name, or a command, into the title.
            if !call.is_named {
                call.name.clone_from(&title);
            }
            call.title = title;
        }
        if let Some(kind) = fields.kind {
            call.kind = kind;
            call.has_kind = true;
        }
        if let Some(input) = fields.raw_input.filter(|input| !is_empty(input)) {
            call.input = input;
        }
        for location in fields.locations.unwrap_or_default() {
            if !call.paths.contains(&location.path) {
                call.paths.push(location.path);
            }
        }
        if let Some(content) = fields.content {
            // The protocol replaces the whole content with each update.
            call.output = content.iter().filter_map(shown).collect();
            for content in &content {
                if let ToolCallContent::Diff(diff) = content
                    && !call.paths.contains(&diff.path)
                {
                    call.paths.push(diff.path.clone());
                }
            }
        }
        let raw_output = fields.raw_output.filter(|output| !is_empty(output));
        // The agent reports a failed command as completed, so check its exit code.
        let exit_code = raw_output.as_ref().and_then(|output| output.get("exit_code")?.as_i64());
        if call.output.is_empty()
            && let Some(output) = raw_output
        {
            call.output = vec![match output.pointer(TEXT_IN_OUTPUT).cloned().unwrap_or(output) {
                Value::String(text) => ToolContent::text(text),
                value => ToolContent::json(value),
            }];
        }
        let status = match fields.status {
            Some(Status::Completed) if exit_code.is_some_and(|code| code != 0) => Some(Status::Failed),
            status => status,
        };
        // Report the call only once its arguments or its progress are known, because the agent may still send the
        // tool's name.
        let is_told = !is_empty(&call.input) || matches!(status, Some(status) if status != Status::Pending);
        if is_told {
            self.begin(&id, events);
        }
        match status {
            Some(Status::Completed) => self.end(&id, ToolCallStatus::Succeeded, events),
            Some(Status::Failed) => self.end(&id, ToolCallStatus::Failed, events),
            _ => {}
        }
    }

    /// Returns the call for which an agent requests permission.
    pub(super) fn asked(&mut self, mut update: ToolCallUpdate, events: &mut Vec<TurnEvent>) -> AskedCall {
        let id = update.tool_call_id.to_string();
        // For a call of the caller's tools, some agents describe the permission question here, so ignore these fields.
        // The agent has reported the call itself before.
        if self.served(&id).is_some() {
            update.fields.raw_input = None;
            update.fields.title = None;
        }
        self.update(update, events);
        self.begin(&id, events);
        // A tool of the server that does not exist also counts: the server rejects the call.
        let is_callers = self.served(&id).is_some();
        let call = self.calls.entry(id).or_default();
        let mut paths = call.paths.clone();
        for path in PATH_KEYS.iter().filter_map(|key| call.input.get(key)?.as_str()) {
            paths.push(path.into());
        }
        if let Some(changes) = call.input.get("changes").and_then(Value::as_object) {
            // One agent names the files of a patch as the keys of `changes`.
            paths.extend(changes.keys().map(PathBuf::from));
        }
        let action = match call.kind {
            _ if is_callers => ApprovalAction::Tool,
            ToolKind::Read | ToolKind::Search => ApprovalAction::Read,
            ToolKind::Edit | ToolKind::Delete | ToolKind::Move => ApprovalAction::Write,
            ToolKind::Execute => ApprovalAction::Execute,
            ToolKind::Fetch => ApprovalAction::Fetch,
            _ => ApprovalAction::Other,
        };
        AskedCall {
            tool: call.name.clone(),
            title: call.title.clone(),
            action,
            paths,
            input: call.input.clone(),
            is_callers,
            changes_mode: call.kind == ToolKind::SwitchMode,
        }
    }

    /// Records that a call was denied.
    pub(super) fn deny(&mut self, id: &str) {
        if let Some(call) = self.calls.get_mut(id) {
            call.is_denied = true;
        }
    }

    /// Reports the start of a call.
    fn begin(&mut self, id: &str, events: &mut Vec<TurnEvent>) {
        let callers = self.callers_tool(id);
        let effects_of =
            |name: &str| self.tools.as_ref().map_or(Effects::Unknown, |tools| tools.effects(name));
        let Some(call) = self.calls.get(id) else { return };
        if call.is_begun {
            return;
        }
        let (name, origin, effects) = match &callers {
            Some(name) => (name.clone(), ToolOrigin::Caller, effects_of(name)),
            None => (call.name.clone(), ToolOrigin::Harness, effects(call.kind)),
        };
        let call_id = self.id(id);
        events.push(ToolCallStarted::new(call_id, name, origin, effects).into());
        if let Some(call) = self.calls.get_mut(id) {
            call.is_begun = true;
        }
    }

    /// Reports the end of a call.
    fn end(&mut self, id: &str, status: ToolCallStatus, events: &mut Vec<TurnEvent>) {
        let callers = self.callers_tool(id);
        let call_id = self.id(id);
        let Some(call) = self.calls.get_mut(id) else { return };
        // Agents may repeat the last update of a call.
        if std::mem::replace(&mut call.is_over, true) {
            return;
        }
        let arguments = match &callers {
            Some(_) => callers_arguments(&call.input),
            None => call.input.clone(),
        };
        if !arguments.is_null() {
            events.push(ToolCallArguments::new(call_id.clone(), arguments.clone()).into());
        }
        let was_denied = call.is_denied
            || status == ToolCallStatus::Failed
                && callers.is_some_and(|name| {
                    self.tools.as_ref().is_some_and(|tools| tools.was_denied(&name, &arguments))
                });
        let status = if was_denied { ToolCallStatus::Denied } else { status };
        events.push(ToolCallFinished::new(call_id, status, std::mem::take(&mut call.output)).into());
    }

    /// Returns the name of the caller's tool that the call invokes, if it exists.
    fn callers_tool(&self, id: &str) -> Option<String> {
        let tools = self.tools.as_ref()?;
        let name = self.served(id)?;
        tools.definitions().iter().any(|tool| tool.name == name).then(|| name.to_owned())
    }

    /// Returns the name of the tool on the caller's server that a call names, even if no such tool exists. Text that
    /// the model controls never decides: neither the title of a command nor an argument of another tool.
    fn served(&self, id: &str) -> Option<&str> {
        let call = self.calls.get(id).filter(|call| self.tools.is_some() && call.kind == ToolKind::Other)?;
        let text = |key: &str| call.input.get(key).and_then(Value::as_str);
        match (call.is_named, self.names.wrapper) {
            (true, Some(wrapper)) if call.name == wrapper => text("tool_name").and_then(served_name),
            (true, _) => served_name(&call.name),
            (false, _) if self.names.are_titles && call.has_kind => served_name(&call.title),
            (false, _) => text("tool").filter(|_| text("server") == Some(SERVER)),
        }
    }

    fn id(&self, id: &str) -> CallId {
        let prefix = &self.prefix;
        match self.calls.get(id).map_or(0, |call| call.repeat) {
            0 => CallId::new(format!("{prefix}{id}")),
            repeat => CallId::new(format!("{prefix}{id}+{repeat}")),
        }
    }
}

/// Returns the option that allows or denies a call. An option that also allows later calls is used only if `may_last`,
/// because it would bypass the decision about them.
pub(super) fn option(
    options: &[PermissionOption],
    is_allowed: bool,
    may_last: bool,
) -> Option<PermissionOptionId> {
    use PermissionOptionKind::{AllowAlways, AllowOnce, RejectAlways, RejectOnce};
    let kinds: &[PermissionOptionKind] = match (is_allowed, may_last) {
        (true, false) => &[AllowOnce],
        (true, true) => &[AllowOnce, AllowAlways],
        (false, _) => &[RejectOnce, RejectAlways],
    };
    let found = kinds.iter().find_map(|kind| options.iter().find(|option| option.kind == *kind));
    found.map(|option| option.option_id.clone())
}

/// Returns the tool's own name from a name that an agent composed for a tool of the caller's server.
fn served_name(name: &str) -> Option<&str> {
    let name = name.strip_prefix("mcp__").or_else(|| name.strip_prefix("mcp.")).unwrap_or(name);
    let rest = name.strip_prefix(SERVER)?;
    JOINTS.iter().find_map(|joint| rest.strip_prefix(joint))
}

/// Returns the arguments of a call of the caller's tool, which may be nested in other arguments.
fn callers_arguments(input: &Value) -> Value {
    let inner = ["arguments", "tool_input"].iter().find_map(|key| input.get(key));
    let is_wrapped = input.get("tool").is_some() || input.get("tool_name").is_some();
    match inner {
        Some(inner) if is_wrapped => inner.clone(),
        _ => input.clone(),
    }
}

fn name_in(meta: Option<&Meta>, pointer: &str) -> Option<String> {
    let meta = Value::Object(meta?.clone());
    Some(meta.pointer(pointer)?.as_str()?.to_owned())
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

fn effects(kind: ToolKind) -> Effects {
    match kind {
        ToolKind::Read | ToolKind::Search | ToolKind::Fetch => Effects::Read,
        ToolKind::Think | ToolKind::SwitchMode => Effects::None,
        ToolKind::Edit | ToolKind::Delete | ToolKind::Move | ToolKind::Execute => Effects::Wrote,
        _ => Effects::Unknown,
    }
}

/// Converts a part of a result, if it can be shown.
fn shown(content: &ToolCallContent) -> Option<ToolContent> {
    match content {
        ToolCallContent::Content(content) => match &content.content {
            ContentBlock::Text(text) => Some(ToolContent::text(&text.text)),
            ContentBlock::Image(image) => {
                Some(ToolContent::Image { media_type: image.mime_type.clone(), data: image.data.clone() })
            }
            other => serde_json::to_value(other).ok().map(ToolContent::json),
        },
        ToolCallContent::Diff(diff) => Some(ToolContent::json(json!({
            "path": diff.path,
            "old": diff.old_text,
            "new": diff.new_text,
        }))),
        _ => None,
    }
}
