//! Size of a request in the tokens of its server.

use nexus_core::Usage;

/// Bytes to one token, as long as the server has not reported its own count. Source: our own estimate, for English text
/// and code.
const BYTES_PER_TOKEN: u64 = 4;

/// Size of the last request, in the server's tokens.
#[derive(Clone, Copy, Debug)]
pub(super) struct ContextFill {
    tokens: u64,
    request_bytes: u64,
}

impl ContextFill {
    /// Returns the size that the server reported; `None` without a report.
    pub(super) fn reported(usage: &Usage, request_bytes: usize) -> Option<Self> {
        let tokens = usage.all_input_tokens()?;
        (tokens > 0 && request_bytes > 0).then_some(Self { tokens, request_bytes: request_bytes as u64 })
    }

    /// Returns the estimated number of tokens of a request.
    pub(super) fn tokens_of(fill: Option<Self>, bytes: usize) -> u64 {
        let bytes = bytes as u64;
        let Some(fill) = fill else { return bytes / BYTES_PER_TOKEN };
        // The product of two sizes may exceed 64 bits.
        let tokens = u128::from(bytes) * u128::from(fill.tokens) / u128::from(fill.request_bytes);
        u64::try_from(tokens).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_estimated_from_the_last_report() {
        let mut usage = Usage::new();
        (usage.input_tokens, usage.cache_read_tokens, usage.output_tokens) =
            (Some(100), Some(800), Some(100));
        let fill = ContextFill::reported(&usage, 2_000);
        assert_eq!(
            ContextFill::tokens_of(fill, 4_000),
            1_800,
            "the reply is part of the next request's bytes"
        );
        assert_eq!(ContextFill::tokens_of(None, 4_000), 1_000);
        assert!(ContextFill::reported(&Usage::new(), 2_000).is_none());
    }
}
