mod escapes;
mod network;

use std::fs;
use std::path::PathBuf;

use nexus_core::{BuildContext, ToolCall, ToolContent, ToolResult};
use nexus_process::sandbox::SandboxNetwork;
use serde_json::{Value, json};

use super::*;
use crate::host_list::HostList;

/// A project in a home with a login, beside a file of the person.
struct Machine {
    _folder: TempDir,
    root: PathBuf,
}

impl Machine {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("project/.git/hooks")).unwrap();
        fs::create_dir_all(root.join("project/.nexus-home")).unwrap();
        fs::write(root.join("project/.nexus-home/login"), "canary").unwrap();
        fs::write(root.join("project/a.txt"), "one\n").unwrap();
        fs::write(root.join("outside.txt"), "canary").unwrap();
        Self { _folder: folder, root }
    }

    fn project(&self) -> PathBuf {
        self.root.join("project")
    }

    async fn tools(&self, access: ToolAccess) -> OwnTools {
        self.tools_with(access, None).await
    }

    async fn tools_with(&self, access: ToolAccess, network: Option<SandboxNetwork>) -> OwnTools {
        let mut context = BuildContext::in_home(self.project().join(".nexus-home"));
        context.environment.insert("PATH".to_owned(), "/usr/bin:/bin".to_owned());
        context.environment.insert("VENDOR_API_KEY".to_owned(), "canary".to_owned());
        let request = TurnRequest::new("x").in_directory(self.project()).with_tool_access(access);
        let caller = TurnHost::new().open_turn(&request);
        let mut surroundings = ToolSurroundings::new(&context, true, &HostList::default());
        surroundings.network = network;
        OwnTools::open(&surroundings, &request, &caller).await.unwrap().unwrap()
    }
}

async fn call(tools: &OwnTools, tool: &str, arguments: Value) -> (bool, String) {
    let session = tools.session();
    let result: ToolResult = session.call(session.token(), ToolCall::new("1", tool, arguments)).await;
    let text = result.content.iter().filter_map(|content| match content {
        ToolContent::Text { text } => Some(text.clone()),
        _ => None,
    });
    (result.is_error, text.collect())
}

async fn run(tools: &OwnTools, command: &str) -> String {
    call(tools, "run_command", json!({ "command": command })).await.1
}

/// True if this machine can run a sandbox. Where one is required, its absence fails the test.
fn has_commands(tools: &OwnTools) -> bool {
    if tools.has("run_command") {
        return true;
    }
    assert!(std::env::var_os("NEXUS_TEST_SANDBOX").is_none(), "{:?}", tools.warnings);
    println!("NOT TESTED: {:?}", tools.warnings);
    false
}

#[tokio::test]
async fn each_level_offers_its_tools() {
    let machine = Machine::new();
    let request = TurnRequest::new("x");
    let caller = TurnHost::new().open_turn(&request);
    let surroundings = ToolSurroundings::new(&BuildContext::in_home("/home"), true, &HostList::default());
    assert!(OwnTools::open(&surroundings, &request, &caller).await.unwrap().is_none());
    for (access, writes) in
        [(ToolAccess::ReadOnly, false), (ToolAccess::WorkspaceWrite, true), (ToolAccess::Unrestricted, true)]
    {
        let tools = machine.tools(access).await;
        assert!(tools.has("read_file") && tools.has("list_files") && tools.has("search_files"));
        for name in ["write_file", "edit_file", "delete_file"] {
            assert_eq!(tools.has(name), writes, "{access:?} {name}");
        }
        if has_commands(&tools) {
            assert!(tools.has("read_command") && tools.has("stop_command"));
        }
    }
}

