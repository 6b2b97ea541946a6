//! A worker that lies about what a turn changed: of nothing that it sends is anything applied.

use std::{fs, io::Read as _, process::Command, time::Duration};

use async_nats::{HeaderMap, jetstream};
use futures::StreamExt as _;
use nexus_core::{ErrorKind, ExecutionBackend as _, NullSink, ToolAccess, TurnHost, TurnRequest};
use nexus_fleet::{Fleet, FleetBackend, FleetSettings};
use nexus_testkit::nats::NatsServer;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::io::AsyncReadExt as _;

use super::{
    checkout::{Checkout, names},
    shell::{POOL, caller_settings, caller_with, script},
};
const FILES: &[(&str, &str)] = &[("a", "1\n"), ("sub/b", "1\n"), (".gitattributes", "*.bin filter=lfs\n")];
/// The largest bundle that the caller takes, in bytes.
const MOST: u64 = 100_000;

/// A turn that the worker was given, and the repository that it made of its base.
struct Given {
    queued: Value,
    repository: tempfile::TempDir,
    base: String,
    client: async_nats::Client,
}

impl Given {
    /// Waits for a turn, and takes it as a worker does.
    async fn next(server: &NatsServer, after: u64) -> (Self, u64) {
        let client = server.client().await;
        let jetstream = jetstream::new(client.clone());
        let queue = jetstream.get_stream(format!("NEXUS_QUEUE_{POOL}")).await.expect("a queue");
        let number = after + 1;
        let message = loop {
            match queue.get_raw_message(number).await {
                Ok(message) => break message,
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        };
        let queued: Value = serde_json::from_slice(&message.payload).expect("a turn");
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Expected-Last-Subject-Sequence", "0");
        let started = json!({ "worker": "liar", "attempt": "a1", "at": 1 }).to_string();
        let subject = format!("nexus.started.nexus.{}", queued["turn"].as_str().unwrap());
        jetstream
            .publish_with_headers(subject, headers, started.into())
            .await
            .unwrap()
            .await
            .expect("it is ours");

        let base = &queued["body"]["inline"]["workspace"]["base"];
        let store = jetstream.get_object_store("NEXUS_OBJECTS").await.expect("a store");
        let mut bundle = Vec::new();
        let mut object = store.get(base["name"].as_str().expect("a name")).await.expect("a base");
        object.read_to_end(&mut bundle).await.expect("a bundle");
        // A few lines, and a pack.
        let at = bundle.windows(2).position(|two| two == b"\n\n").expect("a head") + 2;
        let head = String::from_utf8_lossy(&bundle[..at]).into_owned();
        let base = head.lines().nth(1).unwrap().split(' ').next().unwrap().to_owned();
        let repository = tempfile::tempdir().expect("a folder");
        let given = Self { queued, repository, base, client };
        given.git(&["init", "-q", "--bare"], b"");
        fs::write(given.repository.path().join("shallow"), format!("{}\n", given.base)).unwrap();
        given.git(&["unpack-objects", "-q"], &bundle[at..]);
        (given, number)
    }

    fn git(&self, arguments: &[&str], input: &[u8]) -> Vec<u8> {
        use std::io::Write as _;
        let mut child = Command::new("git")
            .args(["-c", "core.protectNTFS=false", "-c", "core.protectHFS=false"])
            .args(arguments)
            .current_dir(self.repository.path())
            .env("GIT_DIR", self.repository.path())
            .env("GIT_AUTHOR_NAME", "Liar")
            .env("GIT_AUTHOR_EMAIL", "l@localhost")
            .env("GIT_COMMITTER_NAME", "Liar")
            .env("GIT_COMMITTER_EMAIL", "l@localhost")
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("git runs");
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_vec();
        let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
        let mut output = Vec::new();
        child.stdout.take().unwrap().read_to_end(&mut output).unwrap();
        writer.join().unwrap();
        assert!(child.wait().unwrap().success(), "git {arguments:?}");
        output
    }

    fn line(&self, arguments: &[&str], input: &[u8]) -> String {
        String::from_utf8(self.git(arguments, input)).unwrap().trim().to_owned()
    }

    fn blob(&self, content: &[u8]) -> String {
        self.line(&["hash-object", "-w", "--stdin"], content)
    }

    /// A tree as it is written: git looks at no name.
    fn tree(&self, entries: &[(&str, &str, &str)]) -> String {
        let mut object = Vec::new();
        for (mode, name, id) in entries {
            object.extend_from_slice(format!("{mode} {name}\0").as_bytes());
            object
                .extend((0..id.len()).step_by(2).map(|at| u8::from_str_radix(&id[at..at + 2], 16).unwrap()));
        }
        self.line(&["hash-object", "-t", "tree", "-w", "--stdin", "--literally"], &object)
    }

    fn commit(&self, tree: &str, parents: &[&str]) -> String {
        let parents: Vec<_> = parents.iter().flat_map(|parent| ["-p", parent]).collect();
        self.line(&[&["commit-tree", tree, "-m", "lies"], &parents[..]].concat(), b"")
    }

    /// A bundle of what `tip` has beyond the base.
    fn bundle(&self, tip: &str) -> Vec<u8> {
        let mut bundle = format!("# v2 git bundle\n-{}\n{tip} refs/nexus/tip\n\n", self.base).into_bytes();
        let revisions = format!("{tip}\n^{}\n", self.base);
        bundle.extend(self.git(&["pack-objects", "--revs", "--stdout", "-q"], revisions.as_bytes()));
        bundle
    }

    /// A commit on the base whose tree has these entries, as a bundle.
    fn with_tree(&self, entries: &[(&str, &str, &str)]) -> Vec<u8> {
        let tree = self.tree(entries);
        self.bundle(&self.commit(&tree, &[&self.base]))
    }

    fn token(&self, name: &str) -> &str {
        self.queued[name].as_str().expect("a token")
    }

    /// Stores an object, and gives what names it.
    async fn object(&self, content: &[u8]) -> Value {
        let name = format!("nexus.{}.{}", self.token("turn"), uuid::Uuid::new_v4().simple());
        let store = jetstream::new(self.client.clone()).get_object_store("NEXUS_OBJECTS").await.unwrap();
        store.put(name.as_str(), &mut &content[..]).await.expect("it is stored");
        let hash: String = Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect();
        json!({ "name": name, "bytes": content.len(), "sha256": hash })
    }

    /// Tells that the turn ended well, with this change, until the caller has heard it.
    async fn end(&self, change: Value) {
        let result = json!({
            "text": "Done.", "output": null, "messages": [], "tool_calls": [],
            "usage": { "input_tokens": null, "cache_read_tokens": null, "cache_write_tokens": null, "output_tokens": null,
                "reasoning_tokens": null },
            "cost": null, "finish": "stop", "effects": "none", "resume": null,
            "provenance": { "backend": "shell", "model": null, "effort": null, "version": null, "containment": null,
                "attempts": 1, "skipped": [] },
        });
        let mut outcome = json!({ "result": result, "change": change });
        if change.is_null() {
            outcome = json!({ "change": change });
        }
        let frame = json!({ "key": self.token("key"), "worker": "liar", "attempt": "a1", "number": 1,
            "items": [{ "end": { "inline": outcome } }] });
        let subject = format!("nexus.event.nexus.{}.{}", self.token("instance"), self.token("turn"));
        let mut heard = self.client.subscribe(format!("nexus.control.{POOL}.liar")).await.unwrap();
        self.client.publish(subject, frame.to_string().into()).await.unwrap();
        while let Some(message) = heard.next().await {
            if String::from_utf8_lossy(&message.payload).contains("done") {
                return;
            }
        }
    }
}

/// What is said of a change that is not true, and the level of the turn.
type Untruth = (&'static str, fn(&mut Value), ToolAccess);

/// What is sent as the change of a turn, and a word of why it is refused.
type Lie = (&'static str, &'static str, for<'g> fn(&'g Given) -> Vec<u8>);

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real nats-server"]
async fn nothing_is_touched_whatever_a_worker_says_that_a_turn_changed() {
    let (server, home, checkout) =
        (NatsServer::start().await, tempfile::tempdir().unwrap(), Checkout::with(FILES));
    let settings =
        FleetSettings { max_workspace_bytes: Some(MOST), ..caller_settings(&server.url(), home.path()) };
    Fleet::new(settings.clone()).unwrap().set_up(&[POOL]).await.expect("it is set up");
    let backend = caller_with(settings);
    let before = checkout.state();
    let lies: [Lie; 13] = [
        ("nothing", "not a bundle", |_| Vec::new()),
        ("not a bundle", "not a bundle", |_| b"# v2 git bundle\nwhatever".to_vec()),
        ("a bundle that is cut", "early EOF", |given| {
            let whole = given.with_tree(&[("100644", "a", &given.blob(b"2\n"))]);
            whole[..whole.len() - 9].to_vec()
        }),
        ("a commit that is none of the base", "does not descend", |given| {
            let tree = given.tree(&[("100644", "a", &given.blob(b"2\n"))]);
            let tip = given.commit(&tree, &[]);
            let mut bundle = format!("# v2 git bundle\n{tip} refs/nexus/tip\n\n").into_bytes();
            bundle.extend(
                given.git(&["pack-objects", "--revs", "--stdout", "-q"], format!("{tip}\n").as_bytes()),
            );
            bundle
        }),
        ("a hook", ".git", |given| {
            let hooks = given.tree(&[("100755", "post-commit", &given.blob(b"#!/bin/sh\nid\n"))]);
            let git = given.tree(&[("40000", "hooks", &hooks)]);
            given.with_tree(&[("40000", ".git", &git)])
        }),
        ("a hook by another name", ".git", |given| {
            let hooks = given.tree(&[("100755", "post-commit", &given.blob(b"#!/bin/sh\nid\n"))]);
            given.with_tree(&[("40000", "GIT~1", &hooks)])
        }),
        ("a path that leads out", "..", |given| {
            let out = given.tree(&[("100644", "x", &given.blob(b"2\n"))]);
            given.with_tree(&[("40000", "..", &out)])
        }),
        ("a path in one name", "full pathnames", |given| {
            given.with_tree(&[("100644", "../x", &given.blob(b"2\n"))])
        }),
        ("a link that leads out", "leads out", |given| {
            given.with_tree(&[("120000", "link", &given.blob(b"../../home"))])
        }),
        ("a file through a link", "duplicate", |given| {
            let inner = given.tree(&[("100644", "x", &given.blob(b"2\n"))]);
            given.with_tree(&[("120000", "link", &given.blob(b"/tmp")), ("40000", "link", &inner)])
        }),
        ("a submodule", "submodule", |given| given.with_tree(&[("160000", "module", &given.base)])),
        ("a file under a filter", "filter", |given| {
            let attributes = given.blob(b"*.bin filter=lfs\n");
            given.with_tree(&[
                ("100644", ".gitattributes", &attributes),
                ("100644", "x.bin", &given.blob(b"2\n")),
            ])
        }),
        ("files that are large once they are laid out", "2000000", |given| {
            let large = given.blob(&vec![b'0'; 1_000_000]);
            given.with_tree(&[("100644", "x", &large), ("100644", "y", &large)])
        }),
    ];
    let mut number = 0;
    for (what, words, lie) in lies {
        let (outcome, at) = tokio::join!(run(&backend, script(&checkout.path(), "true")), async {
            let (given, at) = Given::next(&server, number).await;
            let change = given.object(&lie(&given)).await;
            given.end(change).await;
            at
        });
        number = at;
        let error = outcome.map(|result| result.text).expect_err(what);
        assert_eq!(error.kind(), ErrorKind::Protocol, "{what}: {error:?}");
        assert!(error.message().unwrap_or_default().contains(words), "{what}: {error:?}");
        assert_eq!(error.partial().text, "Done.", "{what}");
        assert_eq!(checkout.state(), before, "{what}");
        assert_eq!(names(&home.path().join("caller")), Vec::<String>::new(), "{what}");
    }

    // What is said of the object is not true, or the turn may not write at all.
    let lies: [Untruth; 6] = [
        ("another hash", |change| change["sha256"] = "0".repeat(64).into(), ToolAccess::WorkspaceWrite),
        ("another size", |change| change["bytes"] = 7.into(), ToolAccess::WorkspaceWrite),
        ("a size beyond the bound", |change| change["bytes"] = u64::MAX.into(), ToolAccess::WorkspaceWrite),
        (
            "an object of another turn",
            |change| change["name"] = "nexus.other.x".into(),
            ToolAccess::WorkspaceWrite,
        ),
        ("neither result nor error", |change| *change = Value::Null, ToolAccess::WorkspaceWrite),
        ("a level that cannot write", |_| {}, ToolAccess::ReadOnly),
    ];
    for (what, lie, access) in lies {
        let request = script(&checkout.path(), "true").with_tool_access(access);
        let (outcome, at) = tokio::join!(run(&backend, request), async {
            let (given, at) = Given::next(&server, number).await;
            let mut change = given.object(&given.with_tree(&[("100644", "a", &given.blob(b"2\n"))])).await;
            lie(&mut change);
            given.end(change).await;
            at
        });
        number = at;
        let error = outcome.map(|result| result.text).expect_err(what);
        assert_eq!(error.kind(), ErrorKind::Protocol, "{what}: {error:?}");
        assert_eq!(checkout.state(), before, "{what}");
    }

    // The same worker, where it tells the truth, is believed; whose the commit is, the caller says.
    let (outcome, _) = tokio::join!(run(&backend, script(&checkout.path(), "true")), async {
        let (given, _) = Given::next(&server, number).await;
        let change = given.object(&given.with_tree(&[("100644", "a", &given.blob(b"2\n"))])).await;
        given.end(change).await;
    });
    assert_eq!(outcome.expect("a result").text, "Done.");
    assert_eq!(checkout.read("a"), "2\n");
    assert_eq!(checkout.git(&["log", "-1", "--format=%an %cn"]), "Nexus Nexus");
    checkout.git(&["fsck", "--strict"]);
}

async fn run(
    backend: &FleetBackend,
    request: TurnRequest,
) -> Result<nexus_core::TurnResult, nexus_core::TurnError> {
    backend.run_turn(request, TurnHost::new(), &mut NullSink).await
}
