//! Tokens, as the vendor counted them.

use serde::{Deserialize, Serialize};

/// Tokens in disjoint buckets, as the vendor counted them: no token is in two buckets.
///
/// `None` is "not reported", which is not zero.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Input that came from no cache and was written to none, in tokens.
    pub input_tokens: Option<u64>,
    /// Input read from the vendor's cache, in tokens.
    pub cache_read_tokens: Option<u64>,
    /// Input written to the vendor's cache, in tokens.
    pub cache_write_tokens: Option<u64>,
    /// Output, in tokens; without [`Usage::reasoning_tokens`] where the vendor reports those.
    pub output_tokens: Option<u64>,
    /// Reasoning, in tokens, where the vendor reports it apart.
    pub reasoning_tokens: Option<u64>,
}

impl Usage {
    /// Nothing reported.
    pub fn new() -> Self {
        Self::default()
    }

    /// Everything the vendor counted as input, from a cache or not.
    pub fn all_input_tokens(&self) -> Option<u64> {
        sum(self.input_tokens, sum(self.cache_read_tokens, self.cache_write_tokens))
    }

    /// Everything the vendor counted as output, reasoning included.
    pub fn all_output_tokens(&self) -> Option<u64> {
        sum(self.output_tokens, self.reasoning_tokens)
    }

    /// Everything the vendor counted. `None` if it reported nothing.
    pub fn total_tokens(&self) -> Option<u64> {
        sum(self.all_input_tokens(), self.all_output_tokens())
    }

    /// The sum, bucket by bucket.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            input_tokens: sum(self.input_tokens, other.input_tokens),
            cache_read_tokens: sum(self.cache_read_tokens, other.cache_read_tokens),
            cache_write_tokens: sum(self.cache_write_tokens, other.cache_write_tokens),
            output_tokens: sum(self.output_tokens, other.output_tokens),
            reasoning_tokens: sum(self.reasoning_tokens, other.reasoning_tokens),
        }
    }
}

fn sum(left: Option<u64>, right: Option<u64>) -> Option<u64> {
    match (left, right) {
        (Some(left), Some(right)) => Some(left.saturating_add(right)),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_reported_stays_unreported() {
        let some = Usage { input_tokens: Some(0), ..Usage::new() };
        let total = some.plus(&Usage::new());
        assert_eq!(total.input_tokens, Some(0));
        assert_eq!(total.output_tokens, None);
        assert_eq!(Usage::new().total_tokens(), None);
    }
}
