//! Parts of a request that the wires of items share.

use std::{
    borrow::Cow,
    hash::{BuildHasherDefault, DefaultHasher, Hash as _, Hasher as _},
};

use serde::Serialize;

/// Name of the tool with which a model submits a structured answer, where the server takes no schema of an answer.
pub(super) const ANSWER_TOOL: &str = "final_answer";

/// Description of that tool.
pub(super) const ANSWER_TOOL_USE: &str =
    "Submit the final answer. Call this tool once, when the answer is complete.";

/// Text of the user in a conversation that begins with the model.
pub(super) const MISSING_BEGINNING: &str = "[the beginning of this conversation is missing]";

/// Appends JSON. Cannot fail in practice, because all keys are strings.
pub(super) fn write(into: &mut Vec<u8>, value: &impl Serialize) {
    let before = into.len();
    if serde_json::to_writer(&mut *into, value).is_err() {
        into.truncate(before);
        into.extend_from_slice(b"null");
    }
}

/// Appends an element of a list, after a comma if it is not the first.
pub(super) fn element(into: &mut Vec<u8>, value: &impl Serialize) {
    separate(into);
    write(into, value);
}

/// Appends a comma, unless a list or an object begins here.
pub(super) fn separate(into: &mut Vec<u8>) {
    if !matches!(into.last(), None | Some(b'[' | b'{' | b',' | b':')) {
        into.push(b',');
    }
}

/// Appends the members of a JSON object to the object that `into` has not closed yet.
pub(super) fn members(into: &mut Vec<u8>, object: &str) {
    let inner = object.trim().strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    if let Some(inner) = inner.map(str::trim).filter(|inner| !inner.is_empty()) {
        separate(into);
        into.extend_from_slice(inner.as_bytes());
    }
}

/// Returns an id in the form that a wire requires: letters, digits, `_` and `-`, at most `longest`. Another id is
/// replaced by its hash, so that a call and its result still have one id.
pub(super) fn call_id(id: &str, longest: usize) -> Cow<'_, str> {
    // The shortest form has exactly that many letters and digits.
    let is_short = longest < 16;
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || (!is_short && matches!(byte, b'_' | b'-'));
    let fits_length = if is_short { id.len() == longest } else { (1..=longest).contains(&id.len()) };
    if fits_length && id.bytes().all(fits) {
        return Cow::Borrowed(id);
    }
    let hash = hash(id);
    match longest {
        // The shortest form: nine letters and digits.
        ..16 => Cow::Owned(format!("{:09x}", hash & 0xf_ffff_ffff)),
        _ => Cow::Owned(format!("call_{hash:016x}")),
    }
}

/// Maximum length of a tool's name. Source: the errors of the public APIs.
const MAX_NAME_BYTES: usize = 64;

/// Returns the name of a called tool in the form that servers require. A model may have called a tool that does not
/// exist, and a server rejects a conversation with such a name.
pub(super) fn tool_name(name: &str) -> Cow<'_, str> {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    if (1..=MAX_NAME_BYTES).contains(&name.len()) && name.chars().all(fits) {
        return Cow::Borrowed(name);
    }
    let fitting = name.chars().map(|letter| if fits(letter) { letter } else { '_' });
    let fitting: String = fitting.take(MAX_NAME_BYTES).collect();
    if fitting.is_empty() { Cow::Borrowed("unnamed") } else { Cow::Owned(fitting) }
}

fn hash(id: &str) -> u64 {
    // The default keys, because the next request must have the same id.
    let mut hasher: DefaultHasher =
        std::hash::BuildHasher::build_hasher(&BuildHasherDefault::<DefaultHasher>::new());
    id.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_of_another_wire_gets_the_form_of_this_one_and_stays_the_same() {
        assert_eq!(call_id("call_1-a", 40), "call_1-a");
        for (odd, longest) in [("functions.add:0", 40), ("", 40), ("toolu_0123456789", 9), ("é", 64)] {
            let id = call_id(odd, longest).into_owned();
            assert!(
                id.len() <= longest && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            );
            assert_eq!(call_id(odd, longest), id);
        }
        assert_ne!(call_id("a.b", 40), call_id("a.c", 40));
    }

    #[test]
    fn a_name_that_no_server_accepts_is_replaced() {
        for (name, sent) in [("add", "add"), ("a b.c", "a_b_c"), ("", "unnamed"), ("é", "_")] {
            assert_eq!(tool_name(name), sent);
        }
        assert_eq!(tool_name(&"é".repeat(100)).len(), MAX_NAME_BYTES);
    }

    #[test]
    fn members_are_added_to_an_open_object() {
        let mut into = b"{\"a\":1".to_vec();
        members(&mut into, " {} ");
        members(&mut into, "{\"b\": {}}");
        into.push(b'}');
        assert_eq!(into, br#"{"a":1,"b": {}}"#);
    }
}
