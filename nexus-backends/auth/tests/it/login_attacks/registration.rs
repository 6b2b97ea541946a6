//! An issuer that registers a client at the first sign-in, and says who signed in by an ID token.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use nexus_auth::{
    IdentityClaims, Issuer, Login, OAuthSignIn, Redirect, RefreshError, Revocation, RevocationStyle,
    SignIn as _, SignInError, SignInRegistration, http::Network,
};
use nexus_core::BuildContext;
use nexus_testkit::issuer::{Account, Fault, Issuer as Server, IssuerBuilder, Outcome, RequestKind};
use serde_json::{Value, json};

use super::{
    stage::{Flow, is_clean},
    wire::{Reply, Wire},
};

const FIRST: &str = "first_client";
const SCOPE: &str = "plan.use";

fn server() -> IssuerBuilder {
    Server::builder().registering(FIRST).refresh_token_mark("canary")
}

fn issuer(url: &str) -> Issuer {
    Issuer::new(url, FIRST)
        .with_oauth_scopes(["openid", "offline_access", SCOPE])
        .with_required_scopes([SCOPE])
        .with_authorize_endpoint("/api/accounts/authorize")
        .with_token_endpoint("/api/accounts/oauth/token")
        .with_redirect(Redirect::new([0], "/auth/callback"))
        .with_resource("https://resource.test/v1")
        .with_discovery_endpoint("/.well-known/openid-configuration")
        .with_registration(SignInRegistration::new("nexus", "agent_name_hint", "ext_agent_host_id"))
        .with_revocation(RevocationStyle::Discovered)
        .with_identity(IdentityClaims::default().with_email(["email"]))
}

fn sign_in_at(url: &str, home: &Path) -> OAuthSignIn {
    let context = BuildContext::in_home(home).with_base_directory(home);
    OAuthSignIn::new("our-login", "log in again", issuer(url), &context, &Network::default()).unwrap()
}

/// A sign-in to its end, by a person who agrees; and what the page was asked.
async fn signed_in(sign_in: OAuthSignIn, server: &Server) -> (Result<Login, SignInError>, Url) {
    let mut flow = Flow::start(sign_in);
    let asking = flow.page().await;
    server.browser().approve(&asking.url).await.unwrap();
    (flow.ended().await, Url(asking.query.into_iter().collect()))
}

/// The parameters of a page.
struct Url(Vec<(String, String)>);

impl Url {
    fn value(&self, wanted: &str) -> Option<&str> {
        self.0.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str())
    }
}

fn kept(home: &Path) -> Value {
    let file = home.join("auth/our-login.registration.json");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    serde_json::from_slice(&fs::read(file).unwrap()).unwrap()
}

#[tokio::test]
async fn the_first_sign_in_registers_and_all_that_follows_is_done_as_that_client() {
    let (server, home) = (server().start().unwrap(), tempfile::tempdir().unwrap());
    let (login, first) = signed_in(sign_in_at(&server.url(), home.path()), &server).await;
    let login = login.unwrap();
    assert_eq!(first.value("client_id"), Some(FIRST));
    assert_eq!(first.value("agent_name_hint"), Some("nexus"));
    assert_eq!(first.value("resource"), Some("https://resource.test/v1"));
    assert_eq!(first.value("prompt"), None);
    let host = first.value("ext_agent_host_id").unwrap().to_owned();
    assert!(host.starts_with("urn:uuid:"), "{host}");
    let clients = server.registered();
    assert_eq!((clients.len(), &login.origin["client_id"]), (1, &json!(clients[0])));
    assert_eq!(login.identity.email.as_deref(), Some("somebody@example.test"));
    assert_eq!(kept(home.path())["host_id"], json!(host));
    assert!(!kept(home.path()).to_string().contains("canary"), "no secret is in it");

    let refreshed = sign_in_at(&server.url(), home.path()).refresh(&login).await.unwrap();
    assert_ne!(refreshed.access_token, login.access_token);
    assert_eq!(refreshed.origin, login.origin);
    let strategy = sign_in_at(&server.url(), home.path());
    assert_eq!(strategy.revoke(&refreshed).await.unwrap(), Revocation::Revoked);
    assert!(!server.accepts(refreshed.access_token.expose()));
    let asked = server.asked();
    let as_client = |kind| {
        let named: Vec<_> =
            asked.iter().filter(|asked| asked.kind == kind).map(|asked| &asked.client_id).collect();
        assert_eq!(named, [&Some(clients[0].clone())], "{kind:?}");
    };
    [RequestKind::CodeExchange, RequestKind::Refresh, RequestKind::Revoke].into_iter().for_each(as_client);

    // Signed in again, it is the same client on the same machine, and needs no name.
    let (again, second) = signed_in(strategy, &server).await;
    assert_eq!(again.unwrap().origin["client_id"], json!(clients[0]));
    assert_eq!(second.value("client_id"), Some(clients[0].as_str()));
    assert_eq!((second.value("agent_name_hint"), second.value("prompt")), (None, None));
    assert_eq!(second.value("ext_agent_host_id"), Some(host.as_str()));
    assert_ne!(first.value("nonce"), second.value("nonce"));
    assert_eq!(server.registered().len(), 1);
}

