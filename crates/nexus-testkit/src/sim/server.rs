//! Answers requests: identifies the dialect and the purpose, and takes the reply from the script.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::{Request, Response};
use serde_json::Value;

use super::cloud::{Cloud, CloudCall};
use super::conversation::Conversation;
use super::playing::{Body, Broken, Playing, play};
use super::recording::{Purpose, RecordedRequest, Recording, Scripted};
use super::reply::Reply;
use super::responder::Responder;
use super::scenario::{Count, Scenario};
use super::socket::Ending;
use super::wire::Answer;
use super::{Dialect, anthropic, chat, gemini, responses, xai};

/// A dialect's classification of a request.
pub(super) enum Route {
    /// A model call of a turn.
    Main(Conversation),
    /// A model call of a turn that the vendor would refuse, with the refusal.
    Refused(Conversation, Answer),
    /// A model call outside of the turn, with its answer.
    Side(Conversation, Answer),
    /// A known endpoint, with its answer.
    Housekeeping(Answer),
    /// A request that the dialect does not know.
    Unknown,
}

/// Parts of a request that a dialect may read.
pub(super) struct Arrival<'a> {
    pub(super) method: &'a str,
    pub(super) path: &'a str,
    pub(super) headers: &'a [(String, String)],
    pub(super) json: &'a Value,
    pub(super) query: &'a str,
    pub(super) scenario: &'a Scenario,
}

impl Arrival<'_> {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(header, _)| header == name).map(|(_, value)| value.as_str())
    }
}

/// A call that gets a scripted reply.
pub(super) struct ModelCall<'a> {
    /// Number among the calls of this simulator; ids are derived from it.
    pub(super) number: usize,
    pub(super) conversation: &'a Conversation,
    /// Cloud whose form of the API the request has.
    pub(super) cloud: Option<Cloud>,
    /// The one id of all tool calls of the answer, if they share it.
    pub(super) call_id: Option<&'a str>,
}

impl ModelCall<'_> {
    /// Returns the id of a tool call: the shared one, else `own`.
    pub(super) fn tool_call_id(&self, own: String) -> String {
        self.call_id.map_or(own, str::to_owned)
    }
}

/// State that all connections share.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) dialect: Dialect,
    pub(super) recording: Recording,
    script: Mutex<Script>,
    responder: Option<Responder>,
    connections: AtomicUsize,
}

#[derive(Debug)]
struct Script {
    scenario: Arc<Scenario>,
    counts: HashMap<(Option<usize>, Option<String>), usize>,
}

impl Core {
    pub(super) fn new(dialect: Dialect, scenario: Scenario, responder: Option<Responder>, log: bool) -> Self {
        Self {
            dialect,
            recording: Recording::new(log),
            script: Mutex::new(Script { scenario: Arc::new(scenario), counts: HashMap::new() }),
            responder,
            connections: AtomicUsize::new(0),
        }
    }

    pub(super) fn set_scenario(&self, scenario: Scenario) {
        let mut script = self.script.lock().unwrap_or_else(PoisonError::into_inner);
        script.scenario = Arc::new(scenario);
        script.counts.clear();
    }

    pub(super) fn open_connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    fn scenario(&self) -> Arc<Scenario> {
        let script = self.script.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&script.scenario)
    }

    /// Takes the next position in the script for this conversation.
    fn take_turn(&self, conversation: &Conversation) -> Scripted {
        let mut script = self.script.lock().unwrap_or_else(PoisonError::into_inner);
        let rule = script.scenario.rule_for(&conversation.user_texts());
        let key = match script.scenario.count {
            Count::Script => None,
            Count::Conversation => {
                // Without the vendor's session id, the first prompt identifies the conversation: clients send the whole
                // history.
                conversation.id.clone().or_else(|| conversation.user_texts().into_iter().next())
            }
        };
        let count = script.counts.entry((rule, key)).or_insert(0);
        let index = *count;
        *count += 1;
        Scripted { rule, index }
    }

    /// Tells by path and headers whose client this is.
    fn dialect_of(&self, path: &str, headers: &[(String, String)]) -> Dialect {
        if self.dialect != Dialect::All {
            return self.dialect;
        }
        let has = |name: &str| headers.iter().any(|(header, _)| header.starts_with(name));
        let agent =
            headers.iter().find(|(header, _)| header == "user-agent").map_or("", |(_, value)| value.as_str());
        // Check from the most to the least specific sign, because some clients send headers of several dialects.
        if CloudCall::of(path).is_some() {
            return Dialect::Anthropic;
        }
        if path.ends_with("/chat/completions") {
            return Dialect::Chat;
        }
        if gemini::is_call(path) || has("x-goog-") {
            return Dialect::Gemini;
        }
        if has("x-grok-") || has("x-xai-") || agent.starts_with("grok") {
            Dialect::Xai
        } else if path.ends_with("/responses") || agent.contains("codex") || has("session-id") {
            Dialect::Responses
        } else if has("anthropic-") || path.contains("/messages") || path.contains("claude") {
            Dialect::Anthropic
        } else if path.ends_with("/models") {
            Dialect::Responses
        } else {
            Dialect::Anthropic
        }
    }
}

