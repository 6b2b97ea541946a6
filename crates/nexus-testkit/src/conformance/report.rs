//! Report of a run of the suite.

use std::fmt;

use nexus_core::Capabilities;

use super::{feature::Feature, finding::Finding};

/// Outcome of one case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The promise holds.
    Passed,
    /// The promise does not hold.
    Failed(Finding),
    /// The backend does not declare what the case is about.
    NotDeclared(Feature),
    /// The subject cannot create the conditions of the case, for this reason.
    NotStaged(String),
}

/// One line of a report.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The case.
    pub case: &'static str,
    /// Features that the case proves.
    pub shows: Vec<Feature>,
    /// Outcome of the case.
    pub outcome: Outcome,
}

/// Report of a run of the suite.
#[derive(Clone, Debug)]
pub struct Report {
    /// The subject.
    pub subject: String,
    /// Capabilities that its backend declares.
    pub capabilities: Capabilities,
    /// The features that its backend, or the subject, declares.
    pub declared: Vec<Feature>,
    /// One entry for each requested case.
    pub entries: Vec<Entry>,
}

impl Report {
    /// The cases that failed.
    pub fn failures(&self) -> impl Iterator<Item = (&'static str, &Finding)> {
        self.entries.iter().filter_map(|entry| match &entry.outcome {
            Outcome::Failed(finding) => Some((entry.case, finding)),
            _ => None,
        })
    }

    /// The features that are declared and that no case has shown. Means something for a whole run only.
    pub fn unproven(&self) -> Vec<Feature> {
        let shown = |feature: &Feature| {
            self.entries.iter().any(|entry| entry.outcome == Outcome::Passed && entry.shows.contains(feature))
        };
        self.declared.iter().filter(|feature| !shown(feature)).copied().collect()
    }

    /// Returns true if every applicable case passed and every declared feature was proven.
    pub fn is_conformant(&self) -> bool {
        self.failures().next().is_none() && self.unproven().is_empty()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.subject)?;
        for entry in &self.entries {
            match &entry.outcome {
                Outcome::Passed => writeln!(f, "  holds         {}", entry.case)?,
                Outcome::Failed(finding) => writeln!(f, "  FAILS         {}: {finding}", entry.case)?,
                Outcome::NotDeclared(feature) => {
                    writeln!(f, "  not declared  {}: {feature}", entry.case)?;
                }
                Outcome::NotStaged(reason) => writeln!(f, "  not staged    {}: {reason}", entry.case)?,
            }
        }
        for feature in self.unproven() {
            writeln!(f, "  UNPROVEN      {feature} is declared, and no case has shown it")?;
        }
        Ok(())
    }
}
