//! What becomes of a login while a command renews it: the command ends early, or the issuer is gone.

use std::{
    fs,
    time::{Duration, SystemTime},
};

use nexus_testkit::{
    issuer::{Fault, Outcome, RequestKind},
    sim::{Dialect, Reply, Scenario, Sim},
};

use super::home::{Home, builder};
use crate::support::PATIENCE;

/// How late the issuer answers.
const LATE: Duration = Duration::from_secs(8);

/// A home whose turns are answered by a simulated model, on the login of codex.
fn home_with_a_model() -> (Home, Sim) {
    let home = Home::new();
    let model =
        Sim::start(Dialect::Responses, Scenario::new([Reply::text("Here.")]).models(["simulated"])).unwrap();
    let routes = format!(
        "groups: {{ openai: [codex-sub-token] }}\n\
         backends: {{ codex-sub-token: {{ base_url: {:?} }} }}\n\
         types: {{ talker: {{ tier: execution, phase: talk, group: openai }} }}\n",
        model.base_url()
    );
    fs::write(home.path().join("nexus.yaml"), routes).unwrap();
    (home, model)
}

#[test]
fn ctrl_c_in_a_renewal_costs_no_login() {
    let (home, _model) = home_with_a_model();
    let issuer = builder().access_token_life(Duration::from_secs(1)).start().unwrap();
    home.log_in("codex", &issuer);
    let [_, spent] = home.stored_tokens("openai-codex");
    issuer.set_access_token_life(Duration::from_secs(3600));
    std::thread::sleep(Duration::from_millis(2100));

    // The token is spent at once, and what comes for it is long on its way.
    issuer.fail(RequestKind::Refresh, Fault::Slow(LATE));
    let turn = home.start(&["run", "talker", "Are you there?", "--quiet"]);
    let refreshed = |asked: &nexus_testkit::issuer::Asked| {
        asked.kind == RequestKind::Refresh && matches!(asked.outcome, Outcome::Granted { .. })
    };
    assert!(issuer.wait_until_blocking(PATIENCE, |issuer| issuer.asked().iter().any(refreshed)));
    turn.interrupt();
    let finished = turn.finish();
    assert_eq!(finished.code, Some(130), "{finished:?}");
    let [access, refresh] = home.stored_tokens("openai-codex");
    assert_ne!(refresh, spent, "the login that came is lost: {finished:?}");
    assert!(issuer.accepts(&access));

    issuer.heal();
    let finished = home.nexus(&["run", "talker", "And now?", "--quiet"]);
    assert_eq!((finished.code, finished.stdout.trim()), (Some(0), "Here."), "{finished:?}");
    assert_eq!((issuer.count(RequestKind::Refresh), issuer.reuses()), (1, 0));
}

/// A home whose login has two minutes left of an hour, and whose issuer is gone.
fn home_whose_issuer_is_gone() -> (Home, Sim) {
    let (home, model) = home_with_a_model();
    let mut issuer = builder().start().unwrap();
    home.log_in("codex", &issuer);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let mut stored = home.stored("openai-codex");
    stored["obtained_at"] = (now - 58 * 60).into();
    stored["expires_at"] = (now + 2 * 60).into();
    home.put("openai-codex", &format!("{stored:#}\n"));
    issuer.stop();
    (home, model)
}

#[test]
fn a_living_token_goes_on_without_its_issuer_and_the_person_is_warned() {
    let (home, _model) = home_whose_issuer_is_gone();
    let finished = home.nexus(&["run", "talker", "Are you there?", "--quiet"]);
    assert_eq!((finished.code, finished.stdout.trim()), (Some(0), "Here."), "{finished:?}");
    assert!(
        finished
            .stderr
            .starts_with("nexus: warning: a login was not renewed; its present token is still valid"),
        "{finished:?}"
    );
    assert!(finished.stderr.contains("login: openai-codex"), "{finished:?}");
    assert!(finished.stderr.lines().all(|line| line.starts_with("nexus: warning: ")), "{finished:?}");
    assert!(!finished.stderr.contains('\u{1b}'), "{finished:?}");

    // Programs read the lines on standard output, and nothing else is among them.
    let finished = home.nexus(&["run", "talker", "Are you there?", "--json"]);
    assert_eq!(finished.code, Some(0), "{finished:?}");
    for line in finished.stdout.lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap();
    }
    assert!(finished.stderr.contains("nexus: warning: "), "{finished:?}");
}

#[test]
fn warnings_are_narrowed_by_rust_log() {
    let (home, _model) = home_whose_issuer_is_gone();
    let home = home.with_variable("RUST_LOG", "error");
    let finished = home.nexus(&["run", "talker", "Are you there?", "--quiet"]);
    assert_eq!((finished.code, finished.stdout.trim()), (Some(0), "Here."), "{finished:?}");
    assert!(finished.stderr.is_empty(), "{finished:?}");
}
