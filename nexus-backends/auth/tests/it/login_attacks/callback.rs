//! What is brought to the address that the browser is sent back to.

use nexus_auth::{LoginStep, SignInError, SignInMethod};

use super::{
    stage::{ACCESS, Asking, CODE, Flow, REFRESH, Shown, challenge, good, issuer, sign_in},
    wire::{Gate, Reply, Wire},
};

async fn waiting(wire: &Wire) -> (Flow, Asking) {
    let mut flow = Flow::start(sign_in(issuer(&wire.url()), SignInMethod::Browser));
    let asking = flow.page().await;
    (flow, asking)
}

/// The right answer comes through, and what it brings is exchanged as it was asked for.
pub(crate) async fn comes_through(wire: &Wire, flow: Flow, asking: &Asking) {
    assert!(flow.is_waiting());
    assert!(wire.asked().is_empty(), "nothing was exchanged before");
    let shown = asking.get(&asking.yes()).await;
    assert_eq!(shown.status, 200, "{shown:?}");
    assert!(shown.body.contains("You are signed in"), "{}", shown.body);
    let login = flow.ended().await.unwrap();
    assert_eq!(login.access_token.expose(), ACCESS);
    assert_eq!(login.refresh_token.as_ref().unwrap().expose(), REFRESH);
    is_exchange(wire, asking);
    assert!(asking.port_is_free());
}

/// One exchange, of this code, for what this page asked.
fn is_exchange(wire: &Wire, asking: &Asking) {
    let asked = wire.only();
    assert_eq!((asked.method.as_str(), asked.path.as_str()), ("POST", "/token"));
    let mut names = asked.names();
    names.sort();
    assert_eq!(names, ["client_id", "code", "code_verifier", "grant_type", "redirect_uri"]);
    assert_eq!(asked.field("grant_type"), "authorization_code");
    assert_eq!(asked.field("code"), CODE);
    assert_eq!(asked.field("client_id"), "our-client");
    assert_eq!(asked.field("redirect_uri"), asking.redirect_uri, "the same to the letter");
    let verifier = asked.field("code_verifier");
    assert!((43..=128).contains(&verifier.len()), "RFC 7636 section 4.1");
    assert_eq!(challenge(&verifier), asking.challenge);
    for absent in ["authorization", "cookie", "user-agent", "referer", "origin"] {
        assert_eq!(asked.header(absent), None, "{absent}");
    }
    assert_eq!(asked.header("accept"), Some("application/json"));
}

#[tokio::test]
async fn the_page_is_asked_for_a_code_with_pkce_and_state() {
    let wire = Wire::answering([good()]);
    let (flow, asking) = waiting(&wire).await;
    assert!(asking.url.starts_with(&format!("{}/authorize?", wire.url())), "{}", asking.url);
    let query = |name: &str| asking.query[name].as_str();
    assert_eq!(query("response_type"), "code");
    assert_eq!(query("client_id"), "our-client");
    assert_eq!(query("scope"), "openid offline_access");
    assert_eq!(query("code_challenge_method"), "S256");
    assert_eq!(query("originator"), "nexus");
    assert_eq!(asking.redirect_uri, format!("http://127.0.0.1:{}/auth/callback", asking.port));
    assert_eq!(asking.challenge.len(), 43, "a hash of 32 bytes");
    assert!(asking.state.len() >= 43, "32 random bytes");
    assert_eq!(asking.query.len(), 8, "{:?}", asking.query);
    comes_through(&wire, flow, &asking).await;
}

#[tokio::test]
async fn no_two_sign_ins_share_a_state_or_a_verifier() {
    let wire = Wire::answering([good()]);
    let (_one, first) = waiting(&wire).await;
    let (_two, second) = waiting(&wire).await;
    assert_ne!(first.state, second.state);
    assert_ne!(first.challenge, second.challenge);
    assert_ne!(first.port, second.port);
}

