//! Turns whose files travel as bundles: `workspace: git`. No folder is shared, and no worker has one in its policy.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use nexus_core::{
    BuildContext, CancelToken, ConversationMode, Effects, ErrorKind, ExecutionBackend as _, Limit, Limits,
    NullSink, Registry, ToolAccess, TurnError, TurnHost, TurnRequest, TurnResult,
};
use nexus_fleet::{FleetBackend, FleetSettings, Worker, WorkspaceMode};
use nexus_router::Router;
use nexus_testkit::{child_test, nats::NatsServer};
use nexus_trees::{Git, Project, Tree, TreeOptions};
use serde_json::json;
use tempfile::TempDir;

use super::{
    checkout::{Checkout, names},
    shell::{
        POOL, caller, caller_settings, caller_with, script, shell, stop, worker, worker_settings, worker_with,
    },
};
const FILES: &[(&str, &str)] = &[
    ("a", "1\n"),
    ("gone", "1\n"),
    ("old-name", "some text that is found again\n"),
    ("run.sh", "#!/bin/sh\n"),
    ("sub/deep/b", "1\n"),
    (".gitignore", "*.log\n/target/\n"),
];

async fn run(backend: &FleetBackend, request: TurnRequest) -> Result<TurnResult, TurnError> {
    run_until(backend, request, &CancelToken::new()).await
}

async fn run_until(
    backend: &FleetBackend,
    request: TurnRequest,
    cancel: &CancelToken,
) -> Result<TurnResult, TurnError> {
    backend.run_turn(request, TurnHost::new().with_cancel(cancel.clone()), &mut NullSink).await
}

fn home() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

