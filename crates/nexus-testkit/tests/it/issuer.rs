//! The authorization server keeps the rules that a login is tested against.

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant, SystemTime};

use nexus_testkit::issuer::{Account, Fault, Issuer, Outcome, Page, RequestKind, TokenKind};
use serde_json::Value;

/// The verifier of RFC 7636, appendix B, and its challenge.
const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";
const BACK: &str = "http://127.0.0.1:1455/auth/callback";
const CLIENT: &str = "some-client";

/// A client of the issuer, as plain as can be.
struct Client<'a> {
    issuer: &'a Issuer,
}

impl Client<'_> {
    fn page(&self, changes: &[(&str, &str)]) -> String {
        let mut query = BTreeMap::from([
            ("response_type", "code"),
            ("client_id", CLIENT),
            ("redirect_uri", BACK),
            ("scope", "openid offline_access"),
            ("state", "state-1"),
            ("code_challenge", CHALLENGE),
            ("code_challenge_method", "S256"),
        ]);
        query.extend(changes.iter().copied());
        let query: Vec<String> = query.iter().map(|(name, value)| format!("{name}={value}")).collect();
        format!("{}/oauth/authorize?{}", self.issuer.url(), query.join("&"))
    }

    fn code(&self) -> String {
        let back = self.issuer.browser().approve_only(&self.page(&[])).wait().unwrap();
        query_of(&back).remove("code").unwrap()
    }

    fn token(&self, path: &str, fields: &[(&str, &str)]) -> Page {
        self.try_token(path, fields).unwrap()
    }

    fn try_token(&self, path: &str, fields: &[(&str, &str)]) -> io::Result<Page> {
        self.issuer.browser().submit(&format!("{}{path}", self.issuer.url()), fields).wait()
    }

    fn redeem(&self, code: &str, changes: &[(&str, &str)]) -> Page {
        let mut fields = BTreeMap::from([
            ("grant_type", "authorization_code"),
            ("client_id", CLIENT),
            ("code", code),
            ("redirect_uri", BACK),
            ("code_verifier", VERIFIER),
        ]);
        fields.extend(changes.iter().copied());
        self.token("/oauth/token", &fields.into_iter().collect::<Vec<_>>())
    }

    fn refresh(&self, token: &str) -> Page {
        self.try_refresh(token).unwrap()
    }

    fn try_refresh(&self, token: &str) -> io::Result<Page> {
        let fields = [("grant_type", "refresh_token"), ("client_id", CLIENT), ("refresh_token", token)];
        self.try_token("/oauth/token", &fields)
    }
}

fn query_of(url: &str) -> BTreeMap<String, String> {
    let (_, query) = url.split_once('?').unwrap();
    url::form_urlencoded::parse(query.as_bytes()).into_owned().collect()
}

fn json(page: &Page) -> Value {
    serde_json::from_str(&page.body).unwrap_or_else(|error| panic!("{error}: {page:?}"))
}

fn text(page: &Page, member: &str) -> String {
    json(page)[member].as_str().unwrap_or_else(|| panic!("no {member} in {page:?}")).to_owned()
}

/// The code of an error, in either manner.
fn error_of(page: &Page) -> String {
    let body = json(page);
    body["error"].as_str().or(body["error"]["code"].as_str()).unwrap_or_default().to_owned()
}

fn claims(token: &str) -> Value {
    use base64::Engine as _;
    let parts: Vec<&str> = token.split('.').collect();
    assert_eq!(parts.len(), 3);
    let engine = base64::engine::general_purpose::URL_SAFE_NO_PAD;
    serde_json::from_slice(&engine.decode(parts[1]).unwrap()).unwrap()
}

#[test]
fn a_login_by_browser_gives_tokens_that_say_who_it_is() {
    let account = Account { plan: "plus".into(), ..Account::default() };
    let life = Duration::from_secs(90);
    let issuer = Issuer::builder().account(account.clone()).access_token_life(life).start().unwrap();
    let client = Client { issuer: &issuer };

    let back = issuer.browser().approve_only(&client.page(&[])).wait().unwrap();
    assert!(back.starts_with(BACK), "{back}");
    assert_eq!(query_of(&back)["state"], "state-1");
    let granted = client.redeem(&query_of(&back)["code"], &[]);
    assert_eq!((granted.status, &json(&granted)["expires_in"]), (200, &90.into()));

    let access = text(&granted, "access_token");
    for token in [&access, &text(&granted, "id_token")] {
        let claims = claims(token);
        let who = &claims["https://api.openai.com/auth"];
        assert_eq!(
            (&who["chatgpt_account_id"], &who["chatgpt_plan_type"]),
            (&account.id.clone().into(), &"plus".into())
        );
        assert_eq!((&claims["email"], &claims["iss"]), (&account.email.clone().into(), &issuer.url().into()));
        assert_eq!(claims["exp"].as_i64().unwrap() - claims["iat"].as_i64().unwrap(), 90);
    }
    assert!(issuer.accepts(&access));
    issuer.expire_access_tokens();
    assert!(!issuer.accepts(&access));
}

