//! Envelopes and payloads: what is kept, what is refused, and what their schema says.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nexus_broker::{
    Address, BrokerErrorKind, Envelope, EnvelopeId, MessagePriority, Payload, envelope_schema,
};
use nexus_core::{Clock, SystemClock};
use proptest::{collection, prelude::*};
use serde_json::{Map, Value, json};

/// A payload of each type, with every key.
fn payloads() -> Vec<(&'static str, Value)> {
    vec![
        (
            "task_assignment",
            json!({ "task_id": "t1", "definition": "Do it.", "inputs": { "a": [1, null] }, "working_directory": "/w",
                "required_tools": ["read_file"] }),
        ),
        (
            "status_update",
            json!({ "task_id": "t1", "status": "in_progress", "percent": 100, "details": "half" }),
        ),
        (
            "result",
            json!({ "task_id": "t1", "summary": "Done.", "artifacts": ["a/b.txt"], "stdout": "x", "diff": "+x" }),
        ),
        ("query", json!({ "question": "Which?" })),
        ("error", json!({ "code": "no_tree", "message": "There is no tree." })),
        ("message", json!({ "content": "Hello.", "in_reply_to": "m0" })),
        (
            "trigger",
            json!({ "trigger_id": "nightly", "occurrence": "2026-01-31T00:00:00Z", "action": "Tidy.", "data": { "x": 1.5 } }),
        ),
    ]
}

fn envelope(kind: &str, payload: &Value) -> Value {
    json!({ "message_id": "m1", "timestamp": "2026-01-31T12:00:00.123Z", "source_agent_id": "manager",
        "target_agent_id": "agent:worker:main", "priority": "high", "expires_at": "2026-02-01T00:00:00.000Z",
        "type": kind, "payload": payload })
}

/// Keys that no version knows, with any value.
fn unknown_keys() -> impl Strategy<Value = Map<String, Value>> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    let value = leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            collection::btree_map(any::<String>(), inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    });
    collection::btree_map(any::<String>().prop_map(|key| format!("x-{key}")), value, 0..5)
        .prop_map(|map| map.into_iter().collect())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_not_known_is_kept_at_both_levels(
        index in 0..7_usize, outer in unknown_keys(), inner in unknown_keys(),
    ) {
        let (kind, mut payload) = payloads().swap_remove(index);
        payload.as_object_mut().unwrap().extend(inner);
        let mut written = envelope(kind, &payload);
        written.as_object_mut().unwrap().extend(outer);
        let read: Envelope = serde_json::from_str(&written.to_string()).unwrap();
        prop_assert_eq!(serde_json::to_value(&read).unwrap(), written);
        let again: Envelope = serde_json::from_value(serde_json::to_value(&read).unwrap()).unwrap();
        prop_assert_eq!(again, read);
    }

    #[test]
    fn no_text_panics(text in any::<String>()) {
        let _ = text.parse::<Address>();
        let _ = text.parse::<EnvelopeId>();
        let mut written = envelope("message", &json!({ "content": "" }));
        for key in ["message_id", "timestamp", "source_agent_id", "expires_at", "type", "payload"] {
            let before = written[key].take();
            written[key] = Value::from(text.as_str());
            let _ = serde_json::from_value::<Envelope>(written.clone());
            written[key] = before;
        }
    }

    #[test]
    fn an_address_reads_as_it_is_written(
        agent in "[a-z0-9][a-z0-9_-]{0,39}", context in "[a-z0-9][a-z0-9_-]{0,39}",
    ) {
        for text in [agent.clone(), format!("agent:{agent}:{context}"), format!("manager-of:{agent}"), format!("caller:{agent}")] {
            prop_assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
    }
}

#[test]
fn every_type_reads_as_it_is_written() {
    for (kind, payload) in payloads() {
        let written = envelope(kind, &payload);
        let read: Envelope = serde_json::from_value(written.clone()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), written);
        assert!(read.other.is_empty(), "{kind}: {:?}", read.other);
    }
}

#[test]
fn a_type_that_is_not_known_is_refused_by_its_name_with_those_there_are() {
    let error = serde_json::from_value::<Envelope>(envelope("gossip", &json!({}))).unwrap_err().to_string();
    assert!(error.contains("`gossip`"), "{error}");
    for (kind, _) in payloads() {
        assert!(error.contains(&format!("`{kind}`")), "{kind}: {error}");
    }
}

#[test]
fn what_is_missing_or_wrong_is_refused() {
    for (key, value) in [
        ("message_id", json!("")),
        ("message_id", json!("a\nb")),
        ("message_id", json!("x".repeat(257))),
        ("timestamp", json!("yesterday")),
        ("timestamp", json!("1969-12-31T23:59:59Z")),
        ("timestamp", json!("10000-01-01T00:00:00Z")),
        ("source_agent_id", json!("a b")),
        ("target_agent_id", json!("agent:a")),
        ("priority", json!("highest")),
        ("expires_at", json!(5)),
        ("payload", json!({})),
        ("payload", json!({ "content": 5 })),
    ] {
        let mut written = envelope("message", &json!({ "content": "" }));
        written[key] = value.clone();
        assert!(serde_json::from_value::<Envelope>(written.clone()).is_err(), "{key}: {value}");
        written.as_object_mut().unwrap().remove(key);
        let without = serde_json::from_value::<Envelope>(written);
        assert_eq!(without.is_ok(), matches!(key, "priority" | "expires_at"), "without {key}");
    }
    let too_much =
        envelope("status_update", &json!({ "task_id": "t", "status": "received", "percent": 101 }));
    assert!(serde_json::from_value::<Envelope>(too_much).unwrap_err().to_string().contains("101"));
}

