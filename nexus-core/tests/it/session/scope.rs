//! What is out of scope reaches no tool: neither by the tool's name nor by a path among the arguments.

use std::{
    fs,
    path::PathBuf,
    sync::{Arc, Mutex},
};

use nexus_core::{
    DecisionOutcome, Denial, ParticipantScope, PathAccess, PathDenial, Session, Tool, ToolPattern, Toolbox,
    scope::Brief,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::asked::{Asked, call, text, verdict};

/// A folder with something to read in `src`, something to write in `out`, and something to leave alone in both.
struct Place {
    _folder: TempDir,
    root: PathBuf,
    asked: Asked,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for name in ["src", "out", "private"] {
            fs::create_dir(root.join(name)).unwrap();
            fs::write(root.join(name).join("file"), name).unwrap();
        }
        Self { _folder: folder, root, asked: Asked::default() }
    }

    fn tools(&self) -> Toolbox {
        let asked = &self.asked;
        let tools = Toolbox::new()
            .with(asked.tool("read_file").reading("/path").read_only())
            .with(asked.tool("read_many").reading("/paths/*"))
            .with(asked.tool("move_files").reading("/files/*/from").writing("/files/*/to"))
            .with(asked.tool("write_file").writing("/path"))
            .with(asked.tool("shell"))
            .with(asked.tool("submit").terminal());
        assert!(tools.quarantined().is_empty());
        tools
    }

    fn session(&self, tools: &[&str]) -> Arc<Session> {
        let brief = Brief::new(&self.root).reading("src").writing("out");
        let patterns = tools.iter().map(|pattern| pattern.parse::<ToolPattern>().unwrap());
        let brief = patterns.fold(brief, Brief::tool);
        let scope = ParticipantScope::assemble(&brief, None, None).unwrap();
        Session::mint("clerk", scope, Arc::new(self.tools()))
    }

    fn absolute(&self, path: &str) -> Value {
        json!(self.root.join(path))
    }
}

#[tokio::test]
async fn a_tool_outside_of_the_scope_is_asked_nothing_and_cannot_be_told_from_one_that_is_not_there() {
    let place = Place::new();
    let session = place.session(&["read_*", "submit"]);
    let names: Vec<&str> = session.definitions().iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["read_file", "read_many", "submit"]);
    for outside in ["shell", "write_file", "move_files"] {
        let told = call(&session, outside, json!({ "path": "out/new" })).await;
        let absent = call(&session, "no_such_one", json!({ "path": "out/new" })).await;
        assert_eq!(text(&told).replace(outside, "X"), text(&absent).replace("no_such_one", "X"));
        assert!(text(&told).ends_with("there are: read_file, read_many, submit"), "{told:?}");
    }
    // Nor does any other word of the session's speak of them.
    for (name, arguments) in [
        ("read_file", json!([1])),
        ("read_file", json!({ "path": 1 })),
        ("read_file", json!({ "path": "private/file" })),
        ("shel", json!({})),
        ("Read_file", json!({})),
    ] {
        let told = call(&session, name, arguments).await;
        assert!(told.is_error);
        let rest = text(&told).replace("\"shel\"", "");
        assert!(["shell", "write_file", "move_files"].iter().all(|name| !rest.contains(name)), "{told:?}");
    }
    assert_eq!(place.asked.names(), [""; 0]);
    assert!(session.decisions().iter().all(|decision| decision.outcome != DecisionOutcome::Allowed));
}

#[test]
fn the_router_of_a_session_tells_nothing_of_what_a_hidden_tool_takes() {
    #[derive(Deserialize, JsonSchema)]
    struct Hidden {
        secret_argument: u8,
    }
    let tool = |name: &str| Tool::new(name, "", |Hidden { secret_argument }| async move { secret_argument });
    let tools = Toolbox::new().with(tool("hidden")).with(tool("seen")).with(tool("gone"));
    let place = Place::new();
    let brief = Brief::new(&place.root).tool("seen".parse().unwrap()).tool("gone".parse().unwrap());
    let scope = ParticipantScope::assemble(&brief, None, None).unwrap();
    let session = Session::mint("clerk", scope, Arc::new(tools));
    session.withdraw("gone");
    let router = session.router();
    let absent = router.check_arguments("no_such_one", &json!({}));
    for hidden in ["hidden", "gone"] {
        assert_eq!(router.check_arguments(hidden, &json!({})), absent);
    }
    assert!(router.check_arguments("seen", &json!({})).unwrap_err().contains("secret_argument"));
}

