//! Fuzz target of the splitter of binary messages.
//!
//! An input is a line of piece lengths, one byte each, which repeat; the rest is the body.

use nexus_backends::native::frame_splitter::{FrameSplitter, StreamFault};

/// Maximum size of an event, small enough that inputs exceed it.
const SMALL_EVENT_BYTES: usize = 4 << 10;

/// Splits a body whole and in pieces, as it is and with correct checksums, and compares the results.
///
/// # Panics
///
/// A panic is a finding.
pub fn check(input: &[u8]) {
    let (lengths, body) = match input.iter().position(|byte| *byte == b'\n') {
        Some(end) => (&input[..end], &input[end + 1..]),
        None => (&[][..], input),
    };
    let mut sealed = body.to_vec();
    seal(&mut sealed);
    for body in [body, &sealed] {
        let whole = split(body, &[]);
        for (_, data) in &whole.0 {
            // The splitter wraps the text of an error in JSON, where a byte takes up to six bytes as an escape.
            assert!(data.len() <= 6 * body.len() + 128, "{} bytes from {}", data.len(), body.len());
        }
        assert_eq!(split(body, lengths), whole, "in pieces");
        assert_eq!(split(body, &[1]), whole, "byte by byte");
    }
}

/// Corrects the checksums of all messages, so that inputs get behind them.
fn seal(body: &mut [u8]) {
    let mut rest = body;
    while rest.len() >= 16 {
        let checksum = crc32fast::hash(&rest[..8]);
        rest[8..12].copy_from_slice(&checksum.to_be_bytes());
        let total = u32::from_be_bytes([rest[0], rest[1], rest[2], rest[3]]) as usize;
        if !(16..=rest.len()).contains(&total) {
            return;
        }
        let checksum = crc32fast::hash(&rest[..total - 4]);
        rest[total - 4..total].copy_from_slice(&checksum.to_be_bytes());
        rest = &mut rest[total..];
    }
}

/// Returns the names and data of the events, and the fault.
fn split(body: &[u8], lengths: &[u8]) -> (Vec<(String, Vec<u8>)>, Option<StreamFault>) {
    let mut splitter = FrameSplitter::new(SMALL_EVENT_BYTES);
    let mut events = Vec::new();
    let is_stuck = lengths.iter().all(|length| *length == 0);
    let mut lengths = lengths.iter().cycle();
    let mut rest = body;
    loop {
        let length =
            if is_stuck { rest.len() } else { lengths.next().map_or(0, |length| usize::from(*length)) };
        let (piece, after) = rest.split_at(length.min(rest.len()));
        rest = after;
        splitter.push(piece);
        loop {
            match splitter.next() {
                Ok(Some(event)) => events.push((event.name.to_owned(), event.data.to_vec())),
                Ok(None) => break,
                Err(fault) => return (events, Some(fault)),
            }
        }
        if rest.is_empty() {
            return (events, None);
        }
    }
}
