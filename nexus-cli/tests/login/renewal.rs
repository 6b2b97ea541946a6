//! A command that ends while a login is being renewed.

use std::{fs, time::Duration};

use nexus_testkit::{
    issuer::{Fault, Outcome, RequestKind},
    sim::{Dialect, Reply, Scenario, Sim},
};

use crate::home::{Home, builder};

/// How late the issuer answers.
const LATE: Duration = Duration::from_secs(4);
const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn ctrl_c_in_a_renewal_costs_no_login() {
    let home = Home::new();
    let model =
        Sim::start(Dialect::Responses, Scenario::new([Reply::text("Here.")]).models(["simulated"])).unwrap();
    let issuer = builder().access_token_life(Duration::from_secs(1)).start().unwrap();
    let routes = format!(
        "groups: {{ openai: [codex-sub-token] }}\n\
         backends: {{ codex-sub-token: {{ base_url: {:?} }} }}\n\
         types: {{ talker: {{ tier: execution, phase: talk, group: openai }} }}\n",
        model.base_url()
    );
    fs::write(home.path().join("nexus.yaml"), routes).unwrap();
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
