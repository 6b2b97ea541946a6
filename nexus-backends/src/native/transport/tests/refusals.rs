//! What the simulator's refusals come to, from its socket to the outcome.

use std::time::UNIX_EPOCH;

use nexus_testkit::sim::{Dialect, Fault, Reply, Scenario, Sim};

use super::*;
use crate::native::outcome::ErrorReply;

async fn outcome(dialect: Dialect, reply: Reply) -> (ErrorKind, Retry) {
    let sim = Sim::start(dialect, Scenario::new([reply])).unwrap();
    let transport = transport(&sim.base_url(), json!({}));
    let body = json!({ "model": "gpt-5.5", "input": "Hello.", "stream": true }).to_string();
    let headers = HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static("Bearer token"))]);
    match transport.post(&SHAPE, CallAddress::default(), headers, body.into()).await.map_err(Failure::from) {
        Ok(ServerAnswer::Refused { status, headers, body }) => {
            let reply = ErrorReply { status: Some(status), headers: &headers, body: &body };
            let failure = reply.shared_outcome();
            (failure.kind, failure.retry)
        }
        other => panic!("not refused: {other:?}"),
    }
}

#[tokio::test]
async fn each_refusal_of_the_simulator_has_its_outcome() {
    let reset = 1_900_000_000;
    let soon = Retry::Guessed(Retry::SERVER_GUESS);
    let at = Retry::At(UNIX_EPOCH + Duration::from_secs(reset));
    for (reply, wanted) in [
        (Reply::status(400), (ErrorKind::InvalidRequest, Retry::Never)),
        (Reply::status(401), (ErrorKind::Unauthenticated, Retry::Never)),
        (Reply::status(403), (ErrorKind::Forbidden, Retry::Never)),
        (Reply::status(404), (ErrorKind::ModelUnavailable, Retry::Never)),
        (Reply::status(413), (ErrorKind::InvalidRequest, Retry::Never)),
        (Reply::status(422), (ErrorKind::InvalidRequest, Retry::Never)),
        (Reply::status(429), (ErrorKind::RateLimited, Retry::Guessed(Retry::RATE_LIMIT_GUESS))),
        (Reply::status(500), (ErrorKind::VendorFailure, soon)),
        (
            Reply::fault(Fault::rate_limited(2)),
            (ErrorKind::RateLimited, Retry::After(Duration::from_secs(2))),
        ),
        (Reply::fault(Fault::usage_limit(reset)), (ErrorKind::UsageLimit, at)),
        (Reply::fault(Fault::overloaded()), (ErrorKind::Overloaded, soon)),
        (Reply::fault(Fault::bad_gateway()), (ErrorKind::VendorFailure, soon)),
        (Reply::fault(Fault::Html200), (ErrorKind::Transport, Retry::Never)),
    ] {
        let told = format!("{reply:?}");
        assert_eq!(outcome(Dialect::Responses, reply).await, wanted, "{told}");
    }
}
