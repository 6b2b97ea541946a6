//! Answers of a hostile server, described by an input of the fuzzer.
//!
//! A script consists of lines. A line that begins with `@` and a known word is a direction. Every other line, with its
//! newline, is a part of the body. `README.md` lists the directions. No script is invalid: an unknown direction is body,
//! and numbers are cut to their bounds.

use std::io::Write as _;

use flate2::{Compression, write::GzEncoder};
use serde_json::{Value, json};

/// Bounds for the time and memory of an input: number of answers, bytes of a body, copies of a line.
const MAX_REPLIES: usize = 16;
const MAX_BODY_BYTES: usize = 256 << 10;
const MAX_TIMES: usize = 300;

/// The credential of a turn with one, and its placeholder in a script.
pub const KEY: &str = "canary-0123456789";
const KEY_MARK: &[u8] = b"{key}";

/// A turn and its server.
#[derive(Debug, Default)]
pub struct Script {
    /// Settings of the turn.
    pub ask: Ask,
    /// The answer to each request for a model's reply. Further requests get the last one again.
    pub replies: Vec<Reply>,
    /// The answer to each request for the list of models, if the script has one.
    pub list: Option<Reply>,
}

/// Settings of the turn.
#[derive(Debug, Default)]
pub struct Ask {
    /// The kind of backend; `responses` if it is not set.
    pub kind: Kind,
    /// True if the turn has a credential.
    pub key: bool,
    /// True if the answer must fit a schema.
    pub schema: bool,
    /// True if the conversation is stored.
    pub keep: bool,
    /// True if the sink is slow.
    pub slow: bool,
    /// True if the settings limit an event to a few bytes.
    pub small_events: bool,
    /// Maximum number of tool calls.
    pub budget: Option<u32>,
    /// Maximum number of output tokens.
    pub tokens: Option<u64>,
    /// Number of events after which the turn is cancelled.
    pub cancel_after: Option<usize>,
}

/// A kind of backend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// Any server.
    #[default]
    Responses,
    /// The backend for ChatGPT's plan.
    Codex,
    /// The backend for Grok's plan.
    Grok,
}

impl Kind {
    /// Returns the name of the kind in the registry.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Responses => "responses",
            Self::Codex => "codex-sub-token",
            Self::Grok => "grok-sub-token",
        }
    }
}

/// One answer.
#[derive(Debug, Default)]
pub struct Reply {
    /// Status after `HTTP/1.1 `, if it is not `200 OK`.
    pub status: Option<Vec<u8>>,
    /// Lines of the head, sent unchanged.
    pub headers: Vec<Vec<u8>>,
    /// The content type, if it is not that of events.
    pub content_type: Option<Vec<u8>>,
    /// The body, before it is compressed and framed.
    pub body: Vec<u8>,
    /// Compress the body.
    pub gzip: bool,
    /// Framing of the body.
    pub framing: Framing,
    /// Send no head at all.
    pub raw: bool,
    /// Number of bytes of the whole answer to send. Default: all.
    pub cut: Option<usize>,
    /// Number of bytes to send at once; 0 sends all at once.
    pub piece: usize,
    /// Delay before the answer, in milliseconds of the turn's clock.
    pub wait: u64,
    /// Answer before the request was read.
    pub deaf: bool,
    /// True for the answer to requests for the list of models, and to no other request.
    pub is_list: bool,
    /// Action after the answer.
    pub end: End,
}

/// Marking of the end of a body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Framing {
    /// In chunks of the size of the pieces.
    #[default]
    Chunked,
    /// By its length in the head.
    Length,
    /// By this length in the head, which may be wrong.
    ToldLength(u64),
    /// By the end of the connection.
    Close,
}

/// Action after an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum End {
    /// Wait for the next request.
    #[default]
    Open,
    /// Close the connection.
    Close,
    /// Reset the connection.
    Reset,
    /// Leave the connection open, and never answer again.
    Stall,
}

impl Script {
    /// Reads a script.
    #[must_use]
    pub fn read(input: &[u8]) -> Self {
        let mut script = Self::default();
        let mut reply = Reply::default();
        let mut writer = Writer::default();
        for line in input.split(|byte| *byte == b'\n') {
            if line == b"@next" {
                script.add(std::mem::take(&mut reply));
                writer = Writer::default();
                if script.replies.len() == MAX_REPLIES {
                    return script;
                }
            } else if !script.ask.direct(line) && !reply.direct(line) {
                for _ in 0..std::mem::take(&mut writer.times).max(1) {
                    if reply.body.len() < MAX_BODY_BYTES {
                        writer.write(line, &mut reply.body);
                    }
                }
                reply.body.truncate(MAX_BODY_BYTES);
            }
        }
        script.add(reply);
        script
    }

    fn add(&mut self, reply: Reply) {
        if reply.is_list {
            self.list = Some(reply);
        } else {
            self.replies.push(reply);
        }
    }
}

