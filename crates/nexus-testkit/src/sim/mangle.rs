//! Faults that change an answer as a whole, in every dialect.

use std::io::Write as _;

use bytes::{Bytes, BytesMut};
use flate2::{Compression, write::GzEncoder};

use super::fault::{Cut, Fault, Lie};
use super::wire::{Answer, Step};

/// Size of one piece of a generated body, in bytes.
const PIECE: usize = 64 << 10;

/// Difference of a wrong content length, in bytes.
const LIE_BYTES: usize = 1000;

impl Answer {
    /// Returns the answer of a fault that replaces the whole reply.
    pub(super) fn instead(fault: &Fault) -> Option<Self> {
        match fault {
            Fault::Html200 => Some(Self::html(200)),
            Fault::Html { status } => Some(Self::html(*status)),
            Fault::Garbage => Some(Self::garbage()),
            Fault::Empty200 => Some(Self::whole(200, "text/event-stream", "")),
            Fault::Redirect { status, location } => {
                Some(Self::whole(*status, "text/plain", "").header("location", location))
            }
            Fault::HugeBody { status, bytes } => {
                let mut answer = Self::whole(*status, "text/plain", "");
                answer.headers.retain(|(name, _)| name != "content-length");
                answer.steps.extend(many_bytes(*bytes));
                Some(answer)
            }
            _ => None,
        }
    }

    /// Applies the fault to a complete answer.
    pub(super) fn mangled(self, fault: Option<&Fault>) -> Self {
        match fault {
            Some(Fault::Gzip) => self.compressed(),
            Some(Fault::Length { lie }) => self.of_another_length(*lie),
            _ => self,
        }
    }

    /// Compresses the steps, with a flush after each, so that the client can read each on arrival.
    fn compressed(self) -> Self {
        // Use one encoder for all steps, because together they form one gzip stream.
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        let mut steps: std::collections::VecDeque<_> = self
            .steps
            .into_iter()
            .map(|step| match step {
                Step::Send(bytes) => {
                    // Writing to memory does not fail.
                    let _ = encoder.write_all(&bytes).and_then(|()| encoder.flush());
                    Step::Send(std::mem::take(encoder.get_mut()).into())
                }
                other => other,
            })
            .collect();
        // The trailer has the checksum. Without it, clients report a truncated body.
        steps.push_back(Step::Send(encoder.finish().unwrap_or_default().into()));
        let mut headers = self.headers;
        headers.retain(|(name, _)| name != "content-length");
        Self { steps, headers, ..self }.header("content-encoding", "gzip")
    }

    /// Sends all bytes at once, with a wrong content length.
    fn of_another_length(mut self, lie: Lie) -> Self {
        // A wrong length is visible only against the whole body, so the pace of the answer is given up.
        let mut body = BytesMut::new();
        for step in &self.steps {
            if let Step::Send(bytes) = step {
                body.extend_from_slice(bytes);
            }
        }
        let mut body = body.freeze();
        self.headers.retain(|(name, _)| name != "content-length");
        self.steps.clear();
        match lie {
            Lie::More => {
                let promised = body.len() + LIE_BYTES;
                // Cut the connection: hyper would wait for the promised bytes.
                self.steps.extend([Step::Send(body), Step::Cut(Cut::Fin)]);
                self.header("content-length", promised)
            }
            Lie::Less => {
                let beyond = body.split_off(body.len().saturating_sub(LIE_BYTES).max(1).min(body.len()));
                let promised = body.len();
                // Register the further bytes first. The socket writes them behind the body that is sent next.
                self.steps.extend([Step::Beyond(beyond), Step::Send(body)]);
                self.header("content-length", promised)
            }
        }
    }
}

/// Steps that send `bytes` bytes of no meaning, made as they are sent.
pub(super) fn many_bytes(bytes: u64) -> Vec<Step> {
    // `Bytes` is shared, so a body of 100 MB needs the memory of one piece.
    let piece = Bytes::from(vec![b'x'; PIECE]);
    let (times, rest) = (bytes / PIECE as u64, usize::try_from(bytes % PIECE as u64).unwrap_or_default());
    let rest = Step::Send(piece.slice(..rest));
    vec![Step::Repeat { bytes: piece, left: Some(times) }, rest]
}
