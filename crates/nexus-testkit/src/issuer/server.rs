//! Answers requests, and injects the planned faults.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt as _};
use http_body_util::{BodyExt as _, Limited, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::{Request, Response};
use serde_json::{Value, json};

use super::fault::Fault;
use super::fields::Fields;
use super::log::{Asked, Log, Outcome, RequestKind};
use super::reply::{Manner, Reply};
use super::rules::IssuerBuilder;
use super::state::State;
use super::{authorize, device, page, token};

/// Maximum size of a request body, in bytes.
const MAX_BODY_BYTES: usize = 1 << 20;
/// Pause before the cut, in which the first half of an answer reaches the client.
const FLUSH: Duration = Duration::from_millis(50);

/// The body of every answer.
pub(super) type Body = StreamBody<BoxStream<'static, Result<Frame<Bytes>, Broken>>>;

/// A deliberate end of the connection.
#[derive(Debug)]
pub(super) struct Broken;

impl fmt::Display for Broken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the connection was to be cut")
    }
}

impl std::error::Error for Broken {}

/// State that all connections share.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) url: String,
    pub(super) log: Log,
    state: Mutex<State>,
}

impl Core {
    pub(super) fn new(url: String, builder: IssuerBuilder) -> Self {
        Self { url, log: Log::new(builder.log), state: Mutex::new(State::new(builder.rules)) }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Performs a request.
    fn answer(&self, arrival: &Arrival, fault: Option<&Fault>) -> Reply {
        let mut state = self.state();
        let (method, path, asked) = (arrival.method.as_str(), arrival.path.as_str(), &arrival.fields);
        match (method, path) {
            ("GET" | "POST", "/oauth/authorize" | "/oauth2/authorize" | "/api/accounts/authorize") => {
                authorize::answer(&mut state, method, path, asked)
            }
            ("POST", "/oauth/token" | "/oauth2/token" | "/api/accounts/oauth/token") => {
                token::answer(&mut state, &self.url, Manner::of(path), asked, fault)
            }
            ("POST", "/oauth/revoke" | "/oauth2/revoke") => {
                token::revoke(&mut state, Manner::of(path), asked)
            }
            ("POST", "/oauth2/device/code") => device::start(&mut state, &self.url, asked),
            ("POST", "/api/accounts/deviceauth/usercode") => device::start_openai(&mut state, asked),
            ("POST", "/api/accounts/deviceauth/token") => device::poll_openai(&mut state, &self.url, asked),
            ("GET" | "POST", "/codex/device" | "/device") => device::decide(&mut state, method, path, asked),
            ("GET", "/.well-known/openid-configuration") => self.discovery(),
            ("GET", "/.well-known/jwks.json") => Reply::json(200, &state.signer.keys()),
            ("GET", "/") => Reply::html(200, page::say("An authorization server for tests.")),
            _ => Reply::json(404, &json!({ "error": "not_found" })),
        }
    }

    fn discovery(&self) -> Reply {
        let at = |path: &str| format!("{}{path}", self.url);
        Reply::json(
            200,
            &json!({
                "issuer": self.url,
                "authorization_endpoint": at("/oauth2/authorize"),
                "token_endpoint": at("/oauth2/token"),
                "revocation_endpoint": at("/oauth2/revoke"),
                "device_authorization_endpoint": at("/oauth2/device/code"),
                "jwks_uri": at("/.well-known/jwks.json"),
                "response_types_supported": ["code"],
                "code_challenge_methods_supported": ["S256"],
                "token_endpoint_auth_methods_supported": ["none"],
            }),
        )
    }
}

/// A request, read.
struct Arrival {
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    fields: Fields,
}

impl Arrival {
    async fn read(request: Request<Incoming>) -> Result<Self, Broken> {
        let (parts, body) = request.into_parts();
        let body = Limited::new(body, MAX_BODY_BYTES).collect().await.map_err(|_| Broken)?.to_bytes();
        let headers: Vec<(String, String)> = parts
            .headers
            .iter()
            .map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
            .collect();
        let is_json = headers
            .iter()
            .any(|(name, value)| name == "content-type" && value.starts_with("application/json"));
        let said = match is_json {
            true => Fields::from_json(&body),
            false => Fields::from_form(&body),
        };
        let query = Fields::from_form(parts.uri.query().unwrap_or_default().as_bytes());
        Ok(Self {
            method: parts.method.to_string(),
            path: parts.uri.path().to_owned(),
            headers,
            fields: said.and(query),
        })
    }

    fn kind(&self) -> RequestKind {
        match self.path.as_str() {
            "/oauth/authorize" | "/oauth2/authorize" | "/api/accounts/authorize" => RequestKind::Authorize,
            "/oauth/token" | "/oauth2/token" | "/api/accounts/oauth/token" => token::kind(&self.fields),
            "/oauth/revoke" | "/oauth2/revoke" => RequestKind::Revoke,
            "/oauth2/device/code" | "/api/accounts/deviceauth/usercode" => RequestKind::DeviceStart,
            "/api/accounts/deviceauth/token" => RequestKind::DevicePoll,
            "/codex/device" | "/device" => RequestKind::DevicePage,
            "/.well-known/openid-configuration" | "/.well-known/jwks.json" => RequestKind::Discovery,
            _ => RequestKind::Unknown,
        }
    }