/// A direction: its word, and the text after it.
fn direction(line: &[u8]) -> Option<(&str, &[u8])> {
    let line = line.strip_prefix(b"@")?;
    let end = line.iter().position(|byte| *byte == b' ').unwrap_or(line.len());
    let word = std::str::from_utf8(&line[..end]).ok()?;
    Some((word, line.get(end + 1..).unwrap_or_default()))
}

fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.trim().parse().ok()
}

/// A number, cut to the bounds of a script.
fn small(text: &[u8], most: usize) -> usize {
    number(text).map_or(0, |number| usize::try_from(number).unwrap_or(most).min(most))
}

fn with_key(text: &[u8]) -> Vec<u8> {
    let mut written = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.windows(KEY_MARK.len()).position(|window| window == KEY_MARK) {
        written.extend_from_slice(&rest[..at]);
        written.extend_from_slice(KEY.as_bytes());
        rest = &rest[at + KEY_MARK.len()..];
    }
    written.extend_from_slice(rest);
    written
}

impl Ask {
    /// Applies a direction, if it is one of these.
    fn direct(&mut self, line: &[u8]) -> bool {
        let Some(("ask", what)) = direction(line) else { return false };
        let (word, rest) = match what.iter().position(|byte| *byte == b' ') {
            Some(end) => (&what[..end], &what[end + 1..]),
            None => (what, &[][..]),
        };
        match word {
            b"codex" => self.kind = Kind::Codex,
            b"grok" => self.kind = Kind::Grok,
            b"key" => self.key = true,
            b"schema" => self.schema = true,
            b"keep" => self.keep = true,
            b"slow" => self.slow = true,
            b"small-events" => self.small_events = true,
            b"budget" => self.budget = number(rest).and_then(|calls| u32::try_from(calls).ok()),
            b"tokens" => self.tokens = number(rest),
            b"cancel" => self.cancel_after = Some(small(rest, usize::MAX)),
            _ => return false,
        }
        true
    }
}

impl Reply {
    /// Applies a direction about the sending of the answer.
    fn direct(&mut self, line: &[u8]) -> bool {
        let Some((word, rest)) = direction(line) else { return false };
        match word {
            "status" => self.status = Some(with_key(rest)),
            "header" if self.headers.len() < 64 => self.headers.push(with_key(rest)),
            "type" => self.content_type = Some(rest.to_vec()),
            "gzip" => self.gzip = true,
            "raw" => self.raw = true,
            "deaf" => self.deaf = true,
            "list" => self.is_list = true,
            "length" => self.framing = number(rest).map_or(Framing::Length, Framing::ToldLength),
            "unframed" => self.framing = Framing::Close,
            "cut" => self.cut = Some(small(rest, MAX_BODY_BYTES)),
            "pieces" => self.piece = small(rest, MAX_BODY_BYTES),
            "wait" => self.wait = number(rest).unwrap_or(0).min(10_000),
            "close" => self.end = End::Close,
            "reset" => self.end = End::Reset,
            "stall" => self.end = End::Stall,
            _ => return false,
        }
        true
    }

    /// Returns the bytes of the whole answer, in the pieces in which they are sent.
    #[must_use]
    pub fn pieces(&self) -> Vec<Vec<u8>> {
        let body = if self.gzip { gzip(&self.body) } else { self.body.clone() };
        let size = if self.piece == 0 { usize::MAX } else { self.piece };
        let mut pieces = Vec::new();
        if !self.raw {
            pieces.push(self.head(body.len()));
        }
        for piece in body.chunks(size.min(body.len().max(1)).max(body.len() / 2_000 + 1)) {
            match self.framing {
                Framing::Chunked if !self.raw => {
                    let mut chunk = format!("{:x}\r\n", piece.len()).into_bytes();
                    chunk.extend_from_slice(piece);
                    chunk.extend_from_slice(b"\r\n");
                    pieces.push(chunk);
                }
                _ => pieces.push(piece.to_vec()),
            }
        }
        if self.framing == Framing::Chunked && !self.raw {
            pieces.push(b"0\r\n\r\n".to_vec());
        }
        let mut left = self.cut.unwrap_or(usize::MAX);
        for piece in &mut pieces {
            piece.truncate(left);
            left -= piece.len();
        }
        pieces.retain(|piece| !piece.is_empty());
        if self.piece == 0 { vec![pieces.concat()] } else { pieces }
    }

    /// Returns the action after the answer.
    #[must_use]
    pub fn end(&self) -> End {
        match self.end {
            End::Open if self.framing == Framing::Close => End::Close,
            end => end,
        }
    }

    fn head(&self, body_bytes: usize) -> Vec<u8> {
        let mut head = b"HTTP/1.1 ".to_vec();
        head.extend_from_slice(self.status.as_deref().unwrap_or(b"200 OK"));
        head.extend_from_slice(b"\r\nContent-Type: ");
        head.extend_from_slice(self.content_type.as_deref().unwrap_or(b"text/event-stream"));
        head.extend_from_slice(b"\r\n");
        match self.framing {
            Framing::Chunked => head.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
            Framing::Length => head.extend_from_slice(format!("Content-Length: {body_bytes}\r\n").as_bytes()),
            Framing::ToldLength(length) => {
                head.extend_from_slice(format!("Content-Length: {length}\r\n").as_bytes());
            }
            Framing::Close => {}
        }
        if self.gzip {
            head.extend_from_slice(b"Content-Encoding: gzip\r\n");
        }
        for header in &self.headers {
            head.extend_from_slice(header);
            head.extend_from_slice(b"\r\n");
        }
        head.extend_from_slice(b"\r\n");
        head
    }
}

