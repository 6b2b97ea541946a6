//! Parses one message of the client, by the rules of JSON-RPC 2.0.

use agent_client_protocol_schema::v1::Error;
use nexus_core::lenient_json::{self, CheckedMessage};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A parsed message.
#[derive(Debug, PartialEq)]
pub(crate) enum Incoming {
    /// A request, with an id for its answer. The id is a text, a whole number or `null`.
    Request { id: Value, method: String, params: Value },
    /// A notification, which has no answer.
    Notification { method: String, params: Value },
    /// The answer to a request of Nexus.
    Response { id: Value, outcome: Result<Value, Error> },
}

/// A malformed line: the id for the answer, which is `null` if it is unknown, and the reason.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) id: Value,
    pub(crate) error: Error,
}

impl Incoming {
    /// Parses a line.
    pub(crate) fn read(line: &[u8]) -> Result<Self, Box<Refused>> {
        let CheckedMessage { value, flaw } = lenient_json::read_message(line).map_err(|error| {
            // Do not quote the line: it may be long, and its content is private.
            let reason = format!("the line is not valid JSON: {error}");
            let id = lenient_json::request_id(line).unwrap_or_default();
            Box::new(Refused { id, error: with_reason(Error::parse_error(), reason) })
        })?;
        let Value::Object(mut object) = value else {
            return Err(invalid(Value::Null, "a message is a JSON object; batches are not supported"));
        };
        let id = match object.remove("id") {
            None => None,
            Some(id) if id.is_string() || id.is_i64() || id.is_u64() || id.is_null() => Some(id),
            // JSON-RPC requires a null id in an answer to an unreadable id.
            Some(_) => return Err(invalid(Value::Null, "an id is a text or a whole number")),
        };
        let answer_to = id.clone().unwrap_or(Value::Null);
        if object.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
            return Err(invalid(answer_to, "the value of `jsonrpc` must be \"2.0\""));
        }
        let params = object.remove("params").unwrap_or(Value::Null);
        match (object.remove("method"), id) {
            (Some(Value::String(method)), Some(id)) => Ok(Self::Request { id, method, params }),
            (Some(Value::String(method)), None) => Ok(Self::Notification { method, params }),
            (Some(_), _) => Err(invalid(answer_to, "`method` must be a text")),
            (None, Some(id)) => match (object.remove("result"), object.remove("error")) {
                // Reject an unreliable answer: the client's answers are permissions.
                (Some(_), None) if flaw.is_some() => {
                    let flaw = flaw.unwrap_or_default();
                    let reason = format!("the JSON of the answer is unreliable: {flaw}");
                    Ok(Self::Response { id, outcome: Err(with_reason(Error::invalid_params(), reason)) })
                }
                (Some(result), None) => Ok(Self::Response { id, outcome: Ok(result) }),
                (None, Some(error)) => {
                    // An error of an unknown form is still an error: the client did not do what the request wants.
                    let error = serde_json::from_value(error).unwrap_or_else(|_| Error::internal_error());
                    Ok(Self::Response { id, outcome: Err(error) })
                }
                _ => Err(invalid(id, "neither a request nor an answer")),
            },
            (None, None) => Err(invalid(answer_to, "neither a request nor an answer")),
        }
    }
}

/// Parses the parameters of a method.
pub(crate) fn params<T: DeserializeOwned>(value: Value) -> Result<T, Error> {
    // If all parameters of a method are optional, `params` may be missing.
    let value = if value.is_null() { Value::Object(serde_json::Map::new()) } else { value };
    serde_json::from_value(value)
        .map_err(|error| with_reason(Error::invalid_params(), format!("the parameters do not fit: {error}")))
}

/// Adds a reason to an error, in place of its usual message.
pub(crate) fn with_reason(mut error: Error, reason: impl Into<String>) -> Error {
    error.message = reason.into();
    error
}

fn invalid(id: Value, reason: &str) -> Box<Refused> {
    Box::new(Refused { id, error: with_reason(Error::invalid_request(), reason) })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn messages_are_told_apart() {
        for id in [json!(0), json!(-1), json!("a"), json!(u64::MAX), json!(null)] {
            let line = json!({ "jsonrpc": "2.0", "id": id, "method": "x" }).to_string();
            assert!(
                matches!(Incoming::read(line.as_bytes()), Ok(Incoming::Request { id: read, .. }) if read == id)
            );
        }
        let note = br#"{"jsonrpc":"2.0","method":"x","params":[1]}"#;
        assert!(matches!(Incoming::read(note), Ok(Incoming::Notification { .. })));
        let answer = br#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"no"}}"#;
        assert!(matches!(Incoming::read(answer), Ok(Incoming::Response { outcome: Err(_), .. })));
    }

    #[test]
    fn what_is_no_message_has_an_answer() {
        let cases: [(&[u8], i32, Value); 10] = [
            (b"{", -32700, Value::Null),
            (b"\xff", -32700, Value::Null),
            (b"[]", -32600, Value::Null),
            (b"7", -32600, Value::Null),
            (br#"{"jsonrpc":"2.0"}"#, -32600, Value::Null),
            (br#"{"jsonrpc":"2.0","id":1.5,"method":"x"}"#, -32600, Value::Null),
            (br#"{"jsonrpc":"2.0","id":{},"method":"x"}"#, -32600, Value::Null),
            (br#"{"jsonrpc":"1.0","id":4,"method":"x"}"#, -32600, json!(4)),
            (br#"{"jsonrpc":"2.0","id":4,"method":7}"#, -32600, json!(4)),
            (br#"{"jsonrpc":"2.0","id":4,"result":1,"error":{}}"#, -32600, json!(4)),
        ];
        for (line, code, id) in cases {
            let refused = Incoming::read(line).unwrap_err();
            assert_eq!((i32::from(refused.error.code), refused.id), (code, id), "{line:?}");
        }
        let deep = "[".repeat(100_000);
        assert!(Incoming::read(deep.as_bytes()).is_err());
    }

    #[test]
    fn a_request_that_is_not_quite_json_is_read_and_what_breaks_off_is_answered_under_its_id() {
        for text in [r"cut \ud83d", "a"] {
            let line = format!(
                "\u{feff}{{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"session/prompt\",\"params\":{{\"text\":\"{text}\",\"_meta\":NaN}}}}"
            );
            let read = Incoming::read(line.as_bytes());
            assert!(matches!(&read, Ok(Incoming::Request { id, .. }) if *id == json!(4)), "{read:?}");
        }
        let refused = Incoming::read(br#"{"jsonrpc":"2.0","id":4,"method":"session/prompt","params":{"te"#)
            .unwrap_err();
        assert_eq!((i32::from(refused.error.code), refused.id), (-32700, json!(4)));
    }

    #[test]
    fn a_permission_that_rests_on_a_repaired_answer_is_none() {
        for answer in [
            r#"{"outcome":"\ud83d"}"#,
            r#"{"outcome":NaN}"#,
            r#"{"outcome":"cancelled","outcome":"selected"}"#,
        ] {
            let line = format!(r#"{{"jsonrpc":"2.0","id":4,"result":{answer}}}"#);
            let read = Incoming::read(line.as_bytes());
            assert!(matches!(&read, Ok(Incoming::Response { outcome: Err(_), .. })), "{answer}: {read:?}");
        }
    }
}
