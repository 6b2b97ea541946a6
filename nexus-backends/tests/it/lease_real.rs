//! What the vendors' own programs are lent of a login of ours, eight of them at once beside a turn of the engine,
//! against loopback servers of models and a loopback issuer.
//!
//! Needs `NEXUS_REAL_CODEX` and `NEXUS_REAL_GROK`, root, and a namespace in which only loopback is and the issuers'
//! names are 127.0.0.1:
//!
//! `real/clis/in-namespace --host auth.openai.com=127.0.0.1 --host auth.x.ai=127.0.0.1 cargo test -p nexus-turn-backends
//! --test it lease_real:: -- --ignored`

mod everything_said;
mod listener;
mod scan;
mod setup;

use std::time::Duration;

use futures::future::join_all;
use nexus_backends::{OwnLogin, auth::CredentialSource as _, logins};
use nexus_core::{ErrorKind, ToolAccess, TurnRequest};
use nexus_testkit::{
    child_test,
    issuer::{Outcome, RequestKind},
    sim::{Reply, Scenario, ToolCall},
};
use serde_json::json;

use self::{
    everything_said::EverythingSaid,
    listener::IssuerListener,
    scan::{Scan, Sight},
    setup::{REFRESH_MARK, Setup},
};
use crate::support::{ran::Ran, stage::HTTPS_PORT};

/// Turns of each program at once.
const AT_ONCE: usize = 8;

/// What the model does at a level, for some seconds, and a word that the records then hold.
fn scenario(which: OwnLogin, access: ToolAccess, setup: &Setup) -> (Scenario, &'static str) {
    match (which.as_str(), access) {
        // A program that has no shell there looks at the workspace.
        ("grok", ToolAccess::ReadOnly) => {
            std::fs::write(setup.path("work/a-file-to-be-listed"), "").unwrap();
            let list = json!({ "target_directory": setup.path("work") });
            let call = Reply::call(ToolCall::function("list_dir", list));
            let text = Reply::text("It is done.").after(Duration::from_secs(3));
            (Scenario::new([call, text]), "a-file-to-be-listed")
        }
        _ => (Scenario::tool_then_text(ToolCall::shell("sleep 3; echo slept"), "It is done."), "slept"),
    }
}