fn gzip(body: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    // Writing to memory does not fail.
    let _ = encoder.write_all(body);
    encoder.finish().unwrap_or_default()
}

/// Writes the body of one answer.
#[derive(Debug, Default)]
struct Writer {
    /// Output items so far.
    items: usize,
    /// Id of every further call. Without it, ids are numbered.
    id: Option<String>,
    /// Number of times that the next line is used.
    times: usize,
}

impl Writer {
    fn write(&mut self, line: &[u8], body: &mut Vec<u8>) {
        let Some((word, rest)) = direction(line) else { return raw(line, body) };
        let text = String::from_utf8_lossy(&with_key(rest)).into_owned();
        match word {
            "text" => {
                let delta = json!({ "output_index": self.items, "item_id": format!("msg_{}", self.items), "delta": text });
                event("response.output_text.delta", delta, body);
                let content = json!([{ "type": "output_text", "text": text }]);
                self.done(json!({ "type": "message", "role": "assistant", "content": content }), body);
            }
            "delta" => event(
                "response.output_text.delta",
                json!({ "output_index": self.items, "delta": text }),
                body,
            ),
            "refuse" => {
                let content = json!([{ "type": "refusal", "refusal": text }]);
                self.done(json!({ "type": "message", "role": "assistant", "content": content }), body);
            }
            "think" => {
                let delta = json!({ "output_index": self.items, "summary_index": 0, "delta": text });
                event("response.reasoning_summary_text.delta", delta, body);
                let summary = json!([{ "type": "summary_text", "text": text }]);
                let item = json!({ "type": "reasoning", "summary": summary, "encrypted_content": "eA==" });
                self.done(item, body);
            }
            "call" => {
                let (name, arguments) = text.split_once(' ').unwrap_or((&text, ""));
                let call_id = self.call_id();
                let item = json!({ "type": "function_call", "call_id": call_id, "name": name, "arguments": arguments });
                self.done(item, body);
            }
            "custom" => {
                let (name, input) = text.split_once(' ').unwrap_or((&text, ""));
                let call_id = self.call_id();
                let item =
                    json!({ "type": "custom_tool_call", "call_id": call_id, "name": name, "input": input });
                self.done(item, body);
            }
            "hosted" => {
                let call_id = self.call_id();
                self.done(json!({ "type": text, "id": call_id, "status": "completed" }), body);
            }
            "id" => self.id = Some(text),
            "times" => self.times = small(rest, MAX_TIMES),
            "fill" => body.extend(std::iter::repeat_n(b'x', small(rest, 64) << 10)),
            "done" => {
                let usage = json!({ "input_tokens": 10, "output_tokens": number(rest).unwrap_or(5) });
                let response = json!({ "id": "resp_1", "status": "completed", "output": [], "usage": usage });
                event("response.completed", json!({ "response": response }), body);
            }
            "again" => {
                let response =
                    json!({ "id": "resp_1", "status": "completed", "end_turn": false, "output": [] });
                event("response.completed", json!({ "response": response }), body);
            }
            "incomplete" => {
                let response = json!({ "status": "incomplete", "incomplete_details": { "reason": text } });
                event("response.incomplete", json!({ "response": response }), body);
            }
            "fail" => {
                let (code, message) = text.split_once(' ').unwrap_or((&text, ""));
                let response = json!({ "status": "failed", "error": { "code": code, "message": message } });
                event("response.failed", json!({ "response": response }), body);
            }
            "error" => {
                let (code, message) = text.split_once(' ').unwrap_or((&text, ""));
                let error = json!({ "error": { "code": code, "type": code, "message": message } });
                raw(error.to_string().as_bytes(), body);
            }
            _ => raw(line, body),
        }
    }

    fn call_id(&self) -> String {
        self.id.clone().unwrap_or_else(|| format!("call_{}", self.items))
    }

    fn done(&mut self, mut item: Value, body: &mut Vec<u8>) {
        if item.get("id").is_none() {
            item["id"] = json!(format!("item_{}", self.items));
        }
        event("response.output_item.done", json!({ "output_index": self.items, "item": item }), body);
        self.items += 1;
    }
}

fn event(kind: &str, mut data: Value, body: &mut Vec<u8>) {
    data["type"] = json!(kind);
    body.extend_from_slice(format!("event: {kind}\ndata: {data}\n\n").as_bytes());
}

fn raw(line: &[u8], body: &mut Vec<u8>) {
    body.extend_from_slice(&with_key(line));
    body.push(b'\n');
}
