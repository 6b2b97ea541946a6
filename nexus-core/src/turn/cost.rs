//! Cost of a turn.

use std::fmt;

use serde::{Deserialize, Serialize};

/// An amount in United States dollars.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Usd(pub f64);

impl fmt::Display for Usd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "${:.4}", self.0)
    }
}

/// Source of a price.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CostSource {
    /// The vendor's server reported the cost.
    Reported,
    /// The cost was computed from a price list of the vendor's program or of Nexus. On a plan the actual
    /// charge may be zero.
    Estimated,
}

/// Cost of a turn, with its source.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// The amount.
    pub usd: Usd,
    /// Source of the amount.
    pub source: CostSource,
}

impl Cost {
    /// Returns the sum. It is an estimate if one of the two is.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let source = match (self.source, other.source) {
            (CostSource::Reported, CostSource::Reported) => CostSource::Reported,
            _ => CostSource::Estimated,
        };
        Self { usd: Usd(self.usd.0 + other.usd.0), source }
    }
}
