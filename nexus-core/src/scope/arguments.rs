//! Finds and replaces paths in a call's arguments.

use serde_json::Value;

use super::PathArgument;

/// Longest JSON Pointer in a message, in bytes. Source: our own bound.
const MAX_PLACE_BYTES: usize = 200;

/// Reason why a path could not be read from the arguments.
#[derive(Debug, PartialEq)]
pub(super) enum Obstacle<E> {
    /// The value at this JSON Pointer is not text.
    NotText(String),
    /// The path is rejected.
    Refused(E),
}

/// Replaces each path by the result of `check`.
///
/// A value that is missing or `null` is an optional argument without a value. Any other value that is neither
/// text nor a list of texts is an error, so that no unchecked value remains where a path is expected.
pub(super) fn replace_paths<E>(
    arguments: &mut Value,
    path: &PathArgument,
    check: &mut dyn FnMut(&str) -> Result<String, E>,
) -> Result<(), Obstacle<E>> {
    let steps: Vec<&str> = path.pointer.split('/').skip(1).collect();
    replace(arguments, &steps, "", check)
}

/// Replaces the paths in `value`, which is at `place`. `steps` are the remaining steps of the pointer.
fn replace<E>(
    value: &mut Value,
    steps: &[&str],
    place: &str,
    check: &mut dyn FnMut(&str) -> Result<String, E>,
) -> Result<(), Obstacle<E>> {
    let not_text = || Obstacle::NotText(place[..place.floor_char_boundary(MAX_PLACE_BYTES)].to_owned());
    match (value, steps.split_first()) {
        (Value::Null, _) => Ok(()),
        (Value::String(path), None) => {
            *path = check(path).map_err(Obstacle::Refused)?;
            Ok(())
        }
        (Value::Array(items), None) if items.iter().all(Value::is_string) => {
            items.iter_mut().try_for_each(|item| replace(item, &[], place, check))
        }
        (Value::Array(items), Some((&"*", rest))) => {
            let mut numbered = items.iter_mut().enumerate();
            numbered.try_for_each(|(index, item)| replace(item, rest, &format!("{place}/{index}"), check))
        }
        (Value::Array(items), Some((step, rest))) => {
            let index: usize = step.parse().map_err(|_| not_text())?;
            let item = items.get_mut(index);
            // A missing item is an optional argument without a value, like a missing field.
            item.map_or(Ok(()), |item| replace(item, rest, &format!("{place}/{index}"), check))
        }
        (Value::Object(fields), Some((&"*", rest))) => fields.iter_mut().try_for_each(|(key, field)| {
            // The place is a JSON Pointer, so escape the key as one.
            let key = key.replace('~', "~0").replace('/', "~1");
            replace(field, rest, &format!("{place}/{key}"), check)
        }),
        (Value::Object(fields), Some((step, rest))) => {
            // The order matters: `~01` stands for `~1` and not for a slash.
            let field = fields.get_mut(&step.replace("~1", "/").replace("~0", "~"));
            field.map_or(Ok(()), |field| replace(field, rest, &format!("{place}/{step}"), check))
        }
        _ => Err(not_text()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::scope::PathAccess;

    /// Every path is put into brackets; one that is `no` is refused.
    fn replaced(pointer: &str, mut arguments: Value) -> Result<Value, Obstacle<String>> {
        let path = PathArgument { pointer: pointer.to_owned(), access: PathAccess::Read };
        let mut check =
            |path: &str| if path == "no" { Err(path.to_owned()) } else { Ok(format!("<{path}>")) };
        replace_paths(&mut arguments, &path, &mut check).map(|()| arguments)
    }

    fn not_text(place: &str) -> Result<Value, Obstacle<String>> {
        Err(Obstacle::NotText(place.to_owned()))
    }

    #[test]
    fn a_path_is_found_wherever_its_pointer_leads() {
        for (pointer, arguments, wanted) in [
            ("/a", json!({ "a": "x", "b": "x" }), json!({ "a": "<x>", "b": "x" })),
            ("/a/b", json!({ "a": { "b": "x" } }), json!({ "a": { "b": "<x>" } })),
            ("/a~1b/~0c", json!({ "a/b": { "~c": "x" } }), json!({ "a/b": { "~c": "<x>" } })),
            ("/a/*", json!({ "a": ["x", "y"] }), json!({ "a": ["<x>", "<y>"] })),
            ("/a", json!({ "a": ["x", "y"] }), json!({ "a": ["<x>", "<y>"] })),
            ("/a/*", json!({ "a": { "*": "x", "b": "y" } }), json!({ "a": { "*": "<x>", "b": "<y>" } })),
            ("/*/b", json!({ "a": { "b": "x", "c": "x" } }), json!({ "a": { "b": "<x>", "c": "x" } })),
            ("/a/1", json!({ "a": ["x", "y"] }), json!({ "a": ["x", "<y>"] })),
            (
                "/a/*/b/*/c",
                json!({ "a": [{ "b": [{ "c": "x" }] }, {}] }),
                json!({ "a": [{ "b": [{ "c": "<x>" }] }, {}] }),
            ),
        ] {
            assert_eq!(replaced(pointer, arguments), Ok(wanted), "{pointer}");
        }
    }

    #[test]
    fn what_is_not_given_is_not_checked() {
        for arguments in [json!({}), json!({ "a": null }), json!({ "a": [] }), json!({ "a": [null, {}] })] {
            assert_eq!(replaced("/a/*/b", arguments.clone()), Ok(arguments));
        }
    }

    #[test]
    fn whatever_else_stands_there_is_told_with_its_place() {
        assert_eq!(replaced("/a", json!({ "a": 1 })), not_text("/a"));
        assert_eq!(replaced("/a", json!({ "a": { "b": "x" } })), not_text("/a"));
        assert_eq!(replaced("/a", json!({ "a": ["x", ["y"]] })), not_text("/a"));
        assert_eq!(replaced("/a/*/b", json!({ "a": [{ "b": "x" }, { "b": [1] }] })), not_text("/a/1/b"));
        assert_eq!(replaced("/a/*/b", json!({ "a": "x" })), not_text("/a"));
        assert_eq!(replaced("/a/*", json!({ "a": { "b": "x", "c/~": 1 } })), not_text("/a/c~1~0"));
        assert_eq!(replaced("/a/*/b", json!({ "a": { "c": "x" } })), not_text("/a/c"));
        assert_eq!(replaced("/a/b", json!({ "a": "x" })), not_text("/a"));
        assert_eq!(replaced("/a/b", json!({ "a": ["x"] })), not_text("/a"));
        assert_eq!(replaced("/a", json!("x")), not_text(""));
        let long = "k".repeat(10_000);
        assert_eq!(
            replaced(&format!("/{long}"), json!({ &long: 1 })),
            not_text(&format!("/{}", &long[..199]))
        );
    }

    #[test]
    fn a_path_that_is_refused_ends_it() {
        assert_eq!(replaced("/a", json!({ "a": "no" })), Err(Obstacle::Refused("no".to_owned())));
        assert_eq!(replaced("/a/*", json!({ "a": ["x", "no"] })), Err(Obstacle::Refused("no".to_owned())));
    }

    #[test]
    fn a_pointer_that_is_none_lets_nothing_through() {
        assert_eq!(replaced("a", json!({ "a": "x" })), not_text(""));
        assert_eq!(replaced("", json!({ "a": "x" })), not_text(""));
    }
}
