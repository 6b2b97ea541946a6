//! The logins that come along, at an issuer that speaks as those of the vendors do.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use nexus_backends::auth::{
    Clock, CredentialManager, CredentialSource as _, Login, LoginStep, OAuthSignIn, Redirect, RefreshError,
    Revocation, SignIn as _, SignInMethod,
};
use nexus_backends::http::Network;
use nexus_core::{BuildContext, ErrorKind, Secret, harness::Failure};
use nexus_testkit::issuer::{Account, Issuer, RequestKind};
use serde_json::{Value, json};

use super::{
    stage::{Flow, REFRESH, is_clean, is_clean_error, sign_in},
    wire::{Reply, Wire},
};

/// Signs in, renews and gives up; the person says yes as soon as they are asked.
async fn whole_life(issuer: &Issuer, sign_in: impl Fn() -> OAuthSignIn, client_id: &str) {
    let mut flow = Flow::start(sign_in());
    let visit = match flow.step().await {
        LoginStep::OpenPage { url, .. } => issuer.browser().approve(&url),
        LoginStep::EnterCode { user_code, .. } => issuer.browser().approve_device(&user_code),
        other => panic!("{other:?}"),
    };
    let login = flow.ended().await.unwrap();
    let page = visit.await.unwrap();
    assert_eq!(page.status, 200, "{}", page.body);
    assert!(issuer.accepts(login.access_token.expose()));
    assert_eq!(login.identity.email.as_deref(), Some("somebody@example.test"));
    let renewed = sign_in().refresh(&login).await.unwrap();
    assert!(issuer.accepts(renewed.access_token.expose()));
    assert_ne!(renewed.access_token, login.access_token);
    assert_ne!(renewed.refresh_token, login.refresh_token, "it rotates");
    assert_eq!(renewed.identity, login.identity);
    assert_eq!((issuer.count(RequestKind::Refresh), issuer.reuses()), (1, 0));
    for asked in issuer.asked() {
        let is_by_program = !matches!(asked.kind, RequestKind::Authorize | RequestKind::DevicePage);
        if is_by_program {
            assert!(asked.client_id.as_deref().is_none_or(|id| id == client_id), "{asked:?}");
            assert!(asked.headers.iter().all(|(name, _)| name != "user-agent"), "{asked:?}");
        }
    }
    match sign_in().revoke(&renewed).await.unwrap() {
        Revocation::Revoked => {
            assert!(!issuer.accepts(renewed.access_token.expose()));
            assert_eq!(issuer.count(RequestKind::Revoke), 1);
        }
        Revocation::NotOffered => assert_eq!(issuer.count(RequestKind::Revoke), 0),
    }
}

#[tokio::test]
async fn codex_by_a_browser() {
    let issuer = Issuer::start().unwrap();
    let ours = nexus_backends::login("codex").unwrap().issuer();
    assert_eq!(ours.redirect, Redirect::new([1455, 1457], "/auth/callback"), "the registered ones");
    // The registered ports may be in use on the machine of this test.
    let at = ours.with_url(issuer.url()).with_redirect(Redirect::new([0], "/auth/callback"));
    whole_life(&issuer, || sign_in(at.clone(), SignInMethod::Browser), "app_EMoamEEZ73f0CkXaXp7hrann").await;
    assert_eq!(issuer.count(RequestKind::CodeExchange), 1);
    assert_eq!(issuer.count(RequestKind::Revoke), 1);
}

#[tokio::test]
async fn the_page_of_codex_is_asked_as_the_vendors_program_asks_it_but_by_our_name() {
    let at =
        nexus_backends::login("codex").unwrap().issuer().with_redirect(Redirect::new([0], "/auth/callback"));
    let asking = Flow::start(sign_in(at, SignInMethod::Browser)).page().await;
    assert!(asking.url.starts_with("https://auth.openai.com/oauth/authorize?"), "{}", asking.url);
    let made_here = ["state", "code_challenge", "redirect_uri"];
    let fixed = asking.query.iter().filter(|(name, _)| !made_here.contains(&name.as_str()));
    let fixed: Vec<_> = fixed.map(|(name, value)| (name.as_str(), value.as_str())).collect();
    // Source: observed with codex 0.169.0, but for the originator and the two scopes of connectors.
    let wanted = [
        ("client_id", "app_EMoamEEZ73f0CkXaXp7hrann"),
        ("code_challenge_method", "S256"),
        ("codex_cli_simplified_flow", "true"),
        ("id_token_add_organizations", "true"),
        ("originator", "nexus"),
        ("response_type", "code"),
        ("scope", "openid profile email offline_access"),
    ];
    assert_eq!(fixed, wanted);
    assert_eq!(asking.redirect_uri, format!("http://127.0.0.1:{}/auth/callback", asking.port));
}