#[tokio::test]
async fn a_workspace_is_changed_by_files_and_by_commands_and_nothing_else_is() {
    let machine = Machine::new();
    let tools = machine.tools(ToolAccess::WorkspaceWrite).await;
    let (is_error, text) = call(&tools, "write_file", json!({ "path": "b.txt", "content": "two" })).await;
    assert!(!is_error, "{text}");
    assert_eq!(fs::read_to_string(machine.project().join("b.txt")).unwrap(), "two");
    let outside = machine.root.join("outside.txt");
    for path in ["../outside.txt", outside.to_str().unwrap(), ".git/hooks/pre-commit", ".nexus-home/login"] {
        let (is_error, text) = call(&tools, "write_file", json!({ "path": path, "content": "x" })).await;
        assert!(is_error, "{path}: {text}");
        assert!(!call(&tools, "read_file", json!({ "path": path })).await.1.contains("canary"), "{path}");
    }
    if !has_commands(&tools) {
        return;
    }
    assert_eq!(run(&tools, "echo out; echo err >&2; exit 3").await, "exit code 3\nout\nerr\n");
    assert_eq!(run(&tools, "cat a.txt > c.txt && cat c.txt").await, "exit code 0\none\n");
    assert_eq!(fs::read_to_string(machine.project().join("c.txt")).unwrap(), "one\n");
    let tries = format!(
        "echo x > .git/hooks/pre-commit; mv .git git; cat .nexus-home/login; cat {}; env; echo x > ../escaped",
        outside.display()
    );
    let text = run(&tools, &tries).await;
    assert!(!text.contains("canary"), "{text}");
    assert!(!machine.root.join("escaped").exists());
    assert_eq!(fs::read_dir(machine.project().join(".git/hooks")).unwrap().count(), 0);
    assert_eq!(fs::read_to_string(&outside).unwrap(), "canary");
}

#[tokio::test]
async fn a_command_at_read_only_changes_nothing() {
    let machine = Machine::new();
    let tools = machine.tools(ToolAccess::ReadOnly).await;
    if !has_commands(&tools) {
        return;
    }
    assert_eq!(run(&tools, "cat a.txt").await, "exit code 0\none\n");
    assert!(run(&tools, "echo x > a.txt; rm a.txt; touch b.txt").await.contains("Read-only"));
    assert_eq!(fs::read_to_string(machine.project().join("a.txt")).unwrap(), "one\n");
}

#[tokio::test]
async fn an_unrestricted_command_runs_as_the_user_without_the_variables_of_the_host() {
    let machine = Machine::new();
    let tools = machine.tools(ToolAccess::Unrestricted).await;
    let text = run(&tools, "cat ../outside.txt; echo x > ../changed; env").await;
    assert!(text.contains("canary") && !text.contains("VENDOR_API_KEY"), "{text}");
    assert!(machine.root.join("changed").exists());
}

#[tokio::test]
async fn a_command_in_the_background_is_read_stopped_and_ended_with_the_turn() {
    let machine = Machine::new();
    for access in [ToolAccess::WorkspaceWrite, ToolAccess::Unrestricted] {
        let tools = machine.tools(access).await;
        if !has_commands(&tools) {
            continue;
        }
        let start = |command: &str| json!({ "command": command, "background": true });
        let (_, text) = call(&tools, "run_command", start("echo begun; sleep 100")).await;
        assert!(text.contains("number 1"), "{text}");
        let mut text = String::new();
        while !text.contains("begun") {
            text = call(&tools, "read_command", json!({ "id": 1 })).await.1;
            assert!(text.starts_with("it is still running"), "{text}");
        }
        assert_eq!(call(&tools, "stop_command", json!({ "id": 1 })).await.1, "it was stopped\nbegun\n");
        assert_eq!(call(&tools, "read_command", json!({ "id": 1 })).await.1, "it was stopped\nbegun\n");
        let (_, text) = call(&tools, "run_command", start("echo done; exit 4")).await;
        assert!(text.contains("number 2"), "{text}");
        let read = json!({ "id": 2, "wait_seconds": 60 });
        assert_eq!(call(&tools, "read_command", read).await.1, "exit code 4\ndone\n");
        let (is_error, text) = call(&tools, "read_command", json!({ "id": 9 })).await;
        assert!(is_error && text.contains("no command has the number 9"), "{text}");

        let (_, text) = call(&tools, "run_command", start("while :; do date > tick; sleep 0.05; done")).await;
        assert!(text.contains("number 3"), "{text}");
        let tick = machine.project().join("tick");
        while !tick.exists() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        drop(tools);
        let _ = fs::remove_file(&tick);
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        assert!(!tick.exists(), "the command outlived the turn");
    }
}

#[tokio::test]
async fn a_command_that_reaches_its_time_limit_says_so_and_an_odd_one_is_refused() {
    let machine = Machine::new();
    let tools = machine.tools(ToolAccess::Unrestricted).await;
    let slow = json!({ "command": "echo a; sleep 60", "seconds": 1 });
    let (is_error, text) = call(&tools, "run_command", slow).await;
    assert!(is_error && text.starts_with("stopped: it reached the limit on time\na"), "{text}");
    for command in ["", "   ", "a\0b"] {
        assert!(call(&tools, "run_command", json!({ "command": command })).await.0, "{command:?}");
    }
    let long = "x".repeat(200 << 10);
    assert!(call(&tools, "run_command", json!({ "command": long })).await.0);
}

