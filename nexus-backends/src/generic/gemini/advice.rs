//! Advice on errors of the Gemini API, and the time at which its quotas return.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::native::outcome::ErrorBody;
use crate::native::wires::AnswerFormat;
use crate::native::wires::gemini::shape::{GeminiShape, ResultPictures, ThinkingControl};

/// Seconds of a day.
pub(super) const DAY: u64 = 24 * 3_600;

/// Time of the day, in seconds of UTC, at which quotas of a day are reset. Source: the guide to rate limits, by which that
/// is midnight Pacific time. In summer it is an hour earlier, and then the wait is an hour too long.
const QUOTA_RESET: u64 = 8 * 3_600;

/// Returns the time until the next reset of the quotas of a day.
pub(super) fn until_reset(now: SystemTime) -> Duration {
    // A clock before 1970 only makes the guess wrong.
    let second = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() % DAY;
    Duration::from_secs((QUOTA_RESET + DAY - second - 1) % DAY + 1)
}

/// Returns true if a setting is present already, so that advice to set it does not help.
pub(super) fn is_set(setting: &str, shape: &GeminiShape) -> bool {
    match setting {
        "thinking: level" => shape.thinking == ThinkingControl::Level,
        "thinking: budget" => shape.thinking == ThinkingControl::Budget,
        "thinking: none" => shape.thinking == ThinkingControl::Nothing,
        "structured_output: tool" => shape.answer == AnswerFormat::Tool,
        "structured_output: instructed" => shape.answer == AnswerFormat::Instructed,
        "result_pictures: beside" => shape.pictures == ResultPictures::Beside,
        "call_ids: false" => !shape.call_ids,
        _ => false,
    }
}

/// Returns the setting that omits or changes the field that an error concerns. The API names fields in its words alone.
/// Source: errors of the API in public threads.
pub(super) fn switch(body: &ErrorBody) -> Option<&'static str> {
    let says = |words: &[&str]| words.iter().any(|words| body.names(words));
    Some(match () {
        () if says(&["thinking level", "thinking_level", "thinkinglevel"]) => "thinking: budget",
        () if says(&["thought_signature"]) => "thinking: level",
        () if says(&["thinking budget", "thinking_budget", "thinkingbudget"]) => "thinking: level",
        () if says(&[
            "thinking is not",
            "does not support thinking",
            "include_thoughts",
            "thinking_config",
        ]) =>
        {
            "thinking: none"
        }
        // A schema of a function, `parameters_json_schema`, has no setting.
        () if says(&[
            "response mime type",
            "response_mime_type",
            "response_json_schema",
            "responsejsonschema",
            "response_schema",
        ]) =>
        {
            "structured_output: tool"
        }
        () if says(&["function_response.parts"]) => "result_pictures: beside",
        () if says(&["unknown name \"id\""]) => "call_ids: false",
        () if says(&["function_calling_config", "allowed_function_names"]) => "structured_output: instructed",
        () => return None,
    })
}