fn work(setup: &Setup, access: ToolAccess) -> TurnRequest {
    TurnRequest::new("Work.")
        .with_tool_access(access)
        .in_directory(setup.path("work"))
        .with_model(setup.model())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real CLIs; run by .ci/deep"]
async fn no_child_holds_what_makes_new_tokens_nor_asks_for_them() {
    let _port = HTTPS_PORT.lock().await;
    // Listens to all that its process logs, and looks at all that descends from it.
    if !child_test::runs_alone(no_child_holds_what_makes_new_tokens_nor_asks_for_them) {
        return;
    }
    let said = EverythingSaid::listen();
    tracing::trace!(canary = "canary-of-the-log", "the log is heard");
    let issuers = IssuerListener::at(["auth.openai.com", "auth.x.ai"]);
    let levels = [ToolAccess::ReadOnly, ToolAccess::Unrestricted];
    for (which, access) in logins().flat_map(|which| levels.map(|access| (which, access))) {
        let setup = Setup::new(which);
        let (scenario, trace) = scenario(which, access, &setup);
        setup.sim.play(scenario, "It is done.");
        let (cli, native) = (setup.cli(), setup.native());

        // Where it is allowed: the scan finds it there.
        let store = Scan::files(&setup.path("nexus/auth"));
        assert!(store.sees(REFRESH_MARK) && store.count > 0, "{store:?}");

        let watching = scan::watch(setup.path("nexus/tmp"), setup.path("home"), setup.path("work"));
        let turns = (0..AT_ONCE).map(|_| Ran::of(&*cli, work(&setup, access)));
        let engine = Ran::of(&*native, TurnRequest::new("Work.").with_model(setup.model()));
        let (ran, engine) = tokio::join!(join_all(turns), engine);
        let sight = watching.stop();

        for ran in ran.iter().chain([&engine]) {
            let result = ran.outcome.as_ref().unwrap_or_else(|error| panic!("{which}: {error:?}"));
            assert_eq!(result.text, "It is done.", "{which}");
            said.add(format!("{:?} {:?}", ran.events, ran.outcome));
        }
        check_the_children(which, &setup, &sight);

        // One owner spent one refresh token, for all of them; the model saw what came of it.
        let refreshes: Vec<_> =
            setup.issuer.asked().into_iter().filter(|asked| asked.kind == RequestKind::Refresh).collect();
        assert_eq!(refreshes.len(), 1, "{which}: {refreshes:?}");
        assert!(matches!(refreshes[0].outcome, Outcome::Granted { .. }), "{which}");
        assert_eq!(setup.issuer.asked().len(), 1, "{which}: nobody asked for anything else");
        assert_eq!(setup.issuer.reuses(), 0);
        let lent = setup.manager().credential(Duration::ZERO).await.unwrap();
        let calls = setup.sim.main_calls();
        assert!(calls.len() > 2 * AT_ONCE, "{which}: {} calls", calls.len());
        for call in &calls {
            assert_eq!(call.bearer(), Some(lent.token.expose()), "{which}");
        }

        // An error tells nothing either.
        setup.sim.refuse();
        for backend in [&cli, &native] {
            let error = Ran::of(&**backend, work_without_tools(&setup)).await.outcome.unwrap_err();
            said.add(format!("{error} {error:?} {error:#?} {:?}", std::error::Error::source(&error)));
            assert_eq!(error.kind(), ErrorKind::Unauthenticated, "{which}: {error:?}");
        }
        assert_eq!(setup.issuer.asked().len(), 1, "{which}: a fresh token that is refused costs no other");
        let look = setup.manager().look().await.unwrap();
        said.add(format!("{cli:?} {native:?} {:?} {look:?} {lent:?}", setup.manager()));

        // The homes are gone, and what is left below them is the login.
        for folder in ["nexus/tmp", "nexus/runs"] {
            assert_eq!(Scan::files(&setup.path(folder)).count, 0, "{which}: {folder}");
        }
        let after = Scan::files(&setup.path("nexus/auth"));
        assert!(after.sees(REFRESH_MARK), "{which}: the login is still there: {after:?}");
        for folder in ["home", "work", "record"] {
            assert!(!Scan::files(&setup.path(folder)).sees(REFRESH_MARK), "{which}: {folder}");
        }
        let record = Scan::files(&setup.path("record"));
        assert!(record.count >= 3 * AT_ONCE && record.sees(trace), "{which} {access:?}: {}", record.count);
        assert!(!record.sees(lent.token.expose()), "{which}: the record holds the token");
    }
    assert_eq!(issuers.stop(), 0, "a child called an issuer");
    let said = said.stop();
    assert!(
        said.contains("canary-of-the-log") && said.contains("nexus_backends") && said.contains("It is done."),
        "{} bytes were heard",
        said.len()
    );
    assert!(!said.contains(REFRESH_MARK), "{}", around(&said, REFRESH_MARK));
}

fn work_without_tools(setup: &Setup) -> TurnRequest {
    TurnRequest::new("Work.").with_model(setup.model())
}

/// What was seen of the children while they ran.
fn check_the_children(which: OwnLogin, setup: &Setup, sight: &Sight) {
    let program = match which.as_str() {
        "grok" => "grok",
        _ => "codex",
    };
    let children = sight.processes_named(program);
    assert!(children >= AT_ONCE, "{which}: {children} processes of the program were seen");
    assert!(sight.argument_lists.count >= AT_ONCE && sight.argument_lists.sees(program), "{which}");
    assert!(sight.environments.count >= AT_ONCE && sight.environments.sees("NEXUS_RUN="), "{which}");
    assert!(sight.homes.count >= AT_ONCE && sight.homes.sees("config.toml"), "{which}");
    for (place, scan) in [
        ("an argument", &sight.argument_lists),
        ("a variable", &sight.environments),
        ("a file", &sight.homes),
        ("the user's home or the workspace", &sight.elsewhere),
    ] {
        assert!(!scan.sees(REFRESH_MARK), "{which}: {place} holds it: {}", around(&scan.text, REFRESH_MARK));
    }
    // A scan that finds the access token where that is lent would find the other there as well.
    let stored = Scan::files(&setup.path("nexus/auth"));
    let token = stored.access_token();
    match which.as_str() {
        "codex" | "chatgpt" => assert!(sight.environments.sees(&token), "codex is lent a variable"),
        _ => {
            assert!(!sight.environments.sees(&token), "grok is lent no variable");
            assert!(sight.homes.sees(&token), "grok is lent a file, and the scan of the homes saw none");
        }
    }
    assert!(!sight.argument_lists.sees(&token), "{which}");
    assert!(sight.core_limits.count >= AT_ONCE, "{which}");
    assert_eq!(sight.may_dump, Vec::<String>::new(), "{which}");
}

/// The neighbourhood of a word, for a message.
fn around<'a>(text: &'a str, word: &str) -> &'a str {
    let Some(at) = text.find(word) else { return "" };
    let start = text.floor_char_boundary(at.saturating_sub(200));
    let end = text.floor_char_boundary((at + 40).min(text.len()));
    &text[start..end]
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real CLIs; run by .ci/deep"]
async fn without_a_login_the_command_is_named_and_nothing_is_asked() {
    for which in logins() {
        let setup = Setup::new(which);
        std::fs::remove_dir_all(setup.path("nexus/auth")).unwrap();
        let cli = setup.cli();
        let remedy = format!("run `nexus login {which}`");
        let probe = format!("{:?}", cli.probe().await);
        assert!(probe.starts_with("Unauthenticated") && probe.contains(&remedy), "{probe}");
        let error = Ran::of(&*cli, work(&setup, ToolAccess::Unrestricted)).await.outcome.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unauthenticated);
        assert!(error.message().unwrap().contains(&remedy), "{error:?}");
        assert!(setup.issuer.asked().is_empty() && setup.sim.requests().is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real CLIs; run by .ci/deep"]
async fn a_probe_of_a_login_that_ran_out_spends_nothing() {
    for which in logins() {
        let setup = Setup::new(which);
        let before = Scan::files(&setup.path("nexus/auth"));
        let probe = format!("{:?}", setup.cli().probe().await);
        assert!(probe.starts_with("Ready"), "{which}: {probe}");
        assert!(setup.issuer.asked().is_empty());
        assert_eq!(Scan::files(&setup.path("nexus/auth")).text, before.text);
    }
}
