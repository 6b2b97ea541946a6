//! Server name in the first message of a TLS connection.
//!
//! The message may be split over several records, and each record over several reads. Source: RFC 8446, sections 4.1.2, 4.2 and 5.1;
//! RFC 6066, section 3.

use super::target::fold_name;

/// Content type of a record with handshake messages.
pub(super) const HANDSHAKE: u8 = 22;
/// First byte of the version in a record. Source: RFC 8446, 5.1.
pub(super) const MAJOR_VERSION: u8 = 3;
/// Content types of records that may precede a client's second message: change cipher spec, alert, and early data.
const BEFORE_SECOND: [u8; 3] = [20, 21, 23];
/// Type of the client's first handshake message.
const CLIENT_HELLO: u8 = 1;
/// Number of the extension with the server name.
const SERVER_NAME: u16 = 0;
/// Numbers of the extensions that hide another name: ECH, and its draft ESNI. Source: draft-ietf-tls-esni, versions 18 and 02.
const HIDDEN_NAMES: [u16; 2] = [0xfe0d, 0xffce];
/// Type of a DNS name in that extension.
const HOST_NAME: u8 = 0;
/// Maximum size of a record. Source: RFC 8446, section 5.1.
const MAX_RECORD_BYTES: usize = 1 << 14;

/// Result of reading the beginning of a TLS connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ClientHello {
    /// The message is not complete.
    Incomplete,
    /// A whole message.
    Complete {
        /// The server name, folded. `None` if the client sent none.
        name: Option<String>,
        /// Number of bytes up to the end of its last record.
        bytes: usize,
    },
    /// The message has, or pretends to have, another name in encrypted form.
    Hidden,
    /// The bytes are not the beginning of a TLS connection.
    Malformed,
}

/// Reads the beginning of a TLS connection.
pub(super) fn read(bytes: &[u8]) -> ClientHello {
    let mut message = Vec::new();
    let mut rest = bytes;
    loop {
        let Some((header, body)) = rest.split_first_chunk::<5>() else {
            return if rest.first().is_none_or(|first| *first == HANDSHAKE) {
                ClientHello::Incomplete
            } else {
                ClientHello::Malformed
            };
        };
        let length = usize::from(u16::from_be_bytes([header[3], header[4]]));
        if header[0] != HANDSHAKE || header[1] != MAJOR_VERSION || length == 0 || length > MAX_RECORD_BYTES {
            return ClientHello::Malformed;
        }
        let part = &body[..length.min(body.len())];
        message.extend_from_slice(part);
        if let Some((head, content)) = message.split_first_chunk::<4>() {
            if head[0] != CLIENT_HELLO {
                return ClientHello::Malformed;
            }
            let wanted = u32::from_be_bytes([0, head[1], head[2], head[3]]) as usize;
            if let Some(hello) = content.get(..wanted) {
                // A second message in the same record could have another name.
                if content.len() > wanted || part.len() < length {
                    return ClientHello::Malformed;
                }
                let bytes = bytes.len() - body.len() + length;
                return server_name(hello).map_or(ClientHello::Malformed, |name| match name {
                    HelloName::Plain(name) => ClientHello::Complete { name, bytes },
                    HelloName::Hidden => ClientHello::Hidden,
                });
            }
        }
        if part.len() < length {
            return ClientHello::Incomplete;
        }
        rest = &body[length..];
    }
}

/// Reads the client's answer to a request for a second message. Other records may precede it, such as early data. Source: RFC 8446,
/// sections 4.2.10 and D.4.
pub(super) fn read_second(bytes: &[u8]) -> ClientHello {
    let mut rest = bytes;
    while rest.first().is_some_and(|kind| BEFORE_SECOND.contains(kind)) {
        let Some((header, body)) = rest.split_first_chunk::<5>() else { return ClientHello::Incomplete };
        let length = usize::from(u16::from_be_bytes([header[3], header[4]]));
        let Some(after) = body.get(length..) else { return ClientHello::Incomplete };
        rest = after;
    }
    match read(rest) {
        ClientHello::Complete { name, bytes: own } => {
            ClientHello::Complete { name, bytes: bytes.len() - rest.len() + own }
        }
        other => other,
    }
}

/// Name in a message.
enum HelloName {
    Plain(Option<String>),
    Hidden,
}

/// Returns the server name of a complete message. `None` stands for a malformed message.
fn server_name(hello: &[u8]) -> Option<HelloName> {
    // The version has 2 bytes, the random 32.
    let mut rest = hello.get(34..)?;
    let _session = take_sized(&mut rest, 1)?;
    let _cipher_suites = take_sized(&mut rest, 2)?;
    let _compressions = take_sized(&mut rest, 1)?;
    if rest.is_empty() {
        return Some(HelloName::Plain(None));
    }
    let mut extensions = take_sized(&mut rest, 2)?;
    if !rest.is_empty() {
        return None;
    }
    let (mut found, mut is_hidden) = (None, false);
    while !extensions.is_empty() {
        let kind = number(take(&mut extensions, 2)?);
        let mut content = take_sized(&mut extensions, 2)?;
        is_hidden |= HIDDEN_NAMES.iter().any(|hidden| kind == usize::from(*hidden));
        if kind != usize::from(SERVER_NAME) {
            continue;
        }
        let mut names = take_sized(&mut content, 2)?;
        let is_host_name = take(&mut names, 1)? == [HOST_NAME];
        let name = take_sized(&mut names, 2)?;
        // A second name or extension would let a server choose another one than this function.
        if !is_host_name || !names.is_empty() || !content.is_empty() || found.is_some() {
            return None;
        }
        found = Some(fold_name(std::str::from_utf8(name).ok()?)?);
    }
    Some(if is_hidden { HelloName::Hidden } else { HelloName::Plain(found) })
}

/// Takes a field whose size is in the `size_bytes` bytes before it.
fn take_sized<'b>(bytes: &mut &'b [u8], size_bytes: usize) -> Option<&'b [u8]> {
    let size = number(take(bytes, size_bytes)?);
    take(bytes, size)
}

fn take<'b>(bytes: &mut &'b [u8], count: usize) -> Option<&'b [u8]> {
    let (taken, rest) = bytes.split_at_checked(count)?;
    *bytes = rest;
    Some(taken)
}

fn number(bytes: &[u8]) -> usize {
    bytes.iter().fold(0, |number, byte| number << 8 | usize::from(*byte))
}

#[cfg(test)]
pub(super) mod tests;
