//! Head of an HTTP/1 request. Source: RFC 9112, sections 2 to 5 and 3.2; RFC 9110, section 7.2.

use super::target::RelayTarget;

/// Maximum size of a head, in bytes.
pub(super) const MAX_HEAD_BYTES: usize = 16 << 10;
/// Maximum size of the line before a connection is known to use HTTP, in bytes.
const MAX_LINE_BYTES: usize = 8 << 10;
/// Methods that servers of HTTP know. A line that begins with one is a request even without a version, because some servers accept
/// that. Source: RFC 9110, section 9; RFC 5789.
const METHODS: [&[u8]; 9] =
    [b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"CONNECT", b"OPTIONS", b"TRACE", b"PATCH"];
/// Beginnings of other versions that the parser of Node.js accepts. Source: llhttp 9, versions of a request.
const OTHER_VERSIONS: [&[u8]; 2] = [b"RTSP/", b"ICE/"];
/// Port of `http:` URLs.
const HTTP_PORT: u16 = 80;
/// Headers that belong to one connection. The relay closes the connection after one request, since the next one on it could
/// name another server.
const CONNECTION_HEADERS: [&str; 5] =
    ["connection", "keep-alive", "proxy-connection", "proxy-authorization", "upgrade"];

/// Result of reading the beginning of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum HttpHead {
    /// The head, or the protocol, is not complete.
    Incomplete,
    /// The head of a request.
    Complete(HttpRequestHead),
    /// The protocol is HTTP, but the head is not valid, is ambiguous, or is too long.
    Malformed,
    /// The protocol is another one.
    NotHttp,
}

/// Head of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HttpRequestHead {
    pub(super) method: String,
    /// Target in the request line.
    pub(super) target: String,
    /// The `Host` header.
    pub(super) host: Option<String>,
    version: String,
    /// All headers that do not belong to the connection.
    headers: Vec<String>,
    /// Number of bytes that the head had.
    pub(super) bytes: usize,
}

impl HttpRequestHead {
    /// Returns the server that the request names, if the target and the header agree.
    pub(super) fn server(&self) -> Option<RelayTarget> {
        let header = RelayTarget::of_authority(self.host.as_deref()?, Some(HTTP_PORT))?;
        match self.absolute() {
            Some((authority, _)) => {
                RelayTarget::of_authority(authority, Some(HTTP_PORT)).filter(|named| *named == header)
            }
            None => (self.target.starts_with('/') || self.target == "*").then_some(header),
        }
    }

    /// Returns the authority and the path of a target that is an `http:` URL.
    pub(super) fn absolute(&self) -> Option<(&str, &str)> {
        let (scheme, rest) = self.target.split_at_checked(7)?;
        if !scheme.eq_ignore_ascii_case("http://") {
            return None;
        }
        Some(rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len())))
    }

    /// Returns the head for the server: with the path alone in the first line, and for one request on the connection.
    pub(super) fn for_server(&self) -> Vec<u8> {
        let target = match self.absolute() {
            Some((_, path)) if path.starts_with('/') => path.to_owned(),
            Some((_, path)) => format!("/{path}"),
            None => self.target.clone(),
        };
        let mut text = format!("{} {target} {}\r\n", self.method, self.version);
        for header in &self.headers {
            text.push_str(header);
            text.push_str("\r\n");
        }
        text.push_str("Connection: close\r\n\r\n");
        text.into_bytes()
    }
}

