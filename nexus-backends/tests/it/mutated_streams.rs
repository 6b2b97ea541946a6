//! Streams that nobody recorded: generated answers on each wire, then damaged or written in another valid way.
//!
//! Three rules hold for each of them: every division of the bytes gives the same events, a stream without its end mark is
//! never a finished answer, and the vendor's own SDK reads the same out of a valid stream as Nexus does.

mod generated;
mod sdk;

use bytes::Bytes;
use nexus_backends::generic::{Decoded, DecodedCall, DecodedEnding, StreamDecoder};
use nexus_core::TurnEvent;
use proptest::{prelude::*, sample::Index};
use serde_json::Value;

use self::generated::{Answer, Stream, UNKNOWN_MEMBER, WIRES, Wire, answers, rewritings};

/// A change that a valid stream does not survive.
#[derive(Clone, Debug)]
enum Damage {
    /// An event is missing.
    Missing(Index),
    /// An event arrives twice.
    Twice(Index),
    /// Two neighbouring events arrive in the other order.
    Swapped(Index),
    /// The stream ends after this byte.
    Cut(Index),
    /// One byte is another one.
    Byte(Index, u8),
}

fn damages() -> impl Strategy<Value = Vec<Damage>> {
    let damage = prop_oneof![
        any::<Index>().prop_map(Damage::Missing),
        any::<Index>().prop_map(Damage::Twice),
        any::<Index>().prop_map(Damage::Swapped),
        any::<Index>().prop_map(Damage::Cut),
        (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Damage::Byte(at, byte)),
    ];
    proptest::collection::vec(damage, 0..4)
}

fn damaged(stream: &Stream, damages: &[Damage]) -> Vec<u8> {
    let mut events = stream.events.clone();
    let mut tail = Vec::new();
    for damage in damages {
        match damage {
            Damage::Missing(at) if !events.is_empty() => drop(events.remove(at.index(events.len()))),
            Damage::Twice(at) if !events.is_empty() => {
                let at = at.index(events.len());
                events.insert(at, events[at].clone());
            }
            Damage::Swapped(at) if events.len() > 1 => {
                let at = at.index(events.len() - 1);
                events.swap(at, at + 1);
            }
            other => tail.push(other),
        }
    }
    let mut bytes = events.concat().into_bytes();
    for damage in tail {
        match damage {
            Damage::Cut(at) if !bytes.is_empty() => bytes.truncate(at.index(bytes.len())),
            Damage::Byte(at, byte) if !bytes.is_empty() => {
                let at = at.index(bytes.len());
                bytes[at] = *byte;
            }
            _ => {}
        }
    }
    bytes
}

fn decode(wire: Wire, pieces: impl IntoIterator<Item = Bytes>) -> (Vec<TurnEvent>, Decoded) {
    let mut decoder: StreamDecoder = wire.decoder();
    let mut events = Vec::new();
    for piece in pieces {
        decoder.push_into(piece, &mut events);
    }
    let (last, decoded) = decoder.finish();
    events.extend(last);
    (events, decoded)
}

fn divided(bytes: &[u8], lengths: &[usize]) -> Vec<Bytes> {
    let mut rest = Bytes::copy_from_slice(bytes);
    let mut pieces = Vec::new();
    for length in lengths.iter().cycle() {
        if rest.is_empty() {
            return pieces;
        }
        pieces.push(rest.split_to((*length).min(rest.len())));
    }
    pieces
}

fn is_finished(decoded: &Decoded) -> bool {
    matches!(decoded.ending, DecodedEnding::Completed | DecodedEnding::Paused)
}

proptest! {
    #[test]
    fn every_division_of_a_stream_gives_the_same_events(
        answer in answers(),
        damages in damages(),
        lengths in proptest::collection::vec(1usize..40, 1..8),
    ) {
        for wire in WIRES {
            let bytes = damaged(&wire.stream(&answer), &damages);
            let whole = decode(wire, [Bytes::copy_from_slice(&bytes)]);
            prop_assert_eq!(&decode(wire, divided(&bytes, &lengths)), &whole, "{:?}", wire);
            prop_assert_eq!(&decode(wire, divided(&bytes, &[1])), &whole, "{:?}, byte by byte", wire);
        }
    }

    #[test]
    fn a_stream_without_its_end_mark_is_never_a_finished_answer(
        answer in answers(),
        damages in damages(),
        cut in any::<Index>(),
    ) {
        for wire in WIRES {
            let stream = wire.stream(&answer);
            let (_, decoded) = decode(wire, [Bytes::from(stream.events.concat())]);
            prop_assert!(is_finished(&decoded), "{wire:?}: the whole stream is a finished answer: {decoded:?}");
            let mut open = stream.clone();
            open.events.retain(|event| !wire.is_end_mark(event));
            let ends = [damaged(&open, &damages), damaged(&open, &[Damage::Cut(cut)])];
            for bytes in ends {
                let (_, decoded) = decode(wire, [Bytes::copy_from_slice(&bytes)]);
                let text = String::from_utf8_lossy(&bytes);
                prop_assert!(!is_finished(&decoded), "{wire:?}: {decoded:?}\n{text}");
            }
        }
    }

    #[test]
    fn another_valid_spelling_of_a_stream_says_the_same(answer in answers(), rewriting in rewritings()) {
        for wire in WIRES {
            let stream = wire.stream(&answer);
            let (_, plain) = decode(wire, [Bytes::from(stream.events.concat())]);
            let (_, rewritten) = decode(wire, [Bytes::from(rewriting.of(&stream))]);
            prop_assert_eq!(&rewritten.messages, &plain.messages, "{:?}", wire);
            prop_assert_eq!(comparable(&rewritten), comparable(&plain), "{:?}", wire);
            prop_assert_eq!(&rewritten.usage, &plain.usage);
            prop_assert_eq!(&rewritten.ending, &plain.ending);
            says_the_answer(&answer, &plain)?;
        }
    }
}

/// Returns the calls with their arguments as values. On the Gemini wire arguments are an object, whose members have no order and
/// get an unknown member too.
fn comparable(decoded: &Decoded) -> Vec<(String, String, Value)> {
    let comparable = |call: &DecodedCall| {
        let mut arguments: Value = serde_json::from_str(&call.arguments).unwrap_or_default();
        arguments.as_object_mut().map(|members| members.remove(UNKNOWN_MEMBER));
        (call.call_id.clone(), call.name.clone(), arguments)
    };
    decoded.calls.iter().map(comparable).collect()
}

/// Compares what was read with what was generated.
fn says_the_answer(answer: &Answer, decoded: &Decoded) -> Result<(), TestCaseError> {
    prop_assert_eq!(decoded.messages.concat(), answer.text.concat());
    let calls: Vec<_> =
        decoded.calls.iter().map(|call| (&call.call_id, &call.name, &call.arguments)).collect();
    let made: Vec<_> =
        answer.calls.iter().map(|call| (&call.id, &call.name, call.arguments.concat())).collect();
    prop_assert_eq!(calls.len(), made.len());
    for ((id, name, arguments), (made_id, made_name, made_arguments)) in calls.into_iter().zip(&made) {
        prop_assert_eq!((id, name, arguments), (*made_id, *made_name, made_arguments));
    }
    let usage = decoded.usage.unwrap_or_default();
    prop_assert_eq!(usage.all_input_tokens(), Some(answer.input_tokens));
    prop_assert_eq!(usage.all_output_tokens(), Some(answer.output_tokens));
    Ok(())
}