    /// Builds the log entry, without secrets.
    fn entry(&self, kind: RequestKind) -> Asked {
        let secret = |name: &str| matches!(name, "authorization" | "cookie");
        Asked {
            number: 0,
            kind,
            method: self.method.clone(),
            path: self.path.clone(),
            headers: self.headers.iter().filter(|(name, _)| !secret(name)).cloned().collect(),
            members: self.fields.names(),
            client_id: self.fields.value("client_id").map(str::to_owned),
            at: SystemTime::now(),
            answered_at: None,
            family: None,
            generation: None,
            reuse: false,
            outcome: Outcome::Open,
        }
    }
}

/// Reads a request, logs it, and answers it.
pub(super) async fn respond(core: Arc<Core>, request: Request<Incoming>) -> Result<Response<Body>, Broken> {
    let arrival = Arrival::read(request).await?;
    let kind = arrival.kind();
    // Logged before any fault, so that a request without an answer is counted too.
    let number = core.log.add(arrival.entry(kind));
    let fault = core.state().next_fault(kind);
    if let Some(fault) = &fault
        && let Some(early) = before(fault, Manner::of(&arrival.path))
    {
        core.log.note(number, |asked| asked.outcome = Outcome::Failed(fault.clone()));
        let reply = match early {
            Early::Reply(reply) => reply,
            Early::Hang => std::future::pending().await,
            Early::Cut => {
                core.log.answered(number);
                return Err(Broken);
            }
        };
        core.log.answered(number);
        return send(reply.status, &reply, whole(reply.body.clone()));
    }

    // The outcome is noted before the answer leaves. So a client that has its answer also finds it in the log.
    let reply = core.answer(&arrival, fault.as_ref());
    core.log.note(number, |asked| {
        asked.outcome = reply.outcome.clone();
        asked.reuse = reply.reuse;
        (asked.family, asked.generation) = reply.presented.unzip();
    });
    let body = match after(fault.as_ref(), reply.body.clone()) {
        Late::Body(body) => body,
        Late::Slow(delay) => {
            tokio::time::sleep(delay).await;
            whole(reply.body.clone())
        }
        Late::Hang => std::future::pending().await,
        Late::Cut => {
            core.log.answered(number);
            return Err(Broken);
        }
    };
    core.log.answered(number);
    send(reply.status, &reply, body)
}

/// Fault that replaces the request.
enum Early {
    Reply(Reply),
    Hang,
    Cut,
}

fn before(fault: &Fault, manner: Manner) -> Option<Early> {
    Some(match fault {
        Fault::Status { status, body } => Early::Reply(Reply::text(*status, body)),
        Fault::Refusal { status, code } => {
            Early::Reply(Reply::refusal(manner, code, "it was to be refused").with_status(*status))
        }
        Fault::Html200 => Early::Reply(Reply::html(200, page::say("Sign in to the network"))),
        Fault::Redirect { location } => Early::Reply(Reply::redirect(location)),
        Fault::Hang => Early::Hang,
        Fault::CutBefore => Early::Cut,
        // The other faults come after the request is performed.
        _ => return None,
    })
}

/// Fault on the way of an answer.
enum Late {
    Body(Body),
    Slow(Duration),
    Hang,
    Cut,
}

fn after(fault: Option<&Fault>, body: String) -> Late {
    Late::Body(match fault {
        Some(Fault::Slow(delay)) => return Late::Slow(*delay),
        Some(Fault::HangAfter) => return Late::Hang,
        Some(Fault::CutAfter) => return Late::Cut,
        Some(Fault::CutInside) => torn(&body),
        Some(Fault::TornJson) => whole(half(&body).to_owned()),
        Some(Fault::HugeBody { bytes }) => padded(body, *bytes),
        Some(Fault::NoAccessToken) => whole(changed(&body, |members| {
            members.remove("access_token");
        })),
        Some(Fault::WrongTypes) => whole(changed(&body, |members| {
            members.values_mut().for_each(|value| *value = json!([{ "unexpected": true }]));
        })),
        _ => whole(body),
    })
}

fn changed(body: &str, change: impl FnOnce(&mut serde_json::Map<String, Value>)) -> String {
    let mut value: Value = serde_json::from_str(body).unwrap_or_default();
    if let Value::Object(members) = &mut value {
        change(members);
    }
    value.to_string()
}

fn half(body: &str) -> &str {
    body.get(..body.len() / 2).unwrap_or_default()
}

fn whole(body: String) -> Body {
    StreamBody::new(stream::once(async { Ok(Frame::data(Bytes::from(body))) }).boxed())
}

fn torn(body: &str) -> Body {
    let first = Bytes::copy_from_slice(half(body).as_bytes());
    let cut = stream::once(async {
        tokio::time::sleep(FLUSH).await;
        Err(Broken)
    });
    StreamBody::new(stream::once(async { Ok(Frame::data(first)) }).chain(cut).boxed())
}

fn padded(body: String, bytes: u64) -> Body {
    // Sent in pieces, so that a huge answer needs little memory.
    const PIECE: &[u8] = &[b' '; 1 << 16];
    let lengths = stream::unfold(bytes, |left| async move {
        let next = left.min(PIECE.len() as u64);
        (next > 0).then_some((next, left - next))
    });
    let blanks = lengths
        .map(|length| Ok(Frame::data(Bytes::from_static(PIECE.get(..length as usize).unwrap_or(PIECE)))));
    StreamBody::new(blanks.chain(stream::once(async { Ok(Frame::data(Bytes::from(body))) })).boxed())
}

fn send(status: u16, reply: &Reply, body: Body) -> Result<Response<Body>, Broken> {
    let mut head = Response::builder()
        .status(status)
        .header("content-type", reply.content_type)
        // Required for answers with tokens: RFC 6749, 5.1.
        .header("cache-control", "no-store");
    if let Some(location) = &reply.location {
        head = head.header("location", location);
    }
    head.body(body).map_err(|_| Broken)
}
