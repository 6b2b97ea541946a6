//! Responses and their bodies.

use std::convert::Infallible;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, combinators::UnsyncBoxBody};
use hyper::{
    Response, StatusCode,
    header::{CONTENT_TYPE, HeaderValue},
};

/// Body of every response.
pub type ResponseBody = UnsyncBoxBody<Bytes, Infallible>;

/// Returns a response without a body.
pub fn empty(status: StatusCode) -> Response<ResponseBody> {
    let mut response = Response::new(Full::default().boxed_unsync());
    *response.status_mut() = status;
    response
}

/// Returns a response with a body of a media type.
pub fn with_body(
    status: StatusCode,
    media_type: &'static str,
    body: impl Into<Bytes>,
) -> Response<ResponseBody> {
    let mut response = Response::new(Full::new(body.into()).boxed_unsync());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}

/// Returns a response with a plain text.
pub fn text(status: StatusCode, text: &'static str) -> Response<ResponseBody> {
    with_body(status, "text/plain", text)
}
