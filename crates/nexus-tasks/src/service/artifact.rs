//! Artifacts of a task, by names that are parsed and never joined into a path.

use std::{fmt, str::FromStr};

use crate::{
    agent::{shown_handoff, shown_verdict},
    checks::MOST_PROBE_BYTES,
    store::Task,
    task_error::TaskError,
};

/// Name of an artifact of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ArtifactName {
    Brief,
    Patch,
    ContextMap,
    Step(u32),
    PatchOf(u32),
    Verdict(u32),
    Handoff(u32, usize),
    Probe(u32),
    Turn(String),
}

impl FromStr for ArtifactName {
    type Err = TaskError;

    fn from_str(text: &str) -> Result<Self, TaskError> {
        let named = match text {
            "brief" => Some(Self::Brief),
            "patch" => Some(Self::Patch),
            "context-map" => Some(Self::ContextMap),
            _ => numbered(text),
        };
        named.ok_or_else(|| {
            let message = format!("{:?} is not the name of an artifact", text.chars().take(80).collect::<String>());
            let instead =
                "write brief, patch, context-map, step-N, patch-N, verdict-N, handoff-N-U, probe-N or turn-ID";
            TaskError::invalid(message, instead)
        })
    }
}

fn numbered(text: &str) -> Option<ArtifactName> {
    let (what, rest) = text.split_once('-')?;
    match what {
        "step" => number(rest).map(ArtifactName::Step),
        "patch" => number(rest).map(ArtifactName::PatchOf),
        "verdict" => number(rest).map(ArtifactName::Verdict),
        "probe" => number(rest).map(ArtifactName::Probe),
        "handoff" => {
            let (attempt, unit) = rest.split_once('-')?;
            let unit = usize::try_from(number(unit)?).ok()?;
            Some(ArtifactName::Handoff(number(attempt)?, unit))
        }
        "turn" => {
            let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
            let is_id = !rest.is_empty() && rest.len() <= 128 && rest.bytes().all(fits);
            is_id.then(|| ArtifactName::Turn(rest.to_owned()))
        }
        _ => None,
    }
}

/// Parses a number from 1 on. Accepts only its canonical form.
fn number(text: &str) -> Option<u32> {
    text.parse::<u32>().ok().filter(|number| *number > 0 && number.to_string() == text)
}

impl fmt::Display for ArtifactName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Brief => f.write_str("brief"),
            Self::Patch => f.write_str("patch"),
            Self::ContextMap => f.write_str("context-map"),
            Self::Step(attempt) => write!(f, "step-{attempt}"),
            Self::PatchOf(attempt) => write!(f, "patch-{attempt}"),
            Self::Verdict(attempt) => write!(f, "verdict-{attempt}"),
            Self::Handoff(attempt, unit) => write!(f, "handoff-{attempt}-{unit}"),
            Self::Probe(number) => write!(f, "probe-{number}"),
            Self::Turn(turn) => write!(f, "turn-{turn}"),
        }
    }
}

impl Task {
    /// Returns the names of the artifacts that the task has. A map of its project is not among them.
    ///
    /// # Errors
    ///
    /// As [`snapshot`](Self::snapshot), [`step_records`](Self::step_records) and [`turn_log`](Self::turn_log).
    pub fn artifacts(&self) -> Result<Vec<String>, TaskError> {
        let snapshot = self.snapshot()?;
        let mut names = Vec::new();
        if snapshot.data.brief.is_some() {
            names.push(ArtifactName::Brief);
        }
        if !snapshot.data.commits.is_empty() {
            names.push(ArtifactName::Patch);
        }
        for record in self.step_records(&snapshot.state)? {
            let attempt = record.attempt;
            names.push(ArtifactName::Step(attempt));
            names.extend(record.work.is_some().then_some(ArtifactName::PatchOf(attempt)));
            names.extend(record.verdict.is_some().then_some(ArtifactName::Verdict(attempt)));
            names.extend((1..=record.units.len()).map(|unit| ArtifactName::Handoff(attempt, unit)));
            names.extend(record.evidence.probes().map(ArtifactName::Probe));
        }
        names.extend(self.turn_log()?.turns.into_iter().map(|turn| ArtifactName::Turn(turn.id)));
        Ok(names.iter().map(ToString::to_string).collect())
    }
}

