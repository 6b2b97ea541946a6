//! Cost of a turn.

use std::fmt;

use serde::{Deserialize, Serialize};

/// United States dollars.
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
    /// The vendor's server.
    Reported,
    /// A price list held by the vendor's program or by us. On a plan nothing of it may be charged.
    Estimated,
}

/// Cost of a turn, with its source.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// The amount.
    pub usd: Usd,
    /// Its source.
    pub source: CostSource,
}
