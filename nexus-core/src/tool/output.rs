//! Return types of handlers, and their conversion to a result for the model.

use std::{borrow::Cow, error::Error, fmt};

use serde::Serialize;
use serde_json::Value;

use super::{ToolContent, ToolResult};

/// A value that a tool's handler may return.
///
/// Text, numbers and [`Json`] become content; a [`Picture`] becomes a picture; a [`ToolResult`] stays as it
/// is. `Err` becomes an error that the model can read, formatted with `{:#}`, so that an `anyhow` error
/// includes its whole chain. For any other error, return [`ToolFault`] and use `?`.
///
/// ```
/// use nexus_core::{IntoToolResult, ToolResult};
///
/// /// A table that the model reads as lines.
/// struct Table(Vec<(&'static str, u32)>);
///
/// impl IntoToolResult for Table {
///     fn into_tool_result(self) -> ToolResult {
///         let lines = self.0.iter().map(|(name, count)| format!("{name}: {count}"));
///         ToolResult::text(lines.collect::<Vec<_>>().join("\n"))
///     }
/// }
///
/// let result = Table(vec![("cranes", 3), ("herons", 2)]).into_tool_result();
/// assert_eq!(result, ToolResult::text("cranes: 3\nherons: 2"));
/// ```
pub trait IntoToolResult {
    /// Converts the value to the result that the model reads.
    fn into_tool_result(self) -> ToolResult;
}

impl IntoToolResult for ToolResult {
    fn into_tool_result(self) -> ToolResult {
        self
    }
}

impl IntoToolResult for ToolContent {
    fn into_tool_result(self) -> ToolResult {
        ToolResult::ok(vec![self])
    }
}

impl IntoToolResult for Vec<ToolContent> {
    fn into_tool_result(self) -> ToolResult {
        ToolResult::ok(self)
    }
}

/// The model reads `done`. An empty answer would be ambiguous, and some servers reject it.
impl IntoToolResult for () {
    fn into_tool_result(self) -> ToolResult {
        ToolResult::text("done")
    }
}

impl IntoToolResult for Value {
    fn into_tool_result(self) -> ToolResult {
        ToolContent::json(self).into_tool_result()
    }
}

macro_rules! answer_as_text {
    ($($type:ty)*) => {$(
        impl IntoToolResult for $type {
            fn into_tool_result(self) -> ToolResult {
                ToolResult::text(self.to_string())
            }
        }
    )*};
}

