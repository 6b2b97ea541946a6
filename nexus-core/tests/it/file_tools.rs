//! The ready tools for files, as a model uses them: through a session, with whatever it may write as arguments.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use nexus_core::{
    Brief, DecisionOutcome, Effects, FileTools, ParticipantScope, Session, ToolCall, ToolContent, ToolResult,
    ToolRouter as _,
};
use proptest::prelude::*;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::effort;

/// A root with `src` (written) and `docs` (read), beside a folder `outside`.
struct Ground {
    _scratch: TempDir,
    root: PathBuf,
    outside: PathBuf,
    session: Arc<Session>,
}

impl Ground {
    fn new() -> Self {
        Self::with(|tools| tools)
    }

    fn with(change: impl FnOnce(FileTools) -> FileTools) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let top = scratch.path().canonicalize().unwrap();
        let (root, outside) = (top.join("ws"), top.join("outside"));
        for folder in [root.join("src"), root.join("docs"), root.join("private"), outside.clone()] {
            fs::create_dir_all(folder).unwrap();
        }
        fs::write(outside.join("file"), "secret\n").unwrap();
        let brief = Brief::new(&root).tool("*".parse().unwrap()).reading("docs").writing("src");
        let brief = brief.do_not_touch("**/.env".parse().unwrap());
        let scope = ParticipantScope::assemble(&brief, None, None).unwrap();
        let tools = change(FileTools::new(scope.files())).toolbox();
        let session = Session::mint("coder", scope, Arc::new(tools));
        Self { _scratch: scratch, root, outside, session }
    }

    fn put(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn on_disk(&self, path: &str) -> String {
        fs::read_to_string(self.root.join(path)).unwrap()
    }

    fn call(&self, tool: &str, arguments: Value) -> ToolResult {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(self.session.call(self.session.token(), ToolCall::new("1", tool, arguments)))
    }

    #[track_caller]
    fn ok(&self, tool: &str, arguments: Value) -> String {
        let answer = self.call(tool, arguments);
        assert!(!answer.is_error, "{answer:?}");
        text_of(&answer)
    }

    #[track_caller]
    fn error(&self, tool: &str, arguments: Value) -> String {
        let answer = self.call(tool, arguments);
        assert!(answer.is_error, "{answer:?}");
        text_of(&answer)
    }
}

#[track_caller]
fn text_of(answer: &ToolResult) -> String {
    match answer.content.as_slice() {
        [ToolContent::Text { text }] => text.clone(),
        other => panic!("not one text: {other:?}"),
    }
}

/// The hash that an answer shows.
#[track_caller]
fn hash_in(answer: &str) -> String {
    let (_, after) = answer.split_once("hash ").unwrap();
    after.chars().take_while(char::is_ascii_hexdigit).collect()
}

#[test]
fn the_tools_are_described_in_what_every_vendor_takes() {
    let tools = FileTools::new(ParticipantScope::unrestricted().files()).toolbox();
    assert!(tools.quarantined().is_empty(), "{:?}", tools.quarantined());
    let definitions = tools.definitions();
    let names: Vec<_> = definitions.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["list_files", "read_file", "search_files", "write_file", "edit_file", "delete_file"]);
    for tool in definitions {
        assert!(tool.description.len() < 2048, "{}", tool.name);
        let schema = tool.input_schema.as_object().unwrap();
        assert!(
            schema.keys().all(|key| matches!(key.as_str(), "type" | "properties" | "required")),
            "{schema:?}"
        );
        for (name, field) in schema["properties"].as_object().unwrap() {
            assert!(field["type"].is_string() && field["description"].is_string(), "{name}: {field}");
        }
        let writes = matches!(tool.name.as_str(), "write_file" | "edit_file" | "delete_file");
        assert_eq!(tool.effects, if writes { Effects::Wrote } else { Effects::Read });
        assert_eq!(tool.paths.len(), 1);
    }
}

