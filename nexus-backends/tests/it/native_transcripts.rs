//! Every recorded body of the Responses API, decoded: the outcome is the one that `transcripts/native/*/expected.json`
//! states, however the body is cut. A recording without a row fails, and so does a row without a recording.
//!
//! A row says how the call ended, `messages` what the model said (`times` over, where it says the same again and
//! again), `calls` what it asks for as call id, name and arguments, `hosted` what the server's own tools did as
//! call id, name and end, `items` the types of all items, `usage` the tokens. `thinking` is that of the deltas, and
//! `unrecognized` names what was not known.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
    sync::LazyLock,
};

use bytes::Bytes;
use nexus_backends::generic::{Decoded, DecodedEnding, StreamDecoder};
use nexus_core::{Recorder, TurnEvent, Usage};
use nexus_testkit::effort;
use proptest::prelude::*;
use serde::Deserialize;
use serde_json::Value;

/// The vendors that bodies were recorded of, with how many there are at least.
const FOLDERS: [(&str, usize); 2] = [("responses", 38), ("xai", 24)];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    ending: String,
    model: String,
    #[serde(default)]
    messages: Vec<String>,
    #[serde(default)]
    times: Option<usize>,
    #[serde(default)]
    calls: Vec<[String; 3]>,
    #[serde(default)]
    hosted: Vec<[String; 3]>,
    #[serde(default)]
    items: Vec<String>,
    #[serde(default)]
    usage: Option<Tokens>,
    #[serde(default)]
    thinking: String,
    #[serde(default)]
    unrecognized: Vec<Option<String>>,
    #[serde(default)]
    refused: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Tokens {
    input: Option<u64>,
    cache_read: Option<u64>,
    output: Option<u64>,
    reasoning: Option<u64>,
}

impl From<Usage> for Tokens {
    fn from(usage: Usage) -> Self {
        Self {
            input: usage.input_tokens,
            cache_read: usage.cache_read_tokens,
            output: usage.output_tokens,
            reasoning: usage.reasoning_tokens,
        }
    }
}

/// One body, with what it must come to.
#[derive(Debug)]
struct Recording {
    name: String,
    folder: &'static str,
    body: Bytes,
    row: Row,
}

static RECORDINGS: LazyLock<Vec<Recording>> = LazyLock::new(read_recordings);

/// Every recording. Fails where one has no row or a row no recording.
fn read_recordings() -> Vec<Recording> {
    let mut all = Vec::new();
    for (folder, at_least) in FOLDERS {
        let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "tests/transcripts/native", folder].iter().collect();
        let table = fs::read_to_string(path.join("expected.json")).unwrap();
        let rows: BTreeMap<String, Row> = serde_json::from_str(&table).unwrap();
        let names: BTreeSet<String> = fs::read_dir(&path)
            .unwrap()
            .filter_map(|entry| {
                let name = entry.unwrap().file_name().into_string().unwrap();
                Some(name.strip_suffix(".sse")?.to_owned())
            })
            .collect();
        assert!(names.len() >= at_least, "only {} bodies of {folder} were found", names.len());
        assert_eq!(names, rows.keys().cloned().collect(), "{folder}: bodies, and rows of the table");
        for (name, row) in rows {
            let body = fs::read(path.join(format!("{name}.sse"))).unwrap().into();
            all.push(Recording { name, folder, body, row });
        }
    }
    all
}

/// Decodes a body that comes in the given pieces.
fn decode(folder: &str, pieces: impl IntoIterator<Item = Bytes>) -> (Vec<TurnEvent>, Decoded) {
    let mut decoder = match folder {
        "xai" => StreamDecoder::with_hosted_custom_calls(),
        _ => StreamDecoder::new(),
    };
    let mut events = Vec::new();
    for piece in pieces {
        events.extend(decoder.push(piece));
    }
    let (last, decoded) = decoder.finish();
    events.extend(last);
    (events, decoded)
}

fn pieces_of(body: &Bytes, length: usize) -> impl Iterator<Item = Bytes> {
    (0..body.len()).step_by(length).map(move |start| body.slice(start..body.len().min(start + length)))
}

