//! The transport against real sockets: each answer that a server or a network can give, right or wrong.

mod connections;
mod refusals;
mod server;
mod tls;

use std::{
    future::poll_fn,
    io::Write as _,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use nexus_core::{ErrorKind, Retry, harness::Failure};
use nexus_testkit::sim::RefusedPort;
use serde_json::{Value, json};

use self::server::{After, Server, gzip};
use super::*;
use crate::native::outcome::{ErrorBody, Form};
use crate::native::wires::responses::shape::PLAIN;

const SHAPE: WireShape = WireShape::Responses(PLAIN);

const EVENTS: &str = "event: response.completed\ndata: {\"text\":\"grüß\"}\n\n";
const STREAM: &str = "content-type: text/event-stream; charset=utf-8\r\n";
const JSON: &str = "content-type: application/json\r\n";
const HTML: &str = "content-type: text/html\r\n";
const PAGE: &str = "<!doctype html><html><head><title>Welcome, guest</title></head></html>";

fn transport(base_url: &str, more: Value) -> Transport {
    let Value::Object(mut settings) = more else { panic!("settings are an object") };
    settings.insert("base_url".into(), base_url.into());
    let context = BuildContext::in_home("/home").with_base_directory("/base");
    Transport::new(&NativeSettings::read(&settings, &context).unwrap(), &context).unwrap()
}

async fn post(transport: &Transport) -> Result<ServerAnswer, Failure> {
    let request = transport.post(&SHAPE, CallAddress::default(), HeaderMap::new(), Bytes::from_static(b"{}"));
    let answer = tokio::time::timeout(Duration::from_secs(90), request).await.expect("nothing hangs");
    answer.map_err(Failure::from)
}

async fn asked(server: &Server) -> Result<ServerAnswer, Failure> {
    post(&transport(&server.base_url(), json!({}))).await
}

/// Everything that a stream brings, and how it ends.
async fn read(mut body: Body) -> (Vec<u8>, Result<(), Failure>) {
    let mut bytes = Vec::new();
    loop {
        match poll_fn(|context| body.poll_chunk(context)).await {
            None => return (bytes, Ok(())),
            Some(Ok(chunk)) => {
                assert!(!chunk.is_empty());
                bytes.extend_from_slice(&chunk);
            }
            Some(Err(error)) => return (bytes, Err(error.into())),
        }
    }
}

async fn streamed(server: &Server) -> (Vec<u8>, Result<(), Failure>) {
    match asked(server).await.unwrap() {
        ServerAnswer::Stream { body, .. } => read(body).await,
        other => panic!("no stream: {other:?}"),
    }
}

async fn refused(server: &Server) -> (StatusCode, HeaderMap, ErrorBody) {
    match asked(server).await.unwrap() {
        ServerAnswer::Refused { status, headers, body } => (status, headers, body),
        other => panic!("not refused: {other:?}"),
    }
}

/// A transient failure of the connection, whose message holds `words` and whose causes are kept.
fn is_transient(failure: &Failure, words: &str) {
    assert_eq!((failure.kind, failure.retry), (ErrorKind::Transport, Retry::Now), "{failure:?}");
    let message = failure.message.as_deref().unwrap();
    assert!(message.contains(words), "{message}");
    assert!(failure.source.is_some(), "{failure:?}");
}

#[tokio::test]
async fn a_stream_comes_as_it_was_sent() {
    let server = Server::answering(200, STREAM, EVENTS);
    let (bytes, end) = streamed(&server).await;
    assert_eq!(bytes, EVENTS.as_bytes());
    end.unwrap();
    let head = &server.requests()[0].head;
    assert!(head.starts_with("post /v1/responses http/1.1\r\n"), "{head}");
    for line in ["accept: text/event-stream", "accept-encoding: identity", "content-type: application/json"] {
        assert!(head.lines().any(|found| found == line), "no {line:?} in {head}");
    }
}

#[tokio::test]
async fn a_stream_is_known_by_its_beginning_where_its_label_is_missing_or_wrong() {
    for label in ["", JSON, HTML, "content-type: application/octet-stream\r\n"] {
        let (bytes, end) = streamed(&Server::answering(200, label, EVENTS)).await;
        assert_eq!(bytes, EVENTS.as_bytes(), "{label:?}");
        end.unwrap();
    }
}

#[tokio::test]
async fn a_stream_is_handed_on_before_it_ends() {
    for label in ["", STREAM] {
        let server = Server::start(move |stream, _| {
            let _ = write!(stream, "HTTP/1.1 200 OK\r\n{label}\r\nda");
            let _ = stream.flush();
            std::thread::sleep(Duration::from_millis(20));
            let _ = stream.write_all(b"ta: 1\n\n");
            std::thread::sleep(Duration::from_secs(300));
            After::Close
        });
        let started = Instant::now();
        let ServerAnswer::Stream { mut body, .. } = asked(&server).await.unwrap() else {
            panic!("no stream")
        };
        let mut bytes = Vec::new();
        while bytes != b"data: 1\n\n" {
            bytes.extend_from_slice(&poll_fn(|context| body.poll_chunk(context)).await.unwrap().unwrap());
        }
        assert!(started.elapsed() < Duration::from_secs(60));
    }
}

#[tokio::test]
async fn a_beginning_without_a_word_is_not_hoarded() {
    let server = Server::start(|stream, _| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
        while stream.write_all(&[b'\n'; 8_192]).is_ok() {}
        After::Close
    });
    let ServerAnswer::Stream { mut body, .. } = asked(&server).await.unwrap() else { panic!("no stream") };
    let first = poll_fn(|context| body.poll_chunk(context)).await.unwrap().unwrap();
    assert!(first.len() < 1 << 20, "{}", first.len());
}