#[tokio::test]
async fn what_every_tool_is_in_needs_no_list() {
    let place = Place::new();
    let session = place.session(&["*"]);
    assert_eq!(session.definitions().len(), 6);
    call(&session, "shell", json!({})).await;
    let nothing = place.session(&[]);
    assert!(nothing.definitions().is_empty());
    let told = call(&nothing, "shell", json!({})).await;
    assert_eq!(text(&told), "there is no tool named \"shell\"; you have no tools");
    assert_eq!(place.asked.names(), ["shell"]);
}

#[tokio::test]
async fn the_path_that_was_checked_is_the_path_that_is_used() {
    let place = Place::new();
    let session = place.session(&["*"]);
    for given in ["src/file", "src/./file", "src/../src/file"] {
        let result = call(&session, "read_file", json!({ "path": given, "lines": 3 })).await;
        assert!(!result.is_error, "{given}: {result:?}");
        let decision = session.decisions().pop().unwrap();
        assert_eq!(
            decision.arguments,
            json!({ "path": given, "lines": 3 }),
            "the log keeps what was written"
        );
    }
    let wanted = json!({ "path": place.absolute("src/file"), "lines": 3 });
    assert_eq!(place.asked.arguments(), vec![wanted; 3]);
}

#[cfg(unix)]
#[tokio::test]
async fn a_link_is_resolved_before_the_tool_is_asked() {
    let place = Place::new();
    std::os::unix::fs::symlink(place.root.join("src/file"), place.root.join("src/inside")).unwrap();
    std::os::unix::fs::symlink(place.root.join("private/file"), place.root.join("src/outside")).unwrap();
    let session = place.session(&["*"]);
    assert!(!call(&session, "read_file", json!({ "path": "src/inside" })).await.is_error);
    assert!(call(&session, "read_file", json!({ "path": "src/outside" })).await.is_error);
    assert_eq!(place.asked.arguments(), [json!({ "path": place.absolute("src/file") })]);
}

#[tokio::test]
async fn one_path_out_of_scope_is_enough_to_refuse_the_call() {
    let place = Place::new();
    let session = place.session(&["*"]);
    for (name, arguments) in [
        ("read_file", json!({ "path": "private/file" })),
        ("read_file", json!({ "path": "src/../private/file" })),
        ("read_file", json!({ "path": place.absolute("private/file") })),
        ("write_file", json!({ "path": "src/new" })),
        ("read_many", json!({ "paths": ["src/file", "private/file"] })),
        (
            "move_files",
            json!({ "files": [{ "from": "src/file", "to": "out/a" }, { "from": "src/file", "to": "b" }] }),
        ),
    ] {
        let told = call(&session, name, arguments.clone()).await;
        assert!(text(&told).starts_with(&format!("{name:?} was not called: ")), "{arguments}: {told:?}");
        let decided = verdict(&session, name, &arguments);
        assert!(matches!(decided, Some(DecisionOutcome::Denied(Denial::Path { .. }))), "{decided:?}");
    }
    assert_eq!(place.asked.names(), [""; 0]);
    let files =
        json!({ "files": [{ "from": "src/file", "to": "out/a" }, { "from": "out/file" }], "dry": true });
    assert!(!call(&session, "move_files", files).await.is_error);
    let wanted = json!({ "dry": true, "files": [
        { "from": place.absolute("src/file"), "to": place.absolute("out/a") },
        { "from": place.absolute("out/file") },
    ] });
    assert_eq!(place.asked.arguments(), [wanted]);
}

#[tokio::test]
async fn what_should_be_a_path_and_is_something_else_is_refused() {
    let place = Place::new();
    let session = place.session(&["*"]);
    for (name, arguments, pointer) in [
        ("read_file", json!({ "path": 1 }), "/path"),
        ("read_file", json!({ "path": { "path": "src/file" } }), "/path"),
        ("read_many", json!({ "paths": "src/file" }), "/paths"),
        ("read_many", json!({ "paths": ["src/file", true] }), "/paths/1"),
        ("move_files", json!({ "files": [{ "from": [["src/file"]] }] }), "/files/0/from"),
    ] {
        let told = call(&session, name, arguments).await;
        assert_eq!(text(&told), format!("the argument {pointer} of {name:?} is a path: write it as text"));
    }
    assert_eq!(place.asked.names(), [""; 0]);
}