/// Waits for what a turn or a test does.
async fn there(path: &Path) {
    let began = Instant::now();
    while !path.exists() {
        assert!(began.elapsed() < Duration::from_secs(180), "{}", path.display());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A script that tells that it has begun, and goes on when the test says so.
fn waits(home: &Path, before: &str, after: &str) -> String {
    let home = home.display();
    format!("{before}\n: > {home}/begun\nwhile [ ! -e {home}/go ]; do sleep 0.05; done\n{after}")
}

fn go(home: &Path) {
    fs::write(home.join("go"), "").expect("a file");
}

/// Nothing of a turn is left on either side, but what is in the repository.
fn assert_cleared(home: &Path) {
    assert_eq!(names(&home.join("worker")), Vec::<String>::new());
    assert_eq!(names(&home.join("caller")), Vec::<String>::new());
}

/// The ref under which an error says that the change is kept.
fn kept(error: &TurnError) -> String {
    let message = error.message().unwrap_or_default();
    let reference = message.split("kept as ").nth(1).unwrap_or_else(|| panic!("{error:?}"));
    reference.split(':').next().expect("a ref").to_owned()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real nats-server"]
async fn what_a_turn_changes_at_a_worker_arrives_at_its_caller() {
    let (server, home, checkout) = (NatsServer::start().await, home(), Checkout::with(FILES));
    checkout.write("kept.log", "ignored, and not touched\n");
    let (worker, backend) = (worker(&server, home.path()).await, caller(&server, home.path()));
    let before = checkout.git(&["rev-parse", "HEAD"]);
    let request = script(
        &checkout.path(),
        "pwd; echo 2 >> a; rm gone; mv old-name new-name; chmod +x run.sh; mkdir -p new/deep; printf 'x\\000y' > new/deep/c; \
         ln -s a link; test ! -e .git; test ! -e kept.log; echo x > ignored.log; mkdir target; echo x > target/x",
    );
    let result = run(&backend, request).await.expect("a result");
    assert!(result.text.starts_with(&home.path().join("worker").display().to_string()), "{}", result.text);
    assert_eq!(result.effects, Effects::Wrote);
    assert_eq!(checkout.git(&["rev-parse", "HEAD^"]), before);
    let status = checkout.git(&["diff", "--name-status", "-M", "HEAD^", "HEAD"]);
    assert_eq!(
        status.replace('\t', " "),
        "M a\nD gone\nA link\nR100 old-name new-name\nA new/deep/c\nM run.sh",
        "and nothing that is ignored"
    );
    assert_eq!(checkout.git(&["status", "--porcelain"]), "", "files and index are those of the commit");
    assert_eq!(checkout.read("a"), "1\n2\n");
    assert_eq!(fs::read(checkout.path().join("new/deep/c")).unwrap(), b"x\0y");
    assert_eq!(fs::read_link(checkout.path().join("link")).unwrap(), Path::new("a"));
    assert_eq!((checkout.mode("run.sh") & 0o111, checkout.mode("a") & 0o111), (0o111, 0));
    assert!(!checkout.path().join("gone").exists() && !checkout.path().join("ignored.log").exists());
    let message = checkout.git(&["log", "-1", "--format=%an <%ae>%n%B"]);
    assert!(
        message.starts_with("Nexus <nexus@localhost>\nChanges of a turn of shell\n\nNexus-Turn: "),
        "{message}"
    );
    assert_eq!(checkout.refs(), "", "the base is kept no longer");
    checkout.git(&["fsck", "--strict"]);
    assert_cleared(home.path());
    // The next turn begins with what the first one left; one that changes nothing commits nothing.
    let head = checkout.git(&["rev-parse", "HEAD"]);
    assert_eq!(run(&backend, script(&checkout.path(), "cat a")).await.expect("a result").text, "1\n2");
    assert_eq!(checkout.git(&["rev-parse", "HEAD"]), head);
    stop(worker).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real nats-server"]
async fn a_turn_in_a_subfolder_works_in_the_same_one_and_roots_within_the_repository_travel_too() {
    let (server, home, checkout) = (NatsServer::start().await, home(), Checkout::with(FILES));
    let (worker, backend) = (worker(&server, home.path()).await, caller(&server, home.path()));
    fs::create_dir_all(checkout.path().join("empty/folder")).unwrap();
    let request =
        script(&checkout.path().join("sub/deep"), "echo 2 > b; echo 3 > ../c; echo 4 > $ROOTS/d; pwd")
            .with_extra_root(checkout.path().join("empty/folder"));
    let result = run(&backend, request).await.expect("a result");
    assert!(result.text.ends_with("/files/sub/deep"), "{}", result.text);
    assert_eq!(
        checkout.read("sub/deep/b") + &checkout.read("sub/c") + &checkout.read("empty/folder/d"),
        "2\n3\n4\n"
    );
    // By another name of the same folder; and in a linked checkout, which has a branch of its own.
    std::os::unix::fs::symlink(checkout.path().join("sub"), home.path().join("link")).unwrap();
    run(&backend, script(&home.path().join("link/deep"), "echo 5 > b")).await.expect("a result");
    assert_eq!(checkout.read("sub/deep/b"), "5\n");
    let linked = home.path().join("linked");
    checkout.git(&["worktree", "add", "-q", "-b", "other", linked.to_str().unwrap()]);
    let head = checkout.git(&["rev-parse", "main"]);
    run(&backend, script(&linked, "echo 6 > a")).await.expect("a result");
    assert_eq!(
        (checkout.read("a").as_str(), fs::read_to_string(linked.join("a")).unwrap().as_str()),
        ("1\n", "6\n")
    );
    assert_eq!(checkout.git_in(&linked, &["status", "--porcelain"]), "");
    assert_eq!(
        (checkout.git(&["rev-parse", "main"]), checkout.git(&["rev-parse", "other^"])),
        (head.clone(), head)
    );
    // A clone without a history travels as any other.
    let shallow = home.path().join("shallow");
    let source = format!("file://{}", checkout.path().display());
    checkout.git(&["clone", "-q", "--depth", "1", &source, shallow.to_str().unwrap()]);
    run(&backend, script(&shallow, "echo 7 > a")).await.expect("a result");
    assert_eq!(checkout.git_in(&shallow, &["rev-list", "--count", "HEAD"]), "2");
    checkout.git_in(&shallow, &["fsck", "--strict"]);
    stop(worker).await;
}

/// What cannot travel is refused before anything is connected: nobody listens at the address.
#[tokio::test]
async fn what_cannot_travel_is_refused_by_its_name_before_anything_is_queued() {
    if let Err(error) = Git::find() {
        assert!(std::env::var_os("NEXUS_TEST_GIT").is_none(), "{error}");
        eprintln!("NOT TESTED: {error}");
        return;
    }
    let (home, checkout) = (home(), Checkout::with(FILES));
    let settings =
        FleetSettings { servers: vec!["nats://127.0.0.1:1".to_owned()], ..caller_settings("", home.path()) };
    let backend = caller_with(settings.clone());
    let refuses = async |request: TurnRequest, words: &[&str]| {
        let error = run(&backend, request).await.unwrap_err();
        let message = error.message().unwrap_or_default().to_owned();
        assert_eq!(error.kind(), ErrorKind::InvalidRequest, "{error:?}");
        assert!(words.iter().all(|word| message.contains(word)), "{words:?}: {message}");
        assert_eq!(error.partial().effects, Effects::None);
        assert_eq!(names(&home.path().join("caller")), Vec::<String>::new());
    };
    let go = || script(&checkout.path(), "true");
    let outside = home.path().join("outside");
    fs::create_dir(&outside).unwrap();
    refuses(script(&outside, "true"), &["not in a git repository", "workspace: shared"]).await;
    refuses(go().with_extra_root(&outside), &["outside of the repository", "extra root"]).await;
    refuses(TurnRequest::new("true").with_extra_root(&outside), &["no working directory"]).await;
    refuses(script(&checkout.path().join(".git/refs"), "true"), &[".git"]).await;

    checkout.write("a", "changed\n");
    checkout.write("sub/new", "x\n");
    checkout.write("staged", "x\n");
    checkout.git(&["add", "staged"]);
    refuses(
        script(&checkout.path().join("sub"), "true"),
        &["\"a\", \"staged\", \"sub/new\"", "git stash -u"],
    )
    .await;
    // Also of a turn that only reads: it would read something else.
    refuses(go().with_tool_access(ToolAccess::ReadOnly), &["is not committed"]).await;
    checkout.git(&["stash", "-q", "-u"]);
    checkout.git(&["switch", "-q", "--detach"]);
    refuses(go(), &["no branch is checked out"]).await;
    checkout.git(&["switch", "-q", "main"]);

    let bare = home.path().join("bare.git");
    checkout.git(&["clone", "-q", "--bare", ".", bare.to_str().unwrap()]);
    refuses(script(&bare, "true"), &["bare repository"]).await;
    let empty = Checkout::empty();
    refuses(script(&empty.path(), "true"), &["no commit"]).await;
    let parent = Checkout::with(FILES);
    parent.git(&["submodule", "--quiet", "add", checkout.path().to_str().unwrap(), "module"]);
    parent.commit("with a submodule");
    refuses(script(&parent.path(), "true"), &["module", "submodules"]).await;
    assert_eq!((checkout.refs(), parent.refs()), (String::new(), String::new()));

    // What can travel is refused by the server's absence alone. What a caller left that was killed goes by then.
    let left = home.path().join("caller/c-dead");
    fs::create_dir_all(&left).unwrap();
    let project = Project::find(checkout.path()).unwrap();
    drop(Tree::create(&Git::find().unwrap(), &left, &project, &TreeOptions::new()).unwrap());
    assert!(checkout.refs().starts_with("refs/nexus/base/"));
    let error = run(&backend, go()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Transport, "{error:?}");
    let small = caller_with(FleetSettings { max_workspace_bytes: Some(100), ..settings });
    let error = run(&small, go()).await.unwrap_err();
    let message = error.message().unwrap_or_default();
    assert!(
        error.kind() == ErrorKind::InvalidRequest && message.contains("more than 100 bytes"),
        "{error:?}"
    );
    assert_eq!(names(&home.path().join("caller")), Vec::<String>::new());
    assert_eq!(checkout.refs(), "");
}

/// What happens to a checkout meanwhile, and a word of why a change is kept then.
type Meanwhile = (&'static str, &'static str, fn(&Checkout));

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real nats-server"]
async fn a_change_is_kept_and_nothing_touched_where_the_checkout_changed_meanwhile() {
    let (server, home) = (NatsServer::start().await, home());
    let (worker, backend) = (worker(&server, home.path()).await, caller(&server, home.path()));
    let meanwhile: [Meanwhile; 5] = [
        ("dirtied", "is not committed", |checkout| checkout.write("sub/deep/b", "the person's\n")),
        ("a new file", "is not committed", |checkout| checkout.write("new", "the person's\n")),
        ("moved on", "moved on", |checkout| {
            checkout.write("sub/deep/b", "the person's\n");
            checkout.commit("second");
        }),
        ("reset", "moved on", |checkout| drop(checkout.git(&["commit", "-q", "--amend", "-m", "other"]))),
        ("another branch", "another branch", |checkout| drop(checkout.git(&["switch", "-q", "-c", "other"]))),
    ];
    for (what, words, change) in meanwhile {
        let (checkout, place) = (Checkout::with(FILES), tempfile::tempdir().unwrap());
        let request =
            script(&checkout.path(), &waits(place.path(), "echo 2 > a; echo x > created", "echo said"));
        let (outcome, state) = tokio::join!(run(&backend, request), async {
            there(&place.path().join("begun")).await;
            change(&checkout);
            let state = checkout.state();
            go(place.path());
            state
        });
        let error = outcome.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidRequest, "{what}: {error:?}");
        let message = error.message().unwrap_or_default();
        assert!(message.contains(words), "{what}: {message}");
        assert_eq!(
            (error.partial().text.as_str(), error.partial().effects),
            ("said", Effects::Wrote),
            "{what}"
        );
        let reference = kept(&error);
        let mut after = checkout.state();
        assert_eq!(std::mem::take(&mut after[3]), reference, "{what}");
        // While the turn ran, there was the ref that kept its base.
        assert!(state[3].starts_with("refs/nexus/base/"), "{what}: {}", state[3]);
        assert_eq!(after[..3], state[..3], "{what}: nothing was touched");
        assert!(message.contains(&format!("`git cherry-pick {reference}`")), "{message}");
        checkout.git(&["stash", "-q", "-u"]);
        checkout.git(&["cherry-pick", &reference]);
        assert_eq!(checkout.read("a") + &checkout.read("created"), "2\nx\n", "{what}");
        checkout.git(&["update-ref", "-d", &reference]);
        checkout.git(&["fsck", "--strict"]);
        assert_cleared(home.path());
    }
    stop(worker).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real nats-server"]
async fn what_a_turn_changed_before_it_failed_or_was_stopped_arrives_too() {
    let (server, home) = (NatsServer::start().await, home());
    let (worker, backend) = (worker(&server, home.path()).await, caller(&server, home.path()));
    for (what, after, kind) in [
        ("fails", "exit 3", ErrorKind::VendorFailure),
        ("is cancelled", "sleep 60", ErrorKind::Cancelled),
        ("runs into its deadline", "sleep 60", ErrorKind::LimitReached(Limit::Deadline)),
    ] {
        let (checkout, place) = (Checkout::with(FILES), tempfile::tempdir().unwrap());
        let cancel = CancelToken::new();
        let mut request = script(&checkout.path(), &waits(place.path(), "echo 2 > a", after));
        if kind == ErrorKind::LimitReached(Limit::Deadline) {
            request = request.with_limits(Limits::new().with_deadline(Duration::from_secs(6)));
        }
        let (outcome, ()) = tokio::join!(run_until(&backend, request, &cancel), async {
            there(&place.path().join("begun")).await;
            go(place.path());
            if kind == ErrorKind::Cancelled {
                cancel.cancel();
            }
        });
        let error = outcome.unwrap_err();
        assert_eq!(error.kind(), kind, "{what}: {error:?}");
        assert_eq!(error.partial().effects, Effects::Wrote, "{what}");
        assert_eq!(
            (checkout.read("a").as_str(), checkout.git(&["status", "--porcelain"]).as_str()),
            ("2\n", ""),
            "{what}"
        );
        assert_eq!(checkout.git(&["rev-list", "--count", "HEAD"]), "2", "{what}");
        assert_cleared(home.path());
    }
    // Before a worker has it, nothing is changed by a cancel, and nothing is left.
    stop(worker).await;
    let checkout = Checkout::with(FILES);
    let before = checkout.state();
    let cancel = CancelToken::new();
    let (outcome, ()) = tokio::join!(run_until(&backend, script(&checkout.path(), "true"), &cancel), async {
        tokio::time::sleep(Duration::from_millis(800)).await;
        cancel.cancel();
    });
    let error = outcome.unwrap_err();
    assert_eq!((error.kind(), error.partial().effects), (ErrorKind::Cancelled, Effects::None), "{error:?}");
    assert_eq!(checkout.state(), before);
    assert_cleared(home.path());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real nats-server"]
async fn a_turn_that_is_dropped_changes_nothing_and_leaves_nothing() {
    let (server, home, checkout) = (NatsServer::start().await, home(), Checkout::with(FILES));
    let (worker, backend) = (worker(&server, home.path()).await, caller(&server, home.path()));
    let before = checkout.state();
    let request = script(&checkout.path(), &waits(home.path(), "echo 2 > a", "true"));
    let begun = home.path().join("begun");
    tokio::select! {
        outcome = run(&backend, request) => panic!("{outcome:?}"),
        () = there(&begun) => {}
    }
    assert_eq!(checkout.state(), before, "the drop waits for its end");
    assert_cleared(home.path());
    stop(worker).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real nats-server"]
async fn a_level_that_cannot_write_brings_no_change_and_one_beyond_the_policy_is_refused() {
    let (server, home, checkout) = (NatsServer::start().await, home(), Checkout::with(FILES));
    let (worker, backend) = (worker(&server, home.path()).await, caller(&server, home.path()));
    let before = checkout.state();
    for access in [ToolAccess::ScopedOnly, ToolAccess::ReadOnly] {
        let request = script(&checkout.path(), "cat a; echo 2 > a").with_tool_access(access);
        assert_eq!(run(&backend, request).await.expect("a result").text, "1", "{access:?}");
    }
    stop(worker).await;
    let mut settings = worker_settings(&server.url(), home.path());
    settings.worker.access = Some(ToolAccess::ReadOnly);
    let worker = worker_with(settings, home.path()).await;
    let error = run(&backend, script(&checkout.path(), "echo 2 > a")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Forbidden, "{error:?}");
    assert_eq!(checkout.state(), before);
    assert_cleared(home.path());
    stop(worker).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real nats-server"]
async fn what_no_tree_takes_and_what_is_too_large_is_named_and_nothing_is_touched() {
    let (server, home, checkout) = (NatsServer::start().await, home(), Checkout::with(FILES));
    let mut settings = worker_settings(&server.url(), home.path());
    settings.max_workspace_bytes = Some(100_000);
    let (worker, backend) = (worker_with(settings, home.path()).await, caller(&server, home.path()));
    let before = checkout.state();
    for (does, words) in [
        ("git init -q . || mkdir .git; echo 2 > a", ".git"),
        ("mkfifo pipe; echo 2 > a", "pipe"),
        ("ln -s /etc/passwd out; echo 2 > a", "leads out"),
        ("head -c 300000 /dev/urandom > large", "100000 bytes"),
        ("head -c 3000000 /dev/zero > large", "3000000 bytes"),
    ] {
        let error = run(&backend, script(&checkout.path(), &format!("{does}; echo said"))).await.unwrap_err();
        let message = error.message().unwrap_or_default();
        assert_eq!(error.kind(), ErrorKind::InvalidRequest, "{error:?}");
        assert!(message.contains(words) && message.contains("lost"), "{words}: {message}");
        assert_eq!((error.partial().text.as_str(), error.partial().effects), ("said", Effects::Wrote));
        assert_eq!(checkout.state(), before);
        assert_cleared(home.path());
    }
    // A base that is larger than the worker takes, as a bundle or laid out, is not run.
    for content in [noise(200_000), "0".repeat(2_000_000)] {
        checkout.write("large", &content);
        checkout.commit("large");
        let before = checkout.state();
        let error = run(&backend, script(&checkout.path(), "echo 2 > a")).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.partial().effects),
            (ErrorKind::InvalidRequest, Effects::None),
            "{error:?}"
        );
        assert!(error.message().unwrap_or_default().contains("bytes"), "{error:?}");
        assert_eq!(checkout.state(), before);
        assert_cleared(home.path());
        checkout.git(&["reset", "-q", "--hard", "HEAD^"]);
    }
    stop(worker).await;
}

/// Text that does not pack.
fn noise(bytes: usize) -> String {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(b'!' + u8::try_from(state % 90).expect("small"))
    };
    (0..bytes).map(|_| next()).collect()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real nats-server"]
async fn of_turns_at_once_on_one_repository_one_lands_and_the_others_are_kept() {
    let (server, home, checkout) = (NatsServer::start().await, home(), Checkout::with(FILES));
    let (worker, backend) = (worker(&server, home.path()).await, caller(&server, home.path()));
    let turn = |name: &'static str| {
        let wait = waits(home.path(), &format!("echo {name} > {name}"), "true")
            .replace("/begun", &format!("/begun-{name}"));
        let running = run(&backend, script(&checkout.path(), &wait));
        let went = home.path().join("go");
        async move {
            let outcome = running.await;
            assert!(went.exists(), "{name} has ended before: {outcome:?}");
            outcome
        }
    };
    let (one, two, three, ()) = tokio::join!(turn("one"), turn("two"), turn("three"), async {
        for name in ["one", "two", "three"] {
            there(&home.path().join(format!("begun-{name}"))).await;
        }
        go(home.path());
    });
    let outcomes = [one, two, three];
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1, "{outcomes:?}");
    for error in outcomes.iter().filter_map(|outcome| outcome.as_ref().err()) {
        checkout.git(&["cherry-pick", &kept(error)]);
    }
    for name in ["one", "two", "three"] {
        assert_eq!(checkout.read(name).trim(), name);
    }
    assert_cleared(home.path());
    stop(worker).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real nats-server"]
async fn a_conversation_goes_on_in_the_folder_that_it_was_in() {
    let (server, home, checkout) = (NatsServer::start().await, home(), Checkout::with(FILES));
    let (worker, backend) = (worker(&server, home.path()).await, caller(&server, home.path()));
    let first = script(&checkout.path().join("sub"), "pwd; echo 2 > deep/b")
        .with_conversation(ConversationMode::Keep);
    let first = run(&backend, first).await.expect("a result");
    // Another turn meanwhile has another folder; and the worker may have been started anew.
    assert_ne!(
        run(&backend, script(&checkout.path().join("sub"), "pwd")).await.expect("a result").text,
        first.text
    );
    stop(worker).await;
    let worker = crate::fleet::shell::worker(&server, home.path()).await;
    let mut handle = first.resume.expect("a handle");
    for _ in 0..2 {
        let request = script(&checkout.path().join("sub"), "pwd; cat deep/b >> all")
            .with_conversation(ConversationMode::resume(handle));
        let next = run(&backend, request).await.expect("a result");
        assert_eq!(next.text, first.text);
        handle = next.resume.expect("a handle");
    }
    assert_eq!(checkout.read("sub/all"), "2\n2\n");
    // Two at once of one conversation: one has the folder.
    let turn = |before: &str, after: &str| {
        let request = script(&checkout.path().join("sub"), &waits(home.path(), before, after));
        run(&backend, request.with_conversation(ConversationMode::resume(handle.clone())))
    };
    let (one, two) = tokio::join!(turn("true", "true"), async {
        there(&home.path().join("begun")).await;
        let refused = turn("echo ran > /dev/null", "true").await;
        go(home.path());
        refused
    });
    one.expect("a result");
    let refused = two.unwrap_err();
    assert_eq!(
        (refused.kind(), refused.partial().effects),
        (ErrorKind::Overloaded, Effects::None),
        "{refused:?}"
    );
    assert_cleared(home.path());
    stop(worker).await;
}

/// What a worker of the first version does with a turn of the second one is shown by `python_client`: it refuses it by name.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real nats-server"]
async fn only_a_turn_whose_files_travel_is_of_the_second_version_and_names_no_folder_of_its_caller() {
    let (server, home, checkout) = (NatsServer::start().await, home(), Checkout::with(FILES));
    let git = caller(&server, home.path());
    let shared = caller_with(FleetSettings {
        workspace: WorkspaceMode::Shared,
        ..caller_settings(&server.url(), home.path())
    });
    let jetstream = async_nats::jetstream::new(server.client().await);
    let short = || Limits::new().with_deadline(Duration::from_secs(5));
    for (number, (backend, request, version)) in [
        (&git, script(&checkout.path(), "true"), 2),
        (&git, TurnRequest::new("true"), 1),
        (&shared, script(&checkout.path(), "true"), 1),
    ]
    .into_iter()
    .enumerate()
    {
        let (outcome, queued) = tokio::join!(run(backend, request.with_limits(short())), async {
            let began = Instant::now();
            loop {
                assert!(began.elapsed() < Duration::from_secs(30), "it is queued");
                if let Ok(stream) = jetstream.get_stream(format!("NEXUS_QUEUE_{POOL}")).await
                    && let Ok(message) = stream.get_raw_message(number as u64 + 1).await
                {
                    return String::from_utf8(message.payload.to_vec()).unwrap();
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        assert_eq!(outcome.unwrap_err().kind(), ErrorKind::LimitReached(Limit::Deadline));
        let turn: serde_json::Value = serde_json::from_str(&queued).unwrap();
        assert_eq!(turn["version"], version, "{turn}");
        let body = &turn["body"]["inline"];
        assert_eq!(body["workspace"].is_object(), version == 2, "{turn}");
        if version == 2 {
            assert!(!queued.contains(checkout.path().to_str().unwrap()), "{queued}");
        }
    }
    assert_cleared(home.path());
}

/// The process of a worker, which another test starts and kills: without its variable it ends at once.
#[tokio::test(flavor = "multi_thread")]
async fn worker_process() {
    let Ok(place) = std::env::var("NEXUS_TEST_GIT_WORKER") else { return };
    let (url, home) = place.split_once(' ').expect("a server and a folder");
    let home = PathBuf::from(home);
    // It ends with the test.
    std::thread::spawn(|| {
        let _ = std::io::Read::read(&mut std::io::stdin(), &mut [0]);
        std::process::exit(0);
    });
    let context = BuildContext::in_home(home.join("home"));
    let router = Router::builder(Registry::new(), context).backend(shell()).from_value(json!({}));
    let settings = worker_settings(url, &home);
    let worker = Worker::connect(settings, POOL, router.expect("a router")).await.expect("a worker");
    let told = home.join("ready");
    worker.run(CancelToken::new(), |_| fs::write(told, "").expect("a file")).await.expect("it runs");
}

/// Dropped, it is killed.
struct WorkerProcess(Child);

impl WorkerProcess {
    fn start(server: &NatsServer, home: &Path) -> Self {
        let child = child_test::command(worker_process)
            .env("NEXUS_TEST_GIT_WORKER", format!("{} {}", server.url(), home.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Self(child.expect("it starts"))
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real nats-server"]
async fn nothing_is_applied_of_a_turn_whose_worker_is_killed_and_the_next_worker_clears_its_files() {
    let (server, home, checkout) = (NatsServer::start().await, home(), Checkout::with(FILES));
    let process = WorkerProcess::start(&server, home.path());
    there(&home.path().join("ready")).await;
    let backend = caller(&server, home.path());
    let before = checkout.state();
    let request = script(&checkout.path(), &waits(home.path(), "echo 2 > a", "true"));
    let (outcome, ()) = tokio::join!(run(&backend, request), async {
        there(&home.path().join("begun")).await;
        drop(process);
        go(home.path());
    });
    let error = outcome.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Crashed, "{error:?}");
    // As they were stored, or unknown if the worker was killed before that.
    assert!(error.partial().effects >= Effects::Wrote, "{:?}", error.partial().effects);
    assert_eq!(checkout.state(), before);
    assert_eq!(names(&home.path().join("worker")).len(), 1, "its files are left");
    let worker = worker(&server, home.path()).await;
    assert_cleared(home.path());
    run(&backend, script(&checkout.path(), "echo 3 > a")).await.expect("a result");
    assert_eq!(checkout.read("a"), "3\n");
    stop(worker).await;
}
