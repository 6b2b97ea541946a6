//! Holds and slots that several programs share, before a real server.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, SystemTime},
};

use nexus_core::{
    BackendId, BuildContext, ErrorKind, EventEnvelope, ExecutionBackend, Registry, Retry, TurnHost,
    TurnRequest,
};
use nexus_fleet::{Fleet, FleetBackend, FleetHoldStore, FleetPools, FleetSettings, WorkerSettings};
use nexus_router::{
    Hold, Router,
    hold::{HoldStore as _, Revision, Slot},
};
use nexus_testkit::{
    nats::NatsServer,
    scripted::{ScriptedBackend, failure},
};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::support::remote::WorkerThread;

const BRIEF: Duration = Duration::from_millis(10);
/// Longer than anything takes that is well.
const LONG: Duration = Duration::from_secs(60);
/// How many programs share.
const STORES: usize = 8;

fn fleet_at(server: &NatsServer) -> Fleet {
    let settings = FleetSettings { servers: vec![server.url()], ..FleetSettings::default() };
    Fleet::new(settings).expect("a thread")
}

/// Stores as so many programs would have them.
fn stores(server: &NatsServer, count: usize) -> Vec<FleetHoldStore> {
    (0..count).map(|_| FleetHoldStore::new(&fleet_at(server))).collect()
}

pub(crate) fn hold_because(backend: &str, reason: &str) -> Hold {
    hold_of_kind(backend, reason, "rate_limited")
}

fn hold_of_kind(backend: &str, reason: &str, kind: &str) -> Hold {
    let since = SystemTime::now();
    let hold = json!({
        "backend": backend, "since": since, "until": since + Duration::from_secs(3_600), "guessed": false,
        "named_until": null, "kind": kind, "reason": reason, "probing": true,
    });
    serde_json::from_value(hold).expect("a hold")
}

pub(crate) fn turn(backend: &str, index: usize) -> Slot {
    Slot::Turn(backend.into(), index)
}

pub(crate) async fn until(what: &str, within: Duration, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < within, "not within {within:?}: {what}");
        sleep(BRIEF).await;
    }
}

async fn free_within(store: &FleetHoldStore, slot: &Slot, within: Duration) -> Duration {
    let began = Instant::now();
    loop {
        // A server that is just starting answers nothing.
        if let Ok(Some(_)) = store.claim(slot).await {
            return began.elapsed();
        }
        assert!(began.elapsed() < within, "the slot is not free within {within:?}");
        sleep(BRIEF * 5).await;
    }
}

#[tokio::test]
#[ignore = "needs a real nats-server"]
async fn a_hold_that_one_program_sees_reaches_the_others_at_once_and_so_does_its_end() {
    let server = NatsServer::start().await;
    let stores = stores(&server, STORES);
    for store in &stores {
        assert!(store.known().is_empty() && store.list().await.unwrap().is_empty());
    }
    let alpha = BackendId::from("alpha");
    assert!(stores[0].swap(&alpha, None, Some(hold_because("alpha", "slow down"))).await.unwrap());
    assert_eq!(stores[0].known().len(), 1, "the one that armed it knows at once");
    for store in &stores {
        until("the hold is known", LONG, || store.known().len() == 1).await;
        let known = &store.known()[0];
        assert_eq!((known.reason.as_str(), known.probing), ("slow down", false));
        assert_eq!(store.list().await.unwrap()[0].hold, *known);
    }

    let probe = Slot::Probe(alpha.clone());
    let claim = stores[1].claim(&probe).await.unwrap().expect("the probe is free");
    for store in &stores {
        until("the probe is known", LONG, || store.known()[0].probing).await;
        assert!(store.get(&alpha).await.unwrap().unwrap().hold.probing);
    }
    drop(claim);
    assert!(!stores[1].get(&alpha).await.unwrap().unwrap().hold.probing);
    for store in &stores {
        until("the probe is over", LONG, || !store.known()[0].probing).await;
    }

    let revision = stores[2].get(&alpha).await.unwrap().unwrap().revision;
    assert!(stores[2].swap(&alpha, Some(revision), None).await.unwrap());
    assert!(!stores[3].swap(&alpha, Some(revision), None).await.unwrap(), "an end that was one already");
    for store in &stores {
        until("the end is known", LONG, || store.known().is_empty()).await;
    }
}