#[test]
fn a_path_with_the_characters_of_a_glob_is_protected_as_it_is() {
    let folder = TempDir::new().unwrap();
    let root = folder.path().canonicalize().unwrap().join("a[b]*{c}");
    fs::create_dir_all(root.join(".git")).unwrap();
    let workspace =
        WorkspaceFolders::resolve(ToolAccess::WorkspaceWrite, &root, &[], Path::new("/nowhere")).unwrap();
    let scope = scope_of(&workspace).unwrap();
    let check = |path: &str| scope.check_path(path, nexus_core::scope::PathAccess::Write);
    assert!(check("x").is_ok());
    assert!(check(".git/config").is_err() && check(".git").is_err());
}

#[tokio::test]
async fn no_repository_in_the_workspace_can_be_made_to_run_commands() {
    let machine = Machine::new();
    fs::create_dir_all(machine.project().join("vendor/lib/.git")).unwrap();
    fs::write(machine.project().join("vendor/lib/.git/config"), "one").unwrap();
    let tools = machine.tools(ToolAccess::WorkspaceWrite).await;
    if !has_commands(&tools) {
        return;
    }
    run(&tools, "echo two > vendor/lib/.git/config; mv vendor other; rm -rf vendor/lib/.git").await;
    assert_eq!(fs::read_to_string(machine.project().join("vendor/lib/.git/config")).unwrap(), "one");
    drop(tools);

    fs::remove_dir_all(machine.project().join(".git")).unwrap();
    let tools = machine.tools(ToolAccess::WorkspaceWrite).await;
    let text = run(&tools, "mkdir .git; echo x > .git/config").await;
    assert!(text.contains("may not create a repository"), "{text}");
    assert!(!machine.project().join(".git").exists());
    let entries = fs::read_dir(machine.project()).unwrap().flatten().map(|entry| entry.path());
    let moved: Vec<_> = entries.filter(|path| path.to_string_lossy().contains("/.git-of-agent-")).collect();
    assert_eq!(moved.len(), 1);
    assert_eq!(fs::read_to_string(moved[0].join("config")).unwrap(), "x\n");
    let later = json!({ "command": "mkdir .git; sleep 60", "background": true });
    call(&tools, "run_command", later).await;
    while !machine.project().join(".git").exists() {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    drop(tools);
    assert!(!machine.project().join(".git").exists(), "the end of the turn moves it aside");

    std::os::unix::fs::symlink("vendor", machine.project().join(".git")).unwrap();
    let tools = machine.tools(ToolAccess::WorkspaceWrite).await;
    assert!(!tools.has("run_command") && tools.warnings[0].contains("is a link"), "{:?}", tools.warnings);
}

#[test]
fn a_folder_that_must_stay_closed_as_a_whole_is_refused() {
    let folder = TempDir::new().unwrap();
    let root = folder.path().canonicalize().unwrap();
    for name in ["home/auth", "home/fleet/turn", "project/.git/hooks"] {
        fs::create_dir_all(root.join(name)).unwrap();
    }
    let home = root.join("home");
    let resolve =
        |access, name: &str| WorkspaceFolders::resolve(access, &root.join(name), &[], &home).map(drop);
    for name in ["home", "home/auth"] {
        for access in [ToolAccess::ReadOnly, ToolAccess::WorkspaceWrite] {
            assert!(resolve(access, name).unwrap_err().contains("in the home of Nexus"), "{name}");
        }
        assert!(resolve(ToolAccess::Unrestricted, name).is_ok());
    }
    assert!(resolve(ToolAccess::WorkspaceWrite, "home/fleet/turn").is_ok());
    assert!(
        resolve(ToolAccess::WorkspaceWrite, "project/.git").unwrap_err().contains("name the working tree")
    );
    assert!(resolve(ToolAccess::WorkspaceWrite, "project").is_ok());
    let twice = WorkspaceFolders::resolve(
        ToolAccess::ReadOnly,
        &root.join("project"),
        &[root.join("project"), root.join("home/fleet"), root.join("home/fleet")],
        &home,
    );
    assert_eq!(twice.unwrap().roots().count(), 2);
}
