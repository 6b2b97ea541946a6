//! Reasoning effort of the model.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// Reasoning effort of the model: one ordered scale for all vendors.
///
/// ```
/// use nexus_core::Effort;
///
/// assert!(Effort::Low < Effort::Max);
/// let offered = [Effort::Low, Effort::Medium, Effort::High];
/// let applied = Effort::Max.clamp_to(&offered).unwrap();
/// assert_eq!(applied.applied, Effort::High);
/// assert!(applied.is_clamped());
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Effort {
    /// The least that the model supports.
    Minimal,
    /// Little reasoning.
    Low,
    /// The usual amount of reasoning.
    Medium,
    /// Much reasoning.
    High,
    /// Very much reasoning.
    XHigh,
    /// The most that the model supports.
    Max,
}

impl Effort {
    /// All levels, lowest first.
    pub const ALL: [Self; 6] = [Self::Minimal, Self::Low, Self::Medium, Self::High, Self::XHigh, Self::Max];

    /// Returns the name of the level, as in `nexus.yaml`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Minimal => "minimal",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::XHigh => "xhigh",
            Self::Max => "max",
        }
    }

    /// Returns the level in `offered` that is nearest to this one; of two equally near, the lower. `None` if
    /// `offered` is empty.
    pub fn clamp_to(self, offered: &[Self]) -> Option<AppliedEffort> {
        let distance = |step: &Self| ((*step as i8 - self as i8).abs(), *step);
        let applied = *offered.iter().min_by_key(|step| distance(step))?;
        Some(AppliedEffort { requested: self, applied })
    }
}

impl fmt::Display for Effort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Effort {
    type Err = UnknownEffort;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|step| step.as_str() == text).ok_or_else(|| UnknownEffort(text.to_owned()))
    }
}

/// Error for a text that is not a level of [`Effort`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownEffort(String);

impl fmt::Display for UnknownEffort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not an effort; write minimal, low, medium, high, xhigh or max", self.0)
    }
}

impl std::error::Error for UnknownEffort {}

/// The requested effort, and the effort that was sent to the vendor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppliedEffort {
    /// Effort of the request.
    pub requested: Effort,
    /// Effort that was sent to the vendor.
    pub applied: Effort,
}

impl AppliedEffort {
    /// Returns true if the vendor's range does not include the requested effort.
    pub fn is_clamped(self) -> bool {
        self.requested != self.applied
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tie_goes_to_the_lower_step() {
        let applied = Effort::Medium.clamp_to(&[Effort::High, Effort::Low]).unwrap();
        assert_eq!(applied.applied, Effort::Low);
    }

    #[test]
    fn an_empty_menu_offers_nothing() {
        assert_eq!(Effort::High.clamp_to(&[]), None);
    }

    #[test]
    fn names_are_the_same_in_text_and_on_the_wire() {
        for effort in Effort::ALL {
            assert_eq!(serde_json::to_value(effort).unwrap(), effort.as_str());
            assert_eq!(effort.as_str().parse::<Effort>().unwrap(), effort);
        }
        assert!("hgih".parse::<Effort>().is_err());
    }
}
