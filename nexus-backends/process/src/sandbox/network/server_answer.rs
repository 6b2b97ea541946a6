//! First message of a TLS server.
//!
//! A server may ask the client for a second `ClientHello`, which is not encrypted either and can name another server. Source:
//! RFC 8446, sections 4.1.3 and 4.1.4.

/// Content types of records that may precede the message. Source: RFC 8446, section 5.1.
const CHANGE_CIPHER_SPEC: u8 = 20;
const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
/// Level of an alert that ends the connection. Source: RFC 8446, section 6.
const FATAL: u8 = 2;
/// Type of the server's first handshake message.
const SERVER_HELLO: u8 = 2;
/// Size of the part that is needed: type, length, version and random.
const NEEDED_BYTES: usize = 38;
/// Maximum number of bytes before that part is complete.
const MAX_BYTES: usize = 4 << 10;
/// The random of a `ServerHello` that is a `HelloRetryRequest`. Source: RFC 8446, section 4.1.3.
const RETRY_RANDOM: [u8; 32] = [
    0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91, 0xc2,
    0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
];

/// Result of reading the beginning of a server's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HelloAnswer {
    /// The message is not complete.
    Incomplete,
    /// The server asks for a second `ClientHello`.
    RetryRequest,
    /// The server does not ask for one.
    Other,
}

/// Reads the beginning of a server's bytes.
pub(super) fn read(bytes: &[u8]) -> HelloAnswer {
    let (mut message, mut rest) = (Vec::new(), bytes);
    loop {
        let Some((header, body)) = rest.split_first_chunk::<5>() else {
            let is_tls = rest.first().is_none_or(|kind| (CHANGE_CIPHER_SPEC..=HANDSHAKE).contains(kind));
            let is_short = is_tls && bytes.len() < MAX_BYTES;
            return if is_short { HelloAnswer::Incomplete } else { HelloAnswer::Other };
        };
        let length = usize::from(u16::from_be_bytes([header[3], header[4]]));
        let part = &body[..length.min(body.len())];
        match header[0] {
            HANDSHAKE => message.extend_from_slice(part),
            // The server ends the connection.
            ALERT if part.first() == Some(&FATAL) => return HelloAnswer::Other,
            CHANGE_CIPHER_SPEC | ALERT => {}
            _ => return HelloAnswer::Other,
        }
        if message.first().is_some_and(|kind| *kind != SERVER_HELLO) {
            return HelloAnswer::Other;
        }
        if let Some(head) = message.get(..NEEDED_BYTES) {
            return if head.ends_with(&RETRY_RANDOM) {
                HelloAnswer::RetryRequest
            } else {
                HelloAnswer::Other
            };
        }
        if part.len() < length {
            return if bytes.len() < MAX_BYTES { HelloAnswer::Incomplete } else { HelloAnswer::Other };
        }
        rest = &body[length..];
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Returns the beginning of a server's answer with this random, in records of at most `record` bytes.
    fn answer(random: &[u8; 32], record: usize) -> Vec<u8> {
        let message = [&[SERVER_HELLO, 0, 0, 40, 3, 3][..], random, &[0, 0x13, 1, 0, 0, 0]].concat();
        let head = |part: &[u8]| [HANDSHAKE, 3, 3, 0, part.len() as u8];
        message.chunks(record).flat_map(|part| [&head(part)[..], part].concat()).collect()
    }

    /// Returns a request for a second `ClientHello`.
    pub(in crate::sandbox::network) fn retry_request() -> Vec<u8> {
        answer(&RETRY_RANDOM, 64)
    }

    #[test]
    fn a_retry_request_is_recognised_however_it_is_split() {
        for record in [1, 7, 38, 64] {
            let bytes = answer(&RETRY_RANDOM, record);
            let ends: Vec<_> = (0..bytes.len()).map(|end| read(&bytes[..end])).collect();
            assert!(ends.iter().all(|answer| *answer != HelloAnswer::Other), "{record}: {ends:?}");
            assert_eq!(read(&bytes), HelloAnswer::RetryRequest, "{record}");
            let warned = [&[ALERT, 3, 3, 0, 2, 1, 112][..], &bytes].concat();
            assert_eq!(read(&warned), HelloAnswer::RetryRequest);
            assert_eq!(read(&answer(&[7; 32], record)), HelloAnswer::Other);
        }
        for other in [
            &b"HTTP/1.1 400"[..],
            b"220 mail",
            b"\x17\x03\x03",
            b"\x16\x03\x03\0\x01\x0b",
            b"\x15\x03\x03\0\x02\x02\x28",
        ] {
            assert_eq!(read(other), HelloAnswer::Other, "{other:?}");
        }
        assert_eq!(read(&[ALERT, 3, 3, 0, 2, 1, 112].repeat(1000)), HelloAnswer::Other);
    }
}
