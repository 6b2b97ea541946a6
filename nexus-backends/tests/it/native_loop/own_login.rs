//! A native backend on a login of our own: renewed before it ends and once when it is refused, and never twice.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use nexus_backends::{
    auth::{
        Login,
        store::{LoginStore, StoredLogin, TokenStore as _},
    },
    login, registry,
};
use nexus_core::{Availability, BackendId, BuildContext, ErrorKind, ExecutionBackend, TurnEvent, TurnHost};
use nexus_testkit::issuer::{Fault, Issuer, RequestKind};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{
    server::{Canned, message, reply, status, stream},
    stage::{request, run},
};

const HOUR: Duration = Duration::from_secs(3600);

/// A home of Nexus, and the issuer of the login in it.
struct Home {
    folder: TempDir,
    issuer: Issuer,
    /// The access token of the login.
    first_token: String,
}

impl Home {
    /// With a login that is `age` old; its token lives for an hour.
    fn with_login(age: Duration) -> Self {
        let issuer = Issuer::start().unwrap();
        let origin = serde_json::to_value(login("grok").unwrap().issuer().with_url(issuer.url())).unwrap();
        let Value::Object(origin) = origin else { panic!("an issuer is an object") };
        let tokens = issuer.issue(&login("grok").unwrap().issuer().client_id);
        let login = Login::new(tokens.access_token.clone(), SystemTime::now() - age)
            .with_refresh_token(tokens.refresh_token)
            .with_lifetime(Some(HOUR))
            .with_origin(origin);
        let folder = tempfile::tempdir().unwrap();
        let store = LoginStore::at(folder.path(), "grok-build");
        store.prepare().unwrap().commit(&StoredLogin::new(login).to_text()).unwrap();
        Self { folder, issuer, first_token: tokens.access_token.expose().to_owned() }
    }

    fn backend(&self, server: &Canned) -> Arc<dyn ExecutionBackend> {
        let context = BuildContext::in_home(self.folder.path()).with_base_directory("/");
        let settings = json!({ "base_url": server.base_url(), "retries": 0 });
        let Value::Object(settings) = settings else { unreachable!() };
        let registry = registry();
        registry.kind("grok-sub-token").unwrap().build(BackendId::new("grok"), &settings, &context).unwrap()
    }

    fn renewals(&self) -> usize {
        self.issuer.count(RequestKind::Refresh)
    }
}

/// No model is listed.
fn catalog() -> Vec<u8> {
    status(200, &json!({ "data": [] }))
}

/// Whether each call of the model carried the first token.
fn with_first_token(home: &Home, server: &Canned) -> Vec<bool> {
    let posts = server.asked().into_iter().filter(|asked| asked.head.starts_with("POST "));
    posts.map(|asked| asked.head.contains(&home.first_token)).collect()
}

#[tokio::test]
async fn a_login_whose_token_ended_is_renewed_before_anything_is_asked() {
    let home = Home::with_login(2 * HOUR);
    let server = Canned::new([catalog(), reply(&[message("Done.")])]);
    let ran = run(&*home.backend(&server), request(), TurnHost::new()).await;
    assert_eq!(ran.result().text, "Done.");
    assert_eq!(with_first_token(&home, &server), [false]);
    assert_eq!((home.renewals(), home.issuer.reuses()), (1, 0));
}

