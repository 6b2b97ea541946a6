//! The lock, from outside: who holds it, who does not, and what frees it.

use std::{
    fs::{self, File},
    os::unix::fs::PermissionsExt as _,
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

use nexus_auth::{CredentialError, CredentialManager, CredentialSource as _, LoginError, store::MemoryStore};

use super::{
    issuer::{FromIssuer, Mood},
    processes::Told,
    stage::{ALIVE_AND_DUE, EXPIRED, Stage},
};

const A_WHILE: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn whoever_waits_in_vain_is_told_for_whom_and_a_holder_that_is_killed_frees_the_lock() {
    let stage = Stage::with_login(EXPIRED);
    stage.issuer.change(|state| state.mood = Mood::Hangs);
    let mut holder = Told::of(&stage).with_tasks(1).start();
    while File::open(stage.lock_file()).is_ok_and(|file| file.try_lock().is_ok())
        || !stage.lock_file().exists()
    {
        std::thread::sleep(Duration::from_millis(5));
    }
    let named = format!("process {}", holder.id());
    let error = stage.manager().credential(A_WHILE).await.unwrap_err();
    assert!(
        matches!(&error, CredentialError::Unreachable { reason, .. } if reason.contains(&named)),
        "{error:?}"
    );
    let error = stage.manager().log_out().await.unwrap_err();
    assert!(matches!(&error, LoginError::Busy { holder, .. } if holder.contains(&named)), "{error:?}");

    holder.kill().unwrap();
    // Time stands still here, and would not wait for the kernel.
    holder.wait().unwrap();
    stage.issuer.change(|state| state.mood = Mood::Works);
    let lent = stage.manager().credential(A_WHILE).await.unwrap();
    assert_eq!(lent.token.expose(), "access-2");
    assert_eq!(stage.issuer.state().spent, ["refresh-1"]);
}

#[tokio::test]
async fn nobody_waits_for_another_one_s_renewal_with_a_token_that_is_good_for_now() {
    let stage = Stage::with_login(ALIVE_AND_DUE);
    let lock = File::create(stage.lock_file()).unwrap();
    lock.lock().unwrap();
    let began = Instant::now();
    assert_eq!(stage.manager().credential(A_WHILE).await.unwrap().token.expose(), "access-1");
    assert!(began.elapsed() < Duration::from_secs(30));
    assert!(stage.issuer.state().spent.is_empty());
}

#[tokio::test]
async fn a_lock_file_that_is_removed_while_it_is_held_is_not_made_anew_beside_its_holder() {
    let stage = Stage::with_login(EXPIRED);
    stage.issuer.change(|state| state.holds_answers = true);
    let ask = |number| {
        let manager = stage.manager_apart(number);
        tokio::spawn(async move { manager.credential(A_WHILE).await.unwrap().token })
    };
    let first = ask(0);
    stage.issuer.was_asked().await;
    fs::remove_file(stage.lock_file()).unwrap();
    let others: Vec<_> = (1..9).map(ask).collect();
    // Time for them to come in, if they can.
    tokio::time::sleep(Duration::from_millis(100)).await;
    stage.issuer.change(|state| state.holds_answers = false);
    assert_eq!(first.await.unwrap().expose(), "access-2");
    for other in others {
        assert_eq!(other.await.unwrap().expose(), "access-2");
    }
    assert_eq!(stage.issuer.state().spent, ["refresh-1"]);
}

#[tokio::test]
async fn a_lock_file_that_is_removed_all_the_time_never_lets_two_in() {
    let stage = Stage::with_login(EXPIRED);
    stage.issuer.change(|state| (state.delay_ms, state.life_secs) = (10, 1));
    let remover = {
        let path = stage.lock_file();
        tokio::spawn(async move {
            loop {
                let _ = fs::remove_file(&path);
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
    };
    for _ in 0..10 {
        stage.clock.forward(Duration::from_secs(2));
        let asked = (0..8).map(|number| {
            let manager = stage.manager_apart(number);
            tokio::spawn(async move { manager.credential(Duration::ZERO).await })
        });
        for answer in futures::future::join_all(asked).await {
            answer.unwrap().unwrap();
        }
    }
    remover.abort();
    let state = stage.issuer.state();
    assert!(state.reused.is_empty(), "{state:?}");
    assert!(state.spent.len() >= 10, "{state:?}");
}

#[tokio::test]
async fn a_child_that_is_started_meanwhile_does_not_keep_the_lock() {
    let stage = Stage::with_login(EXPIRED);
    stage.issuer.change(|state| state.holds_answers = true);
    let manager = stage.manager();
    let renewal = tokio::spawn(async move { manager.credential(A_WHILE).await });
    stage.issuer.was_asked().await;
    assert!(File::open(stage.lock_file()).unwrap().try_lock().is_err());
    let mut child = Command::new("sleep").arg("300").spawn().unwrap();
    stage.issuer.change(|state| state.holds_answers = false);
    renewal.await.unwrap().unwrap();
    stage.lock_is_free().await;
    assert!(child.try_wait().unwrap().is_none(), "the child lives on");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[tokio::test]
async fn a_lock_folder_that_is_missing_is_made_for_us_alone() {
    let stage = Stage::with_login(EXPIRED);
    let folder = stage.home.join("elsewhere/locks");
    let store = MemoryStore::holding(stage.stored().to_text());
    let strategy = FromIssuer { issuer: stage.issuer.clone(), clock: Arc::clone(&stage.clock) as _ };
    let manager = CredentialManager::new(Arc::new(strategy), Arc::new(store), &folder);
    manager.credential(A_WHILE).await.unwrap();
    assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(fs::metadata(folder.join("test-login.lock")).unwrap().permissions().mode() & 0o777, 0o600);
}
