//! Tools of servers that a turn gets.

use std::collections::HashSet;

use nexus_core::{MAX_ANSWER_BYTES, Tool, ToolResult, ToolRouter as _, Toolbox};
use rmcp::{RoleClient, model, service::Peer};
use serde_json::Value;

use super::{call::call, cut_text, servers::ClientServer};

/// Maximum length of a tool's name, in characters. Source: all vendors accept names of this length.
const MAX_NAME: usize = 64;
/// Maximum total size of the descriptions and schemas of the offered tools, in bytes. Each turn shows them to its model.
/// Source: our own bound.
const MAX_DEFINITIONS_BYTES: usize = 512 << 10;

/// Tools of all servers of a turn, with names that differ and definitions of bounded size.
#[derive(Debug)]
pub struct ToolOffer {
    tools: Toolbox,
    names: HashSet<String>,
    /// Bytes that further definitions may have.
    room: usize,
}

impl Default for ToolOffer {
    fn default() -> Self {
        Self { tools: Toolbox::new(), names: HashSet::new(), room: MAX_DEFINITIONS_BYTES }
    }
}

impl ToolOffer {
    /// Creates an offer without tools.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of tools.
    pub fn count(&self) -> usize {
        self.tools.definitions().len()
    }

    /// Returns the tools.
    pub fn into_tools(self) -> Toolbox {
        self.tools
    }

    /// Adds a tool of a server.
    ///
    /// # Errors
    ///
    /// Reason why the tool is left out, for a person.
    pub(super) fn add(
        &mut self,
        server: &ClientServer,
        listed: &model::Tool,
        peer: &Peer<RoleClient>,
    ) -> Result<(), String> {
        let name = name_of(&server.name, &listed.name, &mut self.names);
        let description = cut_text(listed.description.as_deref().unwrap_or_default(), MAX_ANSWER_BYTES);
        let schema = Value::Object((*listed.input_schema).clone());
        let bytes = description.len() + schema.to_string().len();
        if bytes > self.room {
            return Err(format!(
                "the tool {name:?} is left out: with it, the descriptions of the tools would have more than \
                 {MAX_DEFINITIONS_BYTES} bytes"
            ));
        }
        self.room -= bytes;
        let (peer, called, within) = (peer.clone(), listed.name.to_string(), server.call_within);
        let handler = move |arguments| {
            let call = call(peer.clone(), called.clone(), arguments, within);
            // Every vendor's program passes on an answer of this size.
            async move { ToolResult::within(call.await, MAX_ANSWER_BYTES) }
        };
        let tool = Tool::with_schema(name, description, schema, handler);
        // The effects of the tool are unknown, even if it describes itself.
        let tool = if server.needs_approval { tool.needs_approval() } else { tool };
        let left_out = self.tools.quarantined().len();
        self.tools = std::mem::take(&mut self.tools).with(tool);
        match self.tools.quarantined().get(left_out) {
            Some(tool) => Err(format!("{}: {}", tool.name, tool.reason)),
            None => Ok(()),
        }
    }
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
