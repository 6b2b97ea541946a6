//! The store in a file.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use nexus_broker::{BrokerErrorKind, BrokerStore, DocumentKind, ExpectedRevision, QueueLimits, SqliteStore};
use nexus_core::Clock;
use nexus_files::Journal;
use nexus_testkit::effort;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{
    kit::{Hands, Place, drain, kind, message, take},
    suite::suite,
};

/// A folder with a file.
pub(crate) struct File(TempDir);

impl File {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.0.path().join("broker/messages.sqlite")
    }

    fn raw(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(self.path()).unwrap()
    }
}

#[async_trait]
impl Place for File {
    async fn open(&self, limits: QueueLimits, clock: Arc<dyn Clock>) -> Arc<dyn BrokerStore> {
        Arc::new(SqliteStore::open(self.path(), limits, clock).await.unwrap())
    }

    async fn overwrite_message(&self, id: &str, text: &str) {
        let changed =
            "UPDATE body SET envelope = ?2 WHERE number = (SELECT number FROM message WHERE id = ?1)";
        assert_eq!(self.raw().execute(changed, [id, text]).unwrap(), 1);
    }

    async fn overwrite_agent(&self, key: &str, text: &str) {
        let changed = "UPDATE document SET value = ?2 WHERE kind = 'agent' AND key = ?1";
        assert_eq!(self.raw().execute(changed, [key, text]).unwrap(), 1);
    }
}

suite!(File::new());

async fn open(path: &Path) -> Result<SqliteStore, nexus_broker::BrokerError> {
    SqliteStore::open(path, QueueLimits::default(), Hands::new()).await
}

