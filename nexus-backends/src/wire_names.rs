//! Facts about the vendors' names that the shared parts need.

/// Prefixes of the vendors' keys, in addition to the prefixes that every redactor knows. They include all vendors, even those
/// outside this build, because any program may print any key.
#[cfg(any(feature = "cli", feature = "native"))]
pub(crate) const KEY_PREFIXES: &[&str] = &["AIza", "gsk_", "hf_", "xai-", "ya29."];

/// Key with which a tool states how many characters of a result the model may see, and that number. Source: observed
/// with claude 2.1.197; the other programs ignore it.
#[cfg(feature = "mcp-server")]
pub(crate) const MAX_RESULT_CHARACTERS: (&str, u32) = ("anthropic/maxResultSizeChars", 500_000);
