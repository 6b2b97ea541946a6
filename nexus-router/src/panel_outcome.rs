//! Result of a panel: the answers, and the check of the required number of vendors.

use std::{collections::BTreeSet, fmt};

use nexus_core::{TurnResult, Usage, Usd, VendorId};
use serde::{Deserialize, Serialize};

use crate::seat::{SeatOutcome, Vote};

/// Result of a panel.
#[non_exhaustive]
#[derive(Debug)]
pub struct PanelOutcome {
    /// The panel's name.
    pub panel: String,
    /// Number of vendors that had to answer.
    pub min_vendors: usize,
    /// Every seat, in the order of the panel.
    pub seats: Vec<SeatOutcome>,
}

impl PanelOutcome {
    /// Creates the result of these seats, of which so many vendors had to answer.
    pub fn new(panel: impl Into<String>, min_vendors: usize, seats: Vec<SeatOutcome>) -> Self {
        Self { panel: panel.into(), min_vendors, seats }
    }

    /// The seats that answered, and their answers.
    pub fn answers(&self) -> impl Iterator<Item = (&SeatOutcome, &TurnResult)> {
        self.seats.iter().filter_map(|seat| match seat.vote() {
            Vote::Answer(result) => Some((seat, result)),
            Vote::None(_) => None,
        })
    }

    /// The vendors that really answered, each once.
    pub fn spread(&self) -> BTreeSet<&VendorId> {
        self.answers().filter_map(|(seat, _)| seat.vendor.as_ref()).collect()
    }

    /// The tokens of all seats together, those of failed ones included. What is not known of any seat is `None`.
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
        costs.map(|cost| cost.usd).reduce(|sum, usd| Usd(sum.0 + usd.0))
    }

    /// Why the panel does not count: fewer vendors answered than it asks for. `None` if enough did.
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

/// Fewer vendors than a panel asks for.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shortfall {
    /// Number of vendors that had to answer.
    pub min_vendors: usize,
    /// Vendors that answered, each once.
    pub vendors: Vec<VendorId>,
    /// The seats that gave no vote, and why. None, if several seats were filled by one vendor.
    pub silent: Vec<SilentSeat>,
}

/// A seat that gave no vote.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SilentSeat {
    /// Its position.
    pub index: usize,
    /// Its group and lens.
    pub name: String,
    /// Why. It may name backends: it is for the caller, not for an agent.
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