#[test]
fn the_person_may_say_no() {
    let issuer = Issuer::start().unwrap();
    let client = Client { issuer: &issuer };
    // Nobody listens where the browser is sent back to.
    let page = client.page(&[("redirect_uri", "http://127.0.0.1:1/callback")]);
    assert!(issuer.browser().decline(&page).wait().is_err());
    let asked = issuer.asked();
    assert_eq!(asked.last().unwrap().outcome, Outcome::Refused("access_denied".into()));
}

#[test]
fn what_cannot_be_trusted_is_not_sent_back_anywhere() {
    let issuer = Issuer::builder().client_id(CLIENT).redirect_uri(BACK).start().unwrap();
    let client = Client { issuer: &issuer };
    for change in [
        ("client_id", "another"),
        ("redirect_uri", "http://127.0.0.1:1455/auth/callback/"),
        ("redirect_uri", "http://localhost:1455/auth/callback"),
        ("redirect_uri", "https://example.test/"),
    ] {
        let page = issuer.browser().approve(&client.page(&[change])).wait().unwrap();
        assert_eq!(page.status, 400, "{change:?}");
        assert!(page.url.starts_with(&issuer.url()), "{change:?}");
    }
    for change in [("code_challenge_method", "plain"), ("code_challenge", ""), ("code_challenge", "short")] {
        let back = issuer.browser().approve_only(&client.page(&[change])).wait().unwrap();
        assert_eq!(query_of(&back)["error"], "invalid_request", "{change:?}");
    }
}

#[test]
fn a_code_is_good_once_for_whom_it_was_made() {
    let issuer = Issuer::start().unwrap();
    let client = Client { issuer: &issuer };
    for change in [
        ("client_id", "another"),
        ("redirect_uri", "http://127.0.0.1:1457/auth/callback"),
        ("code_verifier", "Z1jftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"),
        ("code_verifier", ""),
    ] {
        let code = client.code();
        let refused = client.redeem(&code, &[change]);
        assert_eq!((refused.status, error_of(&refused)), (400, "invalid_grant".into()), "{change:?}");
    }

    let code = client.code();
    let granted = client.redeem(&code, &[]);
    let access = text(&granted, "access_token");
    assert_eq!((granted.status, issuer.reuses(), issuer.accepts(&access)), (200, 0, true));
    let again = client.redeem(&code, &[]);
    assert_eq!((error_of(&again), issuer.reuses()), ("invalid_grant".into(), 1));
    assert!(!issuer.accepts(&access), "whoever redeems a code twice loses what it gave");
    assert_eq!(error_of(&client.refresh(&text(&granted, "refresh_token"))), "refresh_token_invalidated");
}

#[test]
fn a_refresh_token_spent_twice_ends_the_login() {
    let issuer = Issuer::start().unwrap();
    let client = Client { issuer: &issuer };
    let first = issuer.issue(CLIENT).refresh_token.unwrap();
    let second = client.refresh(first.expose());
    let third = client.refresh(&text(&second, "refresh_token"));
    assert_eq!((second.status, third.status, issuer.reuses()), (200, 200, 0));
    let newest = text(&third, "access_token");
    assert!(issuer.accepts(&newest));

    let reused = client.refresh(first.expose());
    assert_eq!((reused.status, error_of(&reused)), (401, "refresh_token_reused".into()));
    assert!(!issuer.accepts(&newest));
    let over = client.refresh(&text(&third, "refresh_token"));
    assert_eq!((over.status, error_of(&over)), (401, "refresh_token_invalidated".into()));

    let asked = issuer.asked();
    let generations: Vec<_> = asked.iter().map(|asked| (asked.generation, asked.reuse)).collect();
    assert_eq!(generations, [(Some(0), false), (Some(1), false), (Some(0), true), (Some(2), false)]);
    assert_eq!(asked[1].outcome, Outcome::Granted { family: 0, generation: 2 });
    assert!(asked.iter().all(|asked| asked.at <= asked.answered_at.unwrap()));
    assert!(asked.iter().all(|asked| asked.at <= SystemTime::now()));
}

