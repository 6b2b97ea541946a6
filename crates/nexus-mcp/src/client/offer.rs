//! Tools of servers that a turn gets.

use std::collections::HashSet;

use nexus_core::{
    MAX_ANSWER_BYTES, Tool, ToolContent, ToolResult, ToolRouter as _, Toolbox, redact::Redactor,
};

use super::{
    call::call,
    client_server::ClientServer,
    connection::ServerConnection,
    listed_tool::{ListedTool, MAX_DEFINITIONS_BYTES},
};

/// Maximum length of a tool's name, in characters. Source: all vendors accept names of this length.
const MAX_NAME: usize = 64;

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
        listed: &ListedTool,
        running: &ServerConnection,
    ) -> Result<(), String> {
        let name = name_of(&server.name, &listed.name, &mut self.names);
        let schema = listed.schema.as_ref();
        let bytes = schema.map(|schema| listed.description.len() + schema.len());
        let (Some(schema), Some(bytes)) = (schema, bytes.filter(|bytes| *bytes <= self.room)) else {
            return Err(format!(
                "the tool {name:?} is left out: with it, the descriptions of the tools would have more than \
                 {MAX_DEFINITIONS_BYTES} bytes"
            ));
        };
        let schema = serde_json::from_str(schema).map_err(|error| format!("the tool {name:?}: {error}"))?;
        self.room -= bytes;
        let (peer, called) = (running.service.peer().clone(), listed.name.clone());
        let (within, redactor) = (server.call_within, running.redactor.clone());
        let handler = move |arguments| {
            let (peer, called, redactor) = (peer.clone(), called.clone(), redactor.clone());
            async move {
                let answer = call(peer, called, arguments, within, &redactor).await;
                // Every vendor's program passes on an answer of this size.
                without_secrets(answer, &redactor).within(MAX_ANSWER_BYTES)
            }
        };
        let tool = Tool::with_schema(name, listed.description.clone(), schema, handler);
        // The effects of the tool are unknown, even if it describes itself.
        let tool = if server.needs_approval { tool.needs_approval() } else { tool };
        // `with` returns no error for an unusable tool, but quarantines it. So compare the numbers.
        let left_out = self.tools.quarantined().len();
        self.tools = std::mem::take(&mut self.tools).with(tool);
        match self.tools.quarantined().get(left_out) {
            Some(tool) => Err(format!("the tool {:?} is left out: {}", tool.name, tool.reason)),
            None => Ok(()),
        }
    }
}

/// Removes the secrets that a server got from its answer.
fn without_secrets(mut result: ToolResult, redactor: &Redactor) -> ToolResult {
    for content in &mut result.content {
        match content {
            ToolContent::Text { text } => {
                if let Some(clean) = redactor.without_secrets(text) {
                    *text = clean;
                }
            }
            ToolContent::Json { value } => {
                if let Some(clean) = redactor.value_without_secrets(value) {
                    *value = clean;
                }
            }
            _ => {}
        }
    }
    result
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
        // All characters are ASCII here, so their number is the length in bytes.
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
