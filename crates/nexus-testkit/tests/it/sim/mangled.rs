//! Faults of the answer as a whole: what it says of itself, and how much of it there is.

use std::io::{Read, Write};
use std::net::TcpStream;

use flate2::read::GzDecoder;
use nexus_testkit::sim::{Cut, Dialect, Ended, Fault, Lie, Reply, Sim};
use serde_json::json;

use super::client::{End, PATIENCE, post, raw_answer};
use super::faults::{dialects, everywhere, has_ended, is_terminated, text};

/// A reply that would come whole but for `fault`.
fn but_for(fault: Fault) -> Reply {
    let mut reply = Reply::text("naïve 水, and whole");
    reply.fault = Some(fault);
    reply
}

#[test]
fn a_redirect_names_its_place_and_no_more() {
    let location = "http://127.0.0.1:9/elsewhere";
    let fault = Fault::Redirect { status: 307, location: location.into() };
    everywhere(&but_for(fault), |dialect, _, answer| {
        assert_eq!((answer.status, answer.end), (Some(307), End::Whole), "{dialect:?}");
        assert_eq!(answer.header("location"), Some(location));
        assert_eq!(answer.body, "");
    });
}

#[test]
fn gzip_is_real_and_holds_the_whole_stream() {
    for (dialect, path, body) in dialects() {
        let sim = Sim::start(dialect, but_for(Fault::Gzip)).expect("a simulator");
        let (answer, bytes) = raw_answer(sim.address(), path, &body);
        assert_eq!(answer.header("content-encoding"), Some("gzip"), "{dialect:?}");
        assert_eq!(answer.end, End::Whole);
        let mut plain = String::new();
        GzDecoder::new(bytes.as_slice()).read_to_string(&mut plain).expect("gzip");
        let answer = super::client::Answer { body: plain, ..answer };
        assert_eq!(text(&answer), "naïve 水, and whole", "{dialect:?}");
        assert!(is_terminated(&answer), "{dialect:?}");
    }
}

#[test]
fn an_error_may_come_with_status_200() {
    let fault = Fault::Error200 { code: "server_error".into(), message: "All is not well.".into() };
    everywhere(&but_for(fault), |dialect, _, answer| {
        assert_eq!((answer.status, answer.end), (Some(200), End::Whole), "{dialect:?}");
        assert_eq!(answer.header("content-type"), Some("application/json"));
        assert!(answer.json().to_string().contains("All is not well."), "{dialect:?}");
    });
}

#[test]
fn a_server_may_not_stream_though_it_was_asked_to() {
    everywhere(&but_for(Fault::Unstreamed), |dialect, _, answer| {
        assert_eq!(answer.header("content-type"), Some("application/json"), "{dialect:?}");
        let body = answer.json();
        let said = match dialect {
            Dialect::Anthropic => &body["content"][0]["text"],
            _ => &body["output"][0]["content"][0]["text"],
        };
        assert_eq!(said, "naïve 水, and whole", "{dialect:?}");
        assert!(body["usage"]["output_tokens"].is_u64());
        if dialect != Dialect::Anthropic {
            assert_eq!((&body["object"], &body["status"]), (&json!("response"), &json!("completed")));
        }
    });
}

#[test]
fn a_200_may_have_no_body() {
    everywhere(&but_for(Fault::Empty200), |dialect, _, answer| {
        assert_eq!((answer.status, answer.end), (Some(200), End::Whole), "{dialect:?}");
        assert_eq!((answer.body.as_str(), answer.header("content-type")), ("", Some("text/event-stream")));
    });
}

#[test]
fn a_character_is_cut_in_two() {
    for (cut, end) in [(Cut::Fin, End::Fin), (Cut::CleanEnd, End::Whole), (Cut::Reset, End::Reset)] {
        for (dialect, path, body) in dialects() {
            let sim = Sim::start(dialect, but_for(Fault::TornCharacter { cut })).expect("a simulator");
            let (answer, bytes) = raw_answer(sim.address(), path, &body);
            assert_eq!(answer.end, end, "{dialect:?} {cut:?}");
            let error = std::str::from_utf8(&bytes).expect_err("half a character");
            assert_eq!((error.valid_up_to(), error.error_len()), (bytes.len() - 1, None), "{dialect:?}");
            assert_eq!(text(&answer), "naïve 水, and whole", "{dialect:?}");
            assert!(!is_terminated(&answer));
        }
    }
}

#[test]
fn a_length_that_promises_more_is_never_reached() {
    everywhere(&but_for(Fault::Length { lie: Lie::More }), |dialect, sim, answer| {
        let promised: usize = answer.header("content-length").and_then(|text| text.parse().ok()).unwrap();
        assert_eq!(answer.end, End::Fin, "{dialect:?}");
        assert_eq!(answer.body.len(), promised - 1000, "{dialect:?}");
        assert!(is_terminated(&answer));
        assert!(has_ended(sim, Ended::Cut), "{dialect:?}");
    });
}

#[test]
fn a_length_that_promises_less_is_overrun() {
    everywhere(&but_for(Fault::Length { lie: Lie::Less }), |dialect, _, answer| {
        let promised: usize = answer.header("content-length").and_then(|text| text.parse().ok()).unwrap();
        assert!(answer.body.len() > promised, "{dialect:?}");
        assert!(is_terminated(&answer), "the rest comes behind the end: {dialect:?}");
    });
}