#[tokio::test]
async fn an_answer_with_another_state_is_refused_and_the_right_one_waited_for() {
    let wire = Wire::answering([good()]);
    let (mut flow, asking) = waiting(&wire).await;
    let state = &asking.state;
    for query in [
        format!("code={CODE}&state=canary-state"),
        format!("code={CODE}&state={state}x"),
        format!("code={CODE}&state={}", &state[..state.len() - 1]),
        format!("code={CODE}&state={}", state.to_uppercase()),
        format!("code={CODE}&state="),
        format!("code={CODE}&state"),
        format!("code={CODE}"),
        String::new(),
        "error=access_denied&state=canary-state".to_owned(),
        "error=access_denied".to_owned(),
        // Twice: whichever counts for somebody else, it is in doubt here.
        format!("code={CODE}&state={state}&state=canary-state"),
        format!("code={CODE}&state=canary-state&state={state}"),
    ] {
        let shown = asking.get(&format!("/auth/callback?{query}")).await;
        assert_eq!(shown.status, 400, "{query}");
        assert!(shown.body.contains("belongs to another sign-in"), "{query}: {}", shown.body);
        assert!(!shown.body.contains(state.as_str()));
    }
    let notes = flow.shown();
    assert!(
        matches!(notes.as_slice(), [LoginStep::Note(note)] if note.contains("rejected")),
        "told once: {notes:?}"
    );
    comes_through(&wire, flow, &asking).await;
}

#[tokio::test]
async fn an_answer_that_says_neither_yes_nor_no_is_refused_and_the_right_one_waited_for() {
    let wire = Wire::answering([good()]);
    let (flow, asking) = waiting(&wire).await;
    for query in ["", "&code=", "&code=a&code=b", "&code=a&error=access_denied", "&error=a&error=b"] {
        let shown = asking.get(&format!("/auth/callback?state={}{query}", asking.state)).await;
        assert_eq!(shown.status, 400, "{query}");
        assert!(shown.body.contains("The answer is incomplete"), "{query}: {}", shown.body);
    }
    comes_through(&wire, flow, &asking).await;
}

#[tokio::test]
async fn a_second_answer_is_refused_and_harms_nothing() {
    let gate = Gate::default();
    let wire = Wire::answering([Reply::Held(gate.clone(), Box::new(good()))]);
    let (flow, asking) = waiting(&wire).await;
    let first = tokio::spawn({
        let asking = asking.clone();
        async move { asking.get(&asking.yes()).await }
    });
    wire.reached(1).await;
    // A replay of the same code, another code, and a refusal, while the first is being exchanged.
    for path in [
        asking.yes(),
        asking.yes().replace(CODE, "canary-other"),
        format!("/auth/callback?error=access_denied&state={}", asking.state),
    ] {
        let shown = asking.get(&path).await;
        assert_eq!(shown.status, 409, "{shown:?}");
        assert!(shown.body.contains("answered already"), "{}", shown.body);
    }
    gate.open();
    let shown = first.await.unwrap();
    assert!(shown.body.contains("You are signed in"), "{}", shown.body);
    assert_eq!(flow.ended().await.unwrap().access_token.expose(), ACCESS);
    is_exchange(&wire, &asking);
    // Nobody listens any more to whoever comes later still.
    assert!(asking.port_is_free());
}

#[tokio::test]
async fn a_refusal_is_told_with_its_code_to_the_person_and_on_the_page() {
    let wire = Wire::answering([good()]);
    let (flow, asking) = waiting(&wire).await;
    let path =
        format!("/auth/callback?error=access_denied&error_description=Not+today.&state={}", asking.state);
    let shown = asking.get(&path).await;
    assert_eq!(shown.status, 200);
    assert!(shown.body.contains("access_denied: Not today."), "{}", shown.body);
    let error = flow.ended().await.unwrap_err();
    assert!(
        matches!(&error, SignInError::Declined { reason } if reason == "access_denied: Not today."),
        "{error}"
    );
    assert!(wire.asked().is_empty());
    assert!(asking.port_is_free());
}