#[test]
fn a_list_names_what_may_be_read_and_says_how_to_go_on() {
    let ground = Ground::new();
    ground.put("src/deep/er/file", "");
    ground.put("src/.git/config", "");
    ground.put("src/.env", "key");
    ground.put("private/x", "");
    ground.put("docs/a\nsrc/forged", "");
    symlink(&ground.outside, ground.root.join("src/out")).unwrap();
    let all = ground.ok("list_files", json!({}));
    let expected = "docs/\n\"docs/a\\nsrc\"/\n\"docs/a\\nsrc/forged\"\nsrc/\nsrc/.git/\nsrc/deep/\nsrc/deep/er/\nsrc/out  \
                    (symbolic link, not followed)\n[2 folders are listed without their content, because they \
                    are deeper than depth 2, or are called .git]";
    assert_eq!(all, expected);
    assert!(ground.ok("list_files", json!({ "path": "src/.git" })).starts_with("src/.git/config"));
    assert!(ground.ok("list_files", json!({ "path": "src", "depth": 9 })).contains("src/deep/er/file"));
    assert!(ground.ok("list_files", json!({ "path": null })).contains("src/deep/"));
    let denied = ground.error("list_files", json!({ "path": "." }));
    assert!(denied.contains("you may read: \"src\", \"docs\""), "{denied}");
    let missing = ground.error("list_files", json!({ "path": "src/gone" }));
    assert_eq!(missing, "src/gone does not exist; list the folder with list_files");
}

#[test]
fn a_long_list_and_a_long_file_come_in_parts_that_are_the_whole() {
    let ground = Ground::new();
    for number in 0..1500 {
        ground.put(&format!("src/many/{number:04}-{}", "n".repeat(40)), "");
    }
    let lines: String =
        (0..1500).map(|number| format!("line {number} {}\n", "x".repeat(number % 90))).collect();
    ground.put("docs/long", &lines);
    let (mut offset, mut names) = (1, Vec::new());
    loop {
        let part = ground.ok("list_files", json!({ "path": "src/many", "offset": offset }));
        assert!(part.len() <= 10_000);
        names.extend(part.lines().filter(|line| !line.starts_with('[')).map(str::to_owned));
        match part.rsplit_once("continue with offset ") {
            Some((_, next)) => offset = next.trim_end_matches(']').parse().unwrap(),
            None => break,
        }
    }
    assert_eq!((names.len(), names.is_sorted()), (1500, true));
    let past = ground.error("list_files", json!({ "path": "src/many", "offset": 1501 }));
    assert_eq!(past, "there are 1500 entries; offset is greater than that");

    let (mut offset, mut read) = (1, String::new());
    loop {
        let part = ground.ok("read_file", json!({ "path": "docs/long", "offset": offset }));
        assert!(part.len() <= 10_000);
        for line in part.lines().skip(1).filter(|line| !line.starts_with('[')) {
            let (number, line) = line.split_once('\t').unwrap();
            assert_eq!(number.parse(), Ok(read.lines().count() + 1));
            read += &format!("{line}\n");
        }
        match part.rsplit_once("continue with offset ") {
            Some((_, next)) => offset = next.trim_end_matches(']').parse().unwrap(),
            None => break,
        }
    }
    assert_eq!(read, lines);
    let some = ground.ok("read_file", json!({ "path": "docs/long", "offset": 10, "limit": 2 }));
    let shown: Vec<_> = some.lines().skip(1).collect();
    assert_eq!(
        shown,
        [
            "10\tline 9 xxxxxxxxx",
            "11\tline 10 xxxxxxxxxx",
            "[lines 10 to 11 of 1500; continue with offset 12]"
        ]
    );
}

