//! The MCP servers that a client names for a session, as tools of its turns.

use std::{collections::HashSet, path::Path};

use agent_client_protocol_schema::v1::{McpServer, McpServerStdio};
use futures::future::join_all;
use nexus_core::{Tool, ToolContent, ToolResult, Toolbox};
use rmcp::{
    RoleClient,
    model::{CallToolRequestParams, ContentBlock},
    service::Peer,
};
use serde_json::Value;
use tokio::sync::Mutex;

use crate::{client_text, server_process::ServerProcess};

/// Longest name of a tool, in characters: what every vendor takes.
const MAX_NAME: usize = 64;
/// How many servers of a session are started at most. Source: our own bound.
const MAX_SERVERS: usize = 32;

/// The servers of a session: started with its first prompt, and kept until it is closed.
#[derive(Debug)]
pub(crate) struct Servers {
    wanted: Vec<McpServerStdio>,
    /// The names of those that cannot be started, and why.
    refused: Vec<String>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// In the order of those that are wanted.
    running: Vec<Option<ServerProcess>>,
    /// What the person was told already. Of a server that does not start, its number: the reason may be worded another way each time.
    told: HashSet<String>,
}

impl Servers {
    /// Those that a client names.
    pub(crate) fn new(named: Vec<McpServer>) -> Self {
        let (mut wanted, mut refused) = (Vec::new(), Vec::new());
        for server in named {
            match server {
                McpServer::Stdio(server) if wanted.len() < MAX_SERVERS => wanted.push(server),
                McpServer::Stdio(server) => {
                    refused.push(format!("{}: a session has at most {MAX_SERVERS}", server.name));
                }
                McpServer::Http(server) => refused.push(format!("{}: HTTP is not supported", server.name)),
                McpServer::Sse(server) => refused.push(format!("{}: SSE is not supported", server.name)),
                _ => refused.push("one of a kind that is not known".to_owned()),
            }
        }
        let running = wanted.iter().map(|_| None).collect();
        Self { wanted, refused, state: Mutex::new(State { running, told: HashSet::new() }) }
    }

    /// The tools of the servers, which are started if they do not run; and what the person is to know of them
    /// and was not told yet.
    pub(crate) async fn tools(&self, folder: &Path) -> (Toolbox, Vec<String>) {
        let State { running, told } = &mut *self.state.lock().await;
        let starting = self.wanted.iter().zip(running.iter_mut()).map(|(wanted, place)| async move {
            if place.as_ref().is_some_and(ServerProcess::is_running) {
                return None;
            }
            *place = None;
            match ServerProcess::start(wanted, folder).await {
                Ok(server) => {
                    *place = Some(server);
                    None
                }
                Err(reason) => Some(format!("{}: {reason}", wanted.name)),
            }
        });
        let mut faults = self.refused.clone();
        faults.retain(|fault| told.insert(fault.clone()));
        for (number, failed) in join_all(starting).await.into_iter().enumerate() {
            let key = format!("server {number}");
            match failed {
                // Should it end later, and not start again, that is told anew.
                None => {
                    told.remove(&key);
                }
                Some(fault) if told.insert(key) => faults.push(fault),
                Some(_) => {}
            }
        }
        let mut tools = Toolbox::new();
        let mut names = HashSet::new();
        for (wanted, server) in self.wanted.iter().zip(running.iter()) {
            let Some(server) = server else { continue };
            for tool in &server.tools {
                let name = name_of(&wanted.name, &tool.name, &mut names);
                let description = tool.description.as_deref().unwrap_or_default();
                let schema = Value::Object((*tool.input_schema).clone());
                let (peer, called) = (server.service.peer().clone(), tool.name.to_string());
                let handler = move |arguments| call(peer.clone(), called.clone(), arguments);
                // What it changes is not known, whatever it says of itself: the person is asked each time.
                tools = tools.with(Tool::with_schema(name, description, schema, handler).needs_approval());
            }
        }
        let left_out = tools.quarantined().iter().map(|tool| format!("{}: {}", tool.name, tool.reason));
        faults.extend(left_out.filter(|fault| told.insert(fault.clone())));
        (tools, faults)
    }

    /// Ends them, with all that they started.
    pub(crate) async fn stop(&self) {
        let running = &mut self.state.lock().await.running;
        join_all(running.iter().flatten().map(ServerProcess::stop)).await;
        running.iter_mut().for_each(|server| *server = None);
    }
}

/// A name that says whose tool it is, and that no other tool has.
fn name_of(server: &str, tool: &str, names: &mut HashSet<String>) -> String {
    let plain = |text: &str| -> String {
        let is_plain = |character: char| character.is_ascii_alphanumeric() || matches!(character, '_' | '-');
        text.chars().map(|character| if is_plain(character) { character } else { '_' }).collect()
    };
    let whole = format!("{}_{}", plain(server), plain(tool));
    let mut name: String = whole.chars().take(MAX_NAME).collect();
    let mut number = 2;
    while !names.insert(name.clone()) {
        let end = format!("_{number}");
        name = whole.chars().take(MAX_NAME - end.len()).collect::<String>() + &end;
        number += 1;
    }
    name
}

async fn call(peer: Peer<RoleClient>, name: String, arguments: Value) -> ToolResult {
    let mut request = CallToolRequestParams::new(name);
    if let Value::Object(arguments) = arguments {
        request = request.with_arguments(arguments);
    }
    let result = match peer.call_tool(request).await {
        Ok(result) => result,
        Err(error) => return ToolResult::error(client_text::cut(&error.to_string(), 1_000)),
    };
    let mut content: Vec<ToolContent> = result.content.into_iter().map(shown).collect();
    if content.is_empty()
        && let Some(value) = result.structured_content
    {
        content.push(ToolContent::json(value));
    }
    if content.is_empty() {
        content.push(ToolContent::text("done"));
    }
    match result.is_error {
        Some(true) => {
            let mut failed = ToolResult::ok(content);
            failed.is_error = true;
            failed
        }
        _ => ToolResult::ok(content),
    }
}

fn shown(content: ContentBlock) -> ToolContent {
    match content {
        ContentBlock::Text(text) => ToolContent::text(text.text),
        ContentBlock::Image(image) => ToolContent::Image { media_type: image.mime_type, data: image.data },
        // A resource or the like, as the protocol writes it.
        other => {
            serde_json::to_value(other).map_or_else(|_| ToolContent::text("(not shown)"), ToolContent::json)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain_and_differ() {
        let mut names = HashSet::new();
        assert_eq!(name_of("my files", "read.all", &mut names), "my_files_read_all");
        assert_eq!(name_of("my_files", "read_all", &mut names), "my_files_read_all_2");
        let long = "x".repeat(100);
        assert_eq!(name_of("s", &long, &mut names).len(), MAX_NAME);
        let second = name_of("s", &long, &mut names);
        assert!(second.len() == MAX_NAME && second.ends_with("_2"), "{second}");
    }
}
