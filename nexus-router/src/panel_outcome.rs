//! Result of a panel: the answers, and the check of the required number of vendors.

use std::{collections::BTreeSet, fmt};

use nexus_core::{TurnResult, Usage, Usd, VendorId};
use serde::{Deserialize, Serialize};

use crate::seat::{SeatOutcome, Vote};

/// Result of a panel.
#[non_exhaustive]
#[derive(Debug)]
pub struct PanelOutcome {
    /// Name of the panel.
    pub panel: String,
    /// Number of vendors that had to answer.
    pub min_vendors: usize,
    /// All seats, in the order of the panel.
    pub seats: Vec<SeatOutcome>,
}

impl PanelOutcome {
    /// Creates the outcome of these seats, for a panel that needs `min_vendors` vendors.
    pub fn new(panel: impl Into<String>, min_vendors: usize, seats: Vec<SeatOutcome>) -> Self {
        Self { panel: panel.into(), min_vendors, seats }
    }

    /// Returns the seats that answered, with their answers.
    pub fn answers(&self) -> impl Iterator<Item = (&SeatOutcome, &TurnResult)> {
        self.seats.iter().filter_map(|seat| match seat.vote() {
            Vote::Answer(result) => Some((seat, result)),
            Vote::None(_) => None,
        })
    }

    /// Returns the vendors that answered, each once.
    pub fn spread(&self) -> BTreeSet<&VendorId> {
        self.answers().filter_map(|(seat, _)| seat.vendor.as_ref()).collect()
    }

    /// Returns the token usage of all seats, including failed ones. A count that is unknown for every seat is
    /// `None`.
    pub fn usage(&self) -> Usage {
        let usages = self.seats.iter().map(|seat| match &seat.outcome {
            Ok(result) => &result.usage,
            Err(error) => &error.partial().usage,
        });
        usages.fold(Usage::new(), |sum, usage| sum.plus(usage))
    }

    /// Returns the cost of all seats together, as far as it is known, including failed ones. `None` if no cost
    /// is known.
    pub fn cost(&self) -> Option<Usd> {
        let costs = self.seats.iter().filter_map(|seat| match &seat.outcome {
            Ok(result) => result.cost.as_ref(),
            Err(error) => error.partial().cost.as_ref(),
        });
        // Without a known cost, the sum is unknown and not zero.
        costs.map(|cost| cost.usd).reduce(|sum, usd| Usd(sum.0 + usd.0))
    }

    /// Returns the shortfall if fewer vendors answered than the panel needs. Returns `None` if enough did.
    pub fn shortfall(&self) -> Option<Shortfall> {
        let vendors: Vec<_> = self.spread().into_iter().cloned().collect();
        let silent = self.seats.iter().filter_map(|seat| match seat.vote() {
            Vote::Answer(_) => None,
            Vote::None(reason) => {
                Some(SilentSeat { index: seat.seat.index, name: seat.seat.to_string(), reason })
            }
        });
        let min_vendors = self.min_vendors;
        (vendors.len() < min_vendors).then(|| Shortfall { min_vendors, vendors, silent: silent.collect() })
    }
}

/// Too few vendors answered in a panel.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shortfall {
    /// Number of vendors that had to answer.
    pub min_vendors: usize,
    /// Vendors that answered, each once.
    pub vendors: Vec<VendorId>,
    /// Seats without a vote, with the reasons. Empty if every seat answered but one vendor filled several seats.
    pub silent: Vec<SilentSeat>,
}

/// A seat without a vote.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SilentSeat {
    /// Position of the seat.
    pub index: usize,
    /// Group and lens of the seat.
    pub name: String,
    /// Reason for the missing vote. It may name backends, so show it to the caller and not to an agent.
    pub reason: String,
}

impl fmt::Display for Shortfall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.vendors.as_slice() {
            [] => f.write_str("no vendor answered")?,
            vendors => {
                let names: Vec<_> = vendors.iter().map(VendorId::as_str).collect();
                write!(f, "only {} answered", names.join(", "))?;
            }
        }
        write!(f, ", but the panel needs {} vendors", self.min_vendors)?;
        for SilentSeat { index, name, reason } in &self.silent {
            write!(f, "; seat {index}, {name}: {reason}")?;
        }
        Ok(())
    }
}
