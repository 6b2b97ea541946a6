//! Fuzz target of the stream decoder.
//!
//! An input is a line of piece lengths, one byte each, which repeat; the rest is the body. After an empty line the body
//! is one piece.

use std::collections::BTreeSet;

use bytes::Bytes;
use nexus_backends::generic::{Decoded, DecodedEnding, StreamDecoder};
use nexus_backends::native::sse::EventSplitter;
use nexus_core::{TurnEvent, turn::ToolOrigin};
use peak_alloc::PeakAlloc;

/// Memory that a decoder may use for any body, in bytes.
const FREE_BYTES: usize = 256 << 10;

/// Additional memory that it may use for each byte of the body, in bytes. The worst case are small objects stored as JSON
/// values: a map of one key takes about 600 bytes.
const BYTES_PER_BYTE: usize = 256;

/// Maximum size of an event, small enough that inputs exceed it.
const SMALL_EVENT_BYTES: usize = 48;

/// Every decoder, with the words of which one is in a body that ends well.
const DECODERS: &[(fn() -> StreamDecoder, &[&str])] = &[
    (StreamDecoder::new, &["completed", "response.done"]),
    (StreamDecoder::with_hosted_custom_calls, &["completed", "response.done"]),
    (StreamDecoder::chat, &["finish_reason", "[DONE]"]),
    (StreamDecoder::messages, &["message_stop"]),
    (StreamDecoder::gemini, &["finishReason"]),
];

/// Decodes a body whole and in pieces, and checks and compares the results.
///
/// # Panics
///
/// A panic is a finding.
pub fn check(input: &[u8], memory: &PeakAlloc) {
    let (lengths, body) = match input.iter().position(|byte| *byte == b'\n') {
        Some(end) => (&input[..end], &input[end + 1..]),
        None => (&[][..], input),
    };
    let body = Bytes::copy_from_slice(body);
    for (new, end_marks) in DECODERS {
        let (events, decoded) = within_bounds(&body, memory, || decode([body.clone()], *new));
        check_ending(&body, &decoded, end_marks);
        check_events(&events, &decoded);
        assert!(decode(pieces(&body, lengths), *new) == (events.clone(), decoded.clone()), "in pieces");
        assert!(decode(pieces(&body, &[1]), *new) == (events, decoded), "byte by byte");
    }
    let whole = split([body.clone()]);
    assert_eq!(split(pieces(&body, lengths)), whole, "bounded events, in pieces");
    assert_eq!(split(pieces(&body, &[1])), whole, "bounded events, byte by byte");
}

/// Returns the body in pieces of these lengths, which repeat. A length of 0 is an empty piece.
fn pieces(body: &Bytes, lengths: &[u8]) -> impl Iterator<Item = Bytes> {
    let mut rest = body.clone();
    let stuck = lengths.iter().all(|length| *length == 0);
    let lengths =
        if stuck { vec![usize::MAX] } else { lengths.iter().map(|length| usize::from(*length)).collect() };
    lengths
        .into_iter()
        .cycle()
        .map_while(move |length| (!rest.is_empty()).then(|| rest.split_to(length.min(rest.len()))))
}

fn decode(pieces: impl IntoIterator<Item = Bytes>, new: fn() -> StreamDecoder) -> (Vec<TurnEvent>, Decoded) {
    let mut decoder = new();
    let mut events = Vec::new();
    for piece in pieces {
        events.extend(decoder.push(piece));
    }
    let (last, decoded) = decoder.finish();
    events.extend(last);
    (events, decoded)
}

/// Returns the names and data of the events, and true if one was too long.
fn split(pieces: impl IntoIterator<Item = Bytes>) -> (Vec<(String, Vec<u8>)>, bool) {
    let mut splitter = EventSplitter::new(SMALL_EVENT_BYTES);
    let mut events = Vec::new();
    for piece in pieces {
        splitter.push(piece);
        loop {
            match splitter.next() {
                Ok(Some(event)) => events.push((event.name.to_owned(), event.data.to_vec())),
                Ok(None) => break,
                Err(_) => return (events, true),
            }
        }
    }
    match splitter.finish() {
        Ok(last) => {
            events.extend(last.map(|event| (event.name.to_owned(), event.data.to_vec())));
            (events, false)
        }
        Err(_) => (events, true),
    }
}

fn within_bounds<T>(body: &[u8], memory: &PeakAlloc, work: impl FnOnce() -> T) -> T {
    let before = memory.current_usage();
    memory.reset_peak_usage();
    let done = work();
    let taken = memory.peak_usage().saturating_sub(before);
    let allowed = FREE_BYTES + BYTES_PER_BYTE * body.len();
    assert!(taken <= allowed, "{taken} bytes for a body of {}", body.len());
    done
}

/// Checks that a stream without its terminal event does not count as complete.
fn check_ending(body: &[u8], decoded: &Decoded, end_marks: &[&str]) {
    let text = String::from_utf8_lossy(body);
    // An escape may hide the word, so such a text may be complete.
    let may_be_complete = text.contains("\\u") || end_marks.iter().any(|word| text.contains(word));
    let is_complete = matches!(decoded.ending, DecodedEnding::Completed | DecodedEnding::Paused);
    assert!(may_be_complete || !is_complete, "complete without a terminal event: {decoded:?}");
}

/// Checks the rules for the events of every model call.
fn check_events(events: &[TurnEvent], decoded: &Decoded) {
    let mut over = BTreeSet::new();
    let mut ended = Vec::new();
    let mut open_call = None;
    for event in events {
        let delta = match event {
            TurnEvent::TextDelta(delta) => Some(&delta.message),
            TurnEvent::ThinkingDelta(delta) => Some(&delta.message),
            _ => None,
        };
        assert!(
            delta.is_none_or(|message| !over.contains(message)),
            "a delta of a message that is over: {event:?}"
        );
        match event {
            TurnEvent::MessageEnded(end) => {
                assert!(over.insert(end.message.clone()), "a message ended twice: {end:?}");
                ended.push(end);
            }
            TurnEvent::MessageVoided(voided) => {
                assert!(over.insert(voided.message.clone()), "a message that is over was voided: {voided:?}");
            }
            TurnEvent::ToolCallStarted(call) => {
                assert_eq!(call.origin, ToolOrigin::Hosted, "only the loop starts calls");
                assert!(open_call.replace(&call.call).is_none(), "one hosted call within another");
            }
            TurnEvent::ToolCallFinished(call) => {
                assert_eq!(open_call.take(), Some(&call.call), "the end of another call");
            }
            _ => {}
        }
    }
    assert_eq!(open_call, None, "a hosted call without its end");
    let texts = |texts: &mut dyn Iterator<Item = &String>| -> Vec<String> {
        texts.filter(|text| !text.is_empty()).cloned().collect()
    };
    let told = texts(&mut ended.iter().map(|end| &end.text));
    assert_eq!(told, texts(&mut decoded.messages.iter()), "the events tell other messages than the reply");
    if matches!(
        decoded.ending,
        DecodedEnding::Completed | DecodedEnding::Paused | DecodedEnding::Incomplete(_)
    ) {
        let last = ended.last().expect("a reply that came to its end ends a message");
        assert!(last.finish.is_some(), "no finish reason: {last:?}");
        assert_eq!(last.usage, decoded.usage);
    }
}
