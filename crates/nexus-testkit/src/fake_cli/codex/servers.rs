//! The MCP servers of Codex: where they are configured, when a call needs leave, and what its item looks like.
//! Source: its recordings, and the schema that the program writes of its own protocol.

use std::time::Duration;

use rmcp::model::ProtocolVersion;
use serde_json::{Map, Value, json};

use super::{
    super::{
        notes::Given,
        servers::{Answer, Handshake, ServerCall, ServerTool, Servers, config},
        stage::Stage,
    },
    wire::Wire,
};
use crate::sim::ToolCall;

/// Default time limit for a server to connect; its table can change it.
const PATIENCE: Duration = Duration::from_secs(30);

/// Tools that the harness adds if any server is configured.
const HELPERS: [&str; 3] = ["list_mcp_resources", "list_mcp_resource_templates", "read_mcp_resource"];

/// Servers of a thread, and the configuration of each.
#[derive(Debug, Default)]
pub(super) struct ThreadServers {
    servers: Servers,
    tables: Map<String, Value>,
}

impl ThreadServers {
    /// Connects to those of `config.toml`.
    pub(super) fn connect(config: &Value, given: &Given, stage: &Stage) -> Self {
        let named = config::named_in(config, "http_headers", given);
        let patience = named.iter().filter_map(|(_, table)| table["startup_timeout_sec"].as_f64());
        // One time limit for all servers: each connects within the longest of the configured limits.
        let patience = patience.filter_map(|seconds| Duration::try_from_secs_f64(seconds).ok()).max();
        let handshake = Handshake {
            client: "codex-mcp-client",
            version: ProtocolVersion::V_2025_06_18,
            discovers: false,
            patience: patience.unwrap_or(PATIENCE),
        };
        let tables = named.iter().map(|(server, table)| (server.name.clone(), table.clone())).collect();
        let servers = stage.connect(named.into_iter().map(|(server, _)| server).collect(), &handshake);
        Self { servers, tables }
    }

    /// Returns the error of the thread if a required server failed.
    pub(super) fn lacks(&self) -> Option<String> {
        let failed = self.servers.states().filter_map(|(name, failure)| Some((name, failure?)));
        let needed = failed.filter(|(name, _)| self.tables[*name]["required"] == true);
        let lines: Vec<String> = needed.map(|(name, reason)| format!("{name}: {reason}")).collect();
        let list = lines.join("; ");
        (!lines.is_empty()).then(|| format!("required MCP servers failed to initialize: {list}"))
    }

    /// Writes the state of each server.
    pub(super) fn announce(&self, wire: &Wire, stage: &mut Stage) {
        for (name, failure) in self.servers.states() {
            let status_update = |status: &str, error: Option<&str>| json!({ "name": name, "status": status, "error": error, "failureReason": null });
            wire.notify("mcpServer/startupStatus/updated", status_update("starting", None), stage);
            let status = if failure.is_some() { "failed" } else { "ready" };
            wire.notify("mcpServer/startupStatus/updated", status_update(status, failure), stage);
        }
    }

    /// The answer to `mcpServerStatus/list`.
    pub(super) fn list(&self) -> Value {
        let entry = |(name, failure): (&str, Option<&str>)| {
            let tools = self.enabled().filter(|tool| tool.server == name).map(|tool| {
                let entry = json!({ "name": tool.name, "inputSchema": tool.schema });
                (tool.name.clone(), entry)
            });
            json!({
                "name": name, "authStatus": "bearerToken", "resources": [], "resourceTemplates": [],
                "tools": tools.collect::<Map<_, _>>(), "toolsError": failure,
                "runtimeStatus": if failure.is_some() { "failed" } else { "ready" },
            })
        };
        json!({ "data": self.servers.states().map(entry).collect::<Vec<_>>(), "nextCursor": null })
    }

    /// The names that the model is given.
    pub(super) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> =
            self.enabled().map(|tool| format!("mcp__{}.{}", tool.server, tool.name)).collect();
        if self.servers.states().next().is_some() {
            names.extend(HELPERS.map(str::to_owned));
        }
        names
    }

    fn enabled(&self) -> impl Iterator<Item = &ServerTool> {
        self.servers.tools().iter().filter(|tool| {
            let list = |key: &str| self.tables[&tool.server][key].as_array();
            let is_in = |list: &Vec<Value>| list.iter().any(|name| *name == *tool.name);
            list("enabled_tools").is_none_or(is_in) && !list("disabled_tools").is_some_and(is_in)
        })
    }

    /// The tool that `call` means, if the model has it.
    pub(super) fn tool(&self, call: &ToolCall) -> Option<&ServerTool> {
        let ToolCall::Mcp { server, tool, .. } = call else { return None };
        self.enabled().find(|known| known.server == *server && known.name == *tool)
    }

    /// Begins a call, or returns the reason for denying it.
    pub(super) fn call(&self, call: &ToolCall) -> Option<Result<ServerCall, String>> {
        let tool = self.tool(call)?;
        let mode = &self.tables[&tool.server]["default_tools_approval_mode"];
        // The turn runs without questions, so a call that needs approval is denied at once.
        if !tool.is_read_only && mode != "approve" {
            return Some(Err("MCP tool call requires approval, but approval policy is never".to_owned()));
        }
        Some(Ok(self.servers.call(&tool.server, &tool.name, &super::tool_arguments(call))))
    }

    /// Returns true if `call` must run alone.
    pub(super) fn runs_alone(&self, call: &ToolCall) -> bool {
        let table = self.tool(call).map(|tool| &self.tables[&tool.server]);
        table.is_some_and(|table| table["supports_parallel_tool_calls"] != true)
    }
}

/// The item of a call.
pub(super) fn item(
    id: &str,
    (server, tool, arguments): (&str, &str, &Value),
    status: &str,
    answer: Option<&Answer>,
) -> Value {
    let (mut result, mut error) = (Value::Null, Value::Null);
    match answer {
        // A failure of the protocol has no content. A failed tool reports its failure as a result.
        Some(answer) if answer.content.is_empty() && answer.outcome.is_err() => {
            error = json!({ "message": answer.text() });
        }
        Some(answer) => result = json!({ "content": answer.content, "structuredContent": answer.structured }),
        None => {}
    }
    json!({
        "type": "mcpToolCall", "id": id, "server": server, "tool": tool, "status": status,
        "arguments": arguments, "result": result, "error": error,
    })
}

/// Returns the text of a server's result for the model.
pub(super) fn told(answer: &Answer) -> String {
    let text = match &answer.structured {
        Some(structured) => structured.to_string(),
        None => answer.text().to_owned(),
    };
    format!("Wall time: 0.0 seconds\nOutput:\n{text}")
}