/// Reads a request, records it, and answers it.
pub(super) async fn respond(
    core: Arc<Core>,
    ending: Arc<Ending>,
    request: Request<Incoming>,
) -> Result<Response<Body>, Broken> {
    let (parts, body) = request.into_parts();
    // Read the whole body first: a client that is still sending would not read the answer.
    let body = body.collect().await.map_err(|_| Broken)?.to_bytes();
    let headers: Vec<(String, String)> = parts
        .headers
        .iter()
        .map(|(name, value)| {
            let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
            (name.as_str().to_owned(), value)
        })
        .collect();
    let path = parts.uri.path().to_owned();
    let dialect = core.dialect_of(&path, &headers);
    let json: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let cloud = CloudCall::of(&path).map(|call| call.cloud);
    // Take one snapshot: the test may replace the scenario while this request is answered.
    let scenario = core.scenario();
    let incoming = Arrival {
        method: parts.method.as_str(),
        path: &path,
        headers: &headers,
        json: &json,
        query: parts.uri.query().unwrap_or_default(),
        scenario: &scenario,
    };
    let route = match dialect {
        Dialect::Anthropic | Dialect::All => anthropic::route(&incoming),
        Dialect::Responses => responses::route(&incoming),
        Dialect::Xai => xai::route(&incoming),
        Dialect::Chat => chat::route(&incoming),
        Dialect::Gemini => gemini::route(&incoming),
    };
    let (purpose, conversation, ready) = match route {
        Route::Main(conversation) => (Purpose::MainCall, conversation, None),
        Route::Refused(conversation, answer) => (Purpose::MainCall, conversation, Some(answer)),
        Route::Side(conversation, answer) => (Purpose::SideCall, conversation, Some(answer)),
        Route::Housekeeping(answer) => (Purpose::Housekeeping, Conversation::default(), Some(answer)),
        Route::Unknown => (Purpose::Unknown, Conversation::default(), Some(unknown())),
    };
    let is_refused = ready.is_none() && scenario.refuses(credential(&headers));
    // A refused call takes no reply, so the repeated call still gets the scripted one.
    let scripted = (ready.is_none() && !is_refused).then(|| core.take_turn(&conversation));
    let conversation = Arc::new(conversation);
    let json = Arc::new(json);
    let number = core.recording.add(RecordedRequest {
        number: 0,
        at: core.recording.elapsed(),
        method: parts.method.to_string(),
        query: parts.uri.query().map(str::to_owned),
        path,
        headers: headers.into(),
        body,
        json: Arc::clone(&json),
        dialect,
        purpose,
        conversation: Arc::clone(&conversation),
        scripted,
        status: None,
        ended: None,
    });
    let answer = match (ready, scripted) {
        (Some(answer), _) => answer,
        (None, scripted) => {
            let place = scripted.unwrap_or(Scripted { rule: None, index: 0 });
            let reply = match is_refused {
                true => Reply::status(401),
                false => {
                    let computed =
                        core.responder.as_ref().and_then(|responder| responder.reply(&conversation));
                    computed.unwrap_or_else(|| scenario.reply(place.rule, place.index))
                }
            };
            let call_id = reply.call_id.as_deref();
            let call = ModelCall { number, conversation: &conversation, cloud, call_id };
            match dialect {
                Dialect::Anthropic | Dialect::All => anthropic::answer(&call, &reply),
                Dialect::Responses => responses::answer(&call, &reply),
                Dialect::Xai => xai::answer(&call, &reply),
                Dialect::Chat => chat::answer(&call, &reply),
                Dialect::Gemini => gemini::answer(&call, &reply),
            }
        }
    };
    play(Playing::new(core, number, ending), answer).await
}

/// The token of `Authorization: Bearer`, or the key of `x-api-key` or `x-goog-api-key`.
fn credential(headers: &[(String, String)]) -> Option<&str> {
    let header = |wanted: &str| {
        let found = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted));
        found.map(|(_, value)| value.as_str())
    };
    match header("authorization") {
        Some(value) => value.strip_prefix("Bearer "),
        None => header("x-api-key").or_else(|| header("x-goog-api-key")),
    }
}

fn unknown() -> Answer {
    let message = "the simulator does not know this path";
    Answer::json(404, &serde_json::json!({"error": {"type": "not_found_error", "message": message}}))
}

/// Counts a connection for as long as it lives.
pub(super) struct OpenConnection(Arc<Core>);

impl OpenConnection {
    pub(super) fn count(core: Arc<Core>) -> Self {
        core.connections.fetch_add(1, Ordering::SeqCst);
        core.recording.changed();
        Self(core)
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::SeqCst);
        self.0.recording.changed();
    }
}
