//! The lines by which the vendors' own programs come to know `nexus mcp spawn`. The tests with those programs use them, too.
//!
//! Source: seen with Claude Code 2.1.197 and 2.1.330, Codex 0.169.0 and Grok 1.0.41.

/// What the server is called there: models see its tools as `mcp__nexus_spawn__task_create`, or `nexus_spawn__task_create`.
pub(crate) const SERVER_NAME: &str = "nexus_spawn";

/// Registers it with Claude Code, for all folders.
pub(crate) const CLAUDE_ADD: &str = "claude mcp add -s user nexus_spawn -- nexus mcp spawn";
/// Lets Claude Code call it without asking.
pub(crate) const CLAUDE_ALLOW: &str = "--allowedTools mcp__nexus_spawn";
/// Registers a server over HTTP with Claude Code; URL and TOKEN are what `--http` prints, and what is in the file that it names.
pub(crate) const CLAUDE_ADD_HTTP: &str =
    "claude mcp add -s user -t http nexus_spawn URL -H \"Authorization: Bearer TOKEN\"";

/// Registers it with Codex, for all folders.
pub(crate) const CODEX_ADD: &str = "codex mcp add nexus_spawn -- nexus mcp spawn";
/// What belongs below `[mcp_servers.nexus_spawn]` in Codex's `config.toml`: without the first line it refuses every tool that does
/// more than read where nobody can be asked.
pub(crate) const CODEX_SETTINGS: &str = "\
default_tools_approval_mode = \"approve\"
tool_timeout_sec = 120";

/// Registers it with Grok, for all folders.
pub(crate) const GROK_ADD: &str = "grok mcp add -s user nexus_spawn -- nexus mcp spawn";
/// Lets Grok call it without asking.
pub(crate) const GROK_ALLOW: &str = "--allow 'MCPTool(nexus_spawn__*)'";

/// What `nexus mcp spawn --help` says of all this.
pub(crate) fn help() -> String {
    let settings = CODEX_SETTINGS.replace('\n', "\n    ");
    format!(
        "\
Register it once with the program that is to call it; `nexus` has to be in its PATH, or named by its full path.

Claude Code:
    {CLAUDE_ADD}
  to call it without being asked:
    claude {CLAUDE_ALLOW}

Codex:
    {CODEX_ADD}
  and in ~/.codex/config.toml, below [mcp_servers.{SERVER_NAME}]:
    {settings}
  It hands on HOME, LANG and PATH alone: add --env NEXUS_HOME=FOLDER for another home.

Grok:
    {GROK_ADD}
  to call it without being asked:
    grok {GROK_ALLOW}

Over HTTP, so that steps go on when a client leaves:
    nexus mcp spawn --http 7878
    nexus mcp spawn --attach                in place of `nexus mcp spawn` above
    {CLAUDE_ADD_HTTP}

The configuration is that of --config, else nexus.yaml in the home: never one of the folder that it is started in.

Exit codes: 0 the client left, or it was ended; 1 it could not serve; 2 bad command line; 141 nobody read what it wrote."
    )
}