/// Reads the beginning of a connection.
pub(super) fn read(bytes: &[u8]) -> HttpHead {
    // Servers skip empty lines before a request.
    let blank = bytes.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
    let content = &bytes[blank..];
    let line_end = content.iter().position(|byte| *byte == b'\n');
    let line = &content[..line_end.unwrap_or(content.len())];
    let word = words(line).next().unwrap_or_default();
    // A server may accept a request line with other bytes in its target, so these do not decide.
    if !word.iter().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte)) {
        return HttpHead::NotHttp;
    }
    let is_http = is_request_line(line);
    if line_end.is_none() {
        // Some binary protocols have no line break. No method has a digit, and a line of text has no control character.
        let is_method = word.iter().all(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'-' | b'_'));
        let is_binary = line.iter().any(|byte| byte.is_ascii_control() && !is_space(*byte));
        return match bytes.len() < MAX_LINE_BYTES {
            _ if !is_http && !is_method && is_binary => HttpHead::NotHttp,
            true => HttpHead::Incomplete,
            false => HttpHead::Malformed,
        };
    }
    if !is_http {
        return HttpHead::NotHttp;
    }
    let Some(end) = end_of_head(content) else {
        return if bytes.len() < MAX_HEAD_BYTES { HttpHead::Incomplete } else { HttpHead::Malformed };
    };
    if blank + end > MAX_HEAD_BYTES {
        return HttpHead::Malformed;
    }
    head(&content[..end], blank + end).map_or(HttpHead::Malformed, HttpHead::Complete)
}

/// Returns true if a server could read the line as the first one of a request. Servers differ in what they accept: Python's
/// accepts a line without a version, and Node's accepts versions of other protocols.
fn is_request_line(line: &[u8]) -> bool {
    let starts = |word: &[u8], start: &[u8]| {
        word.get(..start.len()).is_some_and(|found| found.eq_ignore_ascii_case(start))
    };
    let has_other_version =
        || words(line).any(|word| OTHER_VERSIONS.iter().any(|version| starts(word, version)));
    let has_target = || {
        let mut words = words(line);
        let (Some(method), Some(target)) = (words.next(), words.next()) else { return false };
        METHODS.contains(&method)
            || [&b"/"[..], b"http:", b"https:"].iter().any(|start| starts(target, start))
    };
    line.windows(5).any(|part| part.eq_ignore_ascii_case(b"HTTP/")) || has_other_version() || has_target()
}

/// Returns the words of a line. Source of the separators: Python's `str.split`, after decoding as Latin-1.
fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| is_space(*byte)).filter(|word| !word.is_empty())
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r' | 0x1c..=0x1f | 0x85 | 0xa0)
}

/// Returns the number of bytes up to and with the first empty line.
fn end_of_head(content: &[u8]) -> Option<usize> {
    let breaks = content.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(place, _)| place);
    let is_empty_after = |place: &usize| {
        let rest = &content[place + 1..];
        rest.starts_with(b"\n") || rest.starts_with(b"\r\n")
    };
    let last = breaks.into_iter().find(is_empty_after)?;
    Some(last + if content[last + 1] == b'\n' { 2 } else { 3 })
}

/// Parses a whole head. `None` if it is malformed or ambiguous.
fn head(content: &[u8], bytes: usize) -> Option<HttpRequestHead> {
    let text = std::str::from_utf8(content).ok()?;
    let mut lines = text.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line));
    let mut words = lines.next()?.split(' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    let is_version = version == "HTTP/1.1" || version == "HTTP/1.0";
    let is_plain = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
    if words.next().is_some() || !is_version || !is_plain(method) || !is_plain(target) {
        return None;
    }
    let (mut host, mut headers) = (None, Vec::new());
    for line in lines.take_while(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':')?;
        // Servers differ in how they read a folded line, a space before the colon, or a lone line break.
        let is_name = is_plain(name) && !line.contains(['\r', '\0']);
        if !is_name {
            return None;
        }
        let name = name.to_ascii_lowercase();
        if name == "host" && host.replace(value.trim_matches([' ', '\t']).to_owned()).is_some() {
            return None;
        }
        if !CONNECTION_HEADERS.contains(&name.as_str()) {
            headers.push(line.to_owned());
        }
    }
    let [method, target, version] = [method, target, version].map(str::to_owned);
    Some(HttpRequestHead { method, target, host, version, headers, bytes })
}

#[cfg(test)]
mod tests;
