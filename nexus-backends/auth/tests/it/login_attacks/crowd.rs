//! Callers that say too much, too little, or nothing at all.

use std::{sync::mpsc, time::Duration};

use nexus_auth::{SignInError, SignInMethod};
use tokio::io::AsyncReadExt as _;

use super::{
    callback::comes_through,
    stage::{Flow, SOON, good, issuer, sign_in},
    wire::{Gate, Reply, Wire},
};

/// Runs `test` while the clock stands still, so that nothing comes to its end because its time is up.
async fn out_of_time(test: impl Future<Output = ()>) {
    // The paused clock of a runtime does not leap either while something blocks.
    let (over, is_over) = mpsc::channel::<()>();
    let blocking = tokio::task::spawn_blocking(move || is_over.recv_timeout(SOON));
    tokio::time::pause();
    tokio::select! {
        () = test => {}
        waited = blocking => panic!("it does not end: {waited:?}"),
    }
    tokio::time::resume();
    drop(over);
}

#[tokio::test]
async fn ten_megabytes_are_not_heard_out() {
    let wire = Wire::answering([good()]);
    let mut flow = Flow::start(sign_in(issuer(&wire.url()), SignInMethod::Browser));
    let asking = flow.page().await;
    let (yes, port, much) = (asking.yes(), asking.port, "x".repeat(10 << 20));
    let requests = [
        format!("GET {yes}&more={much} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n\r\n"),
        format!("GET {yes} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncookie: {much}\r\n\r\n"),
        format!(
            "POST {yes} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-length: {}\r\n\r\n{much}",
            much.len()
        ),
        much.clone(),
    ];
    // They are cut off, not waited out.
    out_of_time(async {
        for request in requests {
            let shown = asking.send(&request).await;
            assert_ne!(shown.status, 200, "{shown:?}");
        }
    })
    .await;
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
    out_of_time(comes_through(&wire, flow, &asking)).await;
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
    out_of_time(async {
        // The oldest made room, long before its time was up.
        let end = crowd[0].read(&mut [0; 64]).await;
        assert!(matches!(end, Ok(0) | Err(_)), "{end:?}");
        comes_through(&wire, flow, &asking).await;
    })
    .await;
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
    let gate = Gate::default();
    let wire = Wire::answering([Reply::Held(gate.clone(), Box::new(good()))]);
    let mut flow = Flow::start(sign_in(issuer(&wire.url()), SignInMethod::Browser));
    let asking = flow.page().await;
    let request = format!("GET {} HTTP/1.1\r\nhost: 127.0.0.1:{}\r\n\r\n", asking.yes(), asking.port);
    let browser = asking.begin(&request).await;
    wire.reached(1).await;
    drop(browser);
    gate.open();
    flow.ended().await.unwrap();
    assert!(asking.port_is_free());
}
