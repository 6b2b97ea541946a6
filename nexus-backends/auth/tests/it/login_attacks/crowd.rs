//! Callers that say too much, too little, or nothing at all.

use std::time::{Duration, Instant};

use nexus_auth::{SignInError, SignInMethod};
use tokio::io::AsyncReadExt as _;

use super::{
    callback::comes_through,
    stage::{Flow, good, issuer, sign_in},
    wire::Wire,
};

#[tokio::test]
async fn ten_megabytes_are_not_heard_out() {
    let wire = Wire::answering([good()]);
    let mut flow = Flow::start(sign_in(issuer(&wire.url()), SignInMethod::Browser));
    let asking = flow.page().await;
    let (yes, port, much) = (asking.yes(), asking.port, "x".repeat(10 << 20));
    let started = Instant::now();
    for request in [
        format!("GET {yes}&more={much} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n\r\n"),
        format!("GET {yes} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncookie: {much}\r\n\r\n"),
        format!(
            "POST {yes} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-length: {}\r\n\r\n{much}",
            much.len()
        ),
        much.clone(),
    ] {
        let shown = asking.send(&request).await;
        assert_ne!(shown.status, 200, "{shown:?}");
    }
    assert!(started.elapsed() < Duration::from_secs(10), "they are cut off, not waited out");
    comes_through(&wire, flow, &asking).await;
}

#[tokio::test]
async fn a_hundred_callers_that_never_finish_hold_up_nobody() {
    let wire = Wire::answering([good()]);
    let mut flow = Flow::start(sign_in(issuer(&wire.url()), SignInMethod::Browser));
    let asking = flow.page().await;
    let mut crowd = Vec::new();
    for number in 0..100 {
        let words = ["", "G", "GET /auth/callback", "GET / HTTP/1.1\r\nhost: "][number % 4];
        crowd.push(asking.begin(words).await);
    }
    let started = Instant::now();
    comes_through(&wire, flow, &asking).await;
    assert!(started.elapsed() < Duration::from_secs(4), "nobody was waited for: {:?}", started.elapsed());
    drop(crowd);
}

#[tokio::test]
async fn more_callers_than_there_is_room_for_hold_up_nobody() {
    let wire = Wire::answering([good()]);
    let mut flow = Flow::start(sign_in(issuer(&wire.url()), SignInMethod::Browser));
    let asking = flow.page().await;
    let mut crowd = Vec::new();
    for _ in 0..600 {
        crowd.push(asking.begin("GET /").await);
    }
    // The oldest made room, long before its time was up.
    let end = tokio::time::timeout(Duration::from_secs(2), crowd[0].read(&mut [0; 64])).await;
    assert!(matches!(end, Ok(Ok(0) | Err(_))), "{end:?}");
    let started = Instant::now();
    comes_through(&wire, flow, &asking).await;
    assert!(started.elapsed() < Duration::from_secs(4), "nobody was waited for: {:?}", started.elapsed());
    drop(crowd);
}

#[tokio::test]
async fn a_browser_that_is_closed_is_waited_for_and_no_longer() {
    let wire = Wire::answering([good()]);
    let patience = Duration::from_millis(300);
    let sign_in = sign_in(issuer(&wire.url()), SignInMethod::Browser).with_patience(patience);
    let mut flow = Flow::start(sign_in);
    let asking = flow.page().await;
    // It opened the address, and was closed.
    let half = asking.begin("GET /auth/callback?code=canary").await;
    let error = flow.ended().await.unwrap_err();
    assert!(matches!(error, SignInError::TimedOut { after } if after == patience), "{error}");
    assert!(asking.port_is_free());
    assert!(wire.asked().is_empty());
    drop(half);
}

#[tokio::test]
async fn a_browser_that_leaves_before_its_page_comes_is_signed_in_all_the_same() {
    let wire = Wire::answering([super::wire::Reply::Late(Duration::from_millis(300), Box::new(good()))]);
    let mut flow = Flow::start(sign_in(issuer(&wire.url()), SignInMethod::Browser));
    let asking = flow.page().await;
    let request = format!("GET {} HTTP/1.1\r\nhost: 127.0.0.1:{}\r\n\r\n", asking.yes(), asking.port);
    drop(asking.begin(&request).await);
    wire.reached(1).await;
    flow.ended().await.unwrap();
    assert!(asking.port_is_free());
}
