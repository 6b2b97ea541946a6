//! Shape of requests on the Responses wire.

use serde::{Deserialize, de::IgnoredAny};

/// Shape of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Position of system text.
    pub(crate) system: SystemPosition,
    /// Form of a message's text.
    pub(crate) text: TextShape,
    /// Position of tools.
    pub(crate) tools: ToolPosition,
    /// Value of `parallel_tool_calls`; `None` omits it.
    pub(crate) parallel_tool_calls: Option<bool>,
    /// True if the request has `tool_choice: "auto"`.
    pub(crate) tool_choice: bool,
    /// Value of `reasoning.summary`; `None` omits it.
    pub(crate) reasoning_summary: Option<&'static str>,
    /// Value of `reasoning.context`; `None` omits it.
    pub(crate) reasoning_context: Option<&'static str>,
    /// True if the request has `include: ["reasoning.encrypted_content"]`.
    pub(crate) encrypted_reasoning: bool,
    /// True if the request has `prompt_cache_key`.
    pub(crate) prompt_cache_key: bool,
    /// True if the request has `store: false`.
    pub(crate) store: bool,
    /// True if functions and the answer's schema have the flag `strict`.
    pub(crate) strict: bool,
    /// True if the request may have `max_output_tokens`.
    pub(crate) max_output_tokens: bool,
    /// Form in which the model's own items are sent back to it.
    pub(crate) carry: Carry,
    /// Party that answers a `custom_tool_call`.
    pub(crate) custom_calls: CustomCalls,
}

/// Shape of a request with few members, for tests.
#[cfg(test)]
pub(crate) const PLAIN: Shape = Shape {
    system: SystemPosition::SystemMessage,
    text: TextShape::Plain,
    tools: ToolPosition::Field,
    parallel_tool_calls: None,
    tool_choice: false,
    reasoning_summary: None,
    reasoning_context: None,
    encrypted_reasoning: true,
    prompt_cache_key: false,
    store: true,
    strict: true,
    max_output_tokens: true,
    carry: Carry::Bare,
    custom_calls: CustomCalls::Client,
};

/// Position of system text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SystemPosition {
    /// In the field `instructions`.
    Instructions,
    /// In a first message with the role `developer`.
    DeveloperMessage,
    /// In a first message with the role `system`.
    SystemMessage,
}

/// Form of a message's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextShape {
    /// A list of `input_text` parts.
    Parts,
    /// A plain string, for a single text without other parts.
    Plain,
}

/// Position of tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ToolPosition {
    /// In the field `tools`.
    Field,
    /// In a first item `additional_tools`, with the functions wrapped in the namespace `functions`.
    FirstItem,
}

/// Form in which the model's own items are sent back to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carry {
    /// Unchanged.
    AsTheyCame,
    /// Messages as plain strings; calls without `id` and `status`; reasoning without `status`.
    Bare,
}

/// Party that answers a `custom_tool_call`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CustomCalls {
    /// The server has answered it. Nexus must not answer it again.
    Server,
    /// Nexus answers it.
    Client,
}

/// Returns true if a complete JSON body is a response object, not an error.
pub(crate) fn is_response(body: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct BodyStart<'a> {
        #[serde(borrow)]
        object: Option<std::borrow::Cow<'a, str>>,
        output: Option<IgnoredAny>,
    }

    serde_json::from_slice::<BodyStart<'_>>(body)
        .is_ok_and(|head| head.output.is_some() || head.object.as_deref() == Some("response"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_no_response() {
        assert!(is_response(br#"{"id":"r","object":"response","error":null}"#));
        assert!(is_response(br#"{"status":"failed","error":{"code":"x"},"output":[]}"#));
        for error in
            [r#"{"error":{"message":"no"}}"#, r#"{"detail":"no"}"#, r#"["no"]"#, r#"{"object":"response"#]
        {
            assert!(!is_response(error.as_bytes()), "{error}");
        }
    }
}