answer_as_text!(&str Cow<'_, str> bool char i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize f32 f64);

impl IntoToolResult for String {
    fn into_tool_result(self) -> ToolResult {
        ToolResult::text(self)
    }
}

impl<T: IntoToolResult, E: fmt::Display> IntoToolResult for Result<T, E> {
    fn into_tool_result(self) -> ToolResult {
        match self {
            Ok(value) => value.into_tool_result(),
            Err(error) => match format!("{error:#}") {
                text if text.trim().is_empty() => ToolResult::error("the tool failed without a reason"),
                text => ToolResult::error(text),
            },
        }
    }
}

/// Answers with a value as JSON. A value that cannot be serialised becomes an error.
#[derive(Clone, Copy, Debug)]
pub struct Json<T>(
    /// Value for the answer.
    pub T,
);

impl<T: Serialize> IntoToolResult for Json<T> {
    fn into_tool_result(self) -> ToolResult {
        match serde_json::to_value(self.0) {
            Ok(value) => value.into_tool_result(),
            Err(error) => ToolResult::error(format!("the tool's answer cannot be written as JSON: {error}")),
        }
    }
}

/// Answers with a picture, given by its bytes. Bytes that are not PNG, JPEG, GIF or WebP become an error.
#[derive(Clone, Copy, Debug)]
pub struct Picture<B>(
    /// Content of the picture file.
    pub B,
);

impl<B: AsRef<[u8]>> IntoToolResult for Picture<B> {
    fn into_tool_result(self) -> ToolResult {
        match ToolContent::image(self.0.as_ref()) {
            Some(content) => content.into_tool_result(),
            None => ToolResult::error("the tool's picture is not PNG, JPEG, GIF or WebP"),
        }
    }
}

/// Reason why a tool failed, in words for the model.
///
/// `?` converts any error, with the whole chain of its causes, so the model reads that chain. Like
/// `anyhow::Error`, this type is not itself a [`std::error::Error`].
///
/// ```
/// use nexus_core::ToolFault;
///
/// fn count(text: &str) -> Result<u64, ToolFault> {
///     if text.is_empty() {
///         return Err(ToolFault::new("there is nothing to count"));
///     }
///     Ok(text.trim().parse()?)
/// }
/// assert_eq!(count("x").unwrap_err().to_string(), "invalid digit found in string");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolFault(String);

impl ToolFault {
    /// Creates a failure with this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for ToolFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<E: Error> From<E> for ToolFault {
    fn from(error: E) -> Self {
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            let own = error.to_string();
            // Some errors already repeat their cause in their own message.
            if !text.ends_with(&own) {
                text = format!("{text}: {own}");
            }
            cause = error.source();
        }
        Self(text)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn text_of(result: &ToolResult) -> &str {
        match result.content.as_slice() {
            [ToolContent::Text { text }] => text,
            other => panic!("not one text: {other:?}"),
        }
    }

    #[test]
    fn each_kind_of_value_becomes_the_content_it_is() {
        assert_eq!(text_of(&"a".into_tool_result()), "a");
        assert_eq!(text_of(&String::from("b").into_tool_result()), "b");
        assert_eq!(text_of(&(-7i64).into_tool_result()), "-7");
        assert_eq!(text_of(&().into_tool_result()), "done");
        assert_eq!(Json([1, 2]).into_tool_result(), ToolResult::ok(vec![ToolContent::json(json!([1, 2]))]));
        let two = vec![ToolContent::text("a"), ToolContent::json(json!(1))];
        assert_eq!(two.clone().into_tool_result(), ToolResult::ok(two));
    }

    #[test]
    fn an_error_is_marked_as_one_and_keeps_its_words() {
        let failed: Result<(), &str> = Err("the store is empty");
        let result = failed.into_tool_result();
        assert!(result.is_error);
        assert_eq!(text_of(&result), "the store is empty");
        let silent: Result<(), &str> = Err(" ");
        assert_eq!(text_of(&silent.into_tool_result()), "the tool failed without a reason");
    }

    #[test]
    fn a_result_inside_of_ok_may_itself_be_an_error() {
        let result: Result<ToolResult, ToolFault> = Ok(ToolResult::error("no"));
        assert!(result.into_tool_result().is_error);
    }

    #[test]
    fn a_fault_tells_every_cause_once() {
        #[derive(Debug)]
        struct Layer(&'static str, Option<Box<Layer>>);
        impl fmt::Display for Layer {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.0)
            }
        }
        impl Error for Layer {
            fn source(&self) -> Option<&(dyn Error + 'static)> {
                self.1.as_deref().map(|cause| cause as _)
            }
        }
        let disk = Layer("disk full", None);
        let write = Layer("cannot write: disk full", Some(Box::new(disk)));
        let save = Layer("cannot save", Some(Box::new(write)));
        assert_eq!(ToolFault::from(save).to_string(), "cannot save: cannot write: disk full");
    }

    #[test]
    fn a_picture_is_told_by_its_bytes_and_other_bytes_are_an_error() {
        let picture = Picture(b"\x89PNG\r\n").into_tool_result();
        assert!(
            matches!(&picture.content[..], [ToolContent::Image { media_type, .. }] if media_type == "image/png")
        );
        assert!(Picture(vec![0u8; 8]).into_tool_result().is_error);
    }

    #[test]
    fn what_json_cannot_hold_is_an_error_and_no_panic() {
        let odd = std::collections::BTreeMap::from([((1, 2), 3)]);
        let result = Json(odd).into_tool_result();
        assert!(result.is_error);
        assert!(text_of(&result).contains("cannot be written as JSON"), "{result:?}");
    }
}
