//! What is logged by us and by the libraries under us, at the finest level.

use std::{
    fmt::{self, Write as _},
    sync::{Mutex, MutexGuard, PoisonError},
};

use nexus_auth::{SignIn as _, SignInMethod};
use nexus_testkit::child_test;
use serde_json::json;
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

use super::{
    renewal,
    stage::{CANARY, Flow, good, issuer, sign_in},
    wire::{Reply, Wire},
};

/// Everything logged in this process so far.
static LOGGED: Mutex<String> = Mutex::new(String::new());

fn logged() -> MutexGuard<'static, String> {
    LOGGED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps what is logged.
struct Keep;

impl log::Log for Keep {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        let _ = writeln!(logged(), "{} {}", record.target(), record.args());
    }

    fn flush(&self) {}
}

impl Subscriber for Keep {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, attributes: &span::Attributes<'_>) -> span::Id {
        attributes.record(&mut Line);
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, values: &span::Record<'_>) {
        values.record(&mut Line);
    }

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut Line);
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

struct Line;

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = writeln!(logged(), "{field}={value:?}");
    }
}

#[tokio::test]
async fn no_secret_is_logged_at_any_level() {
    if !child_test::runs_alone(no_secret_is_logged_at_any_level) {
        return;
    }
    log::set_logger(&Keep).unwrap();
    log::set_max_level(log::LevelFilter::Trace);
    tracing::subscriber::set_global_default(Keep).unwrap();
    log::trace!("a line of this test");
    tracing::trace!("an event of this test");

    let mut secrets = Vec::new();
    for reply in [
        good(),
        Reply::json(400, &json!({ "error": "canary-code", "error_description": "canary-code is spent" })),
        Reply::json(200, &json!({ "refresh_token": "canary-next", "id_token": "canary-id" })),
    ] {
        let wire = Wire::answering([reply]);
        let mut flow = Flow::start(sign_in(issuer(&wire.url()), SignInMethod::Browser));
        let asking = flow.page().await;
        asking.get("/auth/callback?code=canary-code&state=canary-state").await;
        asking.get(&asking.yes()).await;
        let _ = flow.ended().await;
        secrets.extend([asking.state.clone(), wire.only().field("code_verifier")]);
        let login = renewal::login(&wire, "canary-old");
        let strategy = sign_in(issuer(&wire.url()), SignInMethod::Browser);
        let _ = strategy.refresh(&login).await;
        let _ = strategy.revoke(&login).await;
    }

    let logged = logged();
    for word in ["a line of this test", "an event of this test", "127.0.0.1", "only a refresh token"] {
        assert!(logged.contains(word), "what is logged is seen here: {word} in {logged}");
    }
    secrets.push(CANARY.to_owned());
    for secret in secrets {
        assert!(!logged.contains(&secret), "{secret} in {logged}");
    }
}
