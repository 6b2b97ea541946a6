use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::header::{HeaderName, HeaderValue};
use nexus_core::{ErrorKind, Retry};
use proptest::prelude::*;
use serde_json::json;

use super::delay::duration_in;
use super::*;

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let pair = |(name, value): &(&'static str, &str)| {
        (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
    };
    pairs.iter().map(pair).collect()
}

fn told(status: u16, with: &[(&'static str, &str)], body: &[u8]) -> Failure {
    let (headers, body) = (headers(with), ErrorBody::read(body));
    // 0 stands for an error inside a stream.
    ErrorReply { status: StatusCode::from_u16(status).ok(), headers: &headers, body: &body }.shared_outcome()
}

fn outcome(status: u16, with: &[(&'static str, &str)], body: &str) -> (ErrorKind, Retry) {
    let failure = told(status, with, body.as_bytes());
    (failure.kind, failure.retry)
}

const AFTER_2: Retry = Retry::After(Duration::from_secs(2));
const PATIENCE: Retry = Retry::Guessed(Retry::RATE_LIMIT_GUESS);
const SOON: Retry = Retry::Guessed(Retry::SERVER_GUESS);

#[test]
fn every_status_has_an_outcome() {
    use ErrorKind as Kind;
    for (status, kind, retry) in [
        (301, Kind::InvalidRequest, Retry::Never),
        (304, Kind::InvalidRequest, Retry::Never),
        (400, Kind::InvalidRequest, Retry::Never),
        (401, Kind::Unauthenticated, Retry::Never),
        (402, Kind::UsageLimit, Retry::Never),
        (403, Kind::Forbidden, Retry::Never),
        (404, Kind::InvalidRequest, Retry::Never),
        (405, Kind::InvalidRequest, Retry::Never),
        (407, Kind::InvalidRequest, Retry::Never),
        (408, Kind::Transport, Retry::Now),
        (409, Kind::VendorFailure, SOON),
        (413, Kind::InvalidRequest, Retry::Never),
        (418, Kind::InvalidRequest, Retry::Never),
        (422, Kind::InvalidRequest, Retry::Never),
        (425, Kind::Transport, Retry::Now),
        (426, Kind::InvalidRequest, Retry::Never),
        (429, Kind::RateLimited, PATIENCE),
        (500, Kind::VendorFailure, SOON),
        (502, Kind::VendorFailure, SOON),
        (503, Kind::Overloaded, SOON),
        (504, Kind::VendorFailure, SOON),
        (529, Kind::Overloaded, SOON),
        (599, Kind::VendorFailure, SOON),
    ] {
        for body in ["", "{}", "[]", "null", "\"\"", "oops", "{\"error\":{\"message\":\"Something.\"}}"] {
            assert_eq!(outcome(status, &[], body), (kind, retry), "{status} {body}");
        }
        let hurried = outcome(status, &[("retry-after", "2")], "");
        let waits = matches!(kind, Kind::UsageLimit) || retry != Retry::Never;
        assert_eq!(hurried, (kind, if waits { AFTER_2 } else { retry }), "{status} with a time");
        let forbidden = outcome(status, &[("retry-after", "2"), ("x-should-retry", "false")], "");
        assert_eq!(forbidden, (kind, Retry::Never), "{status} without leave");
    }
}

#[test]
fn every_code_has_an_outcome_wherever_it_is_told() {
    use ErrorKind as Kind;
    for (code, kind, retry) in [
        ("context_length_exceeded", Kind::ContextExceeded, Retry::Never),
        ("insufficient_quota", Kind::UsageLimit, Retry::Never),
        ("usage_limit_reached", Kind::UsageLimit, Retry::Never),
        ("rate_limit_exceeded", Kind::RateLimited, PATIENCE),
        ("server_is_overloaded", Kind::Overloaded, SOON),
        ("slow_down", Kind::Overloaded, SOON),
        ("invalid_prompt", Kind::Refused, Retry::Never),
        ("cyber_policy", Kind::Refused, Retry::Never),
        ("model_not_found", Kind::ModelUnavailable, Retry::Never),
        ("invalid_api_key", Kind::Unauthenticated, Retry::Never),
    ] {
        for body in [
            json!({ "error": { "code": code, "message": "Words." } }),
            json!({ "error": { "type": code, "code": null, "message": "Words." } }),
            json!({ "code": code, "error": "Words." }),
            json!({ "type": "error", "code": code, "message": "Words.", "param": null }),
            json!({ "type": "error", "error": { "type": code, "message": "Words." } }),
            json!({ "type": "response.failed", "response": { "status": "failed", "error": { "code": code, "message": "Words." } } }),
            json!({ "status": "failed", "error": { "code": code, "message": "Words." }, "output": [] }),
            json!([{ "error": { "code": code, "message": "Words." } }]),
            json!({ "error": { "message": json!({ "code": code, "message": "Words." }).to_string() } }),
        ] {
            for status in [0, 200, 400, 429, 500] {
                assert_eq!(outcome(status, &[], &body.to_string()), (kind, retry), "{status} {body}");
                let message = told(status, &[], body.to_string().as_bytes()).message.unwrap();
                assert!(message.ends_with(&format!("({code}): Words.")), "{message}");
            }
        }
    }
    for unknown in ["server_error", "internal", "brand_new_error", "7"] {
        let body = json!({ "code": unknown, "error": "Words." }).to_string();
        assert_eq!(outcome(0, &[], &body), (Kind::VendorFailure, SOON));
    }
}

#[test]
fn a_conversation_that_is_too_long_is_known_by_its_words_where_there_is_no_code() {
    for words in [
        "This model's maximum context length is 4096 tokens. However, you requested 5000.",
        "Prompt is too long: 5 > 4",
        "Your input exceeds the context window of this model.",
    ] {
        for status in [0, 400, 413, 422, 500] {
            let body = json!({ "error": { "message": words, "type": "invalid_request_error" } }).to_string();
            assert_eq!(outcome(status, &[], &body), (ErrorKind::ContextExceeded, Retry::Never), "{status}");
        }
        let limited = json!({ "error": { "message": words } }).to_string();
        assert_eq!(outcome(429, &[], &limited).0, ErrorKind::RateLimited);
    }
}

#[test]
fn a_model_that_is_not_there_is_told_from_a_path_that_is_not() {
    for (status, body) in [
        (404, json!({ "error": { "message": "model \"qwen\" not found, try pulling it first" } })),
        (404, json!({ "error": "unknown model" })),
        (404, json!({ "error": { "message": "Simulated.", "code": "model_not_found" } })),
        (400, json!({ "error": { "message": "The model `x` does not exist.", "param": null } })),
        (400, json!({ "error": { "message": "Invalid value.", "param": "model" } })),
        (400, json!({ "error": { "message": "a/b is not a valid model ID", "code": 400 } })),
        (
            400,
            json!({ "error": { "message": "/responses: Invalid model name passed in model=x.", "code": "400" } }),
        ),
    ] {
        assert_eq!(
            outcome(status, &[], &body.to_string()),
            (ErrorKind::ModelUnavailable, Retry::Never),
            "{body}"
        );
    }
    for body in ["404 page not found", "{\"detail\":\"Not Found\"}", "<html><title>model</title></html>", ""]
    {
        let failure = told(404, &[], body.as_bytes());
        assert_eq!((failure.kind, failure.retry), (ErrorKind::InvalidRequest, Retry::Never), "{body}");
        assert!(failure.message.unwrap().contains("base_url"), "{body}");
    }
    for body in [
        json!({ "error": { "message": "Unsupported parameter: 'temperature' is not supported with this model." } }),
        json!({ "error": { "message": "The model does not exist.", "param": "previous_response_id" } }),
    ] {
        assert_eq!(outcome(400, &[], &body.to_string()).0, ErrorKind::InvalidRequest, "{body}");
    }
}

#[test]
fn what_answers_in_the_place_of_a_model_is_named() {
    let page = "<!DOCTYPE html>\n<html><head><title>\n Hotel Wi-Fi\n</title></head>";
    let failure = told(200, &[], page.as_bytes());
    assert_eq!((failure.kind, failure.retry), (ErrorKind::Transport, Retry::Never));
    let message = failure.message.unwrap();
    assert!(message.contains("Hotel Wi-Fi") && message.contains("base_url"), "{message}");

    let gateway = told(502, &[], b"<html><title>502 Bad Gateway</title></html>");
    assert_eq!((gateway.kind, gateway.retry), (ErrorKind::VendorFailure, SOON));
    assert_eq!(outcome(403, &[], page).0, ErrorKind::Forbidden);
    assert_eq!(outcome(200, &[], "upstream connect error"), (ErrorKind::Transport, Retry::Never));
    assert_eq!(outcome(200, &[], "{\"detail\":\"no\"}"), (ErrorKind::VendorFailure, SOON));
}

#[test]
fn a_redirect_says_where_it_leads_and_no_secret() {
    let location = [("location", "https://me:canary@elsewhere.test/v1/responses?key=canary#canary")];
    let message = told(307, &location, b"").message.unwrap();
    assert!(message.contains("https://elsewhere.test/v1/responses"), "{message}");
    assert!(message.contains("base_url") && !message.contains("canary"), "{message}");
    let message = told(302, &[("location", "/login?token=canary")], b"").message.unwrap();
    assert!(message.contains("/login") && !message.contains("canary"), "{message}");
}

#[test]
fn the_servers_own_time_is_found_wherever_it_stands() {
    let limited = |with: &[(&'static str, &str)], body: &str| outcome(429, with, body).1;
    let after = |milliseconds| Retry::After(Duration::from_millis(milliseconds));
    let at = |seconds| Retry::At(UNIX_EPOCH + Duration::from_secs(seconds));
    let sentence = r#"{"error":{"code":"rate_limit_exceeded","message":"Limit 30000. Please try again in 1.8s. Visit us."}}"#;

    assert_eq!(limited(&[("retry-after", "20")], ""), after(20_000));
    assert_eq!(limited(&[("retry-after", " 1.5 ")], ""), after(1_500));
    assert_eq!(limited(&[("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT")], ""), at(784_111_777));
    assert_eq!(limited(&[("retry-after-ms", "350"), ("retry-after", "1")], ""), after(350));
    assert_eq!(limited(&[("retry-after", "20")], sentence), after(20_000));
    assert_eq!(limited(&[], sentence), after(1_800));
    assert_eq!(outcome(0, &[], sentence), (ErrorKind::RateLimited, after(1_800)));
    assert_eq!(limited(&[], r#"{"error":"Try again in 6m0s"}"#), after(360_000));
    assert_eq!(limited(&[], r#"{"retry_after":"250ms"}"#), after(250));
    assert_eq!(limited(&[], r#"{"error":{"retry_after":3}}"#), after(3_000));

    let tokens = [
        ("x-ratelimit-remaining-requests", "5"),
        ("x-ratelimit-reset-requests", "1h"),
        ("x-ratelimit-remaining-tokens", "0"),
        ("x-ratelimit-reset-tokens", "6m0s"),
    ];
    assert_eq!(limited(&tokens, ""), after(360_000));
    assert_eq!(
        limited(&[("x-ratelimit-reset-requests", "1s"), ("x-ratelimit-reset-tokens", "20ms")], ""),
        after(1_000)
    );
    assert_eq!(limited(&[("x-ratelimit-reset", "1795224496000")], ""), at(1_795_224_496));
    assert_eq!(limited(&[("x-ratelimit-reset", "1795224496")], ""), at(1_795_224_496));
    assert_eq!(limited(&[("x-ratelimit-reset", "7")], ""), after(7_000));

    for odd in ["soon", "-3", "NaN", ""] {
        let headers = [("retry-after", odd), ("retry-after-ms", odd), ("x-ratelimit-reset", odd)];
        assert_eq!(limited(&headers, ""), PATIENCE, "{odd:?}");
    }
}

#[test]
fn a_time_that_no_server_means_is_cut_to_a_day_and_the_words_say_so() {
    for wait in ["99999999999", "18446744073709551615", "1e300", "inf", "86401"] {
        let failure = told(429, &[("retry-after", wait)], b"");
        assert_eq!(failure.retry, Retry::After(Duration::from_secs(86_400)), "{wait}");
        assert!(failure.message.unwrap().contains("24 hours are assumed"), "{wait}");
    }
    assert_eq!(outcome(429, &[("retry-after", "86400")], "").1, Retry::After(Duration::from_secs(86_400)));
    let plan = told(429, &[], br#"{"error":{"type":"usage_limit_reached","resets_in_seconds":600000}}"#);
    assert_eq!(plan.retry, Retry::After(Duration::from_secs(600_000)), "a week of a plan is meant");
    let failure = told(429, &[], br#"{"error":{"type":"usage_limit_reached","resets_in_seconds":1e18}}"#);
    assert_eq!(failure.retry, Retry::After(Duration::from_secs(400 * 86_400)));
}

#[test]
fn a_plan_that_is_used_up_says_until_when() {
    let at = Retry::At(UNIX_EPOCH + Duration::from_secs(1_795_224_496));
    let with =
        |field: &str| format!(r#"{{"error":{{"type":"usage_limit_reached","plan_type":"pro",{field}}}}}"#);
    assert_eq!(
        outcome(429, &[("retry-after", "1")], &with(r#""resets_at":1795224496"#)),
        (ErrorKind::UsageLimit, at)
    );
    assert_eq!(outcome(429, &[], &with(r#""resets_in_seconds":2"#)), (ErrorKind::UsageLimit, AFTER_2));
    assert_eq!(outcome(429, &[], &with(r#""resets_at":null"#)), (ErrorKind::UsageLimit, Retry::Never));
    for absurd in ["-1", "1e400", "1e18", "\"x\"", "[]", "99999999999999999999"] {
        let (kind, _) = outcome(429, &[], &with(&format!(r#""resets_at":{absurd}"#)));
        // A number that no JSON reader takes leaves the status alone.
        assert!(matches!(kind, ErrorKind::UsageLimit | ErrorKind::RateLimited), "{absurd}");
    }
}

#[test]
fn every_form_of_an_error_gives_up_its_words() {
    for (body, words) in [
        (r#"{"error":{"message":"Words."}}"#, "Words."),
        (r#"{"code":"some sentence","error":"Words."}"#, "Words."),
        (r#"{"code":7,"error":"Words."}"#, "Words."),
        (r#"{"message":"Words."}"#, "Words."),
        (r#"{"detail":"Words."}"#, "Words."),
        (r#"{"detail":[{"loc":["body","input"],"msg":"Words.","type":"missing"}]}"#, "Words."),
        (r#""Words.""#, "Words."),
        (r#"["Words."]"#, "Words."),
        ("Words.", "Words."),
        ("\u{feff}{\"message\":\"Words.\"}", "Words."),
        (r#"{"odd":true}"#, r#"{"odd":true}"#),
        ("<html><body>x</body></html>", "a page of HTML"),
        ("data: {\"error\": {\"message\": \"At once.\", \"code\": \"500\"}}\n\ndata: [DONE]\n\n", "At once."),
        ("event: error\r\ndata: {\"message\":\"No.\"}\r\n\r\n", "No."),
        ("event: error", "event: error"),
    ] {
        assert_eq!(ErrorBody::read(body.as_bytes()).words(), words, "{body}");
    }
}

#[test]
fn a_message_is_one_line_and_bounded() {
    let long = format!("{{\"message\":\"a\\nb\\u0007\\tc {} end\"}}", "wörter ".repeat(2_000));
    let message = told(500, &[], long.as_bytes()).message.unwrap();
    assert!(message.starts_with("HTTP 500 Internal Server Error: a b c wörter"), "{message}");
    assert!(message.len() <= MAX_MESSAGE_BYTES && message.ends_with('…'), "{} bytes", message.len());
    let one_word = told(404, &[], "ö".repeat(5_000).as_bytes()).message.unwrap();
    assert!(one_word.len() <= MAX_MESSAGE_BYTES && one_word.ends_with("check `base_url`"), "{one_word}");
}

#[test]
fn a_deeply_wrapped_error_ends() {
    let deep = "[".repeat(100) + "\"x\"" + &"]".repeat(100);
    assert_eq!(outcome(500, &[], &deep).0, ErrorKind::VendorFailure);
    let wrapped = (0..100).fold("\"x\"".to_owned(), |inner, _| format!("{{\"error\":{inner}}}"));
    assert_eq!(outcome(500, &[], &wrapped).0, ErrorKind::VendorFailure);
}

#[test]
fn a_duration_is_read_in_every_spelling() {
    for (text, milliseconds) in [
        ("1s", Some(1_000)),
        ("6m0s", Some(360_000)),
        ("1.8s. Visit", Some(1_800)),
        ("250ms", Some(250)),
        ("20 seconds", Some(20_000)),
        ("1h 2m", Some(3_720_000)),
        ("2 days.", Some(172_800_000)),
        ("1 fortnight", None),
        ("s", None),
        ("1.2.3s", None),
        ("", None),
    ] {
        assert_eq!(duration_in(text), milliseconds.map(Duration::from_millis), "{text}");
    }
}

proptest! {
    #[test]
    fn no_error_of_a_server_breaks_the_reading(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        status in 100_u16..1_000,
        value in "\\PC{0,40}",
    ) {
        let value = HeaderValue::from_str(&value).unwrap_or(HeaderValue::from_static("0"));
        let names = ["retry-after", "retry-after-ms", "x-ratelimit-reset", "x-ratelimit-reset-tokens", "location"];
        let headers: HeaderMap =
            names.into_iter().map(|name| (HeaderName::from_static(name), value.clone())).collect();
        let body = ErrorBody::read(&bytes);
        let reply = ErrorReply { status: StatusCode::from_u16(status).ok(), headers: &headers, body: &body };
        let failure = reply.shared_outcome();
        let message = failure.message.unwrap_or_default();
        prop_assert!(message.len() <= MAX_MESSAGE_BYTES);
        prop_assert!(!message.contains(char::is_control));
    }

    #[test]
    fn no_moment_is_out_of_reach(number in any::<f64>()) {
        let body = ErrorBody::of(&json!({ "resets_at": number, "resets_in_seconds": number }));
        if let Some(at) = body.resets_at {
            prop_assert!(at > SystemTime::UNIX_EPOCH);
        }
    }
}

#[test]
fn an_error_inside_a_stream_means_what_its_status_would() {
    use ErrorKind as Kind;
    for (code, kind) in [
        ("429", Kind::RateLimited),
        ("\"429\"", Kind::RateLimited),
        ("429.0", Kind::RateLimited),
        ("\"too_many_requests\"", Kind::RateLimited),
        ("\"TooManyRequests\"", Kind::RateLimited),
        ("\"Too Many Requests\"", Kind::RateLimited),
        ("401", Kind::Unauthenticated),
        ("\"unauthorized\"", Kind::Unauthenticated),
        ("402", Kind::UsageLimit),
        ("\"payment_required\"", Kind::UsageLimit),
        ("403", Kind::Forbidden),
        ("400", Kind::InvalidRequest),
        ("\"bad_request\"", Kind::InvalidRequest),
        ("404", Kind::InvalidRequest),
        ("408", Kind::Transport),
        ("500", Kind::VendorFailure),
        ("503", Kind::Overloaded),
        ("\"service_unavailable\"", Kind::Overloaded),
        ("529", Kind::Overloaded),
        ("200", Kind::VendorFailure),
        ("7", Kind::VendorFailure),
        ("-401", Kind::VendorFailure),
        ("1e300", Kind::VendorFailure),
        ("\"stream_error\"", Kind::VendorFailure),
    ] {
        for body in [
            format!(r#"{{"error":{{"code":{code},"message":"upstream said no"}}}}"#),
            format!(r#"{{"type":"error","error":{{"code":{code},"message":"upstream said no"}}}}"#),
            format!(r#"{{"type":"error","code":{code},"message":"upstream said no"}}"#),
            format!(r#"{{"error":{{"status":{code},"message":"upstream said no"}}}}"#),
        ] {
            assert_eq!(outcome(0, &[], &body).0, kind, "{body}");
        }
    }
    let words = |status: u16| told(status, &[], br#"{"error":{"code":404,"message":"no"}}"#).message.unwrap();
    assert!(!words(0).contains("base_url"), "{}", words(0));
    assert!(words(404).contains("base_url"), "{}", words(404));
    let (kind, _) = outcome(0, &[], r#"{"error":{"type":"invalid_request_error","message":"no"}}"#);
    assert_eq!(kind, Kind::InvalidRequest);
}
