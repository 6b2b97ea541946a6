//! A refresh token spent: what is sent, once, and what each answer means for the login.

use std::time::{Duration, SystemTime};

use nexus_auth::{Identity, Login, OAuthSignIn, RefreshError, SignIn as _, SignInMethod, http::Network};
use nexus_core::Secret;
use nexus_testkit::child_test;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Map, Value, json};

use super::{
    stage::{REFRESH, SOON, context, good, is_clean, is_clean_error, issuer, jwt, sign_in},
    wire::{Reply, Wire},
};

/// A login from the issuer on this wire, an hour old.
pub(crate) fn login(wire: &Wire, access: &str) -> Login {
    login_at(&wire.url(), access)
}

fn login_at(url: &str, access: &str) -> Login {
    let Ok(Value::Object(origin)) = serde_json::to_value(issuer(url)) else {
        panic!("an issuer is an object")
    };
    let mut identity = Identity::default();
    identity.account = Some("account-1".into());
    identity.plan = Some("pro".into());
    Login::new(Secret::new(access), SystemTime::now() - Duration::from_secs(3_600))
        .with_refresh_token(Some(Secret::new(REFRESH)))
        .with_identity(identity)
        .with_origin(origin)
}

/// Renews by a strategy that is configured for somewhere else.
async fn renewed(login: &Login) -> Result<Login, RefreshError> {
    let elsewhere = sign_in(issuer("https://elsewhere.invalid"), SignInMethod::Browser);
    let renewed = tokio::time::timeout(SOON, elsewhere.refresh(login)).await.expect("it ends soon");
    is_clean(&renewed);
    if let Err(error) = &renewed {
        is_clean_error(error);
    }
    renewed
}

async fn answered(reply: Reply) -> Result<Login, RefreshError> {
    let wire = Wire::answering([reply]);
    let renewed = renewed(&login(&wire, "canary-old")).await;
    assert_eq!(wire.only().field("refresh_token"), REFRESH, "once, whatever came of it");
    renewed
}

#[tokio::test]
async fn a_form_with_three_fields_goes_to_where_the_login_is_from() {
    let wire = Wire::answering([Reply::json(
        200,
        &json!({ "access_token": "canary-new", "refresh_token": "canary-next", "expires_in": 60 }),
    )]);
    let before = SystemTime::now();
    let old = login(&wire, "canary-old");
    let new = renewed(&old).await.unwrap();
    let asked = wire.only();
    assert_eq!((asked.method.as_str(), asked.path.as_str()), ("POST", "/token"));
    let mut form = asked.form();
    form.sort();
    let wanted = [("client_id", "our-client"), ("grant_type", "refresh_token"), ("refresh_token", REFRESH)];
    assert_eq!(form, wanted.map(|(name, value)| (name.to_owned(), value.to_owned())));
    for absent in ["authorization", "cookie", "user-agent"] {
        assert_eq!(asked.header(absent), None, "{absent}");
    }
    assert_eq!(
        (new.access_token.expose(), new.refresh_token.as_ref().unwrap().expose()),
        ("canary-new", "canary-next")
    );
    assert!(new.obtained_at >= before && new.obtained_at <= SystemTime::now());
    assert_eq!(new.life_left(new.obtained_at), Some(Duration::from_secs(60)));
    assert_eq!(new.identity, old.identity, "what the new tokens do not say is as it was");
    assert_eq!(new.origin, old.origin);
}

#[tokio::test]
async fn a_principal_is_named_again_where_the_token_names_one() {
    let claims = json!({ "principal_type": "Team", "principal_id": "team-1", "sub": "user-1" });
    for (claims, wanted) in [
        (claims, vec![("principal_id", "team-1"), ("principal_type", "Team")]),
        (json!({ "sub": "user-1" }), vec![]),
        (json!({ "principal_type": 5, "principal_id": null }), vec![]),
    ] {
        let wire = Wire::answering([good()]);
        renewed(&login(&wire, &jwt(&json!({ "alg": "none" }), &claims))).await.unwrap();
        let mut form = wire.only().form();
        form.retain(|(name, _)| name.starts_with("principal"));
        form.sort();
        let wanted: Vec<_> =
            wanted.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        assert_eq!(form, wanted);
    }
}

/// In a process of its own, as it is the whole process that runs out of them.
#[test]
fn a_process_that_can_open_no_more_files_says_so() {
    if !child_test::runs_alone(a_process_that_can_open_no_more_files_says_so) {
        return;
    }
    let wire = Wire::answering([good()]);
    let login = login(&wire, "canary-old");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let before = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(64), ..before }).unwrap();
    let held: Vec<_> = std::iter::from_fn(|| std::fs::File::open("/dev/null").ok()).collect();
    let Err(RefreshError::Unreachable { reason }) = runtime.block_on(renewed(&login)) else {
        panic!("nothing can be reached")
    };
    assert!(reason.contains("ulimit -n"), "{reason}");
    assert!(!held.is_empty() && wire.asked().is_empty());
}