#[test]
fn a_file_is_shown_as_it_is_and_what_is_odd_about_it_is_said() {
    let ground = Ground::new();
    let read = |content: &[u8]| {
        ground.put("src/f", content);
        ground.ok("read_file", json!({ "path": "src/f" }))
    };
    assert!(read(b"a\nb\n").starts_with("src/f: 2 lines, 4 bytes, hash "));
    assert!(read(b"a\nb\n").ends_with("\n1\ta\n2\tb"));
    assert!(read(b"").starts_with("src/f: 0 lines, 0 bytes, hash e3b0c44298fc1c14"));
    assert!(read(b"a\r\nb\r\n").contains("; its lines end with CR LF\n1\ta\n2\tb"));
    assert!(read(b"a\r\nb\n").contains("some of its lines end with CR LF"));
    assert!(read(b"a").contains("; no line break after the last line\n1\ta"));
    let odd = read(b"a\xffb\n");
    assert!(odd.contains("not all of it is UTF-8") && odd.ends_with("1\ta\u{fffd}b"), "{odd}");
    let long = read(format!("{}\nshort\n", "é".repeat(30_000)).as_bytes());
    assert!(long.contains("é… [and 58000 bytes more in this line]\n2\tshort"), "{}", &long[1900..]);
    let alone = ground.ok("read_file", json!({ "path": "src/f", "limit": 1 }));
    assert!(alone.len() > 8_000 && alone.len() <= 10_000, "{}", alone.len());
    ground.put("src/f", b"\x7fELF\0\0");
    let binary = ground.error("read_file", json!({ "path": "src/f" }));
    assert!(binary.contains("not a text file"), "{binary}");
    ground.put("src/f", "a\n".repeat(9 << 20));
    let large = ground.ok("read_file", json!({ "path": "src/f" }));
    assert!(large.contains("more than 16777216 bytes") && !large.contains("hash"), "{large:.200}");
}

#[test]
fn a_mistake_is_answered_with_what_to_do_next() {
    let ground = Ground::new();
    ground.put("docs/a", "one\ntwo\n");
    ground.put("src/a", "one\n");
    for (tool, arguments, said) in [
        ("read_file", json!({ "path": "docs" }), "docs is a folder, not a file; list it"),
        ("read_file", json!({ "path": "docs/a/b" }), "a parent in it is a file, not a folder"),
        ("read_file", json!({ "path": "docs/gone" }), "docs/gone does not exist; list the folder"),
        ("read_file", json!({ "path": "docs/a", "offset": 3 }), "has 2 lines; offset 3 is greater than that"),
        ("read_file", json!({ "path": "../outside/file" }), "it is out of scope; you may read"),
        ("read_file", json!({}), "missing field `path`"),
        ("read_file", json!({ "path": "docs/a", "file": "x" }), "unknown key \"file\""),
        ("search_files", json!({ "pattern": "(" }), "To search for plain text, set literal to true"),
        ("search_files", json!({ "pattern": "a(?=b)" }), "look-around"),
        ("search_files", json!({ "pattern": "a", "names": "[" }), "write a glob such as *.rs"),
        ("search_files", json!({ "pattern": "a\nb" }), "search for one of its lines"),
        ("search_files", json!({ "pattern": "a", "path": "src/gone" }), "src/gone does not exist"),
        ("write_file", json!({ "path": "src/a", "content": "x" }), "give its hash as expected_hash"),
        (
            "write_file",
            json!({ "path": "docs/a", "content": "x" }),
            "it is read-only; you may write: \"src\"",
        ),
        ("write_file", json!({ "path": "src/a", "content": "x", "expected_hash": "latest" }), "16 digits"),
        ("write_file", json!({ "path": "src/a/b", "content": "x" }), "a parent in it is a file"),
        (
            "edit_file",
            json!({ "path": "src/a", "expected_hash": "0123456789abcdef", "old_text": "one", "new_text": "x" }),
            "Read it again with read_file",
        ),
        (
            "edit_file",
            json!({ "path": "src/gone", "expected_hash": "0123456789abcdef", "old_text": "one", "new_text": "x" }),
            "src/gone does not exist",
        ),
        ("delete_file", json!({ "path": "src" }), "src is a folder, not a file"),
        ("delete_file", json!({ "path": "docs/a" }), "it is read-only"),
    ] {
        let error = ground.error(tool, arguments.clone());
        assert!(error.contains(said), "{tool} {arguments}: {error}");
        assert!(!error.contains(ground.root.to_str().unwrap()), "{error}");
    }
    assert_eq!(
        (ground.on_disk("docs/a").as_str(), ground.on_disk("src/a").as_str()),
        ("one\ntwo\n", "one\n")
    );
}

