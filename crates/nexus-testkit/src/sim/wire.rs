//! An answer on its way to the client: HTTP head, then steps. The dialects make answers, the server
//! plays them.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;

use super::fault::{Cut, Fault};
use super::mangle::many_bytes;
use super::reply::{Pace, Reply};

/// Next action on the connection.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Bytes of the body.
    Send(Bytes),
    /// Nothing, for a while.
    Wait(Duration),
    /// Silence for ever, apart from these bytes once a second.
    Stall(Option<Bytes>),
    /// An early end of the body.
    Cut(Cut),
    /// The same bytes, as often as `left`; for ever if it is `None`.
    Repeat {
        /// The bytes.
        bytes: Bytes,
        /// Number of repetitions.
        left: Option<u64>,
    },
    /// Bytes that follow the end of the body on the connection.
    Beyond(Bytes),
}

/// Action before the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Before {
    /// A wait, which may be zero.
    Wait(Duration),
    /// Silence: the request is never answered.
    Stall,
    /// The connection is reset.
    Reset,
}

impl Before {
    /// Returns the action that `reply` requests.
    pub(super) fn of(reply: &Reply) -> Self {
        match &reply.fault {
            Some(Fault::StallBeforeHeaders) => Self::Stall,
            Some(Fault::ResetBeforeHeaders) => Self::Reset,
            _ => Self::Wait(Duration::from_millis(reply.pace.delay_ms)),
        }
    }
}

/// One answer, ready to be played.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) before: Before,
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) steps: VecDeque<Step>,
}

impl Answer {
    /// A whole body at once.
    pub(super) fn whole(status: u16, content_type: &str, body: impl Into<Bytes>) -> Self {
        let body = body.into();
        let mut answer = Self {
            before: Before::Wait(Duration::ZERO),
            status,
            headers: Vec::new(),
            steps: VecDeque::new(),
        };
        answer = answer.header("content-type", content_type).header("content-length", body.len());
        if !body.is_empty() {
            answer.steps.push_back(Step::Send(body));
        }
        answer
    }

    /// A JSON body.
    pub(super) fn json(status: u16, body: &Value) -> Self {
        Self::whole(status, "application/json", body.to_string())
    }

    /// An event stream.
    pub(super) fn events(steps: impl IntoIterator<Item = Step>) -> Self {
        Self {
            before: Before::Wait(Duration::ZERO),
            status: 200,
            headers: vec![
                ("content-type".into(), "text/event-stream".into()),
                ("cache-control".into(), "no-cache".into()),
            ],
            steps: steps.into_iter().collect(),
        }
    }

    /// A page of HTML.
    pub(super) fn html(status: u16) -> Self {
        let page = "<!doctype html><html><body><h1>Sign in to the network</h1></body></html>";
        Self::whole(status, "text/html; charset=utf-8", page)
    }

    /// An event stream whose data is not JSON.
    pub(super) fn garbage() -> Self {
        Self::events([
            Step::Send(Bytes::from_static(b"event: message\ndata: {{{ not json\n\n")),
            Step::Send(Bytes::from_static(b"data: \xff\xfe\x00 neither\n\n")),
        ])
    }

    /// Adds a header.
    pub(super) fn header(mut self, name: &str, value: impl fmt::Display) -> Self {
        self.headers.push((name.into(), format!("{value}")));
        self
    }

    /// Ends the body with `step`, after the first `bytes` of it.
    pub(super) fn broken_off(mut self, bytes: usize, step: Step) -> Self {
        let mut left = bytes;
        let mut kept = VecDeque::new();
        for earlier in std::mem::take(&mut self.steps) {
            match earlier {
                Step::Send(mut body) => {
                    // Steps behind the limit stay as empty sends, which write nothing.
                    body.truncate(left);
                    left -= body.len();
                    kept.push_back(Step::Send(body));
                }
                other => kept.push_back(other),
            }
        }
        kept.push_back(step);
        self.steps = kept;
        self
    }
}

/// The steps of an event stream, as a dialect writes them down.
#[derive(Debug)]
pub(super) struct EventWriter {
    steps: Vec<Step>,
    gap: Duration,
    piece_chars: usize,
}

impl EventWriter {
    pub(super) fn new(pace: Pace) -> Self {
        Self {
            steps: Vec::new(),
            gap: Duration::from_millis(pace.gap_ms),
            piece_chars: pace.piece_chars.max(1),
        }
    }

    /// Writes one event; without a name if it is empty.
    pub(super) fn event(&mut self, name: &str, data: &Value) {
        self.raw(format!("{}data: {}\n\n", name_line(name), TypeFirst(data)));
    }

