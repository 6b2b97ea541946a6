//! The section `mcp_servers`: its entries, programs in the sandbox of a turn's level, and their tools in whole turns.

use std::{collections::BTreeMap, fs, path::Path, sync::Arc};

use nexus_backends::mcp_servers::{MCP_SERVERS, McpServers, OpenServers, ServerWorkspace};
use nexus_core::{
    BuildContext, ConfigSection, SettingsError, ToolAccess, ToolCall, ToolContent, ToolResult,
    ToolRouter as _, Toolbox,
};
use nexus_process::sandbox::Sandbox;
use serde_json::{Value, json};

const CANARY: &str = "canary-0123456789abcdef0123456789abcdef";

fn section() -> Arc<dyn ConfigSection> {
    let registry = nexus_backends::registry();
    let found = registry.sections().find(|section| section.name() == MCP_SERVERS).cloned();
    found.expect("the registry has the section")
}

fn context(folder: &Path) -> BuildContext {
    let mut environment: BTreeMap<String, String> =
        [("TOKEN", CANARY), ("REGION", "eu"), ("OTHER_KEY", CANARY)]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
    environment.insert("PATH".to_owned(), std::env::var("PATH").unwrap_or_default());
    let context = BuildContext::in_home(folder.join("home")).with_base_directory(folder);
    context.with_environment(environment)
}

fn text(result: &ToolResult) -> String {
    let texts = result.content.iter().map(|content| match content {
        ToolContent::Text { text } => text.clone(),
        other => format!("{other:?}"),
    });
    texts.collect::<Vec<_>>().join("\n")
}

async fn call(tools: &Toolbox, name: &str) -> String {
    text(&tools.call(ToolCall::new("1", name, json!({}))).await)
}

/// Returns true if this machine has a sandbox. The gate's machine must have one.
async fn has_sandbox() -> bool {
    let checked = Sandbox::new().check().await;
    assert!(checked.is_ok() || std::env::var_os("NEXUS_TEST_SANDBOX").is_none(), "{checked:?}");
    checked.is_ok()
}

/// A script that serves one tool, `look`, whose answer is the output of `command`.
fn serving(command: &str) -> String {
    format!(
        r#"while read -r line; do
            id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
            case "$line" in
            *'"initialize"'*) echo '{{"jsonrpc":"2.0","id":'$id',"result":{{"protocolVersion":"2025-06-18","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"s","version":"1"}}}}}}';;
            *'"tools/list"'*) echo '{{"jsonrpc":"2.0","id":'$id',"result":{{"tools":[{{"name":"look","description":"Looks.","inputSchema":{{"type":"object"}}}}]}}}}';;
            *'"tools/call"'*) text=$( {command}); printf '{{"jsonrpc":"2.0","id":%s,"result":{{"content":[{{"type":"text","text":"%s"}}]}}}}\n' "$id" "$text";;
            esac
        done"#
    )
}

