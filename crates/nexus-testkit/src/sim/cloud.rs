//! The Messages API at the clouds: Amazon Bedrock and Vertex AI. The address names the model, and Bedrock frames its stream in
//! binary messages.
//!
//! Source: the API references of both, and the Smithy specification, "Amazon Event Stream".

use std::collections::VecDeque;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use serde_json::{Value, json};

use super::wire::{Answer, Step};

/// Cloud whose form of the API a request has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cloud {
    Bedrock,
    Vertex,
}

/// Parts of a call's address.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CloudCall {
    pub(super) cloud: Cloud,
    pub(super) model: String,
    pub(super) stream: bool,
}

impl CloudCall {
    /// Reads the path of a call; `None` for any other path.
    pub(super) fn of(path: &str) -> Option<Self> {
        let (cloud, model, stream) = match path.strip_prefix("/model/") {
            Some(rest) => match rest.split_once('/')? {
                (model, "invoke") => (Cloud::Bedrock, model, false),
                (model, "invoke-with-response-stream") => (Cloud::Bedrock, model, true),
                _ => return None,
            },
            None => match path.rsplit_once("/publishers/anthropic/models/")?.1.split_once(':')? {
                (model, "rawPredict") => (Cloud::Vertex, model, false),
                (model, "streamRawPredict") => (Cloud::Vertex, model, true),
                _ => return None,
            },
        };
        // Bedrock's model ids contain colons, which clients escape in the path.
        Some(Self { cloud, model: decoded(model), stream })
    }

    /// Returns the refusal of a body that the cloud is known to refuse.
    pub(super) fn fault(&self, body: &Value) -> Option<String> {
        let has = |name: &str| body.get(name).is_some();
        // Both clouds take these two from the address, so a field of this name is extra in the body.
        let extra = ["model", "stream"].into_iter().find(|name| has(name));
        let version = match self.cloud {
            Cloud::Bedrock => "bedrock-2023-05-31",
            Cloud::Vertex => "vertex-2023-10-16",
        };
        match (self.cloud, extra) {
            (Cloud::Bedrock, Some(name)) => {
                Some(format!("Malformed input request: #: extraneous key [{name}] is not permitted"))
            }
            (Cloud::Vertex, Some("model")) => Some("model: Extra inputs are not permitted".to_owned()),
            _ if body.get("anthropic_version").and_then(Value::as_str) != Some(version) => {
                Some("anthropic_version: Field required".to_owned())
            }
            _ => None,
        }
    }
}

/// Decodes the escapes of a segment.
fn decoded(segment: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = segment.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let escaped =
            after.get(..2).filter(|_| byte == b'%').and_then(|digits| std::str::from_utf8(digits).ok());
        match escaped.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(value) => {
                bytes.push(value);
                rest = &after[2..];
            }
            None => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Writes the server-sent events of an answer as binary messages.
pub(super) fn framed(mut answer: Answer) -> Answer {
    for (name, value) in &mut answer.headers {
        if name == "content-type" {
            value.clear();
            value.push_str("application/vnd.amazon.eventstream");
        }
    }
    let mut steps = VecDeque::new();
    let mut text = Vec::new();
    for step in std::mem::take(&mut answer.steps) {
        match step {
            Step::Send(bytes) => {
                // A step may end in the middle of an event, so collect the bytes until the event is complete.
                text.extend_from_slice(&bytes);
                while let Some(end) = text.windows(2).position(|pair| pair == b"\n\n") {
                    let event: Vec<u8> = text.drain(..end + 2).collect();
                    steps.push_back(Step::Send(frame_of(&event)));
                }
            }
            other => {
                // Frame the incomplete event, and cut the frame off, so that the client gets an incomplete message.
                if !text.is_empty() {
                    let whole = frame_of(&std::mem::take(&mut text));
                    steps.push_back(Step::Send(whole.slice(..whole.len() - 6)));
                }
                steps.push_back(match other {
                    Step::Stall(ping) => Step::Stall(ping.map(|ping| frame_of(&ping))),
                    Step::Repeat { bytes, left } if bytes.ends_with(b"\n\n") => {
                        Step::Repeat { bytes: frame_of(&bytes), left }
                    }
                    // The repeated bytes are not a whole event, so they get no frame.
                    Step::Repeat { bytes, left } => Step::Repeat { bytes, left },
                    other => other,
                });
            }
        }
    }
    answer.steps = steps;
    answer
}

/// Returns the message of one server-sent event.
fn frame_of(event: &[u8]) -> Bytes {
    let text = String::from_utf8_lossy(event);
    // The name of the event is lost in a frame: Bedrock sends only the data, which repeats the type.
    let mut data = text.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim_start);
    let data = data.next().unwrap_or_default();
    let value: Value = serde_json::from_str(data).unwrap_or_default();
    let content = (":content-type", "application/json");
    // Bedrock reports an error in the stream by the headers of a frame, not as an event of the API.
    if value["type"] == "error" {
        let kind = match value["error"]["type"].as_str() {
            Some("rate_limit_error") => "throttlingException",
            Some("overloaded_error") => "serviceUnavailableException",
            Some("invalid_request_error") => "validationException",
            Some(known) if known.ends_with("Exception") => known,
            _ => "modelStreamErrorException",
        };
        let payload = json!({ "message": value["error"]["message"] }).to_string();
        return frame(
            &[(":exception-type", kind), content, (":message-type", "exception")],
            payload.as_bytes(),
        );
    }
    let payload = json!({ "bytes": STANDARD.encode(data), "p": "abcdefgh" }).to_string();
    frame(&[(":event-type", "chunk"), content, (":message-type", "event")], payload.as_bytes())
}