#[test]
fn a_refresh_token_is_its_clients_alone() {
    let issuer = Issuer::start().unwrap();
    let client = Client { issuer: &issuer };
    let token = issuer.issue("another-client").refresh_token.unwrap();
    assert_eq!(error_of(&client.refresh(token.expose())), "invalid_grant");
    assert_eq!(issuer.reuses(), 0);
}

#[test]
fn revocation_ends_the_login() {
    let issuer = Issuer::start().unwrap();
    let client = Client { issuer: &issuer };
    let tokens = issuer.issue(CLIENT);
    let refresh_token = tokens.refresh_token.unwrap();
    let url = format!("{}/oauth2/revoke", issuer.url());
    let revoke = |token: &str| issuer.browser().submit(&url, &[("token", token)]).wait().unwrap().status;
    assert_eq!(revoke("nobody knows it"), 200);
    assert!(issuer.accepts(tokens.access_token.expose()));
    assert_eq!(revoke(refresh_token.expose()), 200);
    assert!(!issuer.accepts(tokens.access_token.expose()));
    assert_eq!(client.refresh(refresh_token.expose()).status, 401);
    assert_eq!(issuer.asked()[1].family, Some(0));
}

#[test]
fn a_device_waits_for_its_person() {
    let issuer = Issuer::builder().poll_interval(Duration::ZERO).start().unwrap();
    let client = Client { issuer: &issuer };
    let started = client.token("/oauth2/device/code", &[("client_id", CLIENT), ("scope", "openid")]);
    let (device_code, user_code) = (text(&started, "device_code"), text(&started, "user_code"));
    let poll = || {
        let grant = "urn:ietf:params:oauth:grant-type:device_code";
        client.token(
            "/oauth2/token",
            &[("grant_type", grant), ("client_id", CLIENT), ("device_code", &device_code)],
        )
    };
    assert_eq!(error_of(&poll()), "authorization_pending");
    assert_eq!(issuer.browser().approve_device("WRONG-CODE").wait().unwrap().status, 400);
    assert_eq!(issuer.browser().approve_device(&user_code).wait().unwrap().status, 200);
    let granted = poll();
    assert!(issuer.accepts(&text(&granted, "access_token")));
    assert_eq!(error_of(&poll()), "invalid_grant");
    assert_eq!(issuer.count(RequestKind::DevicePoll), 3);
}

#[test]
fn a_device_that_asks_too_often_is_told_so_and_one_that_is_declined_too() {
    let issuer = Issuer::builder().poll_interval(Duration::from_secs(5)).start().unwrap();
    let client = Client { issuer: &issuer };
    let started = client.token("/oauth2/device/code", &[("client_id", CLIENT)]);
    assert_eq!(json(&started)["interval"], 5);
    let device_code = text(&started, "device_code");
    let grant = "urn:ietf:params:oauth:grant-type:device_code";
    let poll = [("grant_type", grant), ("client_id", CLIENT), ("device_code", &device_code)];
    assert_eq!(error_of(&client.token("/oauth2/token", &poll)), "authorization_pending");
    assert_eq!(error_of(&client.token("/oauth2/token", &poll)), "slow_down");
    let outcomes: Vec<_> = issuer.asked().into_iter().skip(1).map(|asked| asked.outcome).collect();
    assert_eq!(outcomes, [Outcome::Pending, Outcome::TooFast]);

    let issuer = Issuer::builder().poll_interval(Duration::ZERO).start().unwrap();
    let client = Client { issuer: &issuer };
    let started = client.token("/oauth2/device/code", &[("client_id", CLIENT)]);
    issuer.browser().decline_device(&text(&started, "user_code")).wait().unwrap();
    let device_code = text(&started, "device_code");
    let poll = [("grant_type", grant), ("client_id", CLIENT), ("device_code", &device_code)];
    assert_eq!(error_of(&client.token("/oauth2/token", &poll)), "access_denied");
}

#[test]
fn openais_device_flow_ends_in_a_code_with_its_verifier() {
    let issuer = Issuer::builder().poll_interval(Duration::ZERO).start().unwrap();
    let client = Client { issuer: &issuer };
    let started = client.token("/api/accounts/deviceauth/usercode", &[("client_id", CLIENT)]);
    assert_eq!(json(&started)["interval"], "0");
    let (device, user_code) = (text(&started, "device_auth_id"), text(&started, "user_code"));
    let poll = || {
        let fields = [("device_auth_id", device.as_str()), ("user_code", user_code.as_str())];
        client.token("/api/accounts/deviceauth/token", &fields)
    };
    assert_eq!(poll().status, 403);
    issuer.browser().approve_device(&user_code).wait().unwrap();
    let approved = poll();
    assert_eq!(approved.status, 200);
    let back = format!("{}/deviceauth/callback", issuer.url());
    let verifier = text(&approved, "code_verifier");
    let code = text(&approved, "authorization_code");
    let granted = client.redeem(&code, &[("redirect_uri", &back), ("code_verifier", &verifier)]);
    assert_eq!(granted.status, 200);
    assert_eq!(poll().status, 404);
}