#[tokio::test]
async fn an_issuer_that_does_not_rotate_leaves_the_token_as_it_is() {
    for refresh_token in [Value::Null, json!("")] {
        let answer = json!({ "access_token": "canary-new", "refresh_token": refresh_token });
        let new = answered(Reply::json(200, &answer)).await.unwrap();
        assert_eq!(new.refresh_token.unwrap().expose(), REFRESH);
    }
}

#[tokio::test]
async fn each_answer_means_one_of_three_things() {
    let error = |status: u16, body: Value| Reply::json(status, &body);
    let refused = [
        error(400, json!({ "error": "invalid_grant", "error_description": "canary" })),
        error(401, json!({ "error": "invalid_client" })),
        error(400, json!({ "error": "unauthorized_client" })),
        error(400, json!({ "error": { "code": "invalid_grant", "message": "canary" } })),
    ];
    for reply in refused {
        let renewed = answered(reply.clone()).await;
        assert!(matches!(renewed, Err(RefreshError::Refused { .. })), "{reply:?}: {renewed:?}");
    }
    let unreachable = [408, 425, 429, 500, 502, 503, 504, 529]
        .map(|status| error(status, json!({ "error": "invalid_grant" })))
        .into_iter()
        .chain([
            Reply::text(503, "text/html", "<html>canary</html>"),
            Reply::text(500, "text/html", &"x".repeat(2 << 20)),
            error(400, json!({ "error": "temporarily_unavailable" })),
            // Within the refresh token.
            unfinished(r#"{"access_token":"canary-new","refresh_token":"canary-ne"#),
            unfinished("<html>canary</html>"),
            Reply::Bytes(Vec::new()),
            Reply::Bytes(b"SSH-2.0-canary\r\n".to_vec()),
        ]);
    for reply in unreachable {
        let renewed = answered(reply.clone()).await;
        assert!(matches!(renewed, Err(RefreshError::Unreachable { .. })), "{reply:?}: {renewed:?}");
    }
    let malformed = [
        Reply::text(200, "text/html", "<html>canary</html>"),
        Reply::text(200, "application/json", &format!("{{\"x\":\"{}\"}}", "x".repeat(2 << 20))),
        error(200, json!({ "token_type": "Bearer" })),
        error(200, json!({ "access_token": 5 })),
        error(200, json!({ "refresh_token": 5 })),
        error(200, json!({ "refresh_token": "" })),
        error(200, json!([])),
        error(400, json!({ "error": "invalid_request" })),
        Reply::text(403, "text/html", "<html>canary</html>"),
        Reply::text(401, "text/html", "<html>canary</html>"),
        Reply::text(401, "text/html", "invalid_grant"),
        Reply::text(401, "text/html", &"x".repeat(2 << 20)),
        Reply::text(401, "text/plain", ""),
        error(401, json!({})),
        error(401, json!({ "error": REFRESH })),
        error(401, json!({ "error": "refresh_token_reused" })),
        error(404, json!({})),
        Reply::Bytes(
            b"HTTP/1.1 302 X\r\nlocation: https://elsewhere.invalid/\r\ncontent-length: 0\r\n\r\n".to_vec(),
        ),
    ];
    for reply in malformed {
        let renewed = answered(reply.clone()).await;
        let stays = matches!(renewed, Err(RefreshError::Malformed { .. } | RefreshError::Declined { .. }));
        assert!(stays, "{reply:?}: {renewed:?}");
    }
}

#[tokio::test]
async fn an_issuer_that_repeats_the_token_in_its_code_is_not_repeated() {
    for code in [
        format!("invalid_grant:{REFRESH}"),
        format!("{REFRESH}:invalid_grant"),
        format!("invalid_grant:{}", &REFRESH[1..]),
        format!("invalid_grant:{}", &REFRESH[..REFRESH.len() - 1]),
        REFRESH.to_ascii_uppercase(),
    ] {
        let renewed = answered(Reply::json(400, &json!({ "error": code }))).await;
        let Err(RefreshError::Malformed { reason }) = renewed else { panic!("{renewed:?}") };
        assert_eq!(reason, "HTTP 400", "{code}");
    }
}

#[tokio::test]
async fn a_new_refresh_token_is_kept_whatever_is_wrong_with_the_rest() {
    let claims = json!({ "email": "a@b.test" });
    let id_token = jwt(&json!({ "alg": "none" }), &claims);
    for body in [
        json!({ "refresh_token": "canary-next", "id_token": id_token }).to_string(),
        json!({ "refresh_token": "canary-next", "id_token": id_token, "access_token": "can ary" })
            .to_string(),
        json!({ "refresh_token": "canary-next", "id_token": id_token, "access_token": 5 }).to_string(),
        json!({
            "refresh_token": "canary-next", "id_token": id_token, "access_token": "canary-new",
            "token_type": "DPoP", "expires_in": 60,
        })
        .to_string(),
        format!(r#"{{"id_token":"{id_token}","refresh_token":"canary-next","access_token":"canary-n"#),
    ] {
        let wire = Wire::answering([Reply::text(200, "application/json", &body)]);
        let old = login(&wire, "canary-old").with_lifetime(Some(Duration::from_secs(3_660)));
        let new = renewed(&old).await.unwrap();
        assert_eq!(wire.only().field("refresh_token"), REFRESH);
        assert_eq!(new.refresh_token.as_ref().unwrap().expose(), "canary-next", "{body}");
        assert_eq!(new.identity.email.as_deref(), Some("a@b.test"));
        let mut as_before = new.clone().with_refresh_token(old.refresh_token.clone());
        as_before.identity = old.identity.clone();
        assert_eq!(as_before, old, "nothing else is new, the times of the old token least of all");
        assert_eq!((new.identity.account, new.identity.plan), (old.identity.account, old.identity.plan));
    }
    let twice = r#"{"access_token":"canary-x","refresh_token":"canary-next","access_token":"canary-new"}"#;
    let new = answered(Reply::text(200, "application/json", twice)).await.unwrap();
    assert_eq!(new.refresh_token.unwrap().expose(), "canary-next");
    assert_eq!(new.access_token.expose(), "canary-new");
    // A refresh token that is no text is none: what can be used is used, and the one that is known stays.
    let odd = json!({ "access_token": "canary-new", "refresh_token": false });
    let new = answered(Reply::json(200, &odd)).await.unwrap();
    assert_eq!((new.access_token.expose(), new.refresh_token.unwrap().expose()), ("canary-new", REFRESH));
}

#[tokio::test]
async fn a_new_refresh_token_is_kept_where_the_answer_breaks_off_or_is_too_long() {
    let both = r#""access_token":"canary-new","refresh_token":"canary-next""#;
    let long = "x".repeat(2 << 20);
    for reply in [
        unfinished(&format!("{{{both}}}")),
        unfinished(&format!(r#"{{{both},"expires_in":36"#)),
        Reply::text(200, "application/json", &format!(r#"{{{both},"x":"{long}"}}"#)),
        Reply::text(200, "application/json", &format!("{{{both}}}{}", long.replace('x', " "))),
    ] {
        let shown: String = format!("{reply:?}").chars().take(300).collect();
        let new = answered(reply).await.unwrap();
        assert_eq!(new.refresh_token.unwrap().expose(), "canary-next", "{shown}");
        assert_eq!(new.access_token.expose(), "canary-new", "{shown}");
    }
    let alone =
        answered(unfinished(r#"{"refresh_token":"canary-next","access_token":"canary-n"#)).await.unwrap();
    assert_eq!(alone.refresh_token.unwrap().expose(), "canary-next");
    assert_eq!(alone.access_token.expose(), "canary-old");
}

/// The beginning of a longer answer, and the end of the connection.
fn unfinished(body: &str) -> Reply {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 5000\r\n\r\n";
    Reply::Bytes([head, body].concat().into_bytes())
}

#[tokio::test]
async fn an_issuer_that_is_gone_is_unreachable() {
    let wire = Wire::answering([good()]);
    let login = login(&wire, "canary-old");
    wire.stop();
    let renewed = renewed(&login).await;
    assert!(
        matches!(&renewed, Err(RefreshError::Unreachable { reason }) if reason.contains("nothing listens")),
        "{renewed:?}"
    );
}

#[tokio::test]
async fn what_is_not_encrypted_goes_through_no_proxy() {
    let proxy = Wire::answering([good()]);
    let network = Network::default().with_proxy(proxy.url());
    let through =
        OAuthSignIn::new("our-login", "", issuer("https://x.invalid"), &context(), &network).unwrap();
    let wire = Wire::answering([good()]);
    through.refresh(&login(&wire, "canary-old")).await.unwrap();
    assert_eq!((wire.asked().len(), proxy.asked().len()), (1, 0));
    // What is encrypted does, and nothing of it is told to the proxy but where to.
    let error = through.refresh(&login_at("https://issuer.test", "canary-old")).await.unwrap_err();
    assert!(matches!(error, RefreshError::Unreachable { .. }), "{error}");
    let asked = proxy.only();
    assert_eq!((asked.method.as_str(), asked.path.as_str()), ("CONNECT", "issuer.test:443"));
    is_clean(&asked);
}

#[tokio::test]
async fn nothing_is_spent_where_it_is_not_known_or_not_safe_where_to() {
    let wire = Wire::answering([good()]);
    let good = login(&wire, "canary-old");
    let unsafe_places = ["http://issuer.test", "ftp://127.0.0.1", "issuer", ""];
    let mut origins: Vec<Map<String, Value>> = unsafe_places
        .map(|url| match serde_json::to_value(issuer(url)) {
            Ok(Value::Object(origin)) => origin,
            other => panic!("{other:?}"),
        })
        .into();
    origins.push(Map::new());
    origins.push(Map::from_iter([("url".to_owned(), json!("canary"))]));
    for origin in origins {
        let renewed = renewed(&good.clone().with_origin(origin.clone())).await;
        let Err(RefreshError::Malformed { reason }) = &renewed else { panic!("{origin:?}: {renewed:?}") };
        assert!(reason.contains("nothing was sent") && reason.contains("log in again"), "{reason}");
    }
    let without = renewed(&good.clone().with_refresh_token(None)).await;
    assert!(matches!(without, Err(RefreshError::Refused { .. })), "{without:?}");
    assert!(wire.asked().is_empty());
}