/// Returns one binary message. The texts of its headers are short.
fn frame(headers: &[(&str, &str)], payload: &[u8]) -> Bytes {
    let mut head = Vec::new();
    for (name, value) in headers {
        head.push(name.len() as u8);
        head.extend_from_slice(name.as_bytes());
        // Type 7 is a string, whose length has two bytes.
        head.push(7);
        head.extend_from_slice(&(value.len() as u16).to_be_bytes());
        head.extend_from_slice(value.as_bytes());
    }
    // The 16 bytes are two lengths and two checksums. Both lengths are big-endian.
    let total = (head.len() + payload.len() + 16) as u32;
    let mut frame = total.to_be_bytes().to_vec();
    frame.extend_from_slice(&(head.len() as u32).to_be_bytes());
    // The first checksum covers the lengths alone, so that a client can check them before it reads on.
    frame.extend_from_slice(&crc32fast::hash(&frame).to_be_bytes());
    frame.extend_from_slice(&head);
    frame.extend_from_slice(payload);
    frame.extend_from_slice(&crc32fast::hash(&frame).to_be_bytes());
    frame.into()
}

/// Returns an error in the form of Bedrock: its code is in a header.
pub(super) fn refused(mut answer: Answer) -> Answer {
    let kind = match answer.status {
        400 => "ValidationException",
        401 | 403 => "UnrecognizedClientException",
        404 => "ResourceNotFoundException",
        408 => "ModelTimeoutException",
        424 => "ModelErrorException",
        429 => "ThrottlingException",
        503 | 529 => "ServiceUnavailableException",
        _ => "InternalServerException",
    };
    answer.status = match answer.status {
        // Bedrock rejects credentials with 403, and has no 529.
        401 => 403,
        529 => 503,
        status => status,
    };
    let body = answer.steps.iter().find_map(|step| match step {
        Step::Send(body) => serde_json::from_slice::<Value>(body).ok(),
        _ => None,
    });
    if let Some(message) = body.and_then(|body| body.pointer("/error/message").cloned()) {
        let body = Bytes::from(json!({ "message": message }).to_string());
        // The new body has another length.
        answer.headers.retain(|(name, _)| name != "content-length");
        answer = answer.header("content-length", body.len());
        answer.steps = [Step::Send(body)].into();
    }
    answer.header("x-amzn-errortype", format!("{kind}:http://internal.amazon.com/coral/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_a_call_names_its_model() {
        let call = |path| CloudCall::of(path).map(|call| (call.cloud, call.model, call.stream));
        assert_eq!(
            call("/model/us.anthropic.claude-x-v1%3A0/invoke-with-response-stream"),
            Some((Cloud::Bedrock, "us.anthropic.claude-x-v1:0".to_owned(), true))
        );
        assert_eq!(
            call("/v1/projects/p/locations/r/publishers/anthropic/models/claude-x@1:rawPredict"),
            Some((Cloud::Vertex, "claude-x@1".to_owned(), false))
        );
        for path in ["/model/x", "/model/x/converse", "/v1/messages", "/publishers/anthropic/models/x"] {
            assert_eq!(call(path), None, "{path}");
        }
        assert_eq!(decoded("%4a%zz%"), "J%zz%");
    }

    #[test]
    fn an_event_is_a_message_with_its_data_in_it() {
        let frame = frame_of(b"event: ping\ndata: {\"type\":\"ping\"}\n\n");
        let length = u32::from_be_bytes(frame[..4].try_into().unwrap()) as usize;
        assert_eq!(length, frame.len());
        let text = String::from_utf8_lossy(&frame);
        assert!(text.contains(&STANDARD.encode("{\"type\":\"ping\"}")) && text.contains(":event-type"));
        let error = frame_of(
            b"data: {\"type\":\"error\",\"error\":{\"type\":\"rate_limit_error\",\"message\":\"m\"}}\n\n",
        );
        assert!(String::from_utf8_lossy(&error).contains("throttlingException"));
    }
}
