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

/// A tool of a server.
#[derive(Clone, Debug)]
pub(super) struct ListedTool {
    /// Name at the server.
    pub(super) name: String,
    pub(super) description: String,
    /// Schema of the arguments. `None` for one that is larger than all definitions may be.
    pub(super) schema: Option<Value>,
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
    for _ in 0..MAX_PAGES {
        let mut page = PaginatedRequestParams::default();
        page.cursor = cursor;
        let listed = peer.list_tools(Some(page)).await.map_err(|error| error.to_string())?;
        for tool in listed.tools {
            match tools.len() < MAX_TOOLS && tool.name.len() <= MAX_LISTED_NAME_BYTES {
                true => tools.push(ListedTool::new(tool, redactor)),
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
    fn new(tool: Tool, redactor: &Redactor) -> Self {
        let description = cut_text(tool.description.as_deref().unwrap_or_default(), MAX_ANSWER_BYTES);
        let schema = Value::Object((*tool.input_schema).clone());
        let is_small = schema.to_string().len() <= MAX_DEFINITIONS_BYTES;
        Self {
            name: tool.name.into_owned(),
            description: redactor.without_secrets(&description).unwrap_or(description),
            schema: is_small.then(|| redactor.value_without_secrets(&schema).unwrap_or(schema)),
        }
    }
}