#[test]
fn a_page_of_html_has_the_status_that_is_asked_for() {
    everywhere(&but_for(Fault::Html { status: 403 }), |dialect, _, answer| {
        assert_eq!((answer.status, answer.end), (Some(403), End::Whole), "{dialect:?}");
        assert!(answer.body.starts_with("<!doctype html>"));
    });
}

#[test]
fn a_huge_error_comes_to_its_last_byte() {
    let bytes = 3_000_001;
    everywhere(&but_for(Fault::HugeBody { status: 500, bytes }), |dialect, _, answer| {
        assert_eq!((answer.status, answer.end), (Some(500), End::Whole), "{dialect:?}");
        assert_eq!(answer.body.len() as u64, bytes, "{dialect:?}");
    });
}

#[test]
fn a_huge_body_is_made_as_it_is_read() {
    let fault = Fault::HugeBody { status: 500, bytes: u64::MAX };
    for (dialect, path, body) in dialects() {
        let sim = Sim::start(dialect, but_for(fault.clone())).expect("a simulator");
        reads_and_leaves(&sim, path, &body.to_string());
    }
}

#[test]
fn a_huge_event_stands_before_a_good_end() {
    let bytes = 2_000_003;
    everywhere(&but_for(Fault::HugeEvent { bytes }), |dialect, _, answer| {
        assert_eq!(text(&answer), "naïve 水, and whole", "{dialect:?}");
        assert!(is_terminated(&answer));
        let padding = |event: &serde_json::Value| event["padding"].as_str().map(str::len);
        let longest = answer.events().iter().filter_map(padding).max();
        assert_eq!(longest, usize::try_from(bytes).ok(), "{dialect:?}");
    });
}

#[test]
fn a_flood_goes_on_until_the_client_leaves() {
    for (dialect, path, body) in dialects() {
        let sim = Sim::start(dialect, but_for(Fault::Flood)).expect("a simulator");
        let heard = reads_and_leaves(&sim, path, &body.to_string());
        assert!(heard.matches("and on ").count() > 1000, "{dialect:?}");
    }
    let bare = Sim::start(Dialect::Responses, Reply::fault(Fault::Flood)).expect("a simulator");
    let heard = reads_and_leaves(&bare, "/v1/responses", &super::client::responses_body("hi").to_string());
    assert!(heard.contains("response.output_item.added"), "a text is opened first");
}

#[test]
fn an_error_line_is_the_vendors() {
    let fault = Fault::ErrorLine { code: "internal".into(), message: "Out of sorts.".into() };
    everywhere(&but_for(fault), |dialect, _, answer| {
        assert_eq!((text(&answer).as_str(), answer.end), ("naïve 水, and whole", End::Whole), "{dialect:?}");
        assert!(!is_terminated(&answer), "{dialect:?}");
        let last = answer.events().pop().expect("an event");
        match dialect {
            Dialect::Xai => assert_eq!(last, json!({"code": "internal", "error": "Out of sorts."})),
            Dialect::Responses => {
                assert_eq!((&last["type"], &last["code"]), (&json!("error"), &json!("internal")));
            }
            _ => assert_eq!(last["error"]["message"], "Out of sorts."),
        }
    });
}

#[test]
fn retry_after_may_be_a_date() {
    everywhere(&Reply::fault(Fault::rate_limited_until(90)), |dialect, _, answer| {
        let date = answer.header("retry-after").expect("a header");
        let until = httpdate::parse_http_date(date).expect("an HTTP date");
        let wait = until.duration_since(std::time::SystemTime::now()).expect("a time to come");
        assert!((80..=90).contains(&wait.as_secs()), "{dialect:?}: {date}");
    });
}

#[test]
fn calls_may_share_one_id() {
    let calls = [("a", 1), ("b", 2)]
        .map(|(name, number)| nexus_testkit::sim::ToolCall::function(name, json!({ "number": number })));
    let reply = Reply::calls(calls).call_id("call_twice");
    for (dialect, path, body) in dialects() {
        let sim = Sim::start(dialect, reply.clone()).expect("a simulator");
        let answer = post(sim.address(), path, &[], &body);
        let items = answer.events_of("response.output_item.done");
        let blocks = answer.events_of("content_block_start");
        let ids = items.iter().map(|event| &event["item"]["call_id"]);
        let ids: Vec<_> = ids.chain(blocks.iter().map(|event| &event["content_block"]["id"])).collect();
        assert_eq!(ids, ["call_twice", "call_twice"], "{dialect:?}");
    }
}

#[test]
fn a_client_that_waits_for_the_promised_rest_waits_no_longer_than_the_connection() {
    let sim = Sim::start(Dialect::Responses, but_for(Fault::Length { lie: Lie::More })).expect("a simulator");
    let answer = post(sim.address(), "/v1/responses", &[], &super::client::responses_body("hi"));
    assert_eq!(answer.end, End::Fin, "the connection ends before the client's patience does");
}

/// Reads a megabyte of the answer, hangs up, and returns what came. The simulator notices.
fn reads_and_leaves(sim: &Sim, path: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(sim.address()).expect("a connection");
    let request = format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    stream.write_all(request.as_bytes()).expect("a request");
    let mut heard = vec![0; 1 << 20];
    stream.read_exact(&mut heard).expect("a megabyte");
    drop(stream);
    assert!(has_ended(sim, Ended::HungUp));
    assert!(sim.wait_until_blocking(PATIENCE, |sim| sim.open_connections() == 0));
    String::from_utf8_lossy(&heard).into_owned()
}
