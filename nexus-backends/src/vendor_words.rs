//! Error messages that servers of any vendor send without a code.

/// Messages about a conversation that is too long, in lower case.
const TOO_LONG: [&str; 12] = [
    "prompt is too long",                    // vendors' programs look for it
    "too long for this model",               // vendors' programs look for it
    "maximum prompt length",                 // vendors' programs look for it
    "maximum context length",                // vendors' programs look for it; vLLM's words too
    "context_length_exceeded",               // vendors' programs look for it
    "exceeds the context window",            // recorded, beside its code
    "exceeds the available context size",    // llama.cpp, older than its code
    "greater than the context length",       // LM Studio
    "exceeded max context length",           // Ollama
    "exceeded model token limit",            // Moonshot
    "exceeds the maximum number of tokens",  // Gemini API
    "input is too long for requested model", // Amazon Bedrock
];

/// Returns true if the message is about a conversation that is too long.
pub(crate) fn speaks_of_length(words: &str) -> bool {
    let words = words.to_lowercase();
    TOO_LONG.iter().any(|too_long| words.contains(too_long))
}

/// Returns true if the message is about bytes in a stream that are not UTF-8. Source: observed with a vendor's program,
/// whose event stream parser other programs also use.
pub(crate) fn speaks_of_invalid_text(words: &str) -> bool {
    let words = words.to_lowercase();
    words.contains("utf8 error") || words.contains("invalid utf-8")
}