#[test]
fn a_faulty_entry_is_an_error_that_names_the_key_and_shows_no_secret() {
    let ok = |value: Value| {
        let checked = section().check(&value);
        assert_eq!(checked, Ok(()), "{value}");
    };
    ok(Value::Null);
    ok(
        json!({ "files": { "command": ["npx", "-y", "@modelcontextprotocol/server-filesystem", "."], "hosts": ["registry.npmjs.org"],
        "environment": { "A": "text", "PORT": 80, "B": { "variable": "REGION" }, "C": { "credential": { "env": "TOKEN" } } },
        "tools": ["read_file"], "approval": "never", "required": true, "timeout": "2m", "program_folders": ["~/.config/x"] } }),
    );
    ok(json!({ "web": { "url": "https://mcp.example.com/mcp?team=a", "credential": { "env": "TOKEN" },
        "headers": { "X-Team": "a", "X-Key": { "credential": { "file": "key" } } }, "network": { "ca_file": "a.pem" } } }));
    let key = "sk-ant-canary-0123456789abcdef";
    for (entry, path) in [
        (json!({}), vec![]),
        (json!({ "command": ["a"], "url": "https://a.test" }), vec!["url"]),
        (json!({ "command": [] }), vec!["command"]),
        (json!({ "command": "npx" }), vec!["command"]),
        (json!({ "command": [""] }), vec!["command"]),
        (json!({ "command": ["a", key] }), vec!["command"]),
        (json!({ "command": ["a\u{0}"] }), vec!["command"]),
        (json!({ "command": ["a"], "headers": { "X": "y" } }), vec!["headers"]),
        (json!({ "command": ["a"], "credential": { "env": "TOKEN" } }), vec!["credential"]),
        (json!({ "command": ["a"], "hosts": ["http://a.test"] }), vec!["hosts"]),
        (json!({ "command": ["a"], "environment": { "A": key } }), vec!["environment", "A"]),
        (json!({ "command": ["a"], "environment": { "A": { "variable": key } } }), vec!["environment", "A"]),
        (json!({ "command": ["a"], "environment": { "A": [] } }), vec!["environment", "A"]),
        (json!({ "command": ["a"], "environment": { "A=B": "c" } }), vec!["environment"]),
        (json!({ "url": "mcp.example.com" }), vec!["url"]),
        (json!({ "url": "ftp://a.test" }), vec!["url"]),
        (json!({ "url": "https://me:canary@a.test" }), vec!["url"]),
        (json!({ "url": format!("https://a.test/?key={key}") }), vec!["url"]),
        (json!({ "url": "https://a.test", "hosts": ["a.test"] }), vec!["hosts"]),
        (json!({ "url": "https://a.test", "environment": { "A": "b" } }), vec!["environment"]),
        (
            json!({ "url": "https://a.test", "headers": { "Authorization": "Bearer canary" } }),
            vec!["headers", "Authorization"],
        ),
        (
            json!({ "url": "https://a.test", "headers": { "Mcp-Session-Id": "1" } }),
            vec!["headers", "Mcp-Session-Id"],
        ),
        (json!({ "url": "https://a.test", "headers": { "a b": "1" } }), vec!["headers", "a b"]),
        (json!({ "url": "https://a.test", "headers": { "X-Key": key } }), vec!["headers", "X-Key"]),
        (json!({ "url": "https://a.test", "tools": [] }), vec!["tools"]),
        (json!({ "url": "https://a.test", "approval": "sometimes" }), vec!["approval"]),
        (json!({ "url": "https://a.test", "timeout": "soon" }), vec!["timeout"]),
        (json!({ "url": "https://a.test", "timeout": "30h" }), vec!["timeout"]),
        (json!({ "url": "https://a.test", "tool": ["a"] }), vec!["tool"]),
        (json!(7), vec![]),
    ] {
        let error = section().check(&json!({ "x": entry.clone() })).unwrap_err();
        let path: Vec<_> = std::iter::once("x").chain(path).collect();
        assert_eq!(error.path, path, "{entry}: {error}");
        assert!(!error.to_string().contains("canary"), "{error}");
    }
    for name in ["", "a b", "a.b", &"x".repeat(33)] {
        let error: SettingsError = section().check(&json!({ name: { "command": ["a"] } })).unwrap_err();
        assert!(error.reason.contains("the name of a server"), "{error}");
    }
    let many: serde_json::Map<_, _> =
        (0..40).map(|number| (format!("s{number}"), json!({ "command": ["a"] }))).collect();
    assert!(section().check(&Value::Object(many)).unwrap_err().reason.contains("the most is 32"));
}

#[tokio::test]
async fn a_program_sees_the_workspace_as_the_access_level_allows() {
    if !has_sandbox().await {
        return;
    }
    let outside = tempfile::tempdir().unwrap();
    let command = r#"(cat note 2>/dev/null || echo none) | tr -d '\n'; (echo x > made) 2>/dev/null && echo -n ' wrote' || echo -n ' refused'; [ -r OUTSIDE ] && echo -n ' outside' || echo -n ' closed'; [ -z \"$OTHER_KEY\" ] && echo -n ' clean'"#;
    let secret = outside.path().join("secret");
    fs::write(&secret, "x").unwrap();
    let command = command.replace("OUTSIDE", &secret.to_string_lossy()).replace("\\\"", "\"");
    for (access, expected, makes) in [
        (ToolAccess::ScopedOnly, "none refused closed clean", false),
        (ToolAccess::ReadOnly, "mine refused closed clean", false),
        (ToolAccess::WorkspaceWrite, "mine wrote closed clean", true),
        (ToolAccess::Unrestricted, "mine wrote outside clean", true),
    ] {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("note"), "mine").unwrap();
        let section = json!({ "s": { "command": ["sh", "-c", serving(&command)] } });
        let servers = McpServers::read(Some(&section), context(outside.path())).unwrap();
        let open = OpenServers::new("never");
        let workspace = ServerWorkspace::new(access, folder.path().to_owned());
        let (tools, warnings) = open.tools(&servers, &workspace).await.unwrap();
        assert_eq!(warnings, Vec::<String>::new(), "{access:?}");
        assert_eq!(call(&tools, "s_look").await, expected, "{access:?}");
        assert_eq!(folder.path().join("made").exists(), makes, "{access:?}");
        open.stop().await;
    }
}