impl ArtifactName {
    /// Returns the whole text. `map` is the map of the project, if an agent has drawn it.
    pub(super) fn text(&self, task: &Task, map: Option<String>) -> Result<String, TaskError> {
        let none = || {
            let message = format!("the task {} has no {self}", task.id());
            TaskError::invalid(message, "call task_log to find the existing artifacts")
        };
        let json = |value: serde_json::Value| serde_json::to_string_pretty(&value).unwrap_or_default();
        let record = |attempt: u32| task.step_record(attempt)?.ok_or_else(none);
        match self {
            Self::Brief => {
                let (_, data) = task.data()?;
                let brief = data.brief.ok_or_else(none)?;
                Ok(json(serde_json::to_value(&brief).unwrap_or_default()))
            }
            Self::ContextMap => map.ok_or_else(none),
            Self::Step(attempt) => Ok(json(serde_json::to_value(record(*attempt)?).unwrap_or_default())),
            Self::Verdict(attempt) => {
                let record = record(*attempt)?;
                let mut text = String::new();
                for vote in &record.votes {
                    text += &shown_verdict(
                        &format!("the vote of {}, by {}", vote.seat, vote.vendor),
                        &vote.verdict,
                    );
                }
                let verdict = record.verdict.as_ref().ok_or_else(none)?;
                text += &shown_verdict(&format!("the verdict on attempt {attempt}"), verdict);
                Ok(text)
            }
            Self::Handoff(attempt, unit) => {
                let record = record(*attempt)?;
                // `number` rejects 0, so this cannot underflow.
                let found = record.units.get(unit - 1).ok_or_else(none)?;
                match &found.outcome {
                    Ok(handoff) => Ok(shown_handoff(
                        &format!("the handoff of unit {unit} in attempt {attempt}"),
                        handoff,
                    )),
                    Err(error) => Ok(format!("unit {unit} of attempt {attempt} submitted nothing: {error}")),
                }
            }
            Self::Patch => {
                let patch = task.patch(None)?.ok_or_else(none)?;
                // The person applies this patch, so it stays unchanged unless it is not UTF-8.
                Ok(String::from_utf8(patch.as_bytes().to_vec()).unwrap_or_else(|_| patch.text()))
            }
            Self::PatchOf(attempt) => Ok(task.patch(Some(*attempt))?.ok_or_else(none)?.text()),
            Self::Probe(number) => {
                let path = task.probes_folder().join(format!("{number}.json"));
                let bytes =
                    nexus_files::read_bounded(&path, MOST_PROBE_BYTES).map_err(TaskError::at(&path))?;
                Ok(String::from_utf8_lossy(&bytes.ok_or_else(none)?).into_owned())
            }
            Self::Turn(turn) => {
                let log = task.turn_log()?;
                let found = log.turns.iter().find(|record| record.id == *turn).ok_or_else(none)?;
                Ok(json(serde_json::to_value(found).unwrap_or_default()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_it_is_written_and_never_leads_anywhere() {
        for name in [
            "brief",
            "patch",
            "context-map",
            "step-1",
            "patch-20",
            "verdict-3",
            "handoff-1-2",
            "probe-7",
            "turn-abc_D-1",
        ] {
            assert_eq!(name.parse::<ArtifactName>().unwrap().to_string(), name);
        }
        let odd = [
            "",
            "..",
            "step-",
            "step-0",
            "step-01",
            "step-+1",
            "step-../1",
            "handoff-1",
            "handoff-1-0",
            "turn-",
            "turn-../x",
            "turn-a/b",
            "probe-1/../../x",
            "steps/1.json",
            "patch-99999999999",
        ];
        for name in odd {
            assert!(name.parse::<ArtifactName>().is_err(), "{name:?}");
        }
    }
}