fn ending(ending: &DecodedEnding) -> String {
    match ending {
        DecodedEnding::Completed => "completed".to_owned(),
        DecodedEnding::Paused => "paused".to_owned(),
        DecodedEnding::Incomplete(reason) => format!("incomplete: {reason}"),
        DecodedEnding::Failed(kind) => format!("failed: {kind:?}"),
        DecodedEnding::Missing => "missing".to_owned(),
        DecodedEnding::Unreadable => "unreadable".to_owned(),
        other => format!("{other:?}"),
    }
}

#[test]
fn every_recorded_body_has_the_outcome_that_the_table_states() {
    for Recording { name, folder, body, row } in RECORDINGS.iter() {
        let (events, decoded) = decode(folder, [body.clone()]);
        assert_eq!(ending(&decoded.ending), row.ending, "{folder}/{name}: {events:#?}");
        assert_eq!(decoded.model.as_ref().map(|model| model.as_str()), Some(&*row.model), "{name}");
        let messages: Vec<String> =
            row.messages.iter().map(|message| message.repeat(row.times.unwrap_or(1))).collect();
        assert_eq!(decoded.messages, messages, "{folder}/{name}");
        let calls: Vec<[String; 3]> =
            decoded.calls.into_iter().map(|call| [call.call_id, call.name, call.arguments]).collect();
        assert_eq!(calls, row.calls, "{folder}/{name}");
        assert_eq!(decoded.items, row.items, "{folder}/{name}");
        assert_eq!(decoded.usage.map(Tokens::from), row.usage, "{folder}/{name}");
        assert_eq!(decoded.refused, row.refused, "{folder}/{name}");

        let mut recorder = Recorder::new();
        events.iter().for_each(|event| recorder.observe(event));
        let thinking: String = recorder.messages().iter().map(|message| &*message.thinking).collect();
        assert_eq!(thinking, row.thinking, "{folder}/{name}");
        let hosted: Vec<[String; 3]> = recorder
            .tool_calls()
            .iter()
            .map(|call| [call.call.to_string(), call.name.clone(), format!("{:?}", call.status)])
            .collect();
        assert_eq!(hosted, row.hosted, "{folder}/{name}");
        let unrecognized: Vec<Option<String>> = events
            .iter()
            .filter_map(|event| match event {
                TurnEvent::Unrecognized(event) => Some(event.name.clone()),
                _ => None,
            })
            .collect();
        assert_eq!(unrecognized, row.unrecognized, "{folder}/{name}");
        assert_eq!(Some(Tokens::from(recorder.usage())), row.usage.or(Some(Tokens::default())), "{name}");
    }
}

/// What a caller was shown is what the record says, and every message that a caller heard of has an end.
#[test]
fn deltas_add_up_to_the_messages() {
    for Recording { name, folder, body, .. } in RECORDINGS.iter() {
        let (events, decoded) = decode(folder, [body.clone()]);
        let mut shown: Vec<(String, String, bool)> = Vec::new();
        for event in &events {
            let (id, text, ended) = match event {
                TurnEvent::TextDelta(delta) => (delta.message.to_string(), &delta.text, false),
                TurnEvent::MessageEnded(ended) => (ended.message.to_string(), &ended.text, true),
                _ => continue,
            };
            let index = shown.iter().position(|(known, ..)| *known == id).unwrap_or_else(|| {
                shown.push((id, String::new(), false));
                shown.len() - 1
            });
            let message = &mut shown[index];
            if ended {
                assert_eq!(message.1, *text, "{folder}/{name}");
                message.2 = true;
            } else {
                message.1.push_str(text);
            }
        }
        let is_answer = !matches!(decoded.ending, DecodedEnding::Failed(_) | DecodedEnding::Missing);
        assert!(!is_answer || shown.iter().all(|(_, _, ended)| *ended), "{folder}/{name}: {shown:?}");
        let texts = shown.into_iter().filter(|(_, text, ended)| *ended && !text.is_empty());
        assert_eq!(texts.map(|(_, text, _)| text).collect::<Vec<_>>(), decoded.messages, "{folder}/{name}");
    }
}