#[tokio::test]
async fn chatgpt_by_a_browser_as_a_client_of_the_persons_own() {
    const PLAN: &str = "https://api.openai.com/v1";
    let issuer = Issuer::builder().registering("dynamic_agent_client").start().unwrap();
    let (home, ours) = (tempfile::tempdir().unwrap(), nexus_backends::login("chatgpt").unwrap().issuer());
    assert_eq!(ours.redirect, Redirect::new([1455, 0], "/auth/callback"));
    let at = ours.with_url(issuer.url()).with_redirect(Redirect::new([0], "/auth/callback"));
    let sign_in = || {
        let context = BuildContext::in_home(home.path()).with_base_directory(home.path());
        OAuthSignIn::new("openai-chatgpt", "log in again", at.clone(), &context, &Network::default()).unwrap()
    };
    let mut flow = Flow::start(sign_in());
    let asking = flow.page().await;
    assert!(asking.url.starts_with(&format!("{}/api/accounts/authorize?", issuer.url())), "{}", asking.url);
    let made_here = ["state", "nonce", "code_challenge", "redirect_uri", "ext_agent_host_id"];
    let fixed = asking.query.iter().filter(|(name, _)| !made_here.contains(&name.as_str()));
    let fixed: Vec<_> = fixed.map(|(name, value)| (name.as_str(), value.as_str())).collect();
    // Source: "Registration and sign-in", the parameters of the authorization request.
    let wanted = [
        ("agent_name_hint", "nexus"),
        ("client_id", "dynamic_agent_client"),
        ("code_challenge_method", "S256"),
        ("resource", PLAN),
        ("response_type", "code"),
        ("scope", "openid profile email offline_access resource.invoke chatgpt.tokens.use.direct"),
    ];
    assert_eq!(fixed, wanted);
    assert!(asking.redirect_uri.starts_with("http://127.0.0.1:"), "{}", asking.redirect_uri);
    let visit = issuer.browser().approve(&asking.url);
    flow.ended().await.unwrap();
    assert_eq!(visit.await.unwrap().status, 200);
    // From here on it is a login like the others, as the client that was registered.
    let client_id = issuer.registered().remove(0);
    whole_life(&issuer, sign_in, &client_id).await;
    assert_eq!((issuer.registered().len(), issuer.count(RequestKind::CodeExchange)), (1, 2));
}

#[tokio::test]
async fn codex_by_a_device_code() {
    let issuer = Issuer::start().unwrap();
    let at = nexus_backends::login("codex").unwrap().issuer().with_url(issuer.url());
    whole_life(&issuer, || sign_in(at.clone(), SignInMethod::DeviceCode), "app_EMoamEEZ73f0CkXaXp7hrann")
        .await;
    assert_eq!(issuer.count(RequestKind::Revoke), 1);
}

#[tokio::test]
async fn grok_by_a_device_code() {
    let issuer = Issuer::start().unwrap();
    let at = nexus_backends::login("grok").unwrap().issuer().with_url(issuer.url());
    let client_id = "b1a00492-073a-47ea-816f-4c329264a828";
    whole_life(&issuer, || sign_in(at.clone(), SignInMethod::DeviceCode), client_id).await;
    assert_eq!(issuer.count(RequestKind::Revoke), 0, "there is no known way");
}