#[tokio::test]
#[ignore = "needs a real nats-server"]
async fn of_eight_programs_that_change_a_hold_exactly_one_does() {
    const ROUNDS: usize = 25;
    let server = NatsServer::start().await;
    let stores = stores(&server, STORES);
    let alpha = BackendId::from("alpha");
    let mut expected: Option<Revision> = None;
    for round in 0..ROUNDS {
        let tries = stores.iter().enumerate().map(|(index, store)| {
            let (store, alpha) = (store.clone(), alpha.clone());
            tokio::spawn(async move {
                let hold = hold_because("alpha", &format!("{round}/{index}"));
                store.swap(&alpha, expected, Some(hold)).await.unwrap()
            })
        });
        let won = futures::future::join_all(tries.collect::<Vec<_>>()).await;
        let winners: Vec<_> = won.into_iter().enumerate().filter(|(_, won)| *won.as_ref().unwrap()).collect();
        assert_eq!(winners.len(), 1, "round {round}");
        let stored = stores[round % STORES].get(&alpha).await.unwrap().unwrap();
        assert_eq!(stored.hold.reason, format!("{round}/{}", winners[0].0));
        assert!(expected.is_none_or(|before| before < stored.revision));
        expected = Some(stored.revision);
        // One that was removed and armed again has another revision.
        if round % 5 == 4 {
            assert!(stores[0].swap(&alpha, expected, None).await.unwrap());
            assert!(!stores[1].swap(&alpha, expected, Some(hold_because("alpha", "late"))).await.unwrap());
            expected = None;
        }
    }
}

#[tokio::test]
#[ignore = "needs a real nats-server"]
async fn one_program_has_a_slot_and_when_it_gives_it_back_it_is_free_at_once() {
    let server = NatsServer::start().await;
    let stores = stores(&server, STORES);
    let mut waited = Duration::ZERO;
    for round in 0..20 {
        let tries = stores.iter().map(|store| {
            let store = store.clone();
            tokio::spawn(async move { store.claim(&turn("a.b *", 0)).await.unwrap() })
        });
        let claims = futures::future::join_all(tries.collect::<Vec<_>>()).await;
        let mut claims: Vec<_> = claims.into_iter().filter_map(Result::unwrap).collect();
        assert_eq!(claims.len(), 1, "round {round}");
        assert!(stores[round % STORES].claim(&turn("a.b *", 1)).await.unwrap().is_some());
        drop(claims.pop());
        waited += free_within(&stores[round % STORES], &turn("a.b *", 0), LONG).await;
        stores[round % STORES].settle().await;
    }
    // A slot that is not given back is free after half a minute.
    assert!(waited < LONG, "{waited:?}");
    // In one program no moment is lost: the next claim waits for what is being given back.
    for _ in 0..20 {
        drop(stores[0].claim(&turn("c", 0)).await.unwrap().expect("it is free"));
    }
    stores[0].settle().await;
    assert!(stores[1].claim(&turn("c", 0)).await.unwrap().is_some());
}

