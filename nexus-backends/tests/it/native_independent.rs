//! What servers that nobody here wrote have streamed, decoded: the outcome is the one that
//! `transcripts/native/independent/*/expected.json` states, however the body is cut. A recording without a row
//! fails, and so does a row without a recording.
//!
//! A row says how the call ended, what the model said (`messages`; `streamed`, as deltas) and thought, what it asks
//! for as call id, name and arguments, the types of all items, and the tokens. The tables were not made by the
//! decoder under test: `transcripts/native/independent/README.md`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use bytes::Bytes;
use nexus_backends::generic::{Decoded, DecodedEnding, StreamDecoder};
use nexus_core::TurnEvent;
use serde::Deserialize;

/// The servers, with how many recordings there are of each at least.
const SERVERS: [(&str, usize); 5] = [
    ("aimock-1.43.0", 11),
    ("litellm-1.106.2", 12),
    ("llama.cpp-0.5.0", 9),
    ("llmposter-0.5.0", 6),
    ("transformers-5.23.0", 9),
];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    ending: String,
    model: Option<String>,
    messages: Vec<String>,
    calls: Vec<[String; 3]>,
    items: Vec<String>,
    usage: Option<Tokens>,
    streamed: String,
    #[serde(default)]
    thinking: String,
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tokens {
    input: Option<u64>,
    cache_read: Option<u64>,
    output: Option<u64>,
    reasoning: Option<u64>,
}

/// One body, with what it must come to.
#[derive(Debug)]
struct Recording {
    name: String,
    body: Bytes,
    row: Row,
}

/// Every recording. Fails where one has no row or a row no recording.
fn recordings() -> Vec<Recording> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts/native/independent");
    let mut all = Vec::new();
    for (server, at_least) in SERVERS {
        let folder = root.join(server);
        let table = fs::read_to_string(folder.join("expected.json")).unwrap();
        let rows: BTreeMap<String, Row> = serde_json::from_str(&table).unwrap();
        let names = fs::read_dir(&folder).unwrap().filter_map(|entry| {
            let name = entry.unwrap().file_name().into_string().unwrap();
            name.strip_suffix(".sse").map(str::to_owned)
        });
        let names: BTreeSet<String> = names.collect();
        assert!(names.len() >= at_least, "only {} bodies of {server} were found", names.len());
        assert_eq!(names, rows.keys().cloned().collect(), "{server}: bodies, and rows of the table");
        for (name, row) in rows {
            let body = fs::read(folder.join(format!("{name}.sse"))).unwrap().into();
            all.push(Recording { name: format!("{server}/{name}"), body, row });
        }
    }
    all
}

/// Decodes a body that comes in pieces of `length`.
fn decode(body: &Bytes, length: usize) -> (Vec<TurnEvent>, Decoded) {
    let mut decoder = StreamDecoder::new();
    let mut events = Vec::new();
    for start in (0..body.len()).step_by(length) {
        events.extend(decoder.push(body.slice(start..body.len().min(start + length))));
    }
    let (last, decoded) = decoder.finish();
    events.extend(last);
    (events, decoded)
}

fn word_for(ending: &DecodedEnding) -> String {
    match ending {
        DecodedEnding::Completed => "completed".to_owned(),
        DecodedEnding::Incomplete(reason) => format!("incomplete: {reason}"),
        DecodedEnding::Failed(kind) => format!("failed: {kind:?}"),
        DecodedEnding::Missing => "missing".to_owned(),
        other => format!("{other:?}"),
    }
}

#[test]
fn every_body_has_the_outcome_that_the_table_states() {
    for Recording { name, body, row } in recordings() {
        let (events, decoded) = decode(&body, body.len());
        assert_eq!(word_for(&decoded.ending), row.ending, "{name}: {events:#?}");
        assert_eq!(decoded.model.as_ref().map(|model| model.as_str()), row.model.as_deref(), "{name}");
        assert_eq!(decoded.messages, row.messages, "{name}");
        let calls: Vec<[String; 3]> =
            decoded.calls.into_iter().map(|call| [call.call_id, call.name, call.arguments]).collect();
        assert_eq!(calls, row.calls, "{name}");
        assert_eq!(decoded.items, row.items, "{name}");
        let usage = decoded.usage.map(|usage| Tokens {
            input: usage.input_tokens,
            cache_read: usage.cache_read_tokens,
            output: usage.output_tokens,
            reasoning: usage.reasoning_tokens,
        });
        assert_eq!(usage, row.usage, "{name}");

        let mut streamed = String::new();
        let mut thinking = String::new();
        for event in &events {
            match event {
                TurnEvent::TextDelta(delta) => streamed.push_str(&delta.text),
                TurnEvent::ThinkingDelta(delta) => thinking.push_str(&delta.text),
                TurnEvent::Unrecognized(unknown) => panic!("{name}: {unknown:?} is not known"),
                _ => {}
            }
        }
        assert_eq!((streamed, thinking), (row.streamed, row.thinking), "{name}");
    }
}

#[test]
fn how_a_body_is_cut_changes_nothing() {
    for Recording { name, body, .. } in recordings() {
        let whole = decode(&body, body.len());
        for length in [1, 2, 7, 64, 1000] {
            assert_eq!(decode(&body, length), whole, "{name} in pieces of {length}");
        }
    }
}