#[tokio::test]
async fn a_refresh_for_another_account_is_refused_and_the_login_stays_as_it_is() {
    for (name, other) in [
        // Another account, and another person with the same account.
        ("codex", Account { id: "00000000-0000-4000-8000-00000000d00d".into(), ..Account::default() }),
        ("grok", with_subject("user-mallory")),
        ("codex", with_subject("user-mallory")),
    ] {
        let issuer = Issuer::start().unwrap();
        let at = nexus_backends::login(name).unwrap().issuer().with_url(issuer.url());
        let strategy = Arc::new(sign_in(at, SignInMethod::DeviceCode));
        let folder = tempfile::tempdir().unwrap();
        let manager = CredentialManager::at_home(strategy, folder.path());
        let browser = issuer.browser();
        let mut screen = |step: &LoginStep| {
            if let LoginStep::EnterCode { user_code, .. } = step {
                drop(browser.approve_device(user_code));
            }
        };
        manager.sign_in(&mut screen).await.unwrap();
        let before = manager.look().await.unwrap().unwrap();

        issuer.set_account(other);
        // By a clock that is 58 minutes ahead the token is still alive, and due.
        let ahead = manager.clone().with_clock(Arc::new(Ahead(Duration::from_secs(58 * 60))));
        let lent = ahead.credential(Duration::from_secs(600)).await.unwrap();
        assert_eq!(
            lent.token, before.login.access_token,
            "{name}: the one of the other account is lent to nobody"
        );
        let after = manager.look().await.unwrap().unwrap();
        assert_eq!(after.login, before.login, "{name}");
        assert!(after.refused.as_deref().is_some_and(|why| why.contains("another account")), "{after:?}");
        // The refresh token may be spent, so nobody presents it again; the turn that needs one is told.
        let error = ahead.renewed(&lent, Duration::ZERO).await.unwrap_err();
        assert_eq!(Failure::from(error).kind, ErrorKind::Unauthenticated);
        assert_eq!((issuer.count(RequestKind::Refresh), issuer.reuses()), (1, 0), "{name}");
    }
}

/// Somebody else, whose account is the same.
fn with_subject(subject: &str) -> Account {
    let mut account = Account::default();
    account.claims.insert("sub".into(), json!(subject));
    account
}

/// A clock that is ahead.
#[derive(Debug)]
struct Ahead(Duration);

impl Clock for Ahead {
    fn now(&self) -> SystemTime {
        SystemTime::now() + self.0
    }
}

#[tokio::test]
async fn at_openai_a_401_that_is_an_object_is_final_and_a_page_is_not() {
    let error = |status: u16, body: Value| Reply::json(status, &body);
    for (reply, is_final) in [
        (error(401, json!({ "error": { "code": "refresh_token_expired", "message": "canary" } })), true),
        (error(401, json!({ "error": { "code": "refresh_token_reused" } })), true),
        (error(400, json!({ "error": { "code": "refresh_token_invalidated" } })), true),
        (error(401, json!({ "error": { "code": "one_that_nobody_knows" } })), true),
        (error(401, json!({})), true),
        (error(401, json!({ "error": REFRESH })), true),
        (Reply::text(401, "text/html", "<html>canary: log in to this network</html>"), false),
        (Reply::text(401, "application/json", ""), false),
        (error(401, json!(["refresh_token_reused"])), false),
        (error(403, json!({})), false),
    ] {
        let wire = Wire::answering([reply.clone()]);
        let Ok(Value::Object(origin)) =
            serde_json::to_value(nexus_backends::login("codex").unwrap().issuer().with_url(wire.url()))
        else {
            panic!("an issuer is an object")
        };
        let login = Login::new(Secret::new("canary-old"), SystemTime::now() - Duration::from_secs(3_600))
            .with_refresh_token(Some(Secret::new(REFRESH)));
        let renewed = sign_in(
            nexus_backends::login("codex").unwrap().issuer().with_url("https://elsewhere.invalid"),
            SignInMethod::Browser,
        )
        .refresh(&login.with_origin(origin))
        .await;
        is_clean(&renewed);
        if let Err(error) = &renewed {
            is_clean_error(error);
        }
        match is_final {
            true => assert!(matches!(renewed, Err(RefreshError::Refused { .. })), "{reply:?}: {renewed:?}"),
            false => {
                assert!(matches!(renewed, Err(RefreshError::Malformed { .. })), "{reply:?}: {renewed:?}");
            }
        }
        assert_eq!(wire.asked().len(), 1);
    }
}