#[tokio::test]
async fn without_a_verified_id_token_nothing_is_believed_and_nothing_lives_on() {
    for fault in [Fault::ForgedTokens, Fault::UnsignedTokens, Fault::OpaqueTokens, Fault::NoNonce] {
        let (server, home) = (server().start().unwrap(), tempfile::tempdir().unwrap());
        server.fail_times(RequestKind::CodeExchange, fault.clone(), 1);
        let (refused, _) = signed_in(sign_in_at(&server.url(), home.path()), &server).await;
        let error = refused.unwrap_err();
        let is_about_it = matches!(&error, SignInError::Malformed { reason } if reason.contains("ID token"));
        assert!(is_about_it, "{fault:?}: {error}");
        assert_eq!(server.count(RequestKind::Revoke), 1, "{fault:?}");
        // The client stays: a person who tries again does not register another one.
        let (login, _) = signed_in(sign_in_at(&server.url(), home.path()), &server).await;
        assert!(login.is_ok(), "{fault:?}: {login:?}");
        assert_eq!(server.registered().len(), 1);
    }
}

#[tokio::test]
async fn keys_that_cannot_be_had_are_no_verdict_on_the_person() {
    let (server, home) = (server().start().unwrap(), tempfile::tempdir().unwrap());
    server.fail(RequestKind::Discovery, Fault::status(503));
    let (refused, _) = signed_in(sign_in_at(&server.url(), home.path()), &server).await;
    assert!(matches!(refused, Err(SignInError::Unreachable { .. })), "{refused:?}");
}

#[tokio::test]
async fn somebody_else_does_not_take_the_client_over() {
    let (server, home) = (server().start().unwrap(), tempfile::tempdir().unwrap());
    let (login, _) = signed_in(sign_in_at(&server.url(), home.path()), &server).await;
    let login = login.unwrap();
    let other = Account { id: "00000000-0000-4000-8000-0000000other".into(), ..Account::default() };
    server.set_account(other);
    let (refused, _) = signed_in(sign_in_at(&server.url(), home.path()), &server).await;
    assert!(
        matches!(&refused, Err(SignInError::Declined { reason }) if reason.contains("another account")),
        "{refused:?}"
    );
    // A refresh that comes back for them is refused as well.
    let refused = sign_in_at(&server.url(), home.path()).refresh(&login).await;
    assert!(matches!(refused, Err(RefreshError::Refused { .. })), "{refused:?}");

    let host = kept(home.path())["host_id"].clone();
    let anew = sign_in_at(&server.url(), home.path()).with_new_registration();
    let (login, asked) = signed_in(anew, &server).await;
    assert!(login.is_ok(), "{login:?}");
    assert_eq!(asked.value("client_id"), Some(FIRST));
    assert_eq!(kept(home.path())["host_id"], host, "the machine is the same");
    assert_eq!(server.registered().len(), 2);
}

