//! Fast parser for deltas.
//!
//! Nearly every event of a stream is a delta, and nearly every delta is plain JSON. This parser reads it in one pass. For
//! anything else it returns `None`, and the general parser reads the event. Both parsers give the same result.

use std::str;

use memchr::memchr;

use super::deltas::DeltaTarget;
use super::unknown::first_key;
use crate::native::plain_json::plain;
use crate::native::wires::responses::wire::DeltaEvent;

/// Returns the target of a delta, and its event.
pub(super) fn delta(data: &[u8]) -> Option<(DeltaTarget, DeltaEvent<'_>)> {
    let kind = data.get(first_key(data)?..)?;
    let target = DeltaTarget::of(kind.get(..memchr(b'"', kind)?)?)?;
    plain(str::from_utf8(data).ok()?).map(|event| (target, event))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PLAIN: &str = r#"{"type":"response.output_text.delta","sequence_number":12,"item_id":"m","output_index":0,"content_index":3,"delta":"é","logprobs":[],"x":null}"#;

    #[test]
    fn a_plain_delta_is_read() {
        let (target, event) = delta(PLAIN.as_bytes()).unwrap();
        assert_eq!(target, DeltaTarget::Text);
        assert_eq!((event.item_id.as_str(), event.delta.as_str()), ("m", "é"));
        assert_eq!(event.output_index.0, Some(0));
        assert_eq!(event.summary_index.0, None);
    }

    #[test]
    fn what_is_not_plain_is_left_to_the_parser() {
        for odd in [
            r#"{"type":"response.refusal.delta","delta":"\u0041"}"#,
            r#"{"type":"response.refusal.delta","delta":1}"#,
            r#"{"type":"response.refusal.delta","delta":"a","delta":"b"}"#,
            r#"{"type":"response.refusal.delta","delta":"a","item_id":"","item_id":"b"}"#,
            r#"{"type":"response.refusal.delta","delta":"a","output_index":null,"output_index":1}"#,
            r#"{"type":"response.refusal.delta","delta":"a","output_index":01}"#,
            r#"{"type":"response.refusal.delta","delta":"a","output_index":1.5}"#,
            r#"{"type":"response.refusal.delta","delta":"a","output_index":"1"}"#,
            r#"{"type":"response.refusal.delta","delta":"a"} x"#,
            r#"{"type":"response.refusal.delta","delta":"a",}"#,
            r#"{"type":"response.refusal.delta" "delta":"a"}"#,
            r#"{"type":"response.refusal.done","delta":"a"}"#,
            r#"{"delta":"a","type":"response.refusal.delta"}"#,
            "{\"type\":\"response.refusal.delta\",\"delta\":\"a\u{1}\"}",
        ] {
            assert!(delta(odd.as_bytes()).is_none(), "{odd}");
        }
        assert!(delta(b"{\"type\":\"response.refusal.delta\",\"delta\":\"\xFF\"}").is_none());
        for end in 0..PLAIN.len() {
            assert!(delta(&PLAIN.as_bytes()[..end]).is_none(), "cut at {end}");
        }
    }

    #[test]
    fn a_delta_of_arguments_is_read_with_its_escapes() {
        let arguments =
            r#"{"type":"response.function_call_arguments.delta","delta":"{\"path\":\"a\\\\b\\n"}"#;
        let (target, event) = delta(arguments.as_bytes()).unwrap();
        assert_eq!((target, event.delta.as_str()), (DeltaTarget::Arguments, "{\"path\":\"a\\\\b\\n"));
    }

    fn member() -> impl Strategy<Value = String> {
        let key = prop_oneof![
            Just("delta"),
            Just("item_id"),
            Just("output_index"),
            Just("summary_index"),
            Just("content_index"),
            Just("logprobs"),
            Just("é"),
            Just(""),
        ];
        let value = prop_oneof![
            4 => "\"[a-z{},:é ]{0,6}\"",
            3 => "[0-9]{1,18}",
            2 => prop_oneof![Just("null"), Just("true"), Just("false"), Just("[]"), Just("{}"), Just("[ ]")]
                .prop_map(str::to_owned),
            1 => prop_oneof![Just("nul"), Just("-1"), Just("1e3"), Just("\"\\n\""), Just(""), Just("{\"a\":1}")]
                .prop_map(str::to_owned),
        ];
        let space = prop_oneof![Just(""), Just(" ")];
        (key, space.clone(), value, space)
            .prop_map(|(key, before, value, after)| format!("\"{key}\"{before}:{after}{value}{before}"))
    }

    proptest! {
        /// The members of JSON objects, whole and broken.
        #[test]
        fn the_parser_reads_the_same(
            members in prop::collection::vec(member(), 0..6),
            end in prop_oneof![6 => Just("}"), 1 => Just(" } "), 1 => Just(",}"), 1 => Just("")],
        ) {
            let mut data = r#"{"type":"response.output_text.delta""#.to_owned();
            for member in members {
                data.push(',');
                data.push_str(&member);
            }
            data.push_str(end);
            if let Some((_, quick)) = delta(data.as_bytes()) {
                let parsed: DeltaEvent<'_> = serde_json::from_str(&data).unwrap();
                prop_assert_eq!(format!("{quick:?}"), format!("{parsed:?}"));
            }
        }
    }
}
