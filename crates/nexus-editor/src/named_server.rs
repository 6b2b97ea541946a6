//! An entry of a client's `mcpServers`. An unreadable entry affects only its own server, not the session.

use agent_client_protocol_schema::v1::McpServerStdio;
use nexus_mcp::client::cut_text;
use serde_json::{Map, Value, json};

/// Maximum length of a client's text that an error quotes, in bytes.
const QUOTED_BYTES: usize = 100;

/// A server that the client named.
#[derive(Debug, PartialEq)]
pub(crate) enum NamedServer {
    /// A program to start.
    Stdio(McpServerStdio),
    /// A server that Nexus cannot start: its name and the reason, for a person.
    Refused(String),
}

impl NamedServer {
    /// Reads a list of servers, or an object with servers by name.
    pub(crate) fn read_all(servers: Value) -> Vec<Self> {
        match servers {
            Value::Null => Vec::new(),
            Value::Array(servers) => {
                servers.into_iter().enumerate().map(|(index, server)| Self::read(index, server)).collect()
            }
            Value::Object(servers) => {
                let named = servers.into_iter().enumerate().map(|(index, (name, mut server))| {
                    if let Value::Object(server) = &mut server {
                        server.entry("name").or_insert(Value::String(name));
                    }
                    Self::read(index, server)
                });
                named.collect()
            }
            _ => vec![Self::Refused("`mcpServers` is not a list".to_owned())],
        }
    }

    fn read(index: usize, server: Value) -> Self {
        let fallback = format!("entry {} of `mcpServers`", index + 1);
        let Value::Object(server) = server else {
            return Self::Refused(format!("{fallback}: it is not an object"));
        };
        let name = server.get("name").and_then(Value::as_str).filter(|name| !name.is_empty());
        let name = name.map_or(fallback, ToOwned::to_owned);
        match stdio(&name, server) {
            Ok(server) => Self::Stdio(server),
            Err(reason) => Self::Refused(format!("{}: {reason}", cut_text(&name, QUOTED_BYTES))),
        }
    }
}

/// Parses an object as a program to start. `args` and `env` may be missing, and `env` may be an object.
fn stdio(name: &str, mut server: Map<String, Value>) -> Result<McpServerStdio, String> {
    match server.remove("type") {
        None | Some(Value::Null) => {}
        Some(Value::String(kind)) => match kind.as_str() {
            "stdio" => {}
            "http" => return Err("HTTP is not supported".to_owned()),
            "sse" => return Err("SSE is not supported".to_owned()),
            other => {
                return Err(format!(
                    "servers of the type {:?} are not supported",
                    cut_text(other, QUOTED_BYTES)
                ));
            }
        },
        Some(_) => return Err("`type` is not a string".to_owned()),
    }
    let command = match server.get("command").and_then(Value::as_str) {
        Some(command) if !command.is_empty() => command,
        _ if server.contains_key("url") => return Err("HTTP is not supported".to_owned()),
        _ => return Err("`command` is not a program's path".to_owned()),
    };
    let arguments = match server.get("args") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(arguments)) => arguments
            .iter()
            .map(plain_text)
            .collect::<Option<_>>()
            .ok_or("`args` is not a list of strings")?,
        Some(_) => return Err("`args` is not a list of strings".to_owned()),
    };
    let mut variables = Vec::new();
    match server.get("env") {
        None | Some(Value::Null) => {}
        Some(Value::Object(env)) => {
            for (name, value) in env {
                variables.push((name.clone(), text_of(name, value)?));
            }
        }
        Some(Value::Array(env)) => {
            for variable in env {
                let name = variable.get("name").and_then(Value::as_str);
                let name = name.ok_or("an entry of `env` has no `name`")?;
                let value = variable.get("value").unwrap_or(&Value::Null);
                variables.push((name.to_owned(), text_of(name, value)?));
            }
        }
        Some(_) => return Err("`env` is neither a list nor an object".to_owned()),
    }
    let env = variables.into_iter().map(|(name, value)| json!({ "name": name, "value": value }));
    let whole =
        json!({ "name": name, "command": command, "args": arguments, "env": env.collect::<Vec<_>>() });
    serde_json::from_value(whole).map_err(|error| error.to_string())
}

