//! Each fault as it looks on the wire, in every dialect.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use nexus_testkit::sim::{Cut, Dialect, Ended, Fault, RefusedPort, Reply, Scenario, Sim, StatusFault};
use serde_json::{Value, json};

use super::client::{Answer, End, PATIENCE, messages_body, post, post_until, responses_body};

/// The dialects, each with the path and body of a streamed call.
pub(crate) fn dialects() -> [(Dialect, &'static str, Value); 3] {
    [
        (Dialect::Anthropic, "/v1/messages", messages_body("hi")),
        (Dialect::Responses, "/v1/responses", responses_body("hi")),
        (Dialect::Xai, "/v1/responses", responses_body("hi")),
    ]
}

/// Runs one call against `reply` in every dialect.
pub(crate) fn everywhere(reply: &Reply, check: impl Fn(Dialect, &Sim, Answer)) {
    for (dialect, path, body) in dialects() {
        let sim = Sim::start(dialect, reply.clone()).expect("a simulator");
        let answer = post(sim.address(), path, &[], &body);
        check(dialect, &sim, answer);
    }
}

/// Runs one call against `reply`, which stalls behind `last`, in every dialect.
fn stalls_everywhere(reply: &Reply, last: &str, check: impl Fn(Dialect, &Sim, Answer)) {
    for (dialect, path, body) in dialects() {
        let sim = Sim::start(dialect, reply.clone()).expect("a simulator");
        let answer = post_until(sim.address(), path, &body, last);
        check(dialect, &sim, answer);
    }
}

/// The text that came through, whatever the dialect.
pub(crate) fn text(answer: &Answer) -> String {
    answer.joined("content_block_delta", "/delta/text")
        + &answer.joined("response.output_text.delta", "/delta")
}

/// Whether any event says that the answer is over.
pub(crate) fn is_terminated(answer: &Answer) -> bool {
    ["message_stop", "response.completed", "response.incomplete", "response.failed"]
        .iter()
        .any(|kind| !answer.events_of(kind).is_empty())
}

/// Whether the first answer ends so, which the client may see before it is noted.
pub(crate) fn has_ended(sim: &Sim, how: Ended) -> bool {
    sim.wait_until_blocking(PATIENCE, |sim| {
        sim.requests().first().is_some_and(|request| request.ended == Some(how))
    })
}

fn hung_up(sim: &Sim) -> bool {
    has_ended(sim, Ended::HungUp) && sim.wait_until_blocking(PATIENCE, |sim| sim.open_connections() == 0)
}

#[test]
fn a_stall_before_headers_sends_nothing_and_notes_the_hang_up() {
    stalls_everywhere(&Reply::fault(Fault::StallBeforeHeaders), "", |dialect, sim, answer| {
        assert_eq!((answer.status, answer.end), (None, End::Silence), "{dialect:?}");
        assert!(hung_up(sim), "{dialect:?}");
        assert_eq!(sim.requests()[0].status, None);
    });
}

#[test]
fn a_stall_after_headers_sends_only_them() {
    stalls_everywhere(&Reply::fault(Fault::Stall { pings: false }), "\r\n\r\n", |dialect, sim, answer| {
        assert_eq!((answer.status, answer.end), (Some(200), End::Silence), "{dialect:?}");
        assert_eq!(answer.body, "");
        assert!(hung_up(sim), "{dialect:?}");
    });
}

#[test]
fn a_stall_after_text_keeps_the_text() {
    stalls_everywhere(&Reply::text("half an answer").stalled(), "half an answer", |dialect, sim, answer| {
        assert_eq!((text(&answer).as_str(), answer.end), ("half an answer", End::Silence), "{dialect:?}");
        assert!(!is_terminated(&answer));
        assert!(hung_up(sim), "{dialect:?}");
    });
}

#[test]
fn a_stall_with_pings_keeps_the_line_busy() {
    let reply = Reply::text("half").stalled_with_pings();
    for (dialect, path, body) in dialects() {
        let sim = Sim::start(dialect, reply.clone()).expect("a simulator");
        let mut stream = TcpStream::connect(sim.address()).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let body = body.to_string();
        let request =
            format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        std::io::Write::write_all(&mut stream, request.as_bytes()).expect("a request");
        let ping = if dialect == Dialect::Anthropic { "event: ping" } else { ": keep-alive" };
        let mut seen = String::new();
        let mut buffer = [0; 4096];
        while !seen.split_once("half").is_some_and(|(_, after_text)| after_text.contains(ping)) {
            let count = std::io::Read::read(&mut stream, &mut buffer).expect("more of the answer");
            assert!(count > 0, "{dialect:?}: {seen}");
            seen.push_str(&String::from_utf8_lossy(&buffer[..count]));
        }
    }
}

#[test]
fn a_cut_ends_as_it_is_told_to() {
    for (cut, end) in [(Cut::Fin, End::Fin), (Cut::CleanEnd, End::Whole), (Cut::Reset, End::Reset)] {
        everywhere(&Reply::text("half an answer").torn(cut), |dialect, sim, answer| {
            assert_eq!((answer.status, answer.end), (Some(200), end), "{dialect:?} {cut:?}");
            assert_eq!(text(&answer), "half an answer", "{dialect:?} {cut:?}");
            assert!(!is_terminated(&answer));
            assert!(has_ended(sim, Ended::Cut), "{dialect:?} {cut:?}");
        });
    }
}

#[test]
fn an_unstreamed_answer_is_cut_too() {
    for (cut, end) in [(Cut::Fin, End::Fin), (Cut::Reset, End::Reset)] {
        let sim = Sim::start(Dialect::Anthropic, Reply::text("half").torn(cut)).expect("a simulator");
        let mut body = messages_body("hi");
        body["stream"] = json!(false);
        let answer = post(sim.address(), "/v1/messages", &[], &body);
        assert_eq!((answer.end, answer.body.len()), (end, 20), "{cut:?}");
    }
}

#[test]
fn a_reset_before_headers_is_a_reset() {
    everywhere(&Reply::fault(Fault::ResetBeforeHeaders), |dialect, _, answer| {
        assert_eq!((answer.status, answer.end), (None, End::Reset), "{dialect:?}");
    });
}

#[test]
fn torn_once_is_whole_at_the_second_call() {
    for (dialect, path, body) in dialects() {
        let scenario = Scenario::new([Reply::text("ha").torn(Cut::Fin), Reply::text("whole")]);
        let sim = Sim::start(dialect, scenario).expect("a simulator");
        assert_eq!(post(sim.address(), path, &[], &body).end, End::Fin);
        let second = post(sim.address(), path, &[], &body);
        assert_eq!((second.end, text(&second).as_str()), (End::Whole, "whole"));
        assert!(is_terminated(&second));
    }
}

#[test]
fn every_status_has_the_vendors_body() {
    for status in [400, 401, 402, 403, 404, 408, 413, 429, 500, 503] {
        everywhere(&Reply::status(status), |dialect, _, answer| {
            assert_eq!((answer.status, answer.end), (Some(status), End::Whole), "{dialect:?}");
            let body = answer.json();
            let filled = |pointer: &str| {
                body.pointer(pointer).and_then(Value::as_str).is_some_and(|text| !text.is_empty())
            };
            match dialect {
                Dialect::Xai => assert!(filled("/code") && filled("/error"), "{body}"),
                _ => assert!(filled("/error/type") && filled("/error/message"), "{body}"),
            }
            assert_eq!(answer.header("retry-after"), None);
        });
    }
}

#[test]
fn a_rate_limit_says_when_to_come_back() {
    everywhere(&Reply::fault(Fault::rate_limited(2)), |dialect, _, answer| {
        assert_eq!(answer.status, Some(429), "{dialect:?}");
        assert_eq!(answer.header("retry-after"), Some("2"), "{dialect:?}");
    });
}

#[test]
fn a_used_up_plan_is_told_as_each_vendor_tells_it() {
    let reset = 1_800_000_000;
    everywhere(&Reply::fault(Fault::usage_limit(reset)), |dialect, _, answer| {
        assert_eq!(answer.status, Some(429), "{dialect:?}");
        let body = answer.json();
        match dialect {
            Dialect::Anthropic => {
                assert_eq!(answer.header("anthropic-ratelimit-unified-status"), Some("rejected"));
                assert_eq!(answer.header("anthropic-ratelimit-unified-reset"), Some("1800000000"));
            }
            Dialect::Responses => {
                assert_eq!(body["error"]["type"], "usage_limit_reached");
                assert_eq!(body["error"]["resets_at"], reset);
                assert_eq!(answer.header("x-codex-primary-reset-at"), Some("1800000000"));
            }
            _ => assert_eq!(body["code"], "subscription:free-usage-exhausted"),
        }
    });
}

#[test]
fn overload_has_each_vendors_own_status_and_code() {
    everywhere(&Reply::fault(Fault::overloaded()), |dialect, _, answer| {
        let body = answer.json();
        match dialect {
            Dialect::Anthropic => {
                assert_eq!(answer.status, Some(529));
                assert_eq!(body["error"]["type"], "overloaded_error");
            }
            Dialect::Responses => {
                assert_eq!(answer.status, Some(503));
                assert_eq!(body["error"]["code"], "server_is_overloaded");
            }
            _ => assert_eq!(answer.status, Some(503)),
        }
    });
}

#[test]
fn a_status_may_be_spelled_out() {
    let fault = StatusFault {
        code: Some("billing_error".into()),
        message: Some("Your credit balance is too low.".into()),
        should_retry: Some(false),
        ..StatusFault::new(400)
    };
    everywhere(&Reply::fault(Fault::Status(fault)), |dialect, _, answer| {
        assert!(answer.body.contains("billing_error"), "{dialect:?}");
        assert!(answer.body.contains("credit balance is too low"), "{dialect:?}");
        assert_eq!(answer.header("x-should-retry"), Some("false"), "{dialect:?}");
    });
}

#[test]
fn pages_of_html_come_with_their_type() {
    everywhere(&Reply::fault(Fault::bad_gateway()), |dialect, _, answer| {
        assert_eq!(answer.status, Some(502), "{dialect:?}");
        assert_eq!(answer.header("content-type"), Some("text/html"), "{dialect:?}");
    });
    everywhere(&Reply::fault(Fault::Html200), |dialect, _, answer| {
        assert_eq!((answer.status, answer.end), (Some(200), End::Whole), "{dialect:?}");
        assert!(answer.body.starts_with("<!doctype html>"), "{dialect:?}");
    });
}

#[test]
fn garbage_is_a_stream_without_json() {
    everywhere(&Reply::fault(Fault::Garbage), |dialect, _, answer| {
        assert_eq!((answer.status, answer.end), (Some(200), End::Whole), "{dialect:?}");
        assert_eq!(answer.header("content-type"), Some("text/event-stream"));
        assert!(answer.body.contains("data: {{{ not json"));
        assert!(answer.events().is_empty());
    });
}

#[test]
fn a_stream_reports_its_error_in_the_vendors_words() {
    everywhere(&Reply::text("half").broken("overloaded", "Busy."), |dialect, _, answer| {
        assert_eq!((text(&answer).as_str(), answer.end), ("half", End::Whole), "{dialect:?}");
        if dialect == Dialect::Anthropic {
            let error = &answer.events_of("error")[0]["error"];
            assert_eq!((&error["type"], &error["message"]), (&json!("overloaded_error"), &json!("Busy.")));
            assert!(!is_terminated(&answer));
        } else {
            let error = &answer.events_of("response.failed")[0]["response"]["error"];
            assert_eq!(
                (&error["code"], &error["message"]),
                (&json!("server_is_overloaded"), &json!("Busy."))
            );
        }
    });
}

#[test]
fn an_empty_answer_still_ends() {
    everywhere(&Reply::empty(), |dialect, _, answer| {
        assert_eq!((text(&answer).as_str(), answer.end), ("", End::Whole), "{dialect:?}");
        assert!(is_terminated(&answer), "{dialect:?}");
    });
}

#[test]
fn pace_and_delay_take_their_time() {
    let reply = Reply::text("abcd").paced(1, Duration::from_millis(60)).after(Duration::from_millis(100));
    everywhere(&reply, |dialect, _, answer| {
        assert_eq!(text(&answer), "abcd", "{dialect:?}");
        assert!(answer.took >= Duration::from_millis(280), "{dialect:?}: {:?}", answer.took);
    });
}

#[test]
fn a_refused_port_refuses() {
    let port = RefusedPort::bind().expect("a port");
    let address: SocketAddr =
        port.root_url().strip_prefix("http://").and_then(|address| address.parse().ok()).expect("an address");
    let error = TcpStream::connect(address).expect_err("nobody listens");
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
}
