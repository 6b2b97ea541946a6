//! Decoder of what a `nats-server` sends to its clients. Source: the client protocol of NATS,
//! <https://docs.nats.io/reference/reference-protocols/nats-protocol>.

use std::io;

use bytes::{Buf as _, Bytes, BytesMut};

const END_OF_LINE: &[u8] = b"\r\n";

/// One frame, as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) bytes: Bytes,
    /// The subject, if the frame is a message: `MSG` or `HMSG`.
    pub(crate) subject: Option<String>,
}

/// Bytes of a connection in, frames out. The bytes may be split anywhere.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    buffer: BytesMut,
}

impl Decoder {
    /// Where to append what is read.
    pub(crate) fn buffer(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    /// The next frame. `None` if more bytes are needed.
    ///
    /// # Errors
    ///
    /// `InvalidData` if what begins here is not of the protocol. The decoder is of no use then.
    pub(crate) fn next(&mut self) -> io::Result<Option<Frame>> {
        let Some(line_bytes) = self.buffer.windows(END_OF_LINE.len()).position(|two| two == END_OF_LINE)
        else {
            return Ok(None);
        };
        let line = &self.buffer[..line_bytes];
        let line_bytes = line_bytes + END_OF_LINE.len();
        let head = Head::parse(line)
            .ok_or_else(|| malformed(&format!("no frame begins with {:?}", String::from_utf8_lossy(line))))?;
        let Some((subject, payload_bytes)) = head.message else {
            return Ok(Some(Frame { bytes: self.buffer.split_to(line_bytes).freeze(), subject: None }));
        };
        let frame_bytes = line_bytes + payload_bytes + END_OF_LINE.len();
        if self.buffer.len() < frame_bytes {
            return Ok(None);
        }
        let bytes = self.buffer.split_to(frame_bytes).freeze();
        if !bytes.ends_with(END_OF_LINE) {
            return Err(malformed("a message is longer than it says"));
        }
        Ok(Some(Frame { bytes, subject: Some(subject) }))
    }

    /// The rest, which is no complete frame.
    pub(crate) fn remaining(&mut self) -> Bytes {
        self.buffer.copy_to_bytes(self.buffer.len())
    }
}

fn malformed(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

/// The first line of a frame.
struct Head {
    /// Subject, and bytes of headers and payload together.
    message: Option<(String, usize)>,
}

impl Head {
    fn parse(line: &[u8]) -> Option<Self> {
        let line = std::str::from_utf8(line).ok()?;
        let mut words = line.split([' ', '\t']).filter(|word| !word.is_empty());
        let operation = words.next()?.to_ascii_uppercase();
        let words: Vec<&str> = words.collect();
        let message = match (operation.as_str(), words.as_slice()) {
            ("MSG", [subject, _sid, size] | [subject, _sid, _, size]) => {
                Some(((*subject).to_owned(), size.parse().ok()?))
            }
            ("HMSG", [subject, _sid, headers, size] | [subject, _sid, _, headers, size]) => {
                let (headers, size): (usize, usize) = (headers.parse().ok()?, size.parse().ok()?);
                (headers <= size).then(|| Some(((*subject).to_owned(), size)))?
            }
            ("INFO" | "PING" | "PONG" | "+OK" | "-ERR", _) => None,
            _ => return None,
        };
        Some(Self { message })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A payload with the ends of lines and the heads of frames in it, and each kind of frame.
    const FRAMES: &[(&str, Option<&str>)] = &[
        ("INFO {\"server_id\":\"a b\",\"headers\":true} \r\n", None),
        ("MSG nexus.ev.a 1 5\r\nhello\r\n", Some("nexus.ev.a")),
        ("MSG nexus.ev.b 22 _INBOX.x.1 12\r\nMSG a 1 0\r\n\n\r\n", Some("nexus.ev.b")),
        ("msg\tempty  1 0\r\n\r\n", Some("empty")),
        ("PING\r\n", None),
        ("HMSG with.headers 3 12 14\r\nNATS/1.0\r\n\r\n\r\n\r\n", Some("with.headers")),
        ("HMSG status 3 reply 16 16\r\nNATS/1.0 503\r\n\r\n\r\n", Some("status")),
        ("pong\r\n", None),
        ("+OK\r\n", None),
        ("-ERR 'Permissions Violation for Publish to \"a\"'\r\n", None),
    ];

    fn decoded(parts: &[&[u8]]) -> Vec<Frame> {
        let mut decoder = Decoder::default();
        let mut frames = Vec::new();
        for part in parts {
            decoder.buffer().extend_from_slice(part);
            while let Some(frame) = decoder.next().expect("the bytes are of the protocol") {
                frames.push(frame);
            }
        }
        assert!(decoder.remaining().is_empty());
        frames
    }

    #[test]
    fn frames_are_the_same_for_every_split() {
        let bytes: Vec<u8> = FRAMES.iter().flat_map(|(bytes, _)| bytes.bytes()).collect();
        let expected: Vec<Frame> = FRAMES
            .iter()
            .map(|(bytes, subject)| Frame {
                bytes: Bytes::from_static(bytes.as_bytes()),
                subject: subject.map(str::to_owned),
            })
            .collect();
        for at in 0..=bytes.len() {
            let (first, second) = bytes.split_at(at);
            assert_eq!(decoded(&[first, second]), expected, "split at {at}");
        }
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(decoded(&single), expected);
    }

    #[test]
    fn what_is_not_of_the_protocol_is_refused() {
        for bytes in [
            "HTTP/1.1 400 Bad Request\r\n",
            "\r\n",
            "MSG a 1\r\n",
            "MSG a 1 -1\r\n",
            "MSG a 1 b c d\r\n",
            "MSG a 1 2\r\nlonger\r\n",
            "HMSG a 1 5\r\n",
            "HMSG a 1 6 5\r\nabcde\r\n",
        ] {
            let mut decoder = Decoder::default();
            decoder.buffer().extend_from_slice(bytes.as_bytes());
            let refused = decoder.next().expect_err(bytes);
            assert_eq!(refused.kind(), io::ErrorKind::InvalidData);
        }
    }
}
