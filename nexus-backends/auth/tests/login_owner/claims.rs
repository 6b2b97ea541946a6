//! Claims, which stand for locks where locks may lie. Hosts that are not there are written by hand.

use std::{
    fs,
    path::PathBuf,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use nexus_auth::{CredentialError, CredentialSource as _};
use nexus_core::Secret;
use serde_json::json;

use crate::{
    processes::Told,
    stage::{EXPIRED, Stage},
};

const A_WHILE: Duration = Duration::from_secs(60);

fn claim_file(stage: &Stage) -> PathBuf {
    stage.auth().join("test-login.claim")
}

/// What another machine writes.
fn foreign_claim() -> String {
    json!({
        "host": "elsewhere", "boot_id": "c0ffee", "pid_namespace": "pid:[1]", "pid": 7, "start_ticks": 7,
        "since": 0, "nonce": "0",
    })
    .to_string()
}

#[tokio::test]
async fn a_claim_stands_while_a_token_is_spent_and_is_gone_then() {
    let stage = Stage::with_login(EXPIRED);
    stage.issuer.change(|ledger| ledger.delay_ms = 200);
    let keeper = stage.keeper().distrusting_locks();
    let renewal = tokio::spawn(async move { keeper.credential(A_WHILE).await });
    while stage.issuer.ledger().spent.is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let text = fs::read_to_string(claim_file(&stage)).unwrap();
    assert!(text.contains(&format!("\"pid\":{}", std::process::id())), "{text}");
    assert!(!text.contains("refresh-") && !text.contains("access-"), "{text}");
    renewal.await.unwrap().unwrap();
    assert_eq!(stage.left_over(), Vec::<String>::new());
}

#[tokio::test]
async fn no_claim_is_made_where_locks_hold() {
    let stage = Stage::with_login(EXPIRED);
    stage.issuer.change(|ledger| ledger.delay_ms = 200);
    let keeper = stage.keeper();
    let renewal = tokio::spawn(async move { keeper.credential(A_WHILE).await });
    while stage.issuer.ledger().spent.is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(!claim_file(&stage).exists());
    renewal.await.unwrap().unwrap();
}

#[tokio::test]
async fn another_machine_s_claim_is_waited_for_and_what_it_wrote_is_adopted() {
    let stage = Stage::with_login(EXPIRED);
    fs::write(claim_file(&stage), foreign_claim()).unwrap();
    let keeper = stage.keeper().distrusting_locks();
    let mut waiting = tokio::spawn(async move { keeper.credential(A_WHILE).await });
    assert!(tokio::time::timeout(Duration::from_millis(300), &mut waiting).await.is_err());

    let mut renewed = stage.stored();
    renewed.generation += 1;
    renewed.login.access_token = Secret::new("access-from-elsewhere");
    renewed.login.expires_at = renewed.login.expires_at.map(|end| end + EXPIRED);
    stage.write(&renewed);
    assert_eq!(waiting.await.unwrap().unwrap().token.expose(), "access-from-elsewhere");
    assert!(stage.issuer.ledger().spent.is_empty());
    assert_eq!(fs::read_to_string(claim_file(&stage)).unwrap(), foreign_claim(), "it is not ours to remove");
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_nobody_stands_for_is_watched_before_it_is_taken_away() {
    for text in [foreign_claim(), String::new(), "{ torn".to_owned()] {
        let stage = Stage::with_login(EXPIRED);
        fs::write(claim_file(&stage), &text).unwrap();
        let began = tokio::time::Instant::now();
        let lent = stage.keeper().distrusting_locks().credential(A_WHILE).await.unwrap();
        assert_eq!(lent.token.expose(), "access-2");
        let waited = began.elapsed();
        assert!(waited >= Duration::from_secs(90), "{text:?}: {waited:?}");
        assert_eq!(stage.issuer.ledger().spent, ["refresh-1"]);
        assert_eq!(stage.left_over(), Vec::<String>::new());
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_is_watched_on_while_others_here_look_at_it_too() {
    let stage = Stage::with_login(EXPIRED);
    fs::write(claim_file(&stage), foreign_claim()).unwrap();
    let file = fs::File::create(stage.lock_file()).unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    let others = {
        let is_over = Arc::clone(&is_over);
        std::thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                file.lock().unwrap();
                std::thread::sleep(Duration::from_micros(300));
                file.unlock().unwrap();
                std::thread::sleep(Duration::from_micros(300));
            }
        })
    };
    let lent = stage.keeper().distrusting_locks().credential(A_WHILE).await;
    is_over.store(true, Ordering::Relaxed);
    others.join().unwrap();
    assert_eq!(lent.unwrap().token.expose(), "access-2");
}

#[tokio::test(start_paused = true)]
async fn claims_that_follow_each_other_are_each_watched_anew() {
    let stage = Stage::with_login(EXPIRED);
    let keeper = stage.keeper().distrusting_locks();
    fs::write(claim_file(&stage), foreign_claim()).unwrap();
    let mut waiting = pin_credential(&keeper);
    assert!(tokio::time::timeout(Duration::from_secs(60), &mut waiting).await.is_err());
    fs::write(claim_file(&stage), foreign_claim().replace("\"nonce\":\"0\"", "\"nonce\":\"1\"")).unwrap();
    assert!(tokio::time::timeout(Duration::from_secs(39), &mut waiting).await.is_err());
    assert!(stage.issuer.ledger().spent.is_empty());
    waiting.await.unwrap_err();
    // The next caller goes on watching where the last one ended.
    keeper.credential(A_WHILE).await.unwrap();
    assert_eq!(stage.issuer.ledger().spent, ["refresh-1"]);
}

fn pin_credential(
    keeper: &nexus_auth::LoginKeeper,
) -> futures::future::BoxFuture<'_, Result<nexus_auth::Credential, nexus_auth::CredentialError>> {
    keeper.credential(A_WHILE)
}