#[tokio::test]
async fn what_is_read_ahead_of_a_stream_is_bounded() {
    let much = vec![b'x'; 4 << 20];
    let ServerAnswer::Stream { mut body, .. } = asked(&Server::answering(200, STREAM, &much)).await.unwrap()
    else {
        panic!("no stream")
    };
    let mut total = 0;
    while let Some(chunk) = poll_fn(|context| body.poll_chunk(context)).await {
        let length = chunk.unwrap().len();
        assert!(length <= 64 << 10, "{length}");
        total += length;
    }
    assert_eq!(total, much.len());
}

#[tokio::test]
async fn gzip_that_nobody_asked_for_is_undone() {
    let headers = format!("{STREAM}content-encoding: gzip\r\n");
    let (bytes, end) = streamed(&Server::answering(200, &headers, gzip(EVENTS.as_bytes()))).await;
    assert_eq!(bytes, EVENTS.as_bytes());
    end.unwrap();

    let headers = format!("{JSON}content-encoding: gzip\r\n");
    let (_, _, body) = refused(&Server::answering(500, &headers, gzip(br#"{"message":"Words."}"#))).await;
    assert_eq!(body.words(), "Words.");
}

#[tokio::test]
async fn gzip_that_is_garbage_is_an_error() {
    let headers = format!("{STREAM}content-encoding: gzip\r\n");
    let (_, end) = streamed(&Server::answering(200, &headers, b"this is not gzip")).await;
    is_transient(&end.unwrap_err(), "compressed");

    let mut torn = gzip(EVENTS.as_bytes());
    torn.truncate(torn.len() - 4);
    let (_, end) = streamed(&Server::answering(200, &headers, torn)).await;
    is_transient(&end.unwrap_err(), "compressed");
}

#[tokio::test]
async fn an_encoding_that_is_not_known_is_no_stream() {
    let answer =
        |encoding: &str| Server::answering(200, &format!("{STREAM}content-encoding: {encoding}\r\n"), EVENTS);
    let failure = asked(&answer("br")).await.unwrap_err();
    assert_eq!((failure.kind, failure.retry), (ErrorKind::Protocol, Retry::Never));
    streamed(&answer("Identity")).await.1.unwrap();
}

#[tokio::test]
async fn a_redirect_is_told_and_not_followed() {
    let elsewhere = Server::answering(200, STREAM, EVENTS);
    let headers = format!("location: {}/responses\r\n", elsewhere.base_url());
    for status in [301, 302, 303, 307, 308] {
        let (found, headers, _) = refused(&Server::answering(status, &headers, "")).await;
        assert_eq!(found.as_u16(), status);
        assert!(headers.contains_key("location"));
    }
    assert!(elsewhere.requests().is_empty());
}

#[tokio::test]
async fn a_page_is_never_an_answer() {
    for (status, label) in [(200, HTML), (200, ""), (200, JSON), (502, HTML), (502, "")] {
        let (found, _, body) = refused(&Server::answering(status, label, PAGE)).await;
        assert_eq!((found.as_u16(), body.form), (status, Form::Html), "{label:?}");
        assert!(body.words().contains("Welcome, guest"), "{body:?}");
    }
}

#[tokio::test]
async fn an_error_with_the_status_of_a_success_is_refused() {
    for error in
        [r#"{"error":{"message":"No.","code":"insufficient_quota"}}"#, r#"{"code":"x","error":"No."}"#]
    {
        for label in [JSON, "", "content-type: text/plain\r\n"] {
            let (status, _, body) = refused(&Server::answering(200, label, error)).await;
            assert_eq!((status, body.words()), (StatusCode::OK, "No."), "{label:?} {error}");
        }
    }
}

#[tokio::test]
async fn a_response_in_one_piece_is_whole() {
    let object = r#"{"id":"resp_1","object":"response","status":"completed","error":null,"output":[]}"#;
    for label in [JSON, "", "content-type: application/json; charset=utf-8\r\n"] {
        match asked(&Server::answering(200, label, object)).await.unwrap() {
            ServerAnswer::Whole { body, .. } => assert_eq!(body, object.as_bytes()),
            other => panic!("{label:?}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_whole_answer_is_bounded() {
    let object = format!("{{\"output\":[\"{}\"]}}", "x".repeat(5_000));
    let server = Server::answering(200, JSON, object);
    let failure =
        post(&transport(&server.base_url(), json!({ "max_event_bytes": 4_096 }))).await.unwrap_err();
    assert_eq!((failure.kind, failure.retry), (ErrorKind::Protocol, Retry::Never));
}

#[tokio::test]
async fn a_success_without_a_body_is_a_stream_that_ends_at_once() {
    for label in [STREAM, JSON, ""] {
        let (bytes, end) = streamed(&Server::answering(200, label, "")).await;
        assert!(bytes.is_empty() && end.is_ok(), "{label:?}");
    }
}

#[tokio::test]
async fn a_body_that_stops_in_mid_character_gives_what_came_and_fails() {
    let torn = &EVENTS.as_bytes()[..EVENTS.find('ü').unwrap() + 1];
    for framing in [
        format!("content-length: {}\r\n\r\n", EVENTS.len()),
        "transfer-encoding: chunked\r\n\r\n1000\r\n".into(),
    ] {
        let answer = [format!("HTTP/1.1 200 OK\r\n{STREAM}{framing}").as_bytes(), torn].concat();
        let (bytes, end) = streamed(&Server::saying(answer)).await;
        assert_eq!(bytes, torn);
        is_transient(&end.unwrap_err(), "middle of the answer");
    }
}

#[tokio::test]
async fn a_length_that_is_too_small_ends_the_body_where_it_says() {
    let answer = format!("HTTP/1.1 200 OK\r\n{STREAM}content-length: 6\r\n\r\n{EVENTS}");
    let server = Server::saying(answer);
    let (bytes, end) = streamed(&server).await;
    assert_eq!(bytes, &EVENTS.as_bytes()[..6]);
    end.unwrap();
}

#[tokio::test]
async fn chunks_that_are_garbage_are_an_error() {
    let answer = format!("HTTP/1.1 200 OK\r\n{STREAM}transfer-encoding: chunked\r\n\r\n5\r\ndata:\r\nzz\r\n");
    let (bytes, end) = streamed(&Server::saying(answer)).await;
    assert_eq!(bytes, b"data:");
    is_transient(&end.unwrap_err(), "the framing of the answer is not valid HTTP");
}

#[tokio::test]
async fn a_connection_that_is_lost_before_an_answer_is_a_transport_error() {
    let server = Server::start(|_, _| After::Close);
    is_transient(&asked(&server).await.unwrap_err(), "before an answer");
    assert_eq!(server.requests().len(), 1, "nothing but the policy repeats a request");
}

#[tokio::test]
async fn what_does_not_speak_http_is_an_error() {
    let server = Server::saying("220 smtp.test ESMTP ready\r\n");
    is_transient(&asked(&server).await.unwrap_err(), "not valid HTTP");
}

/// Gateways add long headers of their own.
#[tokio::test]
async fn headers_of_a_gateway_are_read() {
    for (count, bytes) in [(60, 300), (200, 40), (14, 2_000)] {
        let value = "y".repeat(bytes);
        let headers: String = (0..count).map(|number| format!("x-{number}: {value}\r\n")).collect();
        let length = EVENTS.len();
        let answer = format!("HTTP/1.1 200 OK\r\n{headers}{STREAM}content-length: {length}\r\n\r\n{EVENTS}");
        let (read, end) = streamed(&Server::saying(answer)).await;
        assert_eq!(read, EVENTS.as_bytes(), "{count} headers of {bytes} bytes");
        end.unwrap();
    }
}

#[tokio::test]
async fn a_flood_of_headers_is_an_error() {
    let many: String = (0..5_000).map(|number| format!("x-{number}: y\r\n")).collect();
    let server = Server::saying(format!("HTTP/1.1 200 OK\r\n{many}\r\n"));
    let failure = asked(&server).await.unwrap_err();
    is_transient(&failure, "head");
    assert!(!failure.message.unwrap_or_default().contains("base_url"), "the address is right");

    let endless = Server::start(|stream, _| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nx: ");
        while stream.write_all(&[b'y'; 8_192]).is_ok() {}
        After::Close
    });
    let failure = asked(&endless).await.unwrap_err();
    assert_eq!((failure.kind, failure.retry), (ErrorKind::Transport, Retry::Now), "{failure:?}");
}

#[tokio::test]
async fn an_error_without_end_is_cut_in_time_and_in_size() {
    let taken = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&taken);
    let flood = Server::start(move |stream, _| {
        let _ = stream.write_all(b"HTTP/1.1 500 X\r\n\r\n");
        while stream.write_all(&[b'x'; 8_192]).is_ok() {
            counter.fetch_add(8_192, Ordering::SeqCst);
        }
        After::Close
    });
    let started = Instant::now();
    let (_, _, body) = refused(&flood).await;
    assert!(body.words().len() <= 64 << 10);
    flood.until_closed(1).await;
    // No more than fits into the buffers of a connection.
    let taken = taken.load(Ordering::SeqCst);
    assert!(taken < 64 << 20, "a flood is cut by its size: {taken}");

    let drip = Server::start(|stream, _| {
        let _ = stream.write_all(b"HTTP/1.1 429 X\r\nretry-after: 2\r\n\r\nslow");
        while stream.write_all(b".").is_ok() {
            std::thread::sleep(Duration::from_millis(50));
        }
        After::Close
    });
    let (status, headers, body) = refused(&drip).await;
    assert_eq!((status.as_u16(), &headers["retry-after"]), (429, &HeaderValue::from_static("2")));
    assert!(body.words().starts_with("slow."), "{body:?}");
    assert!(started.elapsed() < Duration::from_secs(60), "a drip is cut by its time");
}

#[tokio::test]
async fn an_error_that_breaks_off_says_what_it_said() {
    let (status, _, body) =
        refused(&Server::saying("HTTP/1.1 503 X\r\ncontent-length: 500\r\n\r\nno capacity")).await;
    assert_eq!((status.as_u16(), body.words()), (503, "no capacity"));
}

#[tokio::test]
async fn nobody_at_the_address_is_a_transport_error() {
    let port = RefusedPort::bind().unwrap();
    let failure = post(&transport(&port.root_url(), json!({}))).await.unwrap_err();
    is_transient(&failure, "nothing listens");
    let failure = post(&transport("http://nexus.invalid/v1", json!({}))).await.unwrap_err();
    is_transient(&failure, "name of the server");
}

#[tokio::test]
async fn something_small_is_fetched_whole() {
    let server = Server::answering(200, JSON, r#"{"models":[]}"#);
    let fetched =
        transport(&server.base_url(), json!({})).get("/models?x=1", HeaderMap::new()).await.unwrap();
    assert_eq!((fetched.status, &fetched.body[..]), (StatusCode::OK, &br#"{"models":[]}"#[..]));
    assert!(fetched.headers.contains_key("content-length"));
    assert!(server.requests()[0].head.starts_with("get /v1/models?x=1 "));
}