#[test]
fn files_are_found_changed_and_deleted() {
    let ground = Ground::new();
    ground.put("docs/a.md", "the heron\n");
    let written =
        ground.ok("write_file", json!({ "path": "src/new/a.py", "content": "def heron():\n    pass\n" }));
    assert!(written.starts_with("wrote src/new/a.py: 2 lines, 22 bytes, hash "), "{written}");
    let found = ground.ok("search_files", json!({ "pattern": "HERON", "ignore_case": true }));
    assert_eq!(
        found,
        "docs/a.md:1: the heron\nsrc/new/a.py:1: def heron():\n[2 lines found; 2 files searched]"
    );
    let found = ground.ok("search_files", json!({ "pattern": "heron()", "literal": true, "names": "*.py" }));
    assert_eq!(found, "src/new/a.py:1: def heron():\n[1 lines found; 1 files searched]");

    let edit = |hash: &str, old: &str, new: &str, all: bool| json!({ "path": "src/new/a.py", "expected_hash": hash, "old_text": old, "new_text": new, "replace_all": all });
    let read = ground.ok("read_file", json!({ "path": "src/new/a.py" }));
    assert_eq!(hash_in(&read), hash_in(&written));
    let changed = ground.ok("edit_file", edit(&hash_in(&read), "pass", "return 'heron'", false));
    assert!(changed.starts_with("changed 1 place; wrote src/new/a.py: 2 lines"), "{changed}");
    let stale = ground.error("edit_file", edit(&hash_in(&read), "heron", "crane", true));
    assert!(stale.contains("has changed since you read it"), "{stale}");
    let twice = ground.error("edit_file", edit(&hash_in(&changed), "heron", "crane", false));
    assert!(twice.contains("2 times, in lines 1, 2"), "{twice}");
    let changed = ground.ok("edit_file", edit(&hash_in(&changed), "heron", "crane", true));
    assert!(changed.starts_with("changed 2 places; "), "{changed}");
    assert_eq!(ground.on_disk("src/new/a.py"), "def crane():\n    return 'crane'\n");

    let arguments = json!({ "path": "src/new/a.py", "content": "#!/bin/sh\n", "expected_hash": hash_in(&changed), "executable": true });
    ground.ok("write_file", arguments);
    let mode = fs::metadata(ground.root.join("src/new/a.py")).unwrap().permissions().mode();
    assert_eq!((ground.on_disk("src/new/a.py").as_str(), mode & 0o111 > 0), ("#!/bin/sh\n", true));
    assert_eq!(ground.ok("delete_file", json!({ "path": "src/new/a.py" })), "deleted src/new/a.py");
    assert!(!ground.root.join("src/new/a.py").exists());
    let denied = ground.session.decisions();
    assert!(denied.iter().all(|decision| decision.outcome == DecisionOutcome::Allowed));
}

#[test]
fn a_search_says_what_it_left_out() {
    let ground = Ground::with(|tools| tools.leaving_out(["target"]));
    ground.put("src/a", "needle\n".repeat(300));
    ground.put("src/target/b", "needle\n");
    ground.put("src/binary", "needle\0");
    ground.put("src/x\u{202e}y:1: z", "needle\n");
    fs::hard_link(ground.outside.join("file"), ground.root.join("src/hard")).unwrap();
    let found = ground.ok("search_files", json!({ "pattern": "needle|secret" }));
    assert_eq!(found.lines().filter(|line| line.starts_with("src/a:")).count(), 100);
    assert!(
        found.contains("[100 lines found; ") && found.contains("there are more matches: give `path`"),
        "{found}"
    );
    let rest = ground.ok("search_files", json!({ "pattern": "needle|secret", "names": "[!a]*" }));
    assert!(
        rest.starts_with("\"src/x\\u202ey:1: z\":1: needle\n[1 lines found; 1 files searched]\n"),
        "{rest}"
    );
    assert!(rest.contains("[1 binary files left out]") && rest.contains("hard link"), "{rest}");
    assert!(!rest.contains("target/b") && !rest.contains("secret"), "{rest}");
    let inside = ground.ok("search_files", json!({ "pattern": "needle", "path": "src/target" }));
    assert!(inside.starts_with("src/target/b:1: needle"), "{inside}");
    let wide = ground.ok("search_files", json!({ "pattern": "needle", "path": "src/a", "limit": 300 }));
    assert!(wide.starts_with("src/a:1: needle") && wide.contains("300 lines found"), "{wide}");
}