    /// Writes bytes of the stream verbatim.
    pub(super) fn raw(&mut self, bytes: impl Into<Bytes>) {
        self.push(Step::Send(bytes.into()));
    }

    /// Writes an event up to the middle of the last `水` in it.
    pub(super) fn half_event(&mut self, name: &str, data: &Value) {
        let text = format!("{}data: {}", name_line(name), TypeFirst(data));
        // The character has three bytes, so the cut after the first is inside of it.
        let cut = text.rfind('水').map_or(text.len(), |at| at + 1);
        self.raw(Bytes::from(text).slice(..cut));
    }

    /// Writes one event over and over, without end.
    pub(super) fn endless(&mut self, name: &str, data: &Value) {
        let bytes = format!("{}data: {}\n\n", name_line(name), TypeFirst(data)).into();
        self.push(Step::Repeat { bytes, left: None });
    }

    /// Writes an event of an unknown type with `bytes` bytes in it.
    pub(super) fn huge_event(&mut self, name: &str, bytes: u64) {
        // Write the JSON in parts, so that a large event is never in memory.
        self.raw(format!("event: {name}\ndata: {{\"type\":\"{name}\",\"padding\":\""));
        self.steps.extend(many_bytes(bytes));
        self.raw("\"}\n\n");
    }

    /// Writes one event per piece of `text`, with the pace of the reply between them.
    pub(super) fn pieces(&mut self, name: &str, text: &str, mut data: impl FnMut(&str) -> Value) {
        for (index, piece) in pieces(text, self.piece_chars).enumerate() {
            // The pace begins after the first piece. The time before it has a setting of its own.
            if index > 0 && !self.gap.is_zero() {
                self.push(Step::Wait(self.gap));
            }
            let data = data(piece);
            self.event(name, &data);
        }
    }

    pub(super) fn push(&mut self, step: Step) {
        self.steps.push(step);
    }

    pub(super) fn into_steps(self) -> Vec<Step> {
        self.steps
    }
}

/// The line with the name of an event, if it has one.
fn name_line(name: &str) -> String {
    if name.is_empty() { String::new() } else { format!("event: {name}\n") }
}

/// JSON with the key `type` before the others, as the vendors write it. Other tests must show that a decoder does not rely on
/// that order; a decoder that profits from it is measured fairly.
struct TypeFirst<'a>(&'a Value);

impl fmt::Display for TypeFirst<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::Object(fields) => {
                let typed = fields.get_key_value("type");
                let others = fields.iter().filter(|(key, _)| *key != "type");
                formatter.write_str("{")?;
                for (index, (key, value)) in typed.into_iter().chain(others).enumerate() {
                    let comma = if index > 0 { "," } else { "" };
                    let key = Value::from(key.as_str());
                    write!(formatter, "{comma}{key}:{}", TypeFirst(value))?;
                }
                formatter.write_str("}")
            }
            Value::Array(values) => {
                formatter.write_str("[")?;
                for (index, value) in values.iter().enumerate() {
                    let comma = if index > 0 { "," } else { "" };
                    write!(formatter, "{comma}{}", TypeFirst(value))?;
                }
                formatter.write_str("]")
            }
            scalar => write!(formatter, "{scalar}"),
        }
    }
}

/// `text` in pieces of at most `chars` characters.
fn pieces(text: &str, chars: usize) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = rest.char_indices().nth(chars).map_or(rest.len(), |(index, _)| index);
        let (piece, after) = rest.split_at(end);
        rest = after;
        Some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_join_to_the_text_and_keep_characters_whole() {
        let text = "aé水🦀b";
        for chars in 1..8 {
            let joined: String = pieces(text, chars).collect();
            assert_eq!(joined, text);
            assert!(pieces(text, chars).all(|piece| piece.chars().count() <= chars));
        }
        assert_eq!(pieces("", 4).count(), 0);
    }

    #[test]
    fn type_first_is_the_same_value() {
        let value = serde_json::json!({"a": [1, {"b": "\"é\n", "type": "t"}], "type": "u", "z": null});
        let text = TypeFirst(&value).to_string();
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
        assert!(text.starts_with(r#"{"type":"u","a":[1,{"type":"t","b":"#));
    }

    #[test]
    fn a_body_is_broken_off_where_asked() {
        let answer = Answer::json(200, &serde_json::json!({"a": 1})).broken_off(3, Step::Cut(Cut::Fin));
        assert!(matches!(&answer.steps[0], Step::Send(body) if body.as_ref() == b"{\"a"));
        assert!(matches!(answer.steps[1], Step::Cut(Cut::Fin)));
    }
}
