//! Compares lenient reading of invalid JSON with `serde_json`.

use nexus_core::lenient_json;
use serde_json::Value;

/// Reads an input leniently, and checks that valid JSON is read as `serde_json` reads it, and that a repair leaves nothing to
/// repair.
///
/// # Panics
///
/// If one of these conditions does not hold.
pub fn check(input: &[u8]) {
    let plain = serde_json::from_slice::<Value>(input);
    let read = lenient_json::from_slice::<Value>(input);
    let message = lenient_json::read_message(input);
    if let Ok(value) = plain {
        assert_eq!(lenient_json::repair(input), None, "valid JSON was repaired");
        assert_eq!(read.expect("valid JSON is read"), (value.clone(), None));
        assert_eq!(message.expect("valid JSON is read").value, value);
        return;
    }
    if let Ok((_, repairs)) = read {
        assert!(repairs.is_some(), "what serde_json refuses was read without a repair");
        let flaw = message.expect("what is read is a message").flaw;
        let is_marked_alone = repairs.is_some_and(|repairs| {
            repairs.lone_surrogates + repairs.not_finite == 0 && !repairs.invalid_utf8
        });
        assert!(flaw.is_some() || is_marked_alone, "a decision could rest on it");
    }
    if let Some(repaired) = lenient_json::repair(input) {
        let again = lenient_json::repair(repaired.text.as_bytes());
        // A repair removes one byte order mark, so a repaired text may begin with another one.
        assert!(again.is_none_or(|again| again.repairs.byte_order_mark), "a repair is not whole");
    }
    let _ = lenient_json::request_id(input);
    if let Ok(text) = std::str::from_utf8(input)
        && let Ok(value) = lenient_json::read_decision(text)
    {
        assert_eq!(serde_json::from_str::<Value>(text).expect("a decision is JSON"), value);
    }
}
