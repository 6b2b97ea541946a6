//! One login of eight workers, each in a process of its own: before an OpenID provider and a `nats-server` that nobody here wrote.
//!
//! Needs `NEXUS_REAL_OIDC` and `NEXUS_REAL_NATS` (see `real/servers/README.md`), and Node:
//!
//! `real/clis/in-namespace cargo test -p nexus-turn-cli --test it shared_login_real:: -- --ignored`

#[path = "../../../../nexus-backends/auth/tests/login_real/provider.rs"]
#[allow(dead_code, reason = "it is the kit of another test")]
mod provider;
mod stage;

use std::{
    collections::BTreeSet,
    path::Path,
    time::{Duration, Instant, SystemTime},
};

use nexus_auth::{CredentialManager, store::StoredLogin};
use nexus_testkit::{
    issuer::Browser,
    sim::{Dialect, Reply, Scenario, Sim},
};
use provider::{Provider, person};
use stage::{Machines, WORKERS, found_in, owner_login};

use crate::support::nats::NatsServer;

/// How long the first tokens live. For the first quarter of it nothing is refreshed.
const FIRST_LIFE: Duration = Duration::from_secs(60);
/// So long that no worker has answered its turn before each has one.
const ANSWERED_AFTER: Duration = Duration::from_secs(10);

/// The refresh tokens that were presented: how many, and how many of them were spent already.
async fn refreshes(provider: &Provider) -> (usize, usize) {
    let lines = provider.lines().await;
    let refreshes: Vec<_> = lines
        .iter()
        .filter(|line| line["event"] == "answered" && line["grant_type"] == "refresh_token")
        .collect();
    (refreshes.len(), refreshes.iter().filter(|line| line["reuse"] == true).count())
}

async fn stored(manager: &CredentialManager) -> StoredLogin {
    manager.look().await.unwrap().expect("there is a login")
}

/// The tokens that the model's server was shown since `before` requests.
fn shown(model: &Sim, before: usize) -> Vec<String> {
    model.main_calls()[before..].iter().map(|call| call.bearer().unwrap_or_default().to_owned()).collect()
}

#[tokio::test]
#[ignore = "needs NEXUS_REAL_OIDC and NEXUS_REAL_NATS"]
async fn one_expiry_spends_one_refresh_token_among_eight_workers_and_no_secret_is_seen_anywhere() {
    let (server, provider) = (NatsServer::start(), Provider::start(FIRST_LIFE.as_secs()));
    let reply = || Reply::text("Titan.").after(ANSWERED_AFTER);
    let model = Scenario::new((0..WORKERS * 2).map(|_| reply())).models(["simulated"]);
    let model = Sim::start(Dialect::Responses, model).unwrap();
    let machines = Machines::new(&server, &model.base_url());
    let workers = machines.start_workers();
    assert!(
        workers[0].said().contains(&format!("the login codex is lent to {} machines", WORKERS - 1)),
        "{}",
        workers[0].said()
    );

    let manager = owner_login(&provider.url, &machines.owner().nexus_home());
    manager.sign_in(&mut person()).await.unwrap();
    let first = stored(&manager).await;
    machines.run_turns();
    assert_eq!(shown(&model, 0), vec![first.login.access_token.expose().to_owned(); WORKERS]);
    let (before, _) = refreshes(&provider).await;

    // What comes next is not short-lived, so that one refresh is all that the expiry takes.
    let life = format!("{}/test/access-token?seconds=3600", provider.url);
    assert_eq!(Browser::new().submit(&life, &[]).await.unwrap().status, 204);
    let expiring = stored(&manager).await;
    let left = expiring.login.expires_at.unwrap().duration_since(SystemTime::now()).unwrap_or_default();
    std::thread::sleep(left + Duration::from_secs(1));

    machines.run_turns();
    let second = stored(&manager).await;
    assert_ne!(second.login.access_token, expiring.login.access_token);
    assert_eq!(shown(&model, WORKERS), vec![second.login.access_token.expose().to_owned(); WORKERS]);
    assert_eq!(
        refreshes(&provider).await,
        (before + 1, 0),
        "one expiry, one refresh, and none of them twice"
    );

    let logs: Vec<_> = workers.into_iter().map(stage::Worker::drain).collect();
    let messages = server.log();
    assert_eq!(machines.askers(&messages), machines.borrowers(), "each of the others has asked");

    let secrets: BTreeSet<String> = [&first, &expiring, &second]
        .iter()
        .flat_map(|stored| [Some(&stored.login.access_token), stored.login.refresh_token.as_ref()])
        .flatten()
        .map(|secret| secret.expose().to_owned())
        .chain(machines.seeds())
        .collect();
    assert!(secrets.len() >= 4 + WORKERS, "{}", secrets.len());
    for secret in &secrets {
        assert!(!messages.contains(secret), "a secret crossed the server");
        assert!(!logs.iter().any(|log| log.contains(secret)), "a secret is in the log of a worker");
        assert_eq!(found_in(&server.store(), secret), [] as [&Path; 0], "a secret is stored at the server");
        for place in machines.found(secret) {
            assert!(machines.may_have(&place, secret), "a secret is in {}", place.display());
        }
    }
    // The search finds what is there.
    assert!(
        messages.contains(stage::QUESTION) && logs.iter().all(|log| log.contains("nexus.login.builders.m1"))
    );
    assert!(!found_in(&server.store(), "Titan.").is_empty(), "the results are stored");
    let refresh = second.login.refresh_token.as_ref().unwrap().expose();
    assert_eq!(machines.found(refresh).len(), 1, "it is kept by its owner alone");
}

#[tokio::test]
#[ignore = "needs NEXUS_REAL_OIDC and NEXUS_REAL_NATS"]
async fn without_its_owner_a_program_says_who_is_missing_and_what_to_start() {
    let server = NatsServer::start();
    let model = Sim::start(Dialect::Responses, Scenario::new([Reply::text("Titan.")]).models(["simulated"]));
    let model = model.unwrap();
    let machines = Machines::new(&server, &model.base_url());
    let began = Instant::now();
    let said = machines.run_here(1).unwrap_err();
    assert!(said.contains("worker m1 of pool builders"), "{said}");
    assert!(said.contains("run `nexus worker --pool builders --name m1`"), "{said}");
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());

    // The owner is there, and nobody has logged in; then somebody has.
    let owner = machines.start_worker(0);
    let said = machines.run_here(1).unwrap_err();
    assert!(said.contains("worker m1 of pool builders: there, run `nexus login codex`"), "{said}");
    assert_eq!(model.main_calls().len(), 0);
    let provider = Provider::start(3600);
    owner_login(&provider.url, &machines.owner().nexus_home()).sign_in(&mut person()).await.unwrap();
    machines.run_here(1).unwrap();
    drop(owner);
}
