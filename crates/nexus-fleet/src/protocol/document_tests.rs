//! Reads every example of `docs/reference/fleet-protocol.md` as the message that it is an example of.

use std::collections::BTreeSet;

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::*;

const DOCUMENT: &str = include_str!("../../../../docs/reference/fleet-protocol.md");

/// The examples, each with the name of its type.
fn examples() -> impl Iterator<Item = (&'static str, &'static str)> {
    DOCUMENT.split("```json ").skip(1).map(|rest| {
        let (name, rest) = rest.split_once('\n').expect("a name");
        (name, rest.split_once("```").expect("an end").0)
    })
}

/// Everything in the example is understood: written again it is the same, but for what is left out.
fn check<T: Serialize + DeserializeOwned>(example: &str) {
    let read: T = serde_json::from_str(example).unwrap_or_else(|error| panic!("{error}: {example}"));
    let written = serde_json::to_value(&read).expect("it can be written");
    let example: Value = serde_json::from_str(example).expect("it is JSON");
    assert_includes(&written, &example);
}

fn assert_includes(written: &Value, example: &Value) {
    match (written, example) {
        (Value::Object(written), Value::Object(example)) => {
            for (key, value) in example {
                let written = written.get(key).unwrap_or_else(|| panic!("{key} is not in {written:?}"));
                assert_includes(written, value);
            }
        }
        (Value::Array(written), Value::Array(example)) => {
            assert_eq!(written.len(), example.len());
            written.iter().zip(example).for_each(|(written, example)| assert_includes(written, example));
        }
        _ => assert_eq!(written, example),
    }
}

#[test]
fn every_example_is_the_message_that_it_says() {
    let mut seen = BTreeSet::new();
    for (name, example) in examples() {
        seen.insert(name);
        match name {
            "Payload" => check::<Payload>(example),
            "QueuedTurn" => check::<QueuedTurn>(example),
            "TurnBody" => check::<TurnBody>(example),
            "StartedBy" => check::<StartedBy>(example),
            "Frame" => check::<Frame>(example),
            "CallerMessage" => check::<CallerMessage>(example),
            "Answer" => check::<CallerAnswer>(example),
            "WireOutcome" => check::<WireOutcome>(example),
            "StoredEffects" => check::<StoredEffects>(example),
            "StoredResult" => check::<StoredResult>(example),
            "WorkerCard" => check::<WorkerCard>(example),
            "LoginRequest" => check::<LoginRequest>(example),
            "LoginQuestion" => check::<LoginQuestion>(example),
            "LoginAnswer" => check::<LoginAnswer>(example),
            "LoginReply" => check::<LoginReply>(example),
            "WireForget" => check::<WireForget>(example),
            other => panic!("{other} is no message"),
        }
    }
    assert_eq!(seen.len(), 16, "{seen:?}");
}

#[test]
fn the_names_and_bounds_are_those_of_the_document() {
    for name in [
        RESULTS_STREAM,
        RESULTS_SUBJECTS,
        STARTED_STREAM,
        WORKERS_BUCKET,
        HOLDS_BUCKET,
        SLOTS_BUCKET,
        OBJECTS_BUCKET,
        &queue_subject("<pool>", &Lane::At("<worker>".into()), "<caller>").replace("at-<worker>", "<lane>"),
        &queue_subjects("<pool>"),
        &queue_stream("<pool>"),
        &frames_subject("<caller>", "<instance>", "<turn>"),
        &all_frames("<caller>", "<instance>"),
        &control_subject("<pool>", "<worker>"),
        &login_subject("<pool>", "<worker>"),
        &result_subject("<caller>", "<turn>"),
        &effects_subject("<caller>", "<turn>"),
        &started_subject("<caller>", "<turn>"),
        &nexus_nats::key_subject(WORKERS_BUCKET, &worker_key("<pool>", "<worker>")),
        &Lane::At("<worker>".into()).to_string(),
        &format!("This is version {PROTOCOL_VERSION}:"),
    ] {
        assert!(DOCUMENT.contains(name), "{name}");
    }
    assert!(DOCUMENT.contains("262,144 bytes") && INLINE_BYTES == 262_144);
}