#[tokio::test]
#[ignore = "needs a real nats-server"]
async fn a_slot_of_a_program_that_was_killed_is_free_again_and_one_that_lives_keeps_its_own() {
    let server = NatsServer::start().await;
    let (killed, alive, other) = (fleet_at(&server), fleet_at(&server), fleet_at(&server));
    let store = FleetHoldStore::new(&killed);
    // Twice, so that the second is over the mark of the first.
    drop(store.claim(&turn("alpha", 0)).await.unwrap());
    let lost = store.claim(&turn("alpha", 0)).await.unwrap().expect("it is free");
    let alive = FleetHoldStore::new(&alive);
    let kept = alive.claim(&turn("alpha", 1)).await.unwrap().expect("it is free");
    // Nothing is given back, as by a process that is killed.
    std::mem::forget(lost);
    drop((store, killed));
    let other = FleetHoldStore::new(&other);
    assert!(other.claim(&turn("alpha", 0)).await.unwrap().is_none(), "it has its time");
    let waited = free_within(&other, &turn("alpha", 0), LONG).await;
    assert!(waited > Duration::from_secs(20), "{waited:?}");
    sleep(Duration::from_secs(33).saturating_sub(waited)).await;
    assert!(other.claim(&turn("alpha", 1)).await.unwrap().is_none(), "it was renewed");
    drop(kept);
    free_within(&other, &turn("alpha", 1), LONG).await;
}

#[tokio::test]
#[ignore = "needs a real nats-server"]
async fn a_server_that_starts_again_has_lost_nothing() {
    let server = NatsServer::start().await;
    let stores = stores(&server, 2);
    let (alpha, beta) = (BackendId::from("alpha"), BackendId::from("beta"));
    assert!(stores[1].known().is_empty());
    assert!(stores[0].swap(&alpha, None, Some(hold_because("alpha", "before"))).await.unwrap());
    let kept = stores[0].claim(&turn("alpha", 0)).await.unwrap().expect("it is free");
    until("the hold is known", LONG, || stores[1].known().len() == 1).await;

    server.kill();
    sleep(Duration::from_secs(2)).await;
    stores[1].get(&alpha).await.unwrap_err();
    assert_eq!(stores[1].known()[0].reason, "before", "it goes on by what it knew");
    server.restart().await;

    let began = Instant::now();
    let stored = loop {
        match stores[1].get(&alpha).await {
            Ok(stored) => break stored.expect("the hold is kept"),
            Err(error) => assert!(began.elapsed() < LONG, "{error}"),
        }
        sleep(BRIEF).await;
    };
    assert_eq!(stored.hold.reason, "before");
    // What is armed now is heard of again by those that listened before.
    let began = Instant::now();
    while !matches!(stores[0].swap(&beta, None, Some(hold_because("beta", "after"))).await, Ok(true)) {
        assert!(began.elapsed() < LONG, "it cannot be armed");
        sleep(BRIEF).await;
    }
    until("the hold after it is known", LONG, || stores[1].known().len() == 2).await;
    sleep(Duration::from_secs(32)).await;
    assert!(
        stores[1].claim(&turn("alpha", 0)).await.unwrap().is_none(),
        "the slot was renewed all the while"
    );
    drop(kept);
    free_within(&stores[1], &turn("alpha", 0), LONG).await;
}

#[tokio::test]
#[ignore = "needs a real nats-server"]
async fn backends_of_one_account_share_its_holds_and_slots() {
    let server = NatsServer::start().await;
    let (one, other) = (fleet_at(&server), fleet_at(&server));
    let one = FleetHoldStore::new(&one).with_account("alpha", "team-a").with_account("beta", "team-a");
    let other = FleetHoldStore::new(&other).with_account("gamma", "team-a");
    let gamma = BackendId::from("gamma");
    assert!(one.swap(&"alpha".into(), None, Some(hold_because("alpha", "slow down"))).await.unwrap());
    let backends =
        |holds: Vec<Hold>| holds.into_iter().map(|hold| hold.backend.to_string()).collect::<Vec<_>>();
    assert_eq!(backends(one.known()), ["alpha", "beta"]);
    assert_eq!(other.get(&gamma).await.unwrap().unwrap().hold.backend, gamma);
    assert_eq!(other.list().await.unwrap().len(), 1);
    assert!(other.get(&"team-a".into()).await.unwrap().is_some(), "a backend called like the account has it");
    let _claim = one.claim(&turn("beta", 0)).await.unwrap().expect("it is free");
    assert!(other.claim(&turn("gamma", 0)).await.unwrap().is_none());
}

