//! Ids of milestones, slices and tasks: `M001`, `M001-S001`, `M001-S001-T0001`.

use std::{fmt, str::FromStr};

use nexus_project::ProjectError;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Maximum number of digits. Source: our own bound.
const MOST_DIGITS: usize = 9;

/// A number with its leading zeros: `M001` and `M0001` are different ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Number {
    value: u32,
    width: usize,
}

impl Number {
    fn new(value: u32, fewest: usize) -> Self {
        Self { value, width: fewest }
    }

    fn parse(text: &str, letter: char, fewest: usize) -> Option<Self> {
        let digits = text.strip_prefix(letter)?;
        let is_number = digits.bytes().all(|digit| digit.is_ascii_digit());
        let fits = (fewest..=MOST_DIGITS).contains(&digits.len());
        let value = if is_number && fits { digits.parse().ok()? } else { return None };
        Some(Self { value, width: digits.len() })
    }
}

/// Id of a milestone: `M` and three digits or more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MilestoneId(Number);

/// Id of a slice of a milestone: `M001-S001`. Slices are done one after the other; the tasks of one slice are done in
/// parallel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SliceId {
    /// The milestone.
    pub milestone: MilestoneId,
    number: Number,
}

/// Id of a task of a slice: `M001-S001-T0001`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SliceTaskId {
    /// The slice.
    pub slice: SliceId,
    number: Number,
}

impl MilestoneId {
    /// Returns the id of the milestone with this number.
    pub fn new(number: u32) -> Self {
        Self(Number::new(number, 3))
    }

    /// Returns the number.
    pub fn number(self) -> u32 {
        self.0.value
    }

    /// Returns the id of the slice with this number.
    pub fn slice(self, number: u32) -> SliceId {
        SliceId { milestone: self, number: Number::new(number, 3) }
    }
}

impl SliceId {
    /// Returns the number, which is also the wave of the slice's tasks.
    pub fn number(self) -> u32 {
        self.number.value
    }

    /// Returns the name of the slice's folder: `S001`.
    pub fn short(self) -> String {
        format!("S{:0width$}", self.number.value, width = self.number.width)
    }

    /// Returns the id of the task with this number.
    pub fn task(self, number: u32) -> SliceTaskId {
        SliceTaskId { slice: self, number: Number::new(number, 4) }
    }

    /// Returns the slice whose folder has this name.
    pub(super) fn below(milestone: MilestoneId, short: &str) -> Option<Self> {
        Some(Self { milestone, number: Number::parse(short, 'S', 3)? })
    }
}

impl SliceTaskId {
    /// Returns the number.
    pub fn number(self) -> u32 {
        self.number.value
    }

    /// Returns the name of the task's folder: `T0001`.
    pub fn short(self) -> String {
        format!("T{:0width$}", self.number.value, width = self.number.width)
    }

    /// Returns the task whose folder has this name.
    pub(super) fn below(slice: SliceId, short: &str) -> Option<Self> {
        Some(Self { slice, number: Number::parse(short, 'T', 4)? })
    }
}

impl fmt::Display for MilestoneId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "M{:0width$}", self.0.value, width = self.0.width)
    }
}

impl fmt::Display for SliceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.milestone, self.short())
    }
}

impl fmt::Display for SliceTaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.slice, self.short())
    }
}

impl FromStr for MilestoneId {
    type Err = ProjectError;

    fn from_str(text: &str) -> Result<Self, ProjectError> {
        Number::parse(text, 'M', 3).map(Self).ok_or_else(|| no_id(text, "milestone", "M001"))
    }
}

impl FromStr for SliceId {
    type Err = ProjectError;

    fn from_str(text: &str) -> Result<Self, ProjectError> {
        let parsed =
            text.split_once('-').and_then(|(milestone, slice)| Self::below(milestone.parse().ok()?, slice));
        parsed.ok_or_else(|| no_id(text, "slice", "M001-S001"))
    }
}

impl FromStr for SliceTaskId {
    type Err = ProjectError;

    fn from_str(text: &str) -> Result<Self, ProjectError> {
        let parsed = text.rsplit_once('-').and_then(|(slice, task)| Self::below(slice.parse().ok()?, task));
        parsed.ok_or_else(|| no_id(text, "task", "M001-S001-T0001"))
    }
}

fn no_id(text: &str, what: &str, such_as: &str) -> ProjectError {
    ProjectError::invalid(
        format!("{text:?} is not the name of a {what}"),
        format!("write one such as {such_as}"),
    )
}

macro_rules! as_text {
    ($($id:ident, $pattern:literal;)*) => {$(
        impl Serialize for $id {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $id {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
            }
        }

        impl JsonSchema for $id {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($id).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string", "pattern": $pattern })
            }

            fn inline_schema() -> bool {
                true
            }
        }
    )*};
}

as_text! {
    MilestoneId, r"^M\d{3,}$";
    SliceId, r"^M\d{3,}-S\d{3,}$";
    SliceTaskId, r"^M\d{3,}-S\d{3,}-T\d{4,}$";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_what_the_pattern_says() {
        for good in ["M001-S001-T0001", "M1234-S001-T00012", "M000-S000-T0000"] {
            assert_eq!(good.parse::<SliceTaskId>().unwrap().to_string(), good);
        }
        for bad in
            ["", "M01-S001-T0001", "M001-S01-T0001", "M001-S001-T001", "M001-S001-T0001 ", "m001-S001-T0001"]
        {
            assert!(bad.parse::<SliceTaskId>().is_err(), "{bad}");
        }
        for bad in
            ["M001-S001-T0001-T0001", "M001-S001", "M٠٠١-S001-T0001", "M+01-S001-T0001", "M001/S001-T0001"]
        {
            assert!(bad.parse::<SliceTaskId>().is_err(), "{bad}");
        }
        assert!(format!("M{}", "9".repeat(400)).parse::<MilestoneId>().is_err());
    }

    #[test]
    fn names_are_ordered_by_their_numbers() {
        let early: SliceTaskId = "M001-S002-T9999".parse().unwrap();
        let late: SliceTaskId = "M001-S010-T0001".parse().unwrap();
        assert!(early.slice < late.slice && early < late);
    }
}
