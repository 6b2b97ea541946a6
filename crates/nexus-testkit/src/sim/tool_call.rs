//! A tool call in a neutral form, which a dialect converts to the names of one vendor's harness.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The simulated model's call of a tool.
///
/// A neutral call becomes a call of the tool that the vendor's harness offers in that very request:
///
/// | neutral | Claude Code | Codex, classic | Codex, code mode | Grok | OpenCode |
/// | --- | --- | --- | --- | --- | --- |
/// | `shell` | `Bash` | `exec_command` | JavaScript in `exec` | `run_terminal_command` | `bash` |
/// | `write_file` | `Write` | `apply_patch` | JavaScript in `exec` | `write` or `search_replace` | `write` |
/// | `read_file` | `Read` | `exec_command` | JavaScript in `exec` | `read_file` | `read` |
/// | `mcp` | `mcp__S__T` | namespace `mcp__S`, name `T` | the same, or in `exec` | `use_tool` | `S_T` |
///
/// `shell` is also understood by Gemini CLI, Qwen Code (`run_shell_command`) and Droid (`Execute`).
///
/// If the harness offers no such tool, the call is made all the same: the test decides about the harness's answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "call")]
pub enum ToolCall {
    /// Runs a command in the harness's shell.
    Shell {
        /// The command line.
        command: String,
    },
    /// Creates a file.
    WriteFile {
        /// Its path. All tested programs accept a path relative to the working directory.
        path: String,
        /// Its content; Codex's `apply_patch` ends every file with a newline.
        text: String,
    },
    /// Reads a file.
    ReadFile {
        /// Its path.
        path: String,
    },
    /// Calls a tool of an MCP server.
    Mcp {
        /// The server's name in the harness's configuration.
        server: String,
        /// The tool's own name.
        tool: String,
        /// Its arguments.
        arguments: Value,
    },
    /// Calls a function by the name it has on the wire.
    Function {
        /// The namespace, where the dialect has them.
        #[serde(default)]
        namespace: Option<String>,
        /// The function's name.
        name: String,
        /// Its arguments.
        arguments: Value,
    },
    /// Calls a function with an argument string that may not be JSON.
    RawFunction {
        /// The function's name.
        name: String,
        /// The argument string, verbatim.
        arguments: String,
    },
    /// Calls a custom tool, whose input is plain text (Responses dialect; elsewhere the text becomes
    /// the argument `input`).
    Custom {
        /// The namespace, where the dialect has them.
        #[serde(default)]
        namespace: Option<String>,
        /// The tool's name.
        name: String,
        /// Its input.
        input: String,
    },
}

impl ToolCall {
    /// Runs `command` in the harness's shell.
    pub fn shell(command: impl Into<String>) -> Self {
        Self::Shell { command: command.into() }
    }

    /// Creates the file `path` with `text` in it.
    pub fn write_file(path: impl Into<String>, text: impl Into<String>) -> Self {
        Self::WriteFile { path: path.into(), text: text.into() }
    }

    /// Reads the file `path`.
    pub fn read_file(path: impl Into<String>) -> Self {
        Self::ReadFile { path: path.into() }
    }

    /// Calls `tool` of the MCP server `server`.
    pub fn mcp(server: impl Into<String>, tool: impl Into<String>, arguments: Value) -> Self {
        Self::Mcp { server: server.into(), tool: tool.into(), arguments }
    }

    /// Calls the function `name`, by its name on the wire.
    pub fn function(name: impl Into<String>, arguments: Value) -> Self {
        Self::Function { namespace: None, name: name.into(), arguments }
    }

    /// Calls the function `name` of `namespace`.
    pub fn namespaced(namespace: impl Into<String>, name: impl Into<String>, arguments: Value) -> Self {
        Self::Function { namespace: Some(namespace.into()), name: name.into(), arguments }
    }

    /// Calls the function `name` with an argument string that may not be JSON.
    pub fn raw(name: impl Into<String>, arguments: impl Into<String>) -> Self {
        Self::RawFunction { name: name.into(), arguments: arguments.into() }
    }

    /// Calls the custom tool `name`.
    pub fn custom(name: impl Into<String>, input: impl Into<String>) -> Self {
        Self::Custom { namespace: None, name: name.into(), input: input.into() }
    }
}
