//! Kind of a server's answer: a stream, a whole response, or an error.

use bytes::Bytes;
use http::{
    Response, StatusCode,
    header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap},
};
use serde::{Deserialize, de::IgnoredAny};

use super::body;
use super::body::Body;
use super::error::TransportError;
use crate::http::IncomingBody;
use crate::responses::outcome::ErrorBody;

/// An answer to a request for a model's reply.
#[derive(Debug)]
pub(crate) enum ServerAnswer {
    /// Server-sent events, by the head or the beginning of the body; or a success without a body.
    Stream {
        /// The headers.
        headers: HeaderMap,
        /// The events.
        body: Body,
    },
    /// A response object in one piece, from a server that does not stream.
    Whole {
        /// The headers.
        headers: HeaderMap,
        /// The object.
        body: Bytes,
    },
    /// Any status but success; or success with content that is not an answer: an error object, a page of HTML.
    Refused {
        /// The status.
        status: StatusCode,
        /// The headers.
        headers: HeaderMap,
        /// The server's error.
        body: ErrorBody,
    },
}

/// Format that the first bytes of a body suggest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BodyFormat {
    Events,
    Json,
    Other,
}

impl ServerAnswer {
    /// Tells by status and content type, and where these leave it open by how the body begins: servers and proxies
    /// label both errors and streams wrongly. What is whole may have `max_answer_bytes`.
    pub(super) async fn of(
        response: Response<IncomingBody>,
        max_answer_bytes: usize,
    ) -> Result<Self, TransportError> {
        let (status, headers, mut body) = body::split(response);
        if !status.is_success() {
            return Ok(Self::refused(status, headers, &body::beginning(body).await));
        }
        // A decoded body has no such header any more.
        if headers
            .get(CONTENT_ENCODING)
            .is_some_and(|encoding| !encoding.as_bytes().eq_ignore_ascii_case(b"identity"))
        {
            return Err(TransportError::unknown_encoding());
        }
        if has_type(&headers, "text/event-stream") {
            return Ok(Self::Stream { headers, body });
        }
        match body.sniff(begins_like).await? {
            None | Some(BodyFormat::Events) => Ok(Self::Stream { headers, body }),
            Some(BodyFormat::Other) => Ok(Self::refused(status, headers, &body::beginning(body).await)),
            Some(BodyFormat::Json) => {
                let body = body::whole(body, max_answer_bytes).await?;
                match is_response(&body) {
                    true => Ok(Self::Whole { headers, body }),
                    false => Ok(Self::refused(status, headers, &body)),
                }
            }
        }
    }

    fn refused(status: StatusCode, headers: HeaderMap, body: &[u8]) -> Self {
        Self::Refused { status, headers, body: ErrorBody::read(body) }
    }
}

/// Returns true if the content type is `wanted`, with any parameters.
fn has_type(headers: &HeaderMap, wanted: &str) -> bool {
    headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split(';').next())
        .is_some_and(|value| value.trim().eq_ignore_ascii_case(wanted))
}

/// Names of the fields of an event. Source: the HTML standard, "Server-sent events".
const FIELDS: [&[u8]; 4] = [b"data", b"event", b"id", b"retry"];

/// U+FEFF in UTF-8, which may stand before events and before JSON.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Format of the body, as soon as its beginning shows it; `None` if more is needed, or the body is empty.
fn begins_like(beginning: &[u8], is_all: bool) -> Option<BodyFormat> {
    let text = beginning.strip_prefix(BYTE_ORDER_MARK).unwrap_or(beginning).trim_ascii_start();
    match text.first()? {
        b'{' | b'[' | b'"' => return Some(BodyFormat::Json),
        b':' => return Some(BodyFormat::Events),
        _ => {}
    }
    let name_end = text.iter().position(|byte| matches!(byte, b':' | b'\n' | b'\r'));
    match name_end {
        Some(end) if FIELDS.iter().any(|field| text.get(..end) == Some(field)) => Some(BodyFormat::Events),
        None if !is_all && FIELDS.iter().chain([&BYTE_ORDER_MARK]).any(|field| field.starts_with(text)) => {
            None
        }
        _ => Some(BodyFormat::Other),
    }
}

/// Returns true if a whole JSON body is a response object rather than an error.
fn is_response(body: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct BodyStart<'a> {
        #[serde(borrow)]
        object: Option<std::borrow::Cow<'a, str>>,
        output: Option<IgnoredAny>,
    }

    serde_json::from_slice::<BodyStart<'_>>(body)
        .is_ok_and(|head| head.output.is_some() || head.object.as_deref() == Some("response"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beginning_is_decided_as_early_as_it_can_be_and_never_otherwise() {
        for (text, wanted) in [
            ("data: {}\n\n", BodyFormat::Events),
            ("event: response.created\n", BodyFormat::Events),
            (": ping\n\n", BodyFormat::Events),
            ("\n\nretry:10\n", BodyFormat::Events),
            ("data\n", BodyFormat::Events),
            ("\u{feff}data: 1\n", BodyFormat::Events),
            (" {\"error\":1}", BodyFormat::Json),
            ("\"no\"", BodyFormat::Json),
            ("<html>", BodyFormat::Other),
            ("database error", BodyFormat::Other),
            ("dat", BodyFormat::Other),
        ] {
            assert_eq!(begins_like(text.as_bytes(), true), Some(wanted), "{text:?}");
            for end in 0..text.len() {
                let early = begins_like(&text.as_bytes()[..end], false);
                assert!(early.is_none_or(|early| early == wanted), "{text:?} cut at {end}: {early:?}");
            }
        }
        assert_eq!(begins_like(b" \r\n ", true), None);
    }

    #[test]
    fn an_error_is_no_response() {
        assert!(is_response(br#"{"id":"r","object":"response","error":null}"#));
        assert!(is_response(br#"{"status":"failed","error":{"code":"x"},"output":[]}"#));
        for error in
            [r#"{"error":{"message":"no"}}"#, r#"{"detail":"no"}"#, r#"["no"]"#, r#"{"object":"response"#]
        {
            assert!(!is_response(error.as_bytes()), "{error}");
        }
    }
}