/// A clock that stands still.
#[derive(Debug)]
struct Still(SystemTime);

impl Clock for Still {
    fn now(&self) -> SystemTime {
        self.0
    }
}

#[test]
fn a_time_is_to_the_millisecond_and_none_panics() {
    let payload: Payload =
        serde_json::from_value(json!({ "type": "query", "payload": { "question": "?" } })).unwrap();
    let agent = |name| Address::agent(name).unwrap();
    let day = Duration::from_secs(86_400);
    for time in [
        UNIX_EPOCH - day,
        UNIX_EPOCH,
        SystemTime::now(),
        UNIX_EPOCH + day * 365 * 7_000,
        UNIX_EPOCH + day * 365 * 9_000,
    ] {
        let envelope = Envelope::new(agent("a"), agent("b"), payload.clone(), &Still(time));
        let again: Envelope = serde_json::from_value(serde_json::to_value(&envelope).unwrap()).unwrap();
        assert_eq!(again, envelope);
    }
    let mut envelope = Envelope::new(agent("a"), agent("b"), payload, &SystemClock);
    envelope.expires_at = Some(UNIX_EPOCH - day);
    assert_eq!(serde_json::to_value(&envelope).unwrap()["expires_at"], "1970-01-01T00:00:00.000Z");
    let written = json!({ "message_id": "m", "timestamp": "2026-01-31T12:00:00.123999Z", "source_agent_id": "a",
        "target_agent_id": "b", "type": "query", "payload": { "question": "?" } });
    let read: Envelope = serde_json::from_value(written).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap()["timestamp"], "2026-01-31T12:00:00.123Z");
}

#[test]
fn an_address_that_is_none_is_refused() {
    for text in [
        "",
        ":",
        "a b",
        "-a",
        ".a",
        "a/b",
        "agent:",
        "agent:a",
        "agent:a:",
        "agent::b",
        "agent:a:b:c",
        "manager-of:",
        "caller:",
        "caller:a:b",
        "other:a",
        "ä",
        "a\0",
        &"x".repeat(65),
    ] {
        let error = text.parse::<Address>().unwrap_err();
        assert_eq!(error.kind, BrokerErrorKind::Invalid, "{text:?}");
        assert!(error.advice.contains("manager-of:NAME"));
    }
    assert_eq!("agent:a:b".parse::<Address>().unwrap().agent_name(), Some("a"));
    assert_eq!("caller:a".parse::<Address>().unwrap().agent_name(), None);
}

#[test]
fn ids_of_occurrences_differ_where_what_happened_does() {
    let of = EnvelopeId::of_occurrence;
    assert_eq!(of("nightly", "2026-01-31").as_str(), "nightly@2026-01-31");
    assert_eq!(of("nightly", "x"), of("nightly", "x"));
    let long = "x".repeat(10_000);
    let all = [
        of("a@b", "c"),
        of("a", "b@c"),
        of("a", &long),
        of(&long, "a"),
        of("a", "b\n"),
        of("", ""),
        of("a", ""),
    ];
    for (index, id) in all.iter().enumerate() {
        assert!(id.as_str().parse::<EnvelopeId>().is_ok(), "{id}");
        assert!(!all[..index].contains(id), "{id}");
    }
}

#[test]
fn an_id_that_a_header_of_http_does_not_carry_as_it_is_is_its_hash_there() {
    let header = |id: &str| id.parse::<EnvelopeId>().unwrap().header_text().into_owned();
    assert_eq!(header("8f4e@answer"), "8f4e@answer");
    // printf %s 'größe' | sha256sum
    assert_eq!(header("größe"), "sha256@d353a2671b67afff0941ae456e5c76e9394bd6579774ae7542a6185fb9843384");
    // What stands around a value is no part of it.
    assert!(header(" a ").starts_with("sha256@"));
    assert_ne!(header(" a "), header("a "));
}

#[test]
fn the_schema_takes_what_is_read_and_refuses_what_is_not() {
    let schema = jsonschema::validator_for(&envelope_schema()).unwrap();
    for (kind, mut payload) in payloads() {
        payload["x-unknown"] = json!(1);
        let mut written = envelope(kind, &payload);
        written["x-unknown"] = json!([1]);
        let faults: Vec<String> = schema.iter_errors(&written).map(|error| error.to_string()).collect();
        assert!(faults.is_empty(), "{kind}: {faults:?}");
        written["payload"] = json!({});
        assert!(!schema.is_valid(&written), "{kind} without what it must have");
    }
    assert!(!schema.is_valid(&envelope("gossip", &json!({}))));
    let mut without = envelope("query", &json!({ "question": "?" }));
    without.as_object_mut().unwrap().remove("message_id");
    assert!(!schema.is_valid(&without));
}

#[test]
fn urgent_comes_before_all() {
    use MessagePriority::{High, Low, Normal, Urgent};
    assert!(Urgent > High && High > Normal && Normal > Low);
    assert_eq!(MessagePriority::default(), Normal);
}
