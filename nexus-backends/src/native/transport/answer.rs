//! Kind of a server's response: a stream, a complete response, or an error.

use bytes::Bytes;
use http::{
    Response, StatusCode,
    header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap},
};

use super::body;
use super::body::Body;
use super::error::TransportError;
use crate::http::IncomingBody;
use crate::native::call_route::StreamFraming;
use crate::native::outcome::ErrorBody;
use crate::native::wires::shape::WireShape;

/// Response to a request for a model's reply.
#[derive(Debug)]
pub(crate) enum ServerAnswer {
    /// Events, recognised by the headers or the beginning of the body. Also a success without a body.
    Stream {
        /// The headers.
        headers: HeaderMap,
        /// The framing of the events.
        framing: StreamFraming,
        /// The events.
        body: Body,
    },
    /// Complete response object, from a server that does not stream.
    Whole {
        /// The headers.
        headers: HeaderMap,
        /// Raw JSON of the object.
        body: Bytes,
    },
    /// A status other than success, or a success with other content: an error object or an HTML page.
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
    Frames,
    Json,
    Other,
}

impl ServerAnswer {
    /// Determines the kind by status and content type, and otherwise by the beginning of the body, because servers and
    /// proxies label both errors and streams wrongly. A complete response may have up to `max_answer_bytes`.
    pub(super) async fn of(
        response: Response<IncomingBody>,
        shape: &WireShape,
        max_answer_bytes: usize,
    ) -> Result<Self, TransportError> {
        let (status, headers, mut body) = body::split(response);
        if !status.is_success() {
            return Ok(Self::refused(status, headers, &body::beginning(body).await));
        }
        // The decoder removes this header, so a remaining one names an unknown encoding.
        if headers
            .get(CONTENT_ENCODING)
            .is_some_and(|encoding| !encoding.as_bytes().eq_ignore_ascii_case(b"identity"))
        {
            return Err(TransportError::unknown_encoding());
        }
        for framing in [StreamFraming::Sse, StreamFraming::AwsEventStream] {
            if has_type(&headers, framing.media_type()) {
                return Ok(Self::Stream { headers, framing, body });
            }
        }
        match body.sniff(begins_like).await? {
            None | Some(BodyFormat::Events) => {
                Ok(Self::Stream { headers, framing: StreamFraming::Sse, body })
            }
            Some(BodyFormat::Frames) => {
                Ok(Self::Stream { headers, framing: StreamFraming::AwsEventStream, body })
            }
            Some(BodyFormat::Other) => Ok(Self::refused(status, headers, &body::beginning(body).await)),
            Some(BodyFormat::Json) => {
                let body = body::whole(body, max_answer_bytes).await?;
                match shape.is_reply(&body) {
                    true => Ok(Self::Whole { headers, body }),
                    false => Ok(Self::refused(status, headers, &body)),
                }
            }
        }
    }

    fn refused(status: StatusCode, headers: HeaderMap, body: &[u8]) -> Self {
        let mut body = ErrorBody::read(body);
        body.add_header(&headers);
        Self::Refused { status, headers, body }
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

/// U+FEFF in UTF-8, which may precede events and JSON.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Returns the format of the body as soon as its beginning shows it. `None` if more bytes are needed, or the body is
/// empty.
fn begins_like(beginning: &[u8], is_all: bool) -> Option<BodyFormat> {
    let text = beginning.strip_prefix(BYTE_ORDER_MARK).unwrap_or(beginning).trim_ascii_start();
    match text.first()? {
        b'{' | b'[' | b'"' => return Some(BodyFormat::Json),
        b':' => return Some(BodyFormat::Events),
        // The length of a binary message of less than 16 MiB begins so, and no text does.
        0 => return Some(BodyFormat::Frames),
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
            ("\0\0\0\u{10}", BodyFormat::Frames),
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
}