#[tokio::test]
async fn the_files_are_this_users_alone() {
    let file = File::new();
    let store = open(&file.path()).await.unwrap();
    store.put("q", &message("m", &*Hands::new())).await.unwrap();
    let folder = file.path().parent().unwrap().to_owned();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    let files: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(files.len() >= 2, "{files:?}");
    for file in files {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
    // Also those that somebody copied here.
    drop(store);
    fs::set_permissions(file.path(), fs::Permissions::from_mode(0o644)).unwrap();
    let store = open(&file.path()).await.unwrap();
    assert_eq!(mode(&file.path()), 0o600);
    assert_eq!(drain(&store, "q").await, ["m"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_make_one_file_at_once() {
    for _ in 0..effort::rounds() {
        let file = File::new();
        let mut makers = tokio::task::JoinSet::new();
        for number in 0..8 {
            let path = file.path();
            makers.spawn(async move {
                let store = open(&path).await.unwrap();
                store.put("q", &message(&format!("m{number}"), &*Hands::new())).await.unwrap();
            });
        }
        makers.join_all().await;
        assert_eq!(drain(&open(&file.path()).await.unwrap(), "q").await.len(), 8);
    }
}

#[tokio::test]
async fn a_file_of_a_newer_version_or_of_another_program_is_refused_and_left_as_it_is() {
    let file = File::new();
    drop(open(&file.path()).await.unwrap());
    let raw = rusqlite::Connection::open(file.path()).unwrap();
    raw.pragma_update(None, "user_version", 7).unwrap();
    drop(raw);
    let before = fs::read(file.path()).unwrap();
    let error = open(&file.path()).await.unwrap_err();
    assert_eq!(error.kind, BrokerErrorKind::Damaged);
    assert!(error.message.contains("newer version") && error.message.contains('7'), "{error}");
    assert!(error.message.contains(&file.path().display().to_string()), "{error}");
    assert_eq!(fs::read(file.path()).unwrap(), before);

    let file = File::new();
    fs::create_dir_all(file.path().parent().unwrap()).unwrap();
    let raw = rusqlite::Connection::open(file.path()).unwrap();
    raw.execute_batch("CREATE TABLE ours (a)").unwrap();
    drop(raw);
    let before = fs::read(file.path()).unwrap();
    let error = open(&file.path()).await.unwrap_err();
    assert_eq!(error.kind, BrokerErrorKind::Damaged);
    assert!(error.message.contains("belongs to another program"), "{error}");
    assert_eq!(fs::read(file.path()).unwrap(), before);
}

#[tokio::test]
async fn messages_agents_and_triggers_that_change_are_in_the_journal() {
    let file = File::new();
    let home = file.0.path();
    let store = open(&file.path()).await.unwrap().with_journal(Journal::in_home(home));
    let clock = Hands::new();
    for name in ["one", "two", "one"] {
        store.put("q", &message(name, &*clock)).await.unwrap();
    }
    let taken = take(&store, "q").await.unwrap();
    store.put_back(&taken.lease).await.unwrap();
    let taken = take(&store, "q").await.unwrap();
    store.finish(&taken.lease, &[]).await.unwrap();
    for kind in [DocumentKind::Agent, DocumentKind::Trigger, DocumentKind::Lock] {
        store.write(kind, "k", ExpectedRevision::Absent, &json!({})).await.unwrap();
    }
    store.delete(DocumentKind::Trigger, "k", ExpectedRevision::Anything).await.unwrap();
    let refused = store.write(DocumentKind::Agent, "k", ExpectedRevision::Absent, &json!({})).await;
    refused.unwrap_err();
    let text = fs::read_to_string(home.join("journal.jsonl")).unwrap();
    let lines = text.lines().map(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        ["kind", "id", "what"].map(|name| line[name].as_str().unwrap().to_owned()).join(" ")
    });
    let expected = [
        "message one put",
        "message two put",
        "message one taken",
        "message one put_back",
        "message one taken",
        "message one finished",
        "agent k changed",
        "trigger k changed",
        "trigger k removed",
    ];
    assert_eq!(lines.collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn a_damaged_file_is_told_of() {
    let file = File::new();
    fs::create_dir_all(file.path().parent().unwrap()).unwrap();
    fs::write(file.path(), "this is a text, and no database at all\n".repeat(200)).unwrap();
    let error = open(&file.path()).await.unwrap_err();
    assert_eq!(error.kind, BrokerErrorKind::Damaged, "{error}");
    assert!(error.message.contains(&file.path().display().to_string()) && !error.advice.is_empty());

    // One whose pages are overwritten behind the first.
    let file = File::new();
    let clock = Hands::new();
    let store = open(&file.path()).await.unwrap();
    for number in 0..50 {
        store.put("q", &message(&format!("m{number}"), &*clock)).await.unwrap();
    }
    drop(store);
    let mut bytes = fs::read(file.path()).unwrap();
    bytes[4096..].fill(0xa5);
    fs::write(file.path(), &bytes).unwrap();
    let error = match open(&file.path()).await {
        Err(error) => error,
        Ok(store) => store.put("q", &message("more", &*clock)).await.unwrap_err(),
    };
    assert_eq!(error.kind, BrokerErrorKind::Damaged, "{error}");
}

#[tokio::test]
async fn a_file_cut_off_by_a_byte_or_by_a_page_panics_nowhere() {
    let clock = Hands::new();
    let whole = File::new();
    let store = open(&whole.path()).await.unwrap();
    for number in 0..20 {
        store.put("q", &message(&format!("m{number}"), &*clock)).await.unwrap();
    }
    drop(store);
    let bytes = fs::read(whole.path()).unwrap();
    for length in [0, 1, 99, 100, 4095, 4096, bytes.len() / 2, bytes.len() - 4096, bytes.len() - 1] {
        let file = File::new();
        fs::create_dir_all(file.path().parent().unwrap()).unwrap();
        fs::write(file.path(), &bytes[..length]).unwrap();
        let came = async {
            let store = open(&file.path()).await?;
            while let Some(held) =
                store.take("q", nexus_broker::MessagePriority::Low, super::kit::LEASE).await?
            {
                store.finish(&held.lease, &[]).await?;
            }
            store.put("q", &message("more", &*clock)).await
        };
        if let Err(error) = came.await {
            assert_eq!(error.kind, BrokerErrorKind::Damaged, "{length}: {error}");
        }
    }
}

#[tokio::test]
async fn a_file_that_is_removed_or_replaced_while_it_is_open_takes_nothing_more() {
    let clock = Hands::new();
    for beside in ["", "-wal"] {
        for is_replaced in [false, true] {
            let file = File::new();
            let store = open(&file.path()).await.unwrap();
            store.put("q", &message("m", &*clock)).await.unwrap();
            let mut path = file.path().into_os_string();
            path.push(beside);
            let copy = fs::read(&path).unwrap();
            fs::remove_file(&path).unwrap();
            if is_replaced {
                // Not at the same inode.
                fs::write(file.path().with_extension("filler"), "").unwrap();
                fs::write(&path, copy).unwrap();
            }
            let error = store.put("q", &message("n", &*clock)).await.unwrap_err();
            assert_eq!(error.kind, BrokerErrorKind::Damaged, "{beside} {is_replaced}: {error}");
            assert!(error.message.contains("removed or replaced"), "{error}");
            assert_eq!(kind(store.waiting("q", 1).await), BrokerErrorKind::Damaged);
        }
    }
}

#[tokio::test]
async fn a_place_that_holds_no_file_is_named() {
    let file = File::new();
    fs::write(file.0.path().join("broker"), "a file, not a folder").unwrap();
    let error = open(&file.path()).await.unwrap_err();
    assert_eq!(error.kind, BrokerErrorKind::Failed, "{error}");
    assert!(error.message.contains(&file.path().display().to_string()), "{error}");
    // A folder in its place.
    let file = File::new();
    fs::create_dir_all(file.path()).unwrap();
    assert_eq!(kind(open(&file.path()).await), BrokerErrorKind::Failed);
}

#[tokio::test]
async fn a_message_that_was_set_aside_waits_at_its_old_place_where_it_can_be_read() {
    let file = File::new();
    let clock = Hands::new();
    let store = open(&file.path()).await.unwrap();
    for name in ["m", "n"] {
        store.put("q", &message(name, &*clock)).await.unwrap();
    }
    let raw = file.raw();
    raw.execute(
        "UPDATE body SET envelope = replace(envelope, '\"message\"', '\"gossip\"') WHERE number = 1",
        [],
    )
    .unwrap();
    let held = take(&store, "q").await.unwrap();
    assert_eq!(held.envelope.message_id.as_str(), "n");
    store.put_back(&held.lease).await.unwrap();
    assert_eq!(store.queues().await.unwrap()[0].waiting, [0, 1, 0, 0]);
    // Bytes that are no text, and none at all.
    raw.execute("UPDATE body SET envelope = CAST(x'ff00fe' AS TEXT) WHERE number = 1", []).unwrap();
    let aside = open(&file.path()).await.unwrap().set_aside(10).await.unwrap();
    assert_eq!((aside.len(), aside[0].message.as_str()), (1, "m"));
    raw.execute("DELETE FROM body WHERE number = 1", []).unwrap();
    let aside = store.set_aside(10).await.unwrap();
    assert!(aside[0].problem.contains("missing") && aside[0].stored.is_empty(), "{aside:?}");
    let json = serde_json::to_string(&message("m", &*clock)).unwrap();
    raw.execute("INSERT INTO body (number, envelope) VALUES (1, ?1)", [json]).unwrap();
    let newer = open(&file.path()).await.unwrap();
    assert!(newer.set_aside(10).await.unwrap().is_empty());
    assert_eq!(newer.queues().await.unwrap()[0].waiting, [0, 2, 0, 0]);
    assert_eq!(drain(&newer, "q").await, ["m", "n"]);
    assert!(store.queues().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_change_of_a_linked_file_is_reported() {
    let file = File::new();
    let store = open(&file.path()).await.unwrap();
    let link = file.0.path().join("elsewhere/link.sqlite");
    fs::create_dir(link.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(file.path(), &link).unwrap();
    let linked = open(&link).await.unwrap();
    let mut changes = linked.changes().unwrap();
    // The first looks of the watch are over.
    tokio::time::sleep(Duration::from_millis(500)).await;
    changes.mark_unchanged();
    store.put("q", &message("m", &*Hands::new())).await.unwrap();
    // A look without a report would find it 5 s after the start.
    tokio::time::timeout(Duration::from_secs(4), changes.changed()).await.unwrap().unwrap();
}

#[test]
fn a_caller_outside_of_a_runtime_polls() {
    let file = File::new();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let store = runtime.block_on(open(&file.path())).unwrap();
    assert!(store.changes().is_none());
    assert!(runtime.block_on(async { store.changes() }).is_some());
}