#[tokio::test]
async fn what_is_no_file_in_the_place_of_a_claim_is_an_error_and_nothing_is_spent() {
    for what in ["a dangling link", "a link to a file", "a pipe", "a folder"] {
        let stage = Stage::with_login(EXPIRED);
        let path = claim_file(&stage);
        match what {
            "a dangling link" => std::os::unix::fs::symlink(stage.home.join("nowhere"), &path).unwrap(),
            "a link to a file" => std::os::unix::fs::symlink("test-login.json", &path).unwrap(),
            "a pipe" => assert!(Command::new("mkfifo").arg(&path).status().unwrap().success()),
            _ => fs::create_dir(&path).unwrap(),
        }
        let keeper = stage.keeper().distrusting_locks();
        let asked = tokio::time::timeout(Duration::from_secs(20), keeper.credential(A_WHILE)).await;
        let error = asked.expect(what).unwrap_err();
        assert!(
            matches!(&error, CredentialError::Unreadable { reason, .. } if reason.contains("test-login.claim is not a file")),
            "{what}: {error:?}"
        );
        assert!(stage.issuer.ledger().spent.is_empty(), "{what}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_dead_process_s_claim_is_taken_over_by_exactly_one_of_eight() {
    let text = |path: &str| fs::read_to_string(path).unwrap().trim().to_owned();
    let mut dead = Command::new("true").spawn().unwrap();
    dead.wait().unwrap();
    let stage = Stage::with_login(EXPIRED);
    stage.issuer.change(|ledger| ledger.delay_ms = 100);
    let claim = json!({
        "host": "here",
        "boot_id": text("/proc/sys/kernel/random/boot_id"),
        "pid_namespace": fs::read_link("/proc/self/ns/pid").unwrap(),
        "pid": dead.id(), "start_ticks": 7, "since": 0, "nonce": "0",
    });
    fs::write(claim_file(&stage), claim.to_string()).unwrap();
    let answers = Told::of(&stage).with_tasks(4).distrusting_locks().run(8);
    assert_eq!(answers, vec!["access-2"; 32]);
    assert_eq!(stage.issuer.ledger().spent, ["refresh-1"]);
    assert_eq!(stage.left_over(), Vec::<String>::new());
}