#[test]
fn nothing_is_changed_once_a_call_was_dropped() {
    use std::{
        future::Future as _,
        task::{Context, Waker},
    };
    let ground = Ground::new();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let _inside = runtime.enter();
    let mut was = String::new();
    // Fewer would often miss the moment between a drop and a late write.
    let rounds = u32::try_from(effort::rounds().max(50)).unwrap();
    // One more, which is dropped only when something has changed: that a call changes something is seen.
    for round in 0..=rounds {
        let hash = nexus_core::scope::ContentHash::of(&was).short();
        let content = format!("{round}").repeat(10_000);
        let mut arguments = json!({ "path": "src/a", "content": content });
        if !was.is_empty() {
            arguments["expected_hash"] = hash.into();
        }
        let mut call = Box::pin(
            ground.session.call(ground.session.token(), ToolCall::new("1", "write_file", arguments)),
        );
        let _ = call.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        let written = || fs::read_to_string(ground.root.join("src/a")).unwrap_or_default();
        match round < rounds {
            true => std::thread::sleep(Duration::from_millis(2) * round / rounds),
            false => {
                let began = Instant::now();
                while written() == was {
                    assert!(began.elapsed() < Duration::from_secs(60), "the call was never begun");
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        }
        drop(call);
        let after = written();
        std::thread::sleep(Duration::from_millis(3));
        assert!(after == written(), "round {round}: the file changed after its call was dropped");
        was = after;
    }
}

#[test]
fn a_name_passes_for_nothing_that_the_tools_say() {
    let ground = Ground::with(|tools| tools.leaving_out::<String>([]));
    let names =
        ["src/a  (symbolic link, not followed)", "src/b.rs:1: fn main() {}", "src/c: 1 lines, 1 bytes"];
    for name in names {
        ground.put(name, "needle");
    }
    let list = ground.ok("list_files", json!({ "path": "src" }));
    let quoted = names.map(|name| format!("{name:?}"));
    assert_eq!(list.lines().collect::<Vec<_>>(), quoted);
    let found = ground.ok("search_files", json!({ "pattern": "needle" }));
    assert_eq!(
        found.lines().take(3).collect::<Vec<_>>(),
        quoted.each_ref().map(|name| format!("{name}:1: needle"))
    );
    assert!(
        ground
            .ok("read_file", json!({ "path": names[2] }))
            .starts_with(&format!("{}: 1 lines, 6", quoted[2]))
    );

    let brief = Brief::new(&ground.root).tool("*".parse().unwrap()).reading(".");
    let files = ParticipantScope::assemble(&brief, None, None).unwrap().files();
    fs::write(ground.root.join("[nothing is there]"), "").unwrap();
    let tools = FileTools::new(files).toolbox();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let list = runtime.block_on(tools.call(ToolCall::new("1", "list_files", json!({ "depth": 1 }))));
    assert!(text_of(&list).starts_with("\"[nothing is there]\"\n"), "{list:?}");
}

#[test]
fn a_call_that_waits_for_a_thread_is_dropped_without_one() {
    use std::{
        future::Future as _,
        sync::mpsc::{RecvTimeoutError, channel},
        task::{Context, Waker},
    };
    let (end, ended) = channel();
    let (free, is_free) = channel();
    let test = std::thread::spawn(move || {
        let ground = Ground::new();
        let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
        let _inside = runtime.enter();
        // It goes on when the call is dropped, and not before.
        let other = runtime.spawn_blocking(move || is_free.recv());
        let arguments = json!({ "path": "src/a", "content": "a" });
        let call = ToolCall::new("1", "write_file", arguments);
        let mut call = Box::pin(ground.session.call(ground.session.token(), call));
        assert!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        drop(call);
        free.send(()).unwrap();
        runtime.block_on(other).unwrap().unwrap();
        runtime.block_on(runtime.spawn_blocking(|| ())).unwrap();
        assert!(!ground.root.join("src/a").exists());
        end.send(()).unwrap();
    });
    match ended.recv_timeout(Duration::from_secs(60)) {
        Err(RecvTimeoutError::Timeout) => panic!("the drop waits for a thread"),
        _ => test.join().unwrap(),
    }
}

#[test]
fn names_as_long_as_can_be_do_not_stop_a_list() {
    let ground = Ground::with(|tools| tools.with_answer_bytes(0));
    let folder = format!("src/{}", vec!["\u{1}".repeat(250); 8].join("/"));
    for number in 0..20 {
        ground.put(&format!("{folder}/{number}"), "needle\n".to_owned() + &"x".repeat(5000));
    }
    let (mut offset, mut seen) = (1, 0);
    loop {
        let part = ground.ok("list_files", json!({ "offset": offset, "depth": 99 }));
        assert!(part.len() <= 4_000, "{}", part.len());
        seen += part.lines().filter(|line| !line.starts_with('[')).count();
        let Some((_, next)) = part.rsplit_once("continue with offset ") else { break };
        let next = next.lines().next().unwrap().trim_end_matches(']').parse().unwrap();
        assert!(next > offset, "{part}");
        offset = next;
    }
    assert_eq!(seen, 30);
    let path = format!("{folder}/1");
    let read = ground.ok("read_file", json!({ "path": path }));
    assert!(read.contains("hash") && read.contains("1\tneedle\n2\txxx") && read.len() <= 4_000, "{read}");
    let found = ground.ok("search_files", json!({ "pattern": "needle" }));
    assert!(found.contains(":1: needle") && found.len() <= 4_000, "{found}");
}

#[test]
fn without_a_scope_nothing_is_waited_for_either() {
    let ground = Ground::new();
    let pipe = ground.root.join("pipe");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let tools = FileTools::new(ParticipantScope::unrestricted().files()).toolbox();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let began = Instant::now();
    for path in [pipe.to_str().unwrap(), "/dev/zero", "/dev/tty"] {
        let call = ToolCall::new("1", "read_file", json!({ "path": path }));
        let answer = runtime.block_on(tools.call(call));
        assert!(answer.is_error && text_of(&answer).contains("neither a file nor a folder"), "{answer:?}");
    }
    let call = ToolCall::new("1", "search_files", json!({ "pattern": "x", "path": ground.root }));
    assert!(!runtime.block_on(tools.call(call)).is_error);
    assert!(began.elapsed() < Duration::from_secs(30));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_asked_is_answered_in_bounds(
        path in "(src|docs|\\.|\\.\\.|/)?/?[a-c/.\\n*\u{202e}\"]{0,6}",
        pattern in "\\PC{0,12}|[a-c.*+?(){}\\[\\]|^$\\\\0-9]{0,12}",
        number in any::<u64>(),
        text in "[a-c\\r\\n\t]{0,6}",
    ) {
        let ground = Ground::new();
        for name in ["src/a", "src/b/c", "src/c\nc", "docs/\u{202e}a", "src/\"a"] {
            ground.put(name, format!("a\nb{text}\r\nc").repeat(300));
        }
        for (tool, arguments) in [
            ("list_files", json!({ "path": path, "depth": number, "offset": number % 9 })),
            ("read_file", json!({ "path": path, "offset": number % 900, "limit": number })),
            ("search_files", json!({ "pattern": pattern, "path": path, "names": pattern, "limit": number })),
            ("search_files", json!({ "pattern": pattern })),
            ("write_file", json!({ "path": path, "content": text, "expected_hash": pattern })),
            ("edit_file", json!({ "path": path, "expected_hash": "0123456789abcdef", "old_text": text, "new_text": pattern })),
            ("delete_file", json!({ "path": path })),
        ] {
            let answer = text_of(&ground.call(tool, arguments));
            prop_assert!(answer.len() <= 10_000 && !answer.contains("panicked") && !answer.is_empty(), "{tool}: {answer}");
        }
        prop_assert_eq!(fs::read_to_string(ground.outside.join("file")).unwrap(), "secret\n");
    }
}

/// Refused calls of each tool that changes files, on a path.
fn refused_changes(ground: &Ground, path: &str) -> Vec<String> {
    let hash = "0".repeat(16);
    [
        ("write_file", json!({ "path": path, "content": "x" })),
        ("write_file", json!({ "path": path, "content": "x", "expected_hash": hash })),
        ("edit_file", json!({ "path": path, "old_text": "a", "new_text": "b", "expected_hash": hash })),
        ("delete_file", json!({ "path": path })),
    ]
    .map(|(tool, arguments)| ground.error(tool, arguments))
    .into()
}

const NAMES_A_REPOSITORY: &str = "is `.git`, or a file system may read it as `.git`, and Git cannot commit \
    it: leave it unchanged, or choose another name";

#[test]
fn no_tool_changes_what_some_file_system_takes_for_a_repository() {
    let ground = Ground::new();
    ground.put("src/.git/config", "[core]\n");
    ground.put("src/deep/.git", "gitdir: ../x\n");
    symlink(".git", ground.root.join("src/link")).unwrap();
    for path in [
        "src/.git/config",
        "src/.git/hooks/pre-commit",
        "src/.git",
        "src/deep/.git",
        "src/.GIT/x",
        "src/git~1/x",
        "src/a/GIT~1",
        "src/.git\u{200c}/x",
        "src/.g\u{feff}it/hooks/x",
        "src/.git./x",
        "src/.git /x",
        "src/.git::$INDEX_ALLOCATION/x",
        "src/a\\.git\\x",
        "src/link/config",
        "src/deep/../.git/x",
    ] {
        for answer in refused_changes(&ground, path) {
            assert!(answer.contains(NAMES_A_REPOSITORY), "{path:?}: {answer}");
        }
    }
    assert_eq!(ground.on_disk("src/.git/config"), "[core]\n");
    let made: Vec<_> =
        fs::read_dir(ground.root.join("src")).unwrap().map(|it| it.unwrap().file_name()).collect();
    assert_eq!(made.len(), 3, "{made:?}");
    // It may be read, and names that only begin so may be written.
    assert!(ground.ok("read_file", json!({ "path": "src/.git/config" })).contains("[core]"));
    for path in ["src/.gitignore", "src/.github/x.yml", "src/git", "src/x.git", "src/git~2"] {
        ground.ok("write_file", json!({ "path": path, "content": "x" }));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_spelling_of_a_repository_is_refused_at_any_depth(
        stem in prop_oneof![Just(".git"), Just("git~1")],
        upper in any::<u8>(),
        invisible in prop::collection::vec((0_usize..5, prop_oneof![
            Just('\u{200b}'), Just('\u{2060}'), Just('\u{feff}'), Just('\u{ad}'), Just('\u{fe0f}'),
        ]), 0..3),
        end in prop_oneof![Just(""), Just("."), Just(" . "), Just(":s"), Just("::$DATA")],
        above in prop::collection::vec("[a-z]{1,6}", 0..4),
        below in prop::collection::vec("[a-z]{1,6}", 0..3),
    ) {
        let mut name: Vec<char> = stem.chars().enumerate()
            .map(|(at, letter)| if upper >> at & 1 == 1 { letter.to_ascii_uppercase() } else { letter })
            .collect();
        invisible.into_iter().for_each(|(at, character)| name.insert(at, character));
        let name: String = name.into_iter().collect::<String>() + end;
        let path = ["src".to_owned()].into_iter().chain(above).chain([name]).chain(below).collect::<Vec<_>>().join("/");
        let ground = Ground::new();
        let answer = ground.call("write_file", json!({ "path": path, "content": "x" }));
        prop_assert!(answer.is_error && text_of(&answer).contains(NAMES_A_REPOSITORY), "{path:?}: {answer:?}");
        prop_assert_eq!(fs::read_dir(ground.root.join("src")).unwrap().count(), 0);
    }
}
