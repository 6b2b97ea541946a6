//! Single headers of a request.

use hyper::{
    HeaderMap,
    header::{ACCEPT, AUTHORIZATION, AsHeaderName, CONTENT_LENGTH, CONTENT_TYPE},
};

/// Returns the value of a header that occurs once, as text.
pub fn only(headers: &HeaderMap, name: impl AsHeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok(),
        // A header that occurs twice is ambiguous, so it counts as missing.
        _ => None,
    }
}

/// Returns the bearer token of a request.
pub fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = only(headers, AUTHORIZATION)?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token)
}

/// Returns the length of the body that a request declares.
pub fn stated_length(headers: &HeaderMap) -> Option<u64> {
    only(headers, CONTENT_LENGTH)?.parse().ok()
}

/// Returns true if a request declares this media type for its body.
pub fn is_of_type(headers: &HeaderMap, media_type: &str) -> bool {
    only(headers, CONTENT_TYPE).is_some_and(|stated| bare(stated).eq_ignore_ascii_case(media_type))
}

/// Returns true if the client accepts a media type.
pub fn accepts(headers: &HeaderMap, media_type: &str) -> bool {
    let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut accepted = values.flat_map(|value| value.split(',')).map(bare);
    accepted.any(|accepted| {
        accepted.eq_ignore_ascii_case(media_type)
            || accepted == "*/*"
            || accepted.strip_suffix("/*").is_some_and(|group| media_type.starts_with(&format!("{group}/")))
    })
}

/// Returns a media type without its parameters.
fn bare(media_type: &str) -> &str {
    media_type.split(';').next().unwrap_or_default().trim()
}