#[tokio::test]
async fn markup_and_terminal_codes_in_a_refusal_stay_words() {
    let wire = Wire::answering([good()]);
    let (flow, asking) = waiting(&wire).await;
    let attack = "%3Cscript%3Ealert(%27x%27)%3C/script%3E%22%26%1B%5B31m%07%0D%0Anext%E2%80%AEline";
    let path = format!(
        "/auth/callback?error=%3Cb%3Ebad%3C/b%3E&error_description={attack}+{}&state={}",
        asking.state, asking.state
    );
    let shown = asking.get(&path).await;
    assert!(
        shown.body.contains("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&quot;&amp;[31m"),
        "{}",
        shown.body
    );
    assert!(!shown.body.contains(&asking.state), "the state is not shown");
    let error = flow.ended().await.unwrap_err().to_string();
    assert!(error.contains("<script>alert('x')</script>\"&[31m  nextline [redacted]"), "{error}");
    assert!(error.contains("an error without a code"), "what is no code is not called one: {error}");
    assert!(
        !error.contains(&asking.state) && error.chars().all(|character| !character.is_control()),
        "{error:?}"
    );
}

#[tokio::test]
async fn whoever_calls_us_by_another_name_is_refused() {
    let wire = Wire::answering([good()]);
    let (flow, asking) = waiting(&wire).await;
    let (yes, port) = (asking.yes(), asking.port);
    let refused = |shown: &Shown| shown.status == 421 && shown.body.contains("not served here");
    for host in [
        "evil.test".to_owned(),
        format!("evil.test:{port}"),
        format!("127.0.0.1.evil.test:{port}"),
        format!("localhost.evil.test:{port}"),
        "127.0.0.1".to_owned(),
        "localhost".to_owned(),
        format!("127.0.0.1:{}", port ^ 1),
        format!("127.0.0.2:{port}"),
        format!("[::1]:{port}"),
        format!("0.0.0.0:{port}"),
        format!("me@127.0.0.1:{port}"),
    ] {
        let shown = asking.send(&format!("GET {yes} HTTP/1.1\r\nhost: {host}\r\n\r\n")).await;
        assert!(refused(&shown), "{host}: {shown:?}");
    }
    for request in [
        format!("GET {yes} HTTP/1.1\r\n\r\n"),
        format!("GET {yes} HTTP/1.0\r\n\r\n"),
        format!("GET http://evil.test{yes} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n\r\n"),
        format!("GET {yes} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nhost: evil.test\r\n\r\n"),
    ] {
        let shown = asking.send(&request).await;
        assert!(refused(&shown), "{request}: {shown:?}");
    }
    comes_through(&wire, flow, &asking).await;
}

#[tokio::test]
async fn the_other_name_of_this_machine_is_known() {
    let wire = Wire::answering([good()]);
    let (flow, asking) = waiting(&wire).await;
    let request = format!("GET {} HTTP/1.1\r\nhost: LOCALHOST:{}\r\n\r\n", asking.yes(), asking.port);
    assert_eq!(asking.send(&request).await.status, 200);
    flow.ended().await.unwrap();
    is_exchange(&wire, &asking);
}

#[tokio::test]
async fn only_get_is_an_answer_and_only_at_the_address() {
    let wire = Wire::answering([good()]);
    let (flow, asking) = waiting(&wire).await;
    let (yes, port) = (asking.yes(), asking.port);
    for method in ["POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "CONNECTX"] {
        let request =
            format!("{method} {yes} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-length: 0\r\n\r\n");
        let shown = asking.send(&request).await;
        assert_eq!(shown.status, 405, "{method}: {shown:?}");
        assert!(shown.head.contains("allow: get"), "{method}: {}", shown.head);
    }
    let form = format!("code={CODE}&state={}", asking.state);
    let request = format!(
        "POST /auth/callback HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-type: application/x-www-form-urlencoded\r\n\
         content-length: {}\r\n\r\n{form}",
        form.len()
    );
    assert_eq!(asking.send(&request).await.status, 405);
    for path in [
        "/",
        "/favicon.ico",
        "/auth/callback/",
        "/auth/callbackx",
        "//auth/callback",
        "/auth/../auth/callback",
        "/cancel",
    ] {
        let query = yes.split_once('?').unwrap().1;
        assert_eq!(asking.get(&format!("{path}?{query}")).await.status, 404, "{path}");
    }
    comes_through(&wire, flow, &asking).await;
}