/// Returns the value of a variable.
fn text_of(name: &str, value: &Value) -> Result<String, String> {
    let reason = || format!("the value of {:?} in `env` is not a string", cut_text(name, QUOTED_BYTES));
    plain_text(value).ok_or_else(reason)
}

/// Returns the text of a string. Returns a number or a boolean as the client wrote it.
fn plain_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use agent_client_protocol_schema::v1::EnvVariable;

    use super::*;

    #[test]
    fn an_entry_is_read_in_the_forms_that_clients_send_or_named_with_the_reason() {
        let program = || McpServerStdio::new("x", "/bin/true");
        let variable = |name: &str, value: &str| EnvVariable::new(name, value);
        let read = [
            (json!({ "name": "x", "command": "/bin/true", "args": [], "env": [] }), program()),
            (json!({ "type": "stdio", "name": "x", "command": "/bin/true" }), program()),
            (
                json!({ "type": null, "name": "x", "command": "/bin/true", "args": null, "env": null }),
                program(),
            ),
            (
                json!({ "name": "x", "command": "/bin/true", "args": ["-p", 80], "env": { "A": "b", "PORT": 80 } }),
                program()
                    .args(vec!["-p".to_owned(), "80".to_owned()])
                    .env(vec![variable("A", "b"), variable("PORT", "80")]),
            ),
            (
                json!({ "name": "x", "command": "/bin/true", "env": [{ "name": "A", "value": "b" }] }),
                program().env(vec![variable("A", "b")]),
            ),
            (json!({ "command": "/bin/true" }), McpServerStdio::new("entry 1 of `mcpServers`", "/bin/true")),
        ];
        for (server, expected) in read {
            let found = NamedServer::read_all(json!([server.clone()]));
            assert_eq!(found, [NamedServer::Stdio(expected)], "{server}");
        }
        let refused = [
            (
                json!({ "type": "acp", "name": "x", "id": "1" }),
                "x: servers of the type \"acp\" are not supported",
            ),
            (json!({ "type": "http", "name": "x", "url": "http://h" }), "x: HTTP is not supported"),
            (json!({ "type": "sse", "name": "x", "url": "http://h" }), "x: SSE is not supported"),
            (json!({ "name": "x", "url": "http://h" }), "x: HTTP is not supported"),
            (json!({ "type": 7, "name": "x" }), "x: `type` is not a string"),
            (json!({ "name": "x" }), "x: `command` is not a program's path"),
            (json!({ "name": "x", "command": "p", "args": "-v" }), "x: `args` is not a list of strings"),
            (json!({ "name": "x", "command": "p", "args": [[]] }), "x: `args` is not a list of strings"),
            (
                json!({ "name": "x", "command": "p", "env": "A=b" }),
                "x: `env` is neither a list nor an object",
            ),
            (
                json!({ "name": "x", "command": "p", "env": [{ "name": "A" }] }),
                "x: the value of \"A\" in `env` is not a string",
            ),
            (
                json!({ "name": "x", "command": "p", "env": [{ "value": "b" }] }),
                "x: an entry of `env` has no `name`",
            ),
            (json!("x"), "entry 1 of `mcpServers`: it is not an object"),
        ];
        for (server, expected) in refused {
            let found = NamedServer::read_all(json!([server.clone()]));
            assert_eq!(found, [NamedServer::Refused(expected.to_owned())], "{server}");
        }
    }

    #[test]
    fn a_server_that_cannot_be_read_leaves_the_others_and_servers_may_have_their_names_as_keys() {
        let good = json!({ "name": "x", "command": "/bin/true" });
        let found = NamedServer::read_all(json!([7, good]));
        assert!(matches!(&found[..], [NamedServer::Refused(_), NamedServer::Stdio(_)]), "{found:?}");
        let by_name = NamedServer::read_all(json!({ "x": { "command": "/bin/true" } }));
        assert_eq!(by_name, [NamedServer::Stdio(McpServerStdio::new("x", "/bin/true"))]);
        assert_eq!(NamedServer::read_all(Value::Null), []);
    }
}