#[test]
fn one_byte_at_a_time_is_the_same() {
    for Recording { name, folder, body, .. } in RECORDINGS.iter() {
        let whole = decode(folder, [body.clone()]);
        assert_eq!(decode(folder, pieces_of(body, 1)), whole, "{folder}/{name}");
    }
}

/// Wherever a body is cut off, it is not taken for whole before its terminal event is.
#[test]
fn a_body_that_is_cut_off_is_never_complete() {
    for Recording { name, folder, body, .. } in RECORDINGS.iter() {
        let whole = decode(folder, [body.clone()]).1.ending;
        let terminal = terminal_end(body);
        // The long one is cut where it matters: in its head and its tail.
        let cuts = (0..body.len()).filter(|cut| *cut < 4096 || body.len() - cut < 1024);
        // There at every byte, or by default where a line or the terminal event ends.
        let is_end = |cut: &usize| {
            let around = &body[cut.saturating_sub(2)..body.len().min(cut + 2)];
            let is_line = around.iter().any(|byte| matches!(byte, b'\r' | b'\n'));
            is_line || terminal.is_some_and(|end| end.abs_diff(*cut) < 8)
        };
        for cut in cuts.filter(|cut| effort::is_deep() || is_end(cut)) {
            let (_, decoded) = decode(folder, [body.slice(..cut)]);
            if terminal.is_some_and(|end| cut >= end) {
                assert_eq!(decoded.ending, whole, "{folder}/{name} cut at {cut}");
            } else {
                let is_missing = matches!(decoded.ending, DecodedEnding::Missing | DecodedEnding::Unreadable);
                assert!(is_missing, "{folder}/{name} cut at {cut}: {:?}", decoded.ending);
            }
        }
    }
}

/// Where the data of the terminal event is whole.
fn terminal_end(body: &Bytes) -> Option<usize> {
    let mut end = 0;
    for line in std::str::from_utf8(body).unwrap().split_inclusive(['\r', '\n']) {
        end += line.len();
        let data = line.strip_prefix("data:").and_then(|data| serde_json::from_str::<Value>(data).ok());
        let is_terminal = data.is_some_and(|data| match data.get("type").and_then(Value::as_str) {
            Some("response.completed" | "response.incomplete" | "response.failed" | "error") => true,
            Some(_) => false,
            None => data.get("error").is_some(),
        });
        if is_terminal {
            return Some(end - 1);
        }
    }
    None
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_cut_is_the_same(
        choice in any::<prop::sample::Index>(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let Recording { folder, body, .. } = choice.get(&RECORDINGS);
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(body.len() + 1)).collect();
        cuts.sort_unstable();
        let mut pieces = Vec::new();
        let mut start = 0;
        for cut in cuts {
            pieces.push(body.slice(start..cut));
            start = cut;
        }
        pieces.push(body.slice(start..));
        prop_assert_eq!(decode(folder, pieces), decode(folder, [body.clone()]));
    }

    /// A body with some of its bytes replaced may be anything; it is read to its end.
    #[test]
    fn a_garbled_body_is_read_to_its_end(
        choice in any::<prop::sample::Index>(),
        wrong in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40),
    ) {
        let Recording { folder, body, .. } = choice.get(&RECORDINGS);
        let mut garbled = body.to_vec();
        for (place, byte) in wrong {
            *place.get_mut(&mut garbled) = byte;
        }
        let garbled = Bytes::from(garbled);
        prop_assert_eq!(decode(folder, pieces_of(&garbled, 7)), decode(folder, [garbled]));
    }

    #[test]
    fn any_bytes_are_read_to_their_end(body in prop::collection::vec(any::<u8>(), 0..512)) {
        let body = Bytes::from(body);
        let (_, decoded) = decode("responses", [body]);
        prop_assert!(decoded.ending != DecodedEnding::Completed);
    }
}