#[test]
fn a_fault_spends_what_it_says_and_nothing_else() {
    let good_after = |fault: Fault| {
        let issuer = Issuer::start().unwrap();
        let client = Client { issuer: &issuer };
        let token = issuer.issue(CLIENT).refresh_token.unwrap();
        issuer.fail_times(RequestKind::Refresh, fault, 1);
        let failed = client.try_refresh(token.expose());
        let good = client.refresh(token.expose()).status == 200;
        assert_eq!(issuer.count(RequestKind::Refresh), 2);
        (failed, good)
    };
    for fault in [Fault::status(503), Fault::invalid_grant(), Fault::Html200, Fault::NoRotation] {
        let (answer, good) = good_after(fault.clone());
        assert!(answer.is_ok() && good, "{fault:?}: {answer:?}");
    }
    let (answer, good) = good_after(Fault::CutBefore);
    assert!(answer.is_err() && good);
    for fault in [Fault::CutAfter, Fault::CutInside] {
        let (answer, good) = good_after(fault.clone());
        assert!(answer.is_err() && !good, "{fault:?}: {answer:?}");
    }
    for fault in [Fault::NoAccessToken, Fault::WrongTypes, Fault::TornJson, Fault::NoExpiry] {
        let (answer, good) = good_after(fault.clone());
        assert!(answer.unwrap().status == 200 && !good, "{fault:?}");
    }
}

#[test]
fn answers_can_be_odd_and_good() {
    let issuer = Issuer::start().unwrap();
    let client = Client { issuer: &issuer };
    let first = issuer.issue(CLIENT).refresh_token.unwrap();
    let refreshed = |fault: Fault, token: &str| {
        issuer.heal();
        issuer.fail(RequestKind::Refresh, fault);
        client.refresh(token)
    };
    let body = json(&refreshed(Fault::NoRefreshToken, first.expose()));
    assert!(body["access_token"].is_string() && body["refresh_token"].is_null());
    let same = refreshed(Fault::NoRotation, first.expose());
    assert_eq!(text(&same, "refresh_token"), first.expose());
    let opaque = refreshed(Fault::OpaqueTokens, first.expose());
    assert!(!text(&opaque, "access_token").contains('.') && json(&opaque)["id_token"].is_null());
    let unsigned = refreshed(Fault::UnsignedTokens, &text(&opaque, "refresh_token"));
    assert!(text(&unsigned, "access_token").ends_with('.'));
    let began = Instant::now();
    let slow = refreshed(Fault::Slow(Duration::from_millis(200)), &text(&unsigned, "refresh_token"));
    assert!(slow.status == 200 && began.elapsed() >= Duration::from_millis(200));
    let huge = refreshed(Fault::HugeBody { bytes: 300_000 }, &text(&slow, "refresh_token"));
    assert!(huge.body.len() > 300_000 && json(&huge)["access_token"].is_string());
    assert_eq!(issuer.reuses(), 0);
}

#[test]
fn nothing_secret_is_in_the_log() {
    let issuer = Issuer::builder().refresh_token_mark("canary").start().unwrap();
    let client = Client { issuer: &issuer };
    let granted = client.redeem(&client.code(), &[]);
    let refresh_token = text(&granted, "refresh_token");
    assert!(refresh_token.starts_with("canary"));
    client.refresh(&refresh_token);
    let place = issuer.place_of(&nexus_core::Secret::new(refresh_token)).unwrap();
    assert_eq!((place.kind, place.generation), (TokenKind::Refresh, 0));
    let log = format!("{:?} {:?}", issuer.asked(), issuer.issue(CLIENT));
    for secret in ["canary", "eyJ", VERIFIER, "simulated-code"] {
        assert!(!log.contains(secret), "{secret} in {log}");
    }
    assert!(log.contains("refresh_token"), "the names of what was sent are there");
}

#[test]
fn after_it_stops_nobody_answers() {
    let mut issuer = Issuer::start().unwrap();
    let page = issuer.url();
    assert_eq!(issuer.browser().open(&page).wait().unwrap().status, 200);
    issuer.stop();
    assert!(issuer.browser().open(&page).wait().is_err());
    assert_eq!(issuer.asked().len(), 1);
}
