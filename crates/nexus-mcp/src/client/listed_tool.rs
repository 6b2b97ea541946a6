//! Tools as a server lists them, within limits.

use nexus_core::{MAX_ANSWER_BYTES, redact::Redactor};
use rmcp::{
    RoleClient,
    model::{PaginatedRequestParams, Tool},
    service::Peer,
};
use serde_json::Value;

use super::cut_text;

/// Maximum number of tools of one server. Source: our own bound.
const MAX_TOOLS: usize = 512;
/// Maximum number of pages of a list. Source: our own bound.
const MAX_PAGES: usize = 100;
/// Maximum length of the name of a tool at its server, in bytes. Source: our own bound.
const MAX_LISTED_NAME_BYTES: usize = 256;
/// Maximum total size of the descriptions and schemas of the offered tools, in bytes. Each turn shows them to its model.
/// Source: our own bound.
pub(super) const MAX_DEFINITIONS_BYTES: usize = 512 << 10;

/// Maximum total size of the descriptions and schemas that one server's list may have, in bytes. Source: our own bound.
const MAX_LIST_BYTES: usize = 8 << 20;

/// A tool of a server.
#[derive(Clone, Debug)]
pub(super) struct ListedTool {
    /// Name at the server.
    pub(super) name: String,
    pub(super) description: String,
    /// Schema of the arguments, as JSON. `None` if it exceeds [`MAX_DEFINITIONS_BYTES`], or if the list exceeds its own limit.
    pub(super) schema: Option<String>,
}

/// Requests the tools of a server. Returns them with the number of tools beyond the limits.
///
/// # Errors
///
/// Reason why the server listed none, for a person.
pub(super) async fn listed_tools(
    peer: &Peer<RoleClient>,
    redactor: &Redactor,
) -> Result<(Vec<ListedTool>, usize), String> {
    let (mut tools, mut left_out, mut cursor) = (Vec::new(), 0, None);
    // The tools of a server stay in memory as long as it runs.
    let mut room = MAX_LIST_BYTES;
    for _ in 0..MAX_PAGES {
        let mut page = PaginatedRequestParams::default();
        page.cursor = cursor;
        let listed = peer.list_tools(Some(page)).await.map_err(|error| error.to_string())?;
        for tool in listed.tools {
            let is_plain =
                tool.name.len() <= MAX_LISTED_NAME_BYTES && redactor.without_secrets(&tool.name).is_none();
            match is_plain && tools.len() < MAX_TOOLS {
                true => tools.push(ListedTool::new(tool, redactor, &mut room)),
                false => left_out += 1,
            }
        }
        cursor = listed.next_cursor;
        if cursor.is_none() || tools.len() >= MAX_TOOLS {
            break;
        }
    }
    Ok((tools, left_out))
}

impl ListedTool {
    /// Takes what it stores from the `room` of the list.
    fn new(tool: Tool, redactor: &Redactor, room: &mut usize) -> Self {
        // Remove secrets before the cut, because a secret that the cut splits would not be found.
        let description = redactor.redact_text(tool.description.as_deref().unwrap_or_default());
        let description = cut_text(&description, MAX_ANSWER_BYTES);
        let schema = Value::Object((*tool.input_schema).clone());
        let schema = redactor.value_without_secrets(&schema).unwrap_or(schema).to_string();
        let bytes = description.len() + schema.len();
        let is_small = schema.len() <= MAX_DEFINITIONS_BYTES && bytes <= *room;
        *room = room.saturating_sub(if is_small { bytes } else { description.len() });
        Self { name: tool.name.into_owned(), description, schema: is_small.then_some(schema) }
    }
}