#[tokio::test]
async fn a_plan_that_was_not_allowed_is_asked_for_again() {
    let (server, home) = (server().withholding(SCOPE).start().unwrap(), tempfile::tempdir().unwrap());
    let (refused, _) = signed_in(sign_in_at(&server.url(), home.path()), &server).await;
    assert!(
        matches!(&refused, Err(SignInError::Declined { reason }) if reason.contains(SCOPE)),
        "{refused:?}"
    );
    let revoked = server.asked().into_iter().find(|asked| asked.kind == RequestKind::Revoke).unwrap();
    assert_eq!(
        (revoked.outcome, revoked.family),
        (Outcome::Done, Some(0)),
        "what is not kept does not live on"
    );
    let (login, asked) = signed_in(sign_in_at(&server.url(), home.path()), &server).await;
    assert!(login.is_ok(), "{login:?}");
    assert_eq!(asked.value("prompt"), Some("consent"));
    let (_, asked) = signed_in(sign_in_at(&server.url(), home.path()), &server).await;
    assert_eq!(asked.value("prompt"), None, "nobody is asked twice for the same");
}

#[tokio::test]
async fn an_answer_that_registers_nothing_is_no_sign_in() {
    for (named, is_page) in [
        ("", false),
        ("&client_id=", false),
        ("&client_id=first_client", false),
        ("&client_id=two%20words", false),
        ("&client_id=one&client_id=two", true),
    ] {
        let (server, home) = (server().start().unwrap(), tempfile::tempdir().unwrap());
        let mut flow = Flow::start(sign_in_at(&server.url(), home.path()));
        let asking = flow.page().await;
        let shown = asking.get(&format!("{}{named}", asking.yes())).await;
        if is_page {
            assert_eq!(shown.status, 400, "{named}");
            assert!(flow.is_waiting(), "what stands in it twice is not taken for an answer");
            continue;
        }
        let error = flow.ended().await.unwrap_err();
        assert!(
            matches!(&error, SignInError::Malformed { reason } if reason.contains("incomplete")),
            "{named}: {error}"
        );
        assert_eq!(server.count(RequestKind::CodeExchange), 0);
        assert_eq!(kept(home.path())["client"], Value::Null);
    }
}

#[tokio::test]
async fn an_answer_for_another_client_does_not_replace_it() {
    let (server, home) = (server().start().unwrap(), tempfile::tempdir().unwrap());
    signed_in(sign_in_at(&server.url(), home.path()), &server).await.0.unwrap();
    let before = kept(home.path());
    let mut flow = Flow::start(sign_in_at(&server.url(), home.path()));
    let asking = flow.page().await;
    asking.get(&format!("{}&client_id=another", asking.yes())).await;
    assert!(matches!(flow.ended().await, Err(SignInError::Malformed { .. })));
    assert_eq!(kept(home.path()), before);
}

#[tokio::test]
async fn keys_are_taken_from_the_issuer_alone() {
    let home = tempfile::tempdir().unwrap();
    let tokens = json!({
        "access_token": "canary-access", "token_type": "Bearer", "expires_in": 60, "id_token": "canary.canary.canary",
        "scope": SCOPE,
    });
    for description in [
        json!({ "issuer": "https://elsewhere.test", "jwks_uri": "https://elsewhere.test/keys" }),
        json!({ "issuer": "WIRE", "jwks_uri": "https://elsewhere.test/keys" }),
        json!({ "issuer": "WIRE", "jwks_uri": "http://10.0.0.1/keys" }),
        json!({ "issuer": "WIRE" }),
        json!({ "issuer": 7 }),
    ] {
        let wire = Wire::answering([]);
        let described: Value =
            serde_json::from_str(&description.to_string().replace("WIRE", &wire.url())).unwrap();
        let described = Reply::json(200, &described);
        wire.queue([Reply::json(200, &tokens), described.clone(), described]);
        let mut flow = Flow::start(sign_in_at(&wire.url(), home.path()).with_new_registration());
        let asking = flow.page().await;
        asking.get(&format!("{}&client_id=ours", asking.yes())).await;
        let error = flow.ended().await.unwrap_err();
        is_clean(&error);
        assert!(matches!(error, SignInError::Malformed { .. }), "{description}: {error}");
    }
}

#[tokio::test]
async fn what_cannot_be_kept_is_not_begun() {
    let (server, home) = (server().start().unwrap(), tempfile::tempdir().unwrap());
    fs::create_dir_all(home.path().join("auth/our-login.registration.json")).unwrap();
    let flow = Flow::start(sign_in_at(&server.url(), home.path()));
    let error = flow.ended().await.unwrap_err();
    assert!(error.to_string().contains("our-login.registration.json"), "{error}");
    assert!(server.asked().is_empty());
}
