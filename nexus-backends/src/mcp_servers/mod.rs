//! The section `mcp_servers` of `nexus.yaml`: servers whose tools each turn gets, on every backend.
//!
//! The caller of a turn starts the servers and offers their tools as its own, so a backend does not know where the tools come
//! from. A program runs in the sandbox of the turn's access level:
//!
//! | access level | working folder of a program |
//! | --- | --- |
//! | [`ScopedOnly`](ToolAccess::ScopedOnly) | an empty folder; it sees nothing of the workspace |
//! | [`ReadOnly`](ToolAccess::ReadOnly) | the workspace, read-only |
//! | [`WorkspaceWrite`](ToolAccess::WorkspaceWrite) | the workspace, writable except each `.git` |
//! | [`Unrestricted`](ToolAccess::Unrestricted) | the workspace, as this user without a sandbox |
//!
//! A server over HTTP is reached at every level, because the file names it.

mod entry;
mod http_server;
mod open_servers;
mod program;

use std::{path::PathBuf, sync::Arc};

use nexus_core::{BuildContext, ConfigSection, SettingsError, ToolAccess, TurnRequest, settings_schema};
use nexus_mcp::client::{ClientServer, ClientServers};
use serde_json::{Map, Value, json};

use self::{
    entry::{ServerEntry, ServerReach},
    http_server::HttpServer,
    program::ServerProgram,
};

pub use self::open_servers::{OpenServers, RequiredServerError};

/// Key of the section.
pub const MCP_SERVERS: &str = "mcp_servers";
/// Longest name of a server, in bytes. It is part of the names of its tools, which have at most 64.
const MAX_NAME_BYTES: usize = 32;
/// Maximum number of servers. Source: our own bound.
const MAX_SERVERS: usize = 32;

/// The section `mcp_servers` of `nexus.yaml`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct McpServersSection;

impl ConfigSection for McpServersSection {
    fn name(&self) -> &'static str {
        MCP_SERVERS
    }

    fn schema(&self) -> Value {
        json!({
            "description": "MCP servers whose tools each turn gets, by name. A server is a program in the sandbox of the \
                turn, or is reached over HTTP.",
            "type": "object",
            "additionalProperties": settings_schema::of::<ServerEntry>(),
        })
    }

    fn check(&self, value: &Value) -> Result<(), SettingsError> {
        read(value).map(drop)
    }
}

/// Servers of a configuration.
#[derive(Clone, Debug)]
pub struct McpServers {
    entries: Vec<(String, Arc<ServerEntry>)>,
    section: Option<Value>,
    context: BuildContext,
}

/// One server of a configuration, for a person.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpServerSummary {
    /// Name of the server.
    pub name: String,
    /// Address of the server without its query, or its program.
    pub reach: String,
    /// True if turns are rejected while the server does not run.
    pub is_required: bool,
    /// True if calls of its tools need no approval.
    pub is_approved: bool,
}

/// Folders and access level of the turns that servers work for.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerWorkspace {
    /// Access level of the turns.
    pub access: ToolAccess,
    /// Working directory. `None` for turns in an empty folder.
    pub folder: Option<PathBuf>,
    /// Further folders of the turns.
    pub extra_roots: Vec<PathBuf>,
}

impl ServerWorkspace {
    /// Creates a workspace with one folder.
    pub fn new(access: ToolAccess, folder: impl Into<Option<PathBuf>>) -> Self {
        Self { access, folder: folder.into(), extra_roots: Vec::new() }
    }

    /// Returns the workspace of a request.
    pub fn of(request: &TurnRequest) -> Self {
        Self {
            extra_roots: request.extra_roots.clone(),
            ..Self::new(request.tool_access, request.working_directory.clone())
        }
    }
}

impl McpServers {
    /// Reads the value of the section. `context` has the folder of the configuration as its base directory.
    ///
    /// # Errors
    ///
    /// [`SettingsError`], whose path leads into the section.
    pub fn read(section: Option<&Value>, context: BuildContext) -> Result<Self, SettingsError> {
        let entries = section.map_or_else(|| Ok(Vec::new()), read)?;
        Ok(Self {
            section: section.cloned(),
            entries: entries.into_iter().map(|(name, entry)| (name, Arc::new(entry))).collect(),
            context,
        })
    }

    /// Returns true if both were read from the same section and folder.
    fn has_same_section(&self, other: &Self) -> bool {
        self.section == other.section && self.context.base_directory == other.context.base_directory
    }

    /// Returns true if the configuration names no server.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Describes the servers.
    pub fn summaries(&self) -> Vec<McpServerSummary> {
        let summary = |(name, entry): &(String, Arc<ServerEntry>)| McpServerSummary {
            name: name.clone(),
            reach: entry.reach.to_string(),
            is_required: entry.is_required,
            is_approved: entry.is_approved,
        };
        self.entries.iter().map(summary).collect()
    }

    /// Creates the servers for turns with this workspace. They start with the first [offer](ClientServers::offer). `retry_advice`
    /// says when a server starts again whose start took long and failed.
    pub fn open(&self, workspace: &ServerWorkspace, retry_advice: &'static str) -> ClientServers {
        let servers = self.entries.iter().map(|(name, entry)| self.server(name, entry, workspace));
        ClientServers::new(servers.collect(), retry_advice)
    }

    fn server(&self, name: &str, entry: &Arc<ServerEntry>, workspace: &ServerWorkspace) -> ClientServer {
        let context = self.context.clone();
        let mut server = match &entry.reach {
            ServerReach::Program(program) => {
                let source = ServerProgram::new(program.clone(), workspace.clone(), context);
                ClientServer::new(name, Arc::new(source))
            }
            ServerReach::Http(address) => {
                ClientServer::new(name, Arc::new(HttpServer::new((**address).clone(), context)))
            }
        };
        if let Some(tools) = &entry.tools {
            server = server.with_tools(tools.iter().cloned());
        }
        if let Some(within) = entry.call_within {
            server = server.with_call_within(within);
        }
        if entry.is_approved {
            server = server.without_approval();
        }
        if entry.is_required { server.required() } else { server }
    }
}

fn read(section: &Value) -> Result<Vec<(String, ServerEntry)>, SettingsError> {
    let none = Map::new();
    let entries = match section {
        Value::Null => &none,
        Value::Object(entries) => entries,
        _ => {
            let reason = "must be a mapping of servers by name".to_owned();
            return Err(SettingsError { path: Vec::new(), reason });
        }
    };
    if entries.len() > MAX_SERVERS {
        let reason = format!("names {} servers; the most is {MAX_SERVERS}", entries.len());
        return Err(SettingsError { path: Vec::new(), reason });
    }
    let entry = |(name, entry): (&String, &Value)| {
        // The name becomes part of tool names, for which vendors accept few characters.
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        if name.is_empty() || name.len() > MAX_NAME_BYTES || !name.chars().all(is_plain) {
            let reason =
                format!("the name of a server is 1 to {MAX_NAME_BYTES} letters, digits, `_` and `-`");
            return Err(SettingsError::new(name.clone(), reason));
        }
        let read = ServerEntry::read(entry).map_err(|mut error| {
            // The error of an entry does not know the name under which the entry stands.
            error.path.insert(0, name.clone());
            error
        });
        Ok((name.clone(), read?))
    };
    entries.iter().map(entry).collect()
}
