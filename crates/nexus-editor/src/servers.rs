//! The MCP servers that a client names for a session, and their tools in its turns.

use std::{collections::HashSet, path::Path, time::Duration};

use agent_client_protocol_schema::v1::McpServerStdio;
use futures::future::join_all;
use nexus_core::{MAX_ANSWER_BYTES, Tool, ToolResult, Toolbox};
use rmcp::{RoleClient, service::Peer};
use serde_json::Value;
use tokio::sync::Mutex;

use crate::{client_text::cut, named_server::NamedServer, server_call::call, server_slot::ServerSlot};

/// Maximum length of a tool's name, in characters. Source: all vendors accept names of this length.
const MAX_NAME: usize = 64;
/// Maximum number of servers of a session. Source: our own bound.
const MAX_SERVERS: usize = 32;
/// Maximum total size of the descriptions and schemas of a session's tools, in bytes. Each turn shows them to its model.
/// Source: our own bound.
const MAX_DEFINITIONS_BYTES: usize = 512 << 10;

/// Servers of a session. They start with its first prompt, and run until the session is closed.
#[derive(Debug)]
pub(crate) struct Servers {
    wanted: Vec<McpServerStdio>,
    /// Names of the servers that cannot be started, with the reasons.
    refused: Vec<String>,
    /// Longest time of a call without progress.
    call_within: Duration,
    state: Mutex<ServerSlots>,
}

/// Slots of the session's servers.
#[derive(Debug)]
struct ServerSlots {
    /// One slot for each wanted server, in the same order.
    slots: Vec<ServerSlot>,
    /// Problems that were already reported. A server that does not start is listed by its number, because the reason may be
    /// worded differently each time.
    told: HashSet<String>,
}

impl Servers {
    /// Creates the servers from the `mcpServers` of a client.
    pub(crate) fn new(named: Value, call_within: Duration) -> Self {
        let (mut wanted, mut refused) = (Vec::new(), Vec::new());
        for server in NamedServer::read_all(named) {
            match server {
                NamedServer::Stdio(server) if wanted.len() < MAX_SERVERS => wanted.push(server),
                NamedServer::Stdio(server) => {
                    refused.push(format!("{}: a session has at most {MAX_SERVERS}", server.name));
                }
                NamedServer::Refused(reason) => refused.push(reason),
            }
        }
        let slots = wanted.iter().map(|_| ServerSlot::Empty).collect();
        Self { wanted, refused, call_within, state: Mutex::new(ServerSlots { slots, told: HashSet::new() }) }
    }

    /// Starts the servers that do not run, and returns their tools, with the problems that were not reported yet. If the
    /// future is dropped, the next call continues the starts.
    pub(crate) async fn tools(&self, folder: &Path) -> (Toolbox, Vec<String>) {
        let ServerSlots { slots, told } = &mut *self.state.lock().await;
        let starting = self.wanted.iter().zip(slots.iter_mut());
        let starting = starting.map(|(wanted, slot)| slot.fill(wanted, folder));
        let mut faults = self.refused.clone();
        faults.retain(|fault| told.insert(fault.clone()));
        let started = join_all(starting).await;
        for (number, (wanted, started)) in self.wanted.iter().zip(started).enumerate() {
            let key = server_key(number);
            match started {
                // The server runs. If it ends later and does not start again, report the problem again.
                Ok(()) => {
                    told.remove(&key);
                }
                Err(reason) if told.insert(key) => faults.push(format!("{}: {reason}", wanted.name)),
                Err(_) => {}
            }
        }
        let mut tools = Toolbox::new();
        let mut names = HashSet::new();
        let mut room = MAX_DEFINITIONS_BYTES;
        for (wanted, slot) in self.wanted.iter().zip(slots.iter()) {
            let Some(server) = slot.running() else { continue };
            for tool in &server.tools {
                let name = name_of(&wanted.name, &tool.name, &mut names);
                let description = cut(tool.description.as_deref().unwrap_or_default(), MAX_ANSWER_BYTES);
                let schema = Value::Object((*tool.input_schema).clone());
                let bytes = description.len() + schema.to_string().len();
                if bytes > room {
                    let fault = format!(
                        "the tool {name:?} is left out: with it, the descriptions of the tools would have \
                         more than {MAX_DEFINITIONS_BYTES} bytes"
                    );
                    faults.extend(told.insert(fault.clone()).then_some(fault));
                    continue;
                }
                room -= bytes;
                let (peer, called) = (server.service.peer().clone(), tool.name.to_string());
                let within = self.call_within;
                let handler = move |arguments| answer_of(peer.clone(), called.clone(), arguments, within);
                // The effects of the tool are unknown, even if it describes itself, so each call needs an approval.
                tools = tools.with(Tool::with_schema(name, description, schema, handler).needs_approval());
            }
        }
        let left_out = tools.quarantined().iter().map(|tool| format!("{}: {}", tool.name, tool.reason));
        faults.extend(left_out.filter(|fault| told.insert(fault.clone())));
        (tools, faults)
    }

    /// Lets the next list of tools start suspended servers again, and report their problems again.
    pub(crate) async fn try_again(&self) {
        let ServerSlots { slots, told } = &mut *self.state.lock().await;
        told.clear();
        slots.iter_mut().for_each(ServerSlot::try_again);
    }

    /// Returns the number of wanted servers, and the number of running ones.
    pub(crate) async fn count(&self) -> (usize, usize) {
        let slots = &self.state.lock().await.slots;
        let named = self.wanted.len() + self.refused.len();
        (named, slots.iter().filter_map(ServerSlot::running).filter(|server| server.is_running()).count())
    }

    /// Ends the servers and all processes that they started.
    pub(crate) async fn stop(&self) {
        let slots = &mut self.state.lock().await.slots;
        join_all(slots.iter_mut().map(|slot| slot.stop())).await;
    }
}

/// Returns the key of a server in the set of known problems.
fn server_key(number: usize) -> String {
    format!("server {number}")
}

/// Returns the answer of a call for the model, within the size that every vendor's program passes on.
async fn answer_of(peer: Peer<RoleClient>, tool: String, arguments: Value, within: Duration) -> ToolResult {
    call(peer, tool, arguments, within).await.within(MAX_ANSWER_BYTES)
}

/// Returns a unique name for a tool that contains the name of its server.
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