#[tokio::test]
#[ignore = "needs a real nats-server"]
async fn a_caller_takes_no_slot_and_arms_no_hold_of_a_backend_whose_turns_run_in_a_pool() {
    let server = NatsServer::start().await;
    let (pools, section) = (FleetPools::new(), json!({ "servers": [server.url()] }));
    let folder = tempfile::tempdir().unwrap();
    let context = BuildContext::in_home(folder.path());
    let registry = Registry::new()
        .with(Arc::new(nexus_backends::codex::cli::CodexCli))
        .with_pools(Arc::new(pools.clone()));
    let config = json!({ "fleet": section, "backends": { "codex-cli": { "pool": "builders" } } });
    let router = Router::from_value(config, registry, context.clone()).expect("a router");
    let backend = BackendId::from("codex-cli");
    assert!(router.backends().contains_key(&backend));
    let caller = FleetHoldStore::new(&pools.fleet(&section, &context).expect("a share"));
    let worker = FleetHoldStore::new(&fleet_at(&server));

    // Else a turn would wait at its worker for the slot that it has here.
    for slot in [turn("codex-cli", 0), Slot::Probe(backend.clone()), Slot::Next(backend.clone())] {
        let _here = caller.claim(&slot).await.unwrap().expect("it is free here");
        assert!(caller.claim(&slot).await.unwrap().is_none());
        assert!(worker.claim(&slot).await.unwrap().is_some(), "{slot:?}");
        worker.settle().await;
    }
    assert!(
        caller.swap(&backend, None, Some(hold_because("codex-cli", "as the worker said"))).await.unwrap()
    );
    assert!(worker.list().await.unwrap().is_empty());
    let waiting = hold_of_kind("codex-cli", "too many of this caller's wait", "overloaded");
    assert!(caller.swap(&backend, None, Some(waiting)).await.unwrap());
    assert!(worker.list().await.unwrap().is_empty());
    let local = caller.get(&backend).await.unwrap().unwrap();
    assert_eq!((caller.known().len(), caller.list().await.unwrap().len()), (1, 1));
    assert!(caller.swap(&backend, Some(local.revision), None).await.unwrap());
    assert_eq!(caller.get(&backend).await.unwrap(), None);

    assert!(worker.swap(&backend, None, Some(hold_because("codex-cli", "used up"))).await.unwrap());
    let shared = caller.get(&backend).await.unwrap().expect("the worker's hold counts here");
    assert_eq!(shared.hold.reason, "used up");
    assert!(caller.swap(&backend, Some(shared.revision), None).await.unwrap(), "it can be let go from here");
    assert_eq!(worker.get(&backend).await.unwrap(), None);
    drop(router);
}

#[tokio::test]
async fn servers_that_cannot_be_reached_are_no_reason_to_wait() {
    let settings =
        FleetSettings { servers: vec!["nats://127.0.0.1:1".to_owned()], ..FleetSettings::default() };
    let store = FleetHoldStore::new(&Fleet::new(settings).expect("a thread"));
    let began = Instant::now();
    for _ in 0..20 {
        let error = store.get(&"alpha".into()).await.unwrap_err().to_string();
        assert!(error.contains("no server of the fleet answers at nats://127.0.0.1:1"), "{error}");
        // Else a turn would wait for a server for ever; the count is that of this machine.
        let _here = store.claim(&turn("alpha", 0)).await.unwrap().expect("it is free here");
        assert!(store.claim(&turn("alpha", 0)).await.unwrap().is_none());
    }
    assert!(store.known().is_empty());
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
}

