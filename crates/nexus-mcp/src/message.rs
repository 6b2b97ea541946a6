//! Parses JSON-RPC messages of clients, without side effects.
//!
//! The types require less than the specification, so that a client that leaves something out still gets an answer. Source:
//! the MCP specification, revisions 2025-06-18, 2025-11-25 and 2026-07-28.

use nexus_core::lenient_json::{self, CheckedMessage};
use rmcp::model::{ErrorData, RequestId};
use serde_json::Value;

/// A message from a client.
#[derive(Debug)]
pub(crate) enum Incoming {
    /// A request, which needs an answer.
    Request {
        /// Id that pairs the answer with the request.
        id: RequestId,
        /// Requested method.
        method: String,
        /// Parameters of the request.
        params: Value,
        /// Reason why no call may rest on the message: it was repaired, or an object has a duplicate key.
        flaw: Option<String>,
    },
    /// A notification, which needs no answer.
    Notification {
        /// Name of the event.
        method: String,
        /// Parameters of the notification.
        params: Value,
    },
    /// The client's answer to a request of the server: a result, or `None` for an error.
    Answer {
        /// Id of the server's request.
        id: RequestId,
        /// Result of the request.
        result: Option<Value>,
    },
}

/// Reason why a message cannot be read, with its id if that is known.
#[derive(Debug)]
pub(crate) struct NotUnderstood {
    pub(crate) id: Option<RequestId>,
    pub(crate) error: ErrorData,
}

impl Incoming {
    /// Reads one message.
    #[allow(
        clippy::result_large_err,
        reason = "how large it is depends on the features of `serde_json` that others ask for"
    )]
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, NotUnderstood> {
        let CheckedMessage { value, flaw } =
            lenient_json::read_message(bytes).map_err(|error| NotUnderstood {
                // Search for the id even in broken JSON: a client cannot assign an error without one.
                id: lenient_json::request_id(bytes).and_then(|id| serde_json::from_value(id).ok()),
                error: ErrorData::parse_error(format!("the message is not JSON: {error}"), None),
            })?;
        let invalid = |id: Option<RequestId>, problem: &'static str| NotUnderstood {
            id,
            error: ErrorData::invalid_request(problem, None),
        };
        let Value::Object(mut message) = value else {
            return Err(invalid(None, "the message is not one JSON-RPC object; batches are not supported"));
        };
        let id = message.remove("id");
        // An unreadable id must not turn a request into a notification, which would get no answer.
        let has_id = id.is_some();
        let id = id.and_then(|id| serde_json::from_value::<RequestId>(id).ok());
        if message.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
            return Err(invalid(id, "the message is not JSON-RPC: `jsonrpc` must be \"2.0\""));
        }
        let params = message.remove("params").unwrap_or_default();
        match (message.remove("method"), id) {
            (Some(Value::String(method)), Some(id)) => Ok(Self::Request { id, method, params, flaw }),
            (Some(Value::String(method)), None) if !has_id => Ok(Self::Notification { method, params }),
            (None, Some(id)) if message.contains_key("result") || message.contains_key("error") => {
                Ok(Self::Answer { id, result: message.remove("result") })
            }
            (Some(Value::String(_)), None) => {
                Err(invalid(None, "the `id` of a request must be a string or a whole number"))
            }
            (_, id) => Err(invalid(id, "the message is neither a request, a notification nor an answer")),
        }
    }
}

/// Returns the error for a call in a flawed message.
pub(crate) fn flawed(id: RequestId, flaw: &str) -> NotUnderstood {
    let problem = format!("the call was not run, because the JSON of its message is unreliable: {flaw}");
    NotUnderstood { id: Some(id), error: ErrorData::invalid_params(problem, None) }
}

/// Returns the error for a too long line or body, with the id of its request if that is known.
pub(crate) fn too_long(most_bytes: usize, id: Option<Value>) -> NotUnderstood {
    let problem = format!("the message is longer than {most_bytes} bytes, and was not read");
    let id = id.and_then(|id| serde_json::from_value(id).ok());
    NotUnderstood { id, error: ErrorData::invalid_request(problem, None) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_message_says_why() {
        let cases: [(&str, &str); 9] = [
            ("", "not JSON"),
            ("{\"jsonrpc\":\"2.0\",\"id\":1,\"meth", "not JSON"),
            ("[]", "batches"),
            ("7", "one JSON-RPC object"),
            ("{}", "`jsonrpc`"),
            ("{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"ping\"}", "`jsonrpc`"),
            ("{\"jsonrpc\":\"2.0\",\"id\":1}", "neither"),
            ("{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"ping\"}", "`id`"),
            ("{\"jsonrpc\":\"2.0\",\"method\":7}", "neither"),
        ];
        for (bytes, expected) in cases {
            let refused = Incoming::read(bytes.as_bytes()).unwrap_err();
            assert!(refused.error.message.contains(expected), "{bytes}: {}", refused.error.message);
        }
        assert!(Incoming::read(b"\xff\xfe").is_err());
        assert!(Incoming::read("[".repeat(100_000).as_bytes()).is_err());
    }

    #[test]
    fn a_request_without_parameters_and_a_message_with_strange_fields_are_read() {
        let bytes = br#"{"jsonrpc":"2.0","id":"a","method":"ping","strange":[1]}"#;
        assert!(matches!(Incoming::read(bytes), Ok(Incoming::Request { method, .. }) if method == "ping"));
    }

    #[test]
    fn a_request_that_is_not_quite_json_is_read_and_its_flaw_reported() {
        let request = |method: &str, value: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","id":"a","method":"{method}","params":{{"name":"t","arguments":{{"x":{value}}}}}}}"#
            )
        };
        for value in [r#""cut \ud83d""#, "NaN", "-Infinity"] {
            let read = Incoming::read(request("ping", value).as_bytes());
            assert!(
                matches!(&read, Ok(Incoming::Request { method, .. }) if method == "ping"),
                "{value}: {read:?}"
            );
        }
        for value in [r#""cut \ud83d""#, "NaN", r#"1,"x":2"#] {
            let read = Incoming::read(request("tools/call", value).as_bytes());
            assert!(matches!(&read, Ok(Incoming::Request { flaw: Some(_), .. })), "{value}: {read:?}");
        }
        let marked = format!("\u{feff}{}", request("tools/call", "1"));
        assert!(matches!(Incoming::read(marked.as_bytes()), Ok(Incoming::Request { flaw: None, .. })));
    }

    #[test]
    fn a_request_that_breaks_off_is_answered_under_its_id() {
        let refused =
            Incoming::read(br#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"na"#).unwrap_err();
        assert_eq!(refused.id, Some(RequestId::Number(7)));
    }
}
