//! Server name in the first message of a TLS connection.
//!
//! The message may be split over several records, and each record over several reads. Source: RFC 8446, sections 4.1.2, 4.2 and 5.1;
//! RFC 6066, section 3.

use super::target::fold_name;

/// Content type of a record with handshake messages.
pub(super) const HANDSHAKE: u8 = 22;
/// Type of the client's first handshake message.
const CLIENT_HELLO: u8 = 1;
/// Number of the extension with the server name.
const SERVER_NAME: u16 = 0;
/// Type of a DNS name in that extension.
const HOST_NAME: u8 = 0;
/// Maximum size of a record. Source: RFC 8446, section 5.1.
const MAX_RECORD_BYTES: usize = 1 << 14;

/// Result of reading the beginning of a TLS connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ClientHello {
    /// The message is not complete.
    Incomplete,
    /// The server name, folded. `None` if the client sent none.
    Complete(Option<String>),
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
        if header[0] != HANDSHAKE || header[1] != 3 || length == 0 || length > MAX_RECORD_BYTES {
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
                return server_name(hello).map_or(ClientHello::Malformed, ClientHello::Complete);
            }
        }
        if part.len() < length {
            return ClientHello::Incomplete;
        }
        rest = &body[length..];
    }
}

/// Returns the server name of a complete message. The outer `None` stands for a malformed message.
fn server_name(hello: &[u8]) -> Option<Option<String>> {
    // The version has 2 bytes, the random 32.
    let mut rest = hello.get(34..)?;
    let _session = take_sized(&mut rest, 1)?;
    let _cipher_suites = take_sized(&mut rest, 2)?;
    let _compressions = take_sized(&mut rest, 1)?;
    if rest.is_empty() {
        return Some(None);
    }
    let mut extensions = take_sized(&mut rest, 2)?;
    if !rest.is_empty() {
        return None;
    }
    let mut found = None;
    while !extensions.is_empty() {
        let kind = number(take(&mut extensions, 2)?);
        let mut content = take_sized(&mut extensions, 2)?;
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
    Some(found)
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
