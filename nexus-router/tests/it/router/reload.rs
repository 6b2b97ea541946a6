//! A new configuration, whole or not at all.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use nexus_core::{ExecutionBackendExt as _, TurnRequest};
use nexus_router::Router;

use super::support::{Act, answering, builder, chain, context, fake, registry, router, run};

#[test]
fn a_reload_reads_the_file_again_and_keeps_the_last_good_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nexus.yaml");
    fs::write(&path, chain("alpha-cli")).unwrap();
    let router = Router::from_file(&path, registry(), context()).unwrap();
    let chain_of = |router: &Router| router.binding("work").unwrap().chain[0].to_string();
    assert_eq!(chain_of(&router), "alpha-cli");

    fs::write(&path, chain("beta-cli")).unwrap();
    router.reload().unwrap();
    assert_eq!(chain_of(&router), "beta-cli");

    fs::write(&path, chain("bta-cli")).unwrap();
    assert!(router.reload().unwrap_err().to_string().contains("did you mean \"beta-cli\"?"));
    assert_eq!(chain_of(&router), "beta-cli");
    fs::remove_file(&path).unwrap();
    router.reload().unwrap_err();
    assert_eq!(chain_of(&router), "beta-cli");
}

#[test]
fn a_backend_that_did_not_change_stays_the_same_value() {
    let text = |url: &str| {
        format!(
            "groups: {{ main: [alpha-cli, beta-cli] }}\nbackends: {{ beta-cli: {{ base_url: {url:?} }} }}\n"
        )
    };
    let router = Router::from_str(&text("http://a"), registry(), context()).unwrap();
    let before = router.backends();
    router.replace(&text("http://b")).unwrap();
    let after = router.backends();
    assert!(Arc::ptr_eq(&before["alpha-cli"], &after["alpha-cli"]));
    assert!(!Arc::ptr_eq(&before["beta-cli"], &after["beta-cli"]));
}

#[tokio::test(start_paused = true)]
async fn a_turn_in_flight_keeps_what_it_began_with() {
    let alpha = fake("alpha", [Act::SlowFail(Duration::from_secs(10), nexus_core::ErrorKind::Transport)]);
    let (beta, delta) = (answering("beta"), answering("delta"));
    let router = router(&chain("alpha, beta"), &[&alpha, &beta, &delta]);
    let swap = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        router.replace(&chain("delta")).unwrap();
        run(&router, TurnRequest::new("x")).await.1.unwrap()
    };
    let ((_, first), second) = futures::join!(run(&router, TurnRequest::new("x")), swap);
    assert_eq!(first.unwrap().text, "from beta");
    assert_eq!(second.text, "from delta");
}

#[tokio::test]
async fn a_snapshot_keeps_its_configuration_over_a_reload() {
    let (alpha, beta) = (answering("alpha"), answering("beta"));
    let limited = nexus_core::ErrorKind::UsageLimit;
    let gamma = fake("gamma", [Act::Fail(limited, nexus_core::Retry::Never, "")]);
    let router = router(&chain("alpha"), &[&alpha, &beta, &gamma]);
    let snapshot = router.snapshot();
    router.replace(&chain("gamma, beta")).unwrap();
    let again = snapshot.clone().snapshot();
    for pinned in [&snapshot, &again] {
        assert_eq!(run(pinned, TurnRequest::new("x")).await.1.unwrap().text, "from alpha");
    }
    assert_eq!(run(&router, TurnRequest::new("x")).await.1.unwrap().text, "from beta");
    assert_eq!(snapshot.holds().len(), 1, "a refusal is every snapshot's");

    // Whoever reloads by a snapshot reloads the router, and not the snapshot.
    snapshot.replace(&chain("beta, alpha")).unwrap();
    assert_eq!(router.binding("work").unwrap().chain[0].as_str(), "beta");
    assert_eq!(snapshot.binding("work").unwrap().chain[0].as_str(), "alpha");
}

#[tokio::test]
async fn relative_paths_are_relative_to_the_file() {
    // The kind is told the folder of the file, not the current one.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nexus.yaml");
    fs::write(&path, "groups: { main: [where-cli] }\n").unwrap();
    let registry = registry().with(Arc::new(super::support::WhereKind));
    let router = Router::from_file(&path, registry, context()).unwrap();
    let told = router.backends()["where-cli"].run_text(TurnRequest::new("Where?")).await.unwrap();
    assert_eq!(told.text, folder.path().display().to_string());
}

#[test]
fn a_backend_registered_from_rust_takes_the_place_of_a_kind() {
    let own = answering("alpha-cli");
    let router = builder(&[&own]).from_str(&chain("alpha-cli")).unwrap();
    let own: Arc<dyn nexus_core::ExecutionBackend> = own;
    assert!(Arc::ptr_eq(&router.backends()["alpha-cli"], &own));
}

#[test]
fn what_is_done_at_the_start_is_done_once_by_a_router_that_was_built() {
    static STARTED: AtomicUsize = AtomicUsize::new(0);
    let registry = || {
        registry().with_start(|_| {
            STARTED.fetch_add(1, Ordering::Relaxed);
        })
    };
    Router::from_str("groups: 7\n", registry(), context()).unwrap_err();
    assert_eq!(STARTED.load(Ordering::Relaxed), 0);
    let router = Router::from_str(&chain("alpha-cli"), registry(), context()).unwrap();
    router.replace(&chain("beta-cli")).unwrap();
    assert_eq!(STARTED.load(Ordering::Relaxed), 1);
}
