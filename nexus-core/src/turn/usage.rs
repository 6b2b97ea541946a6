//! Token counts, as the vendor reports them.

use serde::{Deserialize, Serialize};

/// Token counts of a turn in disjoint fields: no token is counted in two fields.
///
/// `None` means that the vendor did not report the count. It does not mean zero.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Input tokens that were neither read from a cache nor written to one.
    pub input_tokens: Option<u64>,
    /// Input tokens read from the vendor's cache.
    pub cache_read_tokens: Option<u64>,
    /// Input tokens written to the vendor's cache.
    pub cache_write_tokens: Option<u64>,
    /// Output tokens; without [`Usage::reasoning_tokens`] if the vendor reports those separately.
    pub output_tokens: Option<u64>,
    /// Reasoning tokens, if the vendor reports them separately.
    pub reasoning_tokens: Option<u64>,
}

impl Usage {
    /// Returns a usage without any reported count.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns all input tokens, with and without a cache.
    pub fn all_input_tokens(&self) -> Option<u64> {
        sum(self.input_tokens, sum(self.cache_read_tokens, self.cache_write_tokens))
    }

    /// Returns all output tokens, including reasoning.
    pub fn all_output_tokens(&self) -> Option<u64> {
        sum(self.output_tokens, self.reasoning_tokens)
    }

    /// Returns all reported tokens. `None` if the vendor reported none.
    pub fn total_tokens(&self) -> Option<u64> {
        sum(self.all_input_tokens(), self.all_output_tokens())
    }

    /// Returns the sum of each field.
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
        // An unknown part counts as zero, unless both parts are unknown.
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
