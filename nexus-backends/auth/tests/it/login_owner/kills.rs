//! A process that is killed with a whole new login beside the old one, and whose locks the kernel gives up in an
//! unfortunate order, slowly: the lock of the login first.

use std::{
    fs::{File, OpenOptions},
    io::{BufRead as _, BufReader, Write as _},
    os::unix::{fs::OpenOptionsExt as _, net::UnixStream},
    path::PathBuf,
    process::Stdio,
    time::Duration,
};

use nexus_auth::CredentialSource as _;
use nexus_testkit::{child_test, effort};

use super::{
    issuer::NAME,
    stage::{EXPIRED, Stage},
};

/// Names the variables that tell the victim where to write, and what.
const WHERE: &str = "LOGIN_OWNER_VICTIM";
const WHAT: &str = "LOGIN_OWNER_VICTIM_TEXT";

/// What the victim prints once it has everything.
const READY: &str = "the victim is ready";

/// What the kernel has to close between the two locks.
const SOCKETS: usize = 400;

/// Not a test of its own: what is killed.
#[test]
fn victim() {
    let Some(auth) = std::env::var_os(WHERE) else { return };
    let text = std::env::var(WHAT).unwrap();
    let auth = PathBuf::from(auth);
    let named = |name: String| {
        OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(auth.join(name)).unwrap()
    };
    let locked = |name: String| {
        let file = named(name);
        file.lock().unwrap();
        file
    };
    let names = [format!(".{NAME}.json.{}-0.new", std::process::id()), format!("{NAME}.lock")];
    // What is opened first is closed first, but the kernel may give locks up in the reverse order.
    let [first, last] = if std::process::id().is_multiple_of(4) { [1, 0] } else { [0, 1] };
    let mut files = [None, None];
    files[first] = Some(locked(names[first].clone()));
    let _sockets: Vec<_> = (0..SOCKETS).map(|_| UnixStream::pair().unwrap()).collect();
    files[last] = Some(locked(names[last].clone()));
    files[0].as_mut().unwrap().write_all(text.as_bytes()).unwrap();
    println!("{READY}");
    std::thread::sleep(Duration::from_secs(60));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_comes_while_the_dead_is_still_being_buried_spends_nothing_twice() {
    for _ in 0..effort::rounds() {
        let stage = Stage::with_login(EXPIRED);
        let text = stage.renewed_by_the_dead().to_text();
        let mut victim = child_test::command(victim)
            .env(WHERE, stage.auth())
            .env(WHAT, text.expose())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(victim.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().ends_with(READY)));
        let lock = File::open(stage.lock_file()).unwrap();
        assert!(lock.try_lock().is_err());
        let asked: Vec<_> = (0..8)
            .map(|number| {
                let manager = stage.manager_apart(number);
                tokio::spawn(async move { manager.credential(Duration::from_secs(60)).await })
            })
            .collect();
        tokio::time::sleep(Duration::from_millis(30)).await;
        victim.kill().unwrap();
        for lent in asked {
            assert_eq!(lent.await.unwrap().unwrap().token.expose(), "access-2");
        }
        victim.wait().unwrap();
        assert_eq!(stage.issuer.state().reused, Vec::<String>::new());
        assert_eq!(stage.left_over(), Vec::<String>::new());
    }
}