/// One worker of eight is refused: once the others know, none of them asks the vendor again.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real nats-server"]
async fn one_refusal_at_one_of_eight_workers_holds_the_account_for_all() {
    let server = NatsServer::start().await;
    let limited = Arc::new(ScriptedBackend::new("limited", |_| {
        let retry = Retry::After(Duration::from_secs(3_600));
        Box::pin(async move { Err(failure(ErrorKind::RateLimited).with_retry(retry)) })
    }));
    let home = tempfile::tempdir().expect("a folder");
    let (mut workers, mut stores) = (Vec::new(), Vec::new());
    for number in 0..STORES {
        let settings = FleetSettings {
            servers: vec![server.url()],
            worker: WorkerSettings {
                name: Some(format!("w{number}")),
                turns: Some(3),
                ..WorkerSettings::default()
            },
            ..FleetSettings::default()
        };
        let store = FleetHoldStore::new(&fleet_at(&server));
        stores.push(store.clone());
        let builder = Router::builder(Registry::new(), BuildContext::in_home(home.path()))
            .backend(Arc::clone(&limited) as Arc<dyn ExecutionBackend>)
            .hold_store(Arc::new(store));
        let started = move || WorkerThread::start_router(settings, "builders", builder);
        workers.push(tokio::task::spawn_blocking(started).await.expect("it starts"));
    }
    let caller = FleetBackend::new(limited.clone(), "builders", fleet_at(&server));
    let ask = async || {
        let mut unwatched = |_: EventEnvelope| {};
        caller.run_turn(TurnRequest::new("Go."), TurnHost::new(), &mut unwatched).await.unwrap_err()
    };
    assert_eq!(ask().await.kind(), ErrorKind::RateLimited);
    for store in &stores {
        until("the hold is known", LONG, || store.known().len() == 1).await;
    }
    // Three for each worker, so that none is left out.
    let errors = futures::future::join_all((0..3 * STORES).map(|_| ask())).await;
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::RateLimited, "{error:?}");
    }
    assert_eq!(limited.turns(), 1, "the vendor was asked once");
    tokio::task::spawn_blocking(move || drop(workers)).await.expect("they end");
}

/// What waits for a slot of an account that another program has.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real nats-server"]
async fn who_waits_for_a_slot_asks_seldom_and_is_woken_when_it_is_free() {
    use futures::StreamExt as _;
    let server = NatsServer::start().await;
    let holder = FleetHoldStore::new(&fleet_at(&server));
    let slot = turn("alpha", 0);
    let taken = holder.claim(&slot).await.unwrap().expect("it is free");
    let asked = Arc::new(AtomicUsize::new(0));
    let counting = Arc::clone(&asked);
    let mut requests =
        server.client().await.subscribe("$JS.API.STREAM.MSG.GET.KV_NEXUS_SLOTS").await.unwrap();
    tokio::spawn(async move {
        while requests.next().await.is_some() {
            counting.fetch_add(1, Ordering::Relaxed);
        }
    });
    let waiting: Vec<_> = stores(&server, STORES)
        .into_iter()
        .map(|store| {
            let slot = slot.clone();
            tokio::spawn(async move {
                let mut tries = 0;
                loop {
                    if let Some(claim) = store.claim(&slot).await.unwrap() {
                        drop(claim);
                        store.settle().await;
                        return Instant::now();
                    }
                    store.wait_for(std::slice::from_ref(&slot), tries).await;
                    tries += 1;
                }
            })
        })
        .collect();
    let began = Instant::now();
    until("each has asked", LONG, || asked.load(Ordering::Relaxed) >= STORES).await;
    sleep(Duration::from_secs(10)).await;
    let asked = asked.load(Ordering::Relaxed);
    // By the clock it would be ten a second of each.
    let most = STORES as f64 * 2.0 * began.elapsed().as_secs_f64();
    assert!(asked as f64 <= most, "{asked} requests of {STORES} waiters within {:?}", began.elapsed());
    let freed = Instant::now();
    drop(taken);
    let ended = futures::future::join_all(waiting).await;
    for end in ended {
        let waited = end.unwrap().duration_since(freed);
        assert!(waited < LONG, "{waited:?}");
    }
}