#[tokio::test]
async fn a_token_that_the_server_refuses_is_renewed_once_in_a_turn() {
    let home = Home::with_login(HOUR / 6);
    let refused = || status(401, &json!({ "error": "no" }));
    let server = Canned::new([catalog(), refused(), reply(&[message("Done.")])]);
    let ran = run(&*home.backend(&server), request(), TurnHost::new()).await;
    assert_eq!(ran.result().text, "Done.");
    assert_eq!(with_first_token(&home, &server), [true, false]);
    assert_eq!(home.renewals(), 1);

    let home = Home::with_login(HOUR / 6);
    let server = Canned::new([catalog(), refused()]);
    let backend = home.backend(&server);
    let ran = run(&*backend, request(), TurnHost::new()).await;
    assert_eq!(ran.error().kind(), ErrorKind::Unauthenticated);
    assert_eq!(with_first_token(&home, &server), [true, false]);
    // The next turn is refused too, with a token of a moment ago: another one would be no better.
    run(&*backend, request(), TurnHost::new()).await.error();
    assert_eq!((home.renewals(), home.issuer.reuses()), (1, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn turns_that_are_refused_at_once_renew_once() {
    let home = Home::with_login(HOUR / 6);
    let refused = home.first_token.clone();
    let server = Canned::deciding(move |_, asked| match asked.head.starts_with("POST ") {
        false => catalog(),
        true if asked.head.contains(&refused) => status(401, &json!({ "error": "no" })),
        true => reply(&[message("Done.")]),
    });
    // Each with a credential manager of its own, as in programs that do not know of one another.
    let backends = [home.backend(&server), home.backend(&server), home.backend(&server)];
    let turns = (0..30).map(|turn| {
        let backend = Arc::clone(&backends[turn % backends.len()]);
        tokio::spawn(async move { run(&*backend, request(), TurnHost::new()).await })
    });
    for turn in turns.collect::<Vec<_>>() {
        assert_eq!(turn.await.unwrap().result().text, "Done.");
    }
    assert_eq!((home.renewals(), home.issuer.reuses()), (1, 0));
}

#[tokio::test]
async fn a_token_that_is_refused_within_the_stream_is_renewed_too() {
    let refusal = json!({ "code": "invalid_api_key", "message": "Expired." });
    for event in [
        json!({ "type": "error", "code": "invalid_api_key", "message": "Expired." }),
        json!({ "type": "response.failed", "response": { "error": refusal } }),
    ] {
        let home = Home::with_login(HOUR / 6);
        let half = json!({ "type": "response.output_text.delta", "item_id": "m", "delta": "Half" });
        let torn = stream(format!("data: {half}\n\ndata: {event}\n\n").as_bytes());
        let server = Canned::new([catalog(), torn.clone(), reply(&[message("Done.")])]);
        let ran = run(&*home.backend(&server), request(), TurnHost::new()).await;
        assert_eq!(ran.result().text, "Done.");
        let voided = ran.events.iter().position(|event| matches!(event, TurnEvent::MessageVoided(_)));
        let retrying = ran.events.iter().position(|event| matches!(event, TurnEvent::Retrying(_)));
        assert!(voided.is_some() && voided < retrying, "{:?}", ran.events);
        assert_eq!(with_first_token(&home, &server), [true, false]);
        assert_eq!(home.renewals(), 1);

        let home = Home::with_login(HOUR / 6);
        let server = Canned::new([catalog(), torn]);
        let ran = run(&*home.backend(&server), request(), TurnHost::new()).await;
        assert_eq!(ran.error().kind(), ErrorKind::Unauthenticated);
        assert_eq!(with_first_token(&home, &server), [true, false]);
        assert_eq!(home.renewals(), 1);
    }
}

#[tokio::test]
async fn a_token_that_is_alive_works_while_its_issuer_does_not() {
    let home = Home::with_login(HOUR - Duration::from_secs(200));
    home.issuer.fail_times(RequestKind::Refresh, Fault::status(503), 9);
    let server = Canned::new([catalog(), reply(&[message("Done.")])]);
    let ran = run(&*home.backend(&server), request(), TurnHost::new()).await;
    assert_eq!(ran.result().text, "Done.");
    assert_eq!(with_first_token(&home, &server), [true]);
    assert_eq!(home.renewals(), 1);
}

#[tokio::test]
async fn a_login_that_the_issuer_ended_names_the_command_and_is_left_alone() {
    let home = Home::with_login(2 * HOUR);
    home.issuer.fail(RequestKind::Refresh, Fault::invalid_grant());
    let server = Canned::new([catalog(), reply(&[message("Never said.")])]);
    let backend = home.backend(&server);
    for _ in 0..3 {
        let ran = run(&*backend, request(), TurnHost::new()).await;
        assert_eq!(ran.error().kind(), ErrorKind::Unauthenticated);
        let message = ran.error().message().unwrap_or_default();
        assert!(message.contains("nexus login grok") && message.contains("invalid_grant"), "{message}");
    }
    assert!(server.asked().is_empty());
    assert_eq!(home.renewals(), 1);
    let Availability::Unauthenticated { remedy } = backend.probe().await else { panic!("it is over") };
    assert!(remedy.contains("nexus login grok"), "{remedy}");
}

#[tokio::test]
async fn without_a_login_nothing_is_asked_and_the_command_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let context = BuildContext::in_home(folder.path().join("none")).with_base_directory("/");
    let registry = registry();
    for (kind, command) in [
        ("codex-sub-token", "nexus login codex"),
        ("chatgpt-sub-token", "nexus login chatgpt"),
        ("grok-sub-token", "nexus login grok"),
    ] {
        let server = Canned::new([reply(&[message("Never said.")])]);
        let settings = json!({ "base_url": server.base_url() });
        let Value::Object(settings) = settings else { unreachable!() };
        let backend = registry.kind(kind).unwrap().build(BackendId::new(kind), &settings, &context).unwrap();
        let Availability::Unauthenticated { remedy } = backend.probe().await else { panic!("{kind}") };
        assert!(remedy.contains(command), "{remedy}");
        let ran = run(&*backend, request(), TurnHost::new()).await;
        assert_eq!(ran.error().kind(), ErrorKind::Unauthenticated, "{kind}");
        assert!(ran.error().message().unwrap_or_default().contains(command), "{kind}");
        assert!(server.asked().is_empty(), "{kind}");
    }
    assert!(!folder.path().join("none").exists(), "looking makes no folder");
}

#[test]
fn a_login_of_our_own_goes_nowhere_that_a_line_of_configuration_says() {
    let context = BuildContext::in_home("/nonexistent/nexus").with_base_directory("/");
    let registry = registry();
    for kind in ["codex-sub-token", "chatgpt-sub-token", "grok-sub-token", "codex-cli", "grok-cli"] {
        let build = |settings: Value| {
            let Value::Object(settings) = settings else { unreachable!() };
            registry.kind(kind).unwrap().build(BackendId::new(kind), &settings, &context)
        };
        let elsewhere = "https://gateway.test/v1";
        assert_eq!(build(json!({ "base_url": elsewhere })).unwrap_err().path, ["base_url"], "{kind}");
        assert!(build(json!({ "base_url": "http://127.0.0.1:9/v1" })).is_ok(), "{kind}");
        let named = json!({ "base_url": elsewhere, "credential": { "file": "token" } });
        assert!(build(named).is_ok(), "{kind}");
        assert!(build(json!({ "base_url": elsewhere, "billing": "metered" })).is_ok(), "{kind}");
    }
}

#[test]
fn a_login_goes_to_the_endpoint_that_it_is_for() {
    let context = BuildContext::in_home("/nonexistent/nexus").with_base_directory("/");
    let build = |login: &str, base_url: &str| {
        let settings = json!({ "login": login, "base_url": base_url });
        registry().kind("codex-cli").unwrap().build(
            BackendId::new("codex"),
            settings.as_object().unwrap(),
            &context,
        )
    };
    let (codex, public) = ("https://chatgpt.com/backend-api/codex", "https://api.openai.com/v1");
    assert!(build("codex", codex).is_ok() && build("chatgpt", public).is_ok());
    assert_eq!(build("codex", public).unwrap_err().path, ["base_url"]);
    assert_eq!(build("chatgpt", codex).unwrap_err().path, ["base_url"]);
    assert_eq!(build("other", public).unwrap_err().path, ["login"]);
}
