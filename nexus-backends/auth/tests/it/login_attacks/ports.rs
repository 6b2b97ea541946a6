//! The registered ports: taken, and given back.

use std::net::{Ipv4Addr, TcpListener};

use nexus_auth::{LoginStep, Redirect, SignIn as _, SignInError, SignInMethod};

use super::{
    callback::comes_through,
    stage::{Flow, becomes_free, good, issuer, sign_in},
    wire::Wire,
};

/// A port that somebody else listens on.
fn taken() -> (TcpListener, u16) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

/// A port that nobody listens on, and that the system gives to nobody who asks for any.
fn free() -> u16 {
    let first = 12_000 + u16::try_from(std::process::id() % 4_000).unwrap();
    let is_free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    (first..20_000).find(is_free).unwrap()
}

#[tokio::test]
async fn a_port_that_is_taken_is_passed_over_and_that_is_said() {
    let wire = Wire::answering([good()]);
    let (_held, first) = taken();
    let second = free();
    let issuer = issuer(&wire.url()).with_redirect(Redirect::new([first, second], "/auth/callback"));
    let mut flow = Flow::start(sign_in(issuer, SignInMethod::Browser));
    let note = flow.step().await;
    assert!(matches!(&note, LoginStep::Note(note) if note.contains(&first.to_string())), "{note:?}");
    let asking = flow.page().await;
    assert_eq!(asking.port, second);
    assert_eq!(asking.redirect_uri, format!("http://127.0.0.1:{second}/auth/callback"));
    comes_through(&wire, flow, &asking).await;
}

#[tokio::test]
async fn no_port_at_all_is_an_error_that_names_the_way_without_one() {
    let wire = Wire::answering([good()]);
    let ((_one, first), (_two, second)) = (taken(), taken());
    let issuer = issuer(&wire.url()).with_redirect(Redirect::new([first, second], "/auth/callback"));
    let mut flow = Flow::start(sign_in(issuer, SignInMethod::Browser));
    let error = loop {
        if !flow.is_waiting() {
            break flow.ended().await.unwrap_err();
        }
        assert!(flow.shown().is_empty(), "nothing is shown that cannot be answered");
        tokio::task::yield_now().await;
    };
    let words = error.to_string();
    assert!(matches!(error, SignInError::NoPort { .. }), "{words}");
    for word in [first.to_string().as_str(), second.to_string().as_str(), "device code"] {
        assert!(words.contains(word), "{word} in {words}");
    }
    assert!(wire.asked().is_empty());
}

#[tokio::test]
async fn the_registered_name_is_told_and_the_address_listened_on() {
    let wire = Wire::answering([good()]);
    let issuer =
        issuer(&wire.url()).with_redirect(Redirect::new([0], "/auth/callback").with_host("localhost"));
    let mut flow = Flow::start(sign_in(issuer, SignInMethod::Browser));
    let asking = flow.page().await;
    assert_eq!(asking.redirect_uri, format!("http://localhost:{}/auth/callback", asking.port));
    comes_through(&wire, flow, &asking).await;
}

#[tokio::test]
async fn another_machine_is_never_the_way_back() {
    let wire = Wire::answering([good()]);
    for host in ["0.0.0.0", "evil.test", "127.0.0.1@evil.test", ""] {
        let redirect = Redirect::new([0], "/auth/callback").with_host(host);
        let sign_in = sign_in(issuer(&wire.url()).with_redirect(redirect), SignInMethod::Browser);
        let error = sign_in.sign_in(&mut |step: &LoginStep| panic!("{step:?}")).await.unwrap_err();
        assert!(matches!(error, SignInError::NoPort { .. }), "{host}: {error}");
    }
}

#[tokio::test]
async fn an_issuer_without_a_port_or_a_page_has_no_way_through_a_browser() {
    let wire = Wire::answering([good()]);
    let mut shown = |step: &LoginStep| panic!("{step:?}");
    let portless = issuer(&wire.url()).with_redirect(Redirect::new([], "/auth/callback"));
    let error = sign_in(portless, SignInMethod::Browser).sign_in(&mut shown).await.unwrap_err();
    assert!(matches!(error, SignInError::NoPort { .. }), "{error}");
    let bare = || nexus_auth::Issuer::new(wire.url(), "our-client");
    let error = sign_in(bare(), SignInMethod::Browser).sign_in(&mut shown).await.unwrap_err();
    assert!(
        matches!(&error, SignInError::Unsupported { reason } if reason.contains("device code")),
        "{error}"
    );
    let error = sign_in(bare(), SignInMethod::DeviceCode).sign_in(&mut shown).await.unwrap_err();
    assert!(matches!(&error, SignInError::Unsupported { reason } if reason.contains("browser")), "{error}");
}

#[tokio::test]
async fn dropping_the_sign_in_frees_the_port_at_once() {
    let wire = Wire::answering([good()]);
    let sign_in = sign_in(issuer(&wire.url()), SignInMethod::Browser);
    let (shown, mut pages) = tokio::sync::mpsc::unbounded_channel();
    let mut screen = move |step: &LoginStep| {
        let _ = shown.send(step.clone());
    };
    let mut future = sign_in.sign_in(&mut screen);
    let port = loop {
        assert!(futures::poll!(&mut future).is_pending());
        if let Ok(LoginStep::OpenPage { returns_to, .. }) = pages.try_recv() {
            break url::Url::parse(&returns_to).unwrap().port().unwrap();
        }
    };
    // Callers in all states: connected, half heard.
    let mut callers = Vec::new();
    for words in ["", "GET /auth/callback HTTP/1.1\r\n"] {
        let mut caller = std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        std::io::Write::write_all(&mut caller, words.as_bytes()).unwrap();
        callers.push(caller);
    }
    tokio::select! {
        ended = &mut future => panic!("{ended:?}"),
        () = tokio::time::sleep(std::time::Duration::from_millis(100)) => {}
    }
    assert!(TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_err(), "it is listened on");
    drop(future);
    // Nothing runs in between: no other task, no timer.
    assert!(becomes_free(port));
    for caller in &mut callers {
        let end = std::io::Read::read(caller, &mut [0; 64]);
        assert!(matches!(end, Ok(0) | Err(_)), "every caller is let go: {end:?}");
    }
}