#[tokio::test]
async fn a_repository_that_a_program_creates_is_moved_aside() {
    if !has_sandbox().await {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let section = json!({ "s": { "command": ["sh", "-c", serving("mkdir .git && echo made")] } });
    let servers = McpServers::read(Some(&section), context(folder.path())).unwrap();
    let project = tempfile::tempdir().unwrap();
    let open = OpenServers::new("never");
    let workspace = ServerWorkspace::new(ToolAccess::WorkspaceWrite, project.path().to_owned());
    let (tools, _) = open.tools(&servers, &workspace).await.unwrap();
    assert_eq!(call(&tools, "s_look").await, "made");
    open.stop().await;
    assert!(!project.path().join(".git").exists());
}

#[tokio::test]
async fn variables_come_from_the_file_the_host_and_credentials_and_no_credential_comes_back() {
    if !has_sandbox().await {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let command = r#"printf %s \"$A $B $C $PORT $OTHER_KEY\""#.replace("\\\"", "\"");
    for access in [ToolAccess::ReadOnly, ToolAccess::Unrestricted] {
        let section = json!({ "s": {
            "command": ["sh", "-c", serving(&command)], "approval": "never",
            "environment": { "A": "text", "B": { "variable": "REGION" }, "C": { "credential": { "env": "TOKEN" } }, "PORT": 80 },
        } });
        let servers = McpServers::read(Some(&section), context(folder.path())).unwrap();
        let open = OpenServers::new("never");
        let project = tempfile::tempdir().unwrap();
        let workspace = ServerWorkspace::new(access, project.path().to_owned());
        let (tools, warnings) = open.tools(&servers, &workspace).await.unwrap();
        assert_eq!(warnings, Vec::<String>::new());
        assert!(!tools.definitions()[0].needs_approval);
        assert_eq!(call(&tools, "s_look").await, "text eu [redacted] 80 ");
        open.stop().await;
    }
}

#[tokio::test]
async fn a_server_that_is_missing_is_a_warning_or_an_error_that_names_its_entry() {
    if !has_sandbox().await {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let opened = async |entry: Value| {
        let section = json!({ "s": entry });
        let servers = McpServers::read(Some(&section), context(folder.path())).unwrap();
        let workspace = ServerWorkspace::new(ToolAccess::ReadOnly, folder.path().to_owned());
        OpenServers::new("never").tools(&servers, &workspace).await
    };
    for (mut entry, reason) in [
        (json!({ "command": ["no-such-program-here"] }), ""),
        (json!({ "command": ["./gone"] }), "gone: No such file"),
        (json!({ "command": ["sh", "-c", "echo broken >&2; exit 1"] }), "(broken)"),
        (
            json!({ "command": ["sh"], "environment": { "A": { "variable": "UNSET" } } }),
            "the variable UNSET is not set",
        ),
        (
            json!({ "command": ["sh"], "environment": { "A": { "credential": { "env": "UNSET" } } } }),
            "there is no credential in the variable UNSET",
        ),
        (json!({ "command": ["sh"], "program_folders": ["home"] }), "home: No such file"),
        (json!({ "url": "http://127.0.0.1:9" }), "nothing listens at the server's address"),
        (
            json!({ "url": "http://127.0.0.1:9", "credential": { "file": "gone" } }),
            "there is no credential in the file",
        ),
    ] {
        let (tools, warnings) = opened(entry.clone()).await.unwrap();
        assert!(tools.definitions().is_empty());
        let warning = warnings.first().unwrap_or_else(|| panic!("{entry} gives no warning"));
        assert!(warning.starts_with("mcp_servers.s: its tools are missing: "), "{warning}");
        assert!(warning.contains(reason) && !warning.contains("canary"), "{warning}");
        entry["required"] = json!(true);
        let error = opened(entry).await.unwrap_err().to_string();
        assert!(error.starts_with("mcp_servers.s: ") && error.contains(reason), "{error}");
    }
}

#[tokio::test]
async fn no_server_reads_the_home_of_nexus() {
    if !has_sandbox().await {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("home/auth")).unwrap();
    for read in ["home", "home/auth", "."] {
        let section = json!({ "s": { "command": ["sh"], "program_folders": [read] } });
        let servers = McpServers::read(Some(&section), context(folder.path())).unwrap();
        let project = tempfile::tempdir().unwrap();
        let workspace = ServerWorkspace::new(ToolAccess::ReadOnly, project.path().to_owned());
        let (_, warnings) = OpenServers::new("never").tools(&servers, &workspace).await.unwrap();
        assert!(warnings[0].contains("has the logins of Nexus"), "{warnings:?}");
    }
}

#[tokio::test]
async fn other_levels_and_other_sections_get_other_servers_and_the_same_ones_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let read = |command: &str| {
        let section = json!({ "s": { "command": ["sh", "-c", serving(command)] } });
        McpServers::read(Some(&section), context(folder.path())).unwrap()
    };
    let open = OpenServers::new("never");
    let project = tempfile::tempdir().unwrap();
    let workspace = |access| ServerWorkspace::new(access, project.path().to_owned());
    let started_at = async |servers: &McpServers, access| {
        let (tools, _) = open.tools(servers, &workspace(access)).await.unwrap();
        call(&tools, "s_look").await
    };
    let one = read("cut -d' ' -f22 /proc/$$/stat");
    let first = started_at(&one, ToolAccess::Unrestricted).await;
    assert_eq!(started_at(&one, ToolAccess::Unrestricted).await, first);
    let two = read("echo two");
    assert_eq!(started_at(&two, ToolAccess::Unrestricted).await, "two");
    assert_ne!(started_at(&one, ToolAccess::Unrestricted).await, first);
    assert_eq!(open.count().await, (1, 1));
    open.stop().await;
    assert_eq!(open.count().await, (0, 0));
}
