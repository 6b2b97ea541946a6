//! Facts about the vendors' names that the common parts need.

/// Prefixes of the vendors' keys, beyond those that every redactor knows: of all vendors, also those that this
/// build leaves out, since any program may print any key.
#[cfg(any(feature = "cli", feature = "native"))]
pub(crate) const KEY_PREFIXES: &[&str] = &["xai-"];

/// The key by which a tool says how long a result may be shown to the model, and how many characters that is. Source:
/// observed with claude 2.1.197; the other programs pass over it.
#[cfg(feature = "mcp-server")]
pub(crate) const MAX_RESULT_CHARACTERS: (&str, u32) = ("anthropic/maxResultSizeChars", 500_000);