#[tokio::test]
async fn every_value_of_an_object_is_a_path_where_the_pointer_says_so() {
    let place = Place::new();
    let session = place.session(&["*"]);
    for paths in [
        json!({ "a": "/etc/passwd" }),
        json!({ "a": "src/file", "*": "private/file" }),
        json!({ "a": { "b": "src/file" } }),
    ] {
        let told = call(&session, "read_many", json!({ "paths": paths })).await;
        assert!(told.is_error, "{paths}: {told:?}");
    }
    assert_eq!(place.asked.names(), [""; 0]);
    assert!(!call(&session, "read_many", json!({ "paths": { "a": "src/file" } })).await.is_error);
    assert_eq!(place.asked.arguments(), [json!({ "paths": { "a": place.absolute("src/file") } })]);
}

#[tokio::test]
async fn a_path_by_another_name_reaches_no_tool() {
    #[derive(Deserialize, JsonSchema)]
    struct Aliased {
        #[serde(alias = "file_path")]
        path: String,
        #[serde(default, alias = "others")]
        more: Vec<Self>,
    }
    let place = Place::new();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&asked);
    let write = Tool::new("write", "", move |Aliased { path, more }| {
        kept.lock().unwrap().extend(more.into_iter().map(|one| one.path).chain([path]));
        async {}
    });
    let tools = Toolbox::new().with(write.writing("/path").writing("/more/*/path"));
    assert!(tools.quarantined().is_empty(), "{:?}", tools.quarantined());
    let brief = Brief::new(&place.root).writing("out").tool(ToolPattern::every());
    let scope = ParticipantScope::assemble(&brief, None, None).unwrap();
    let session = Session::mint("clerk", scope, Arc::new(tools));
    for (arguments, words) in [
        (json!({ "file_path": "/etc/passwd" }), "unknown key \"file_path\""),
        (json!({ "path": "out/a", "others": [{ "path": "/etc/passwd" }] }), "unknown key \"others\""),
        (
            json!({ "path": "out/a", "more": [{ "file_path": "/etc/passwd" }] }),
            "at /more/0: unknown key \"file_path\"",
        ),
    ] {
        let told = call(&session, "write", arguments.clone()).await;
        assert!(text(&told).contains(words), "{told:?}");
        assert!(matches!(
            verdict(&session, "write", &arguments),
            Some(DecisionOutcome::Denied(Denial::Unfit { .. }))
        ));
    }
    assert!(asked.lock().unwrap().is_empty());
    let told = call(&session, "write", json!({ "path": "out/a", "more": [{ "path": "out/b" }] })).await;
    assert!(!told.is_error, "{told:?}");
    assert_eq!(asked.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn a_long_path_is_not_kept_whole_in_what_is_said_of_it() {
    let place = Place::new();
    let session = place.session(&["*"]);
    let path = format!("private/{}", "x/".repeat(1 << 20));
    let told = call(&session, "read_file", json!({ "path": path })).await;
    assert!(told.is_error && text(&told).len() < 5_000, "{} bytes", text(&told).len());
    let written = serde_json::to_string(&session.decisions()).unwrap();
    assert!(written.len() < 30_000, "{} bytes", written.len());
    let denial = PathDenial::new("a", PathAccess::Read, "b");
    assert_eq!(serde_json::from_value::<PathDenial>(json!(denial)).unwrap(), denial);
}

/// A backend prepares a list of tools once, and recognizes the list by its allocation.
#[test]
fn sessions_with_all_tools_of_a_toolbox_share_one_list() {
    let place = Place::new();
    let tools = Arc::new(place.tools());
    let all = || Session::mint("clerk", ParticipantScope::unrestricted(), tools.clone());
    let (one, other) = (all(), all());
    assert!(Arc::ptr_eq(one.shared_definitions(), other.shared_definitions()));
    assert!(Arc::ptr_eq(one.shared_definitions(), one.for_turn(None).shared_definitions()));
    let routed = Session::mint("clerk", ParticipantScope::unrestricted(), one.router());
    assert!(Arc::ptr_eq(one.shared_definitions(), routed.shared_definitions()));
    let part = place.session(&["read_*"]);
    assert_eq!(part.shared_definitions().len(), 2, "a narrower scope has a list of its own");
    // A tool that is added later is in the next list, and changes no list that a session has.
    let more = (*tools).clone().with(place.asked.tool("later"));
    let later = Session::mint("clerk", ParticipantScope::unrestricted(), Arc::new(more));
    assert_eq!((one.definitions().len(), later.definitions().len()), (6, 7));
}
