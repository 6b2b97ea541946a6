//! Messages from one agent to another. Each is a file that is never moved: in `handoffs/` of a milestone, or of the project.
//!
//! The name has the time, sender, recipient, topic, and 8 hexadecimal digits:
//! `2026-01-31T12-00-00-000Z__planner-to-executor__topic__0a1b2c3d.md`. Times only increase, even if the clock is set back,
//! so that names sort by time.

use std::{
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use nexus_project::ProjectError;
use serde::Serialize;

use super::{
    frontmatter::{AgentHandoff, HandoffStatus},
    id::{MilestoneId, SliceId, SliceTaskId},
    kind::Kind,
    tree::{self, Artifacts},
    yaml,
};

/// Recipient that means all agents, in the file and on the command line.
pub const EVERYBODY: &str = "*";
/// Name for all agents in a file name.
const EVERYBODY_IN_NAME: &str = "all";
/// Maximum length of an agent's name, in bytes.
const MOST_AGENT: usize = 64;
/// Maximum length of a topic, and of its part in a file name, in bytes.
const MOST_TOPIC: usize = 1024;
const MOST_SLUG: usize = 48;

/// Number of hexadecimal digits of a handoff's id.
const ID_DIGITS: usize = 8;

/// Inputs of a new handoff.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewHandoff {
    /// Agent that writes the handoff.
    pub from: String,
    /// Agent that receives the handoff; [`EVERYBODY`] means all agents.
    pub to: String,
    /// Topic, on one line.
    pub topic: String,
    /// Text of the handoff.
    pub body: String,
    /// Milestone of the handoff. Without one, the handoff is global.
    pub milestone: Option<MilestoneId>,
    /// Slice that the handoff is about.
    pub slice: Option<SliceId>,
    /// Task that the handoff is about.
    pub task: Option<SliceTaskId>,
}

/// Filter of handoffs. An empty filter accepts all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HandoffFilter {
    /// Handoffs for this agent or for all agents.
    pub agent: Option<String>,
    /// Handoffs in this status.
    pub status: Option<HandoffStatus>,
    /// Handoffs of this milestone.
    pub milestone: Option<MilestoneId>,
    /// True for only the handoffs outside of all milestones.
    pub global: bool,
}

/// A handoff and its path.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct FoundHandoff {
    /// Path of the file.
    pub path: PathBuf,
    /// Frontmatter of the file.
    #[serde(flatten)]
    pub handoff: AgentHandoff,
}

/// Result of [`Artifacts::handoffs`].
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct HandoffList {
    /// Handoffs, oldest first.
    pub handoffs: Vec<FoundHandoff>,
    /// Files that are not handoffs, with the reason.
    pub unreadable: Vec<String>,
}

impl Artifacts {
    /// Writes a handoff.
    ///
    /// # Errors
    ///
    /// [`InvalidArgument`](nexus_project::ProjectErrorKind::InvalidArgument) for an agent whose name has other characters
    /// than letters, digits, `_` and `-`, and for a topic that is empty or longer than a line.
    /// [`Unknown`](nexus_project::ProjectErrorKind::Unknown) if the milestone does not exist; errors of the file system.
    pub fn write_handoff(&self, new: &NewHandoff) -> Result<FoundHandoff, ProjectError> {
        check_agent("from", &new.from)?;
        if new.to != EVERYBODY {
            check_agent("to", &new.to)?;
        }
        let topic = new.topic.trim();
        if topic.is_empty() || topic.len() > MOST_TOPIC || topic.contains(char::is_control) {
            let message = format!("a topic must be one line of at most {MOST_TOPIC} bytes");
            return Err(ProjectError::invalid(message, "write the rest into the body"));
        }
        if let Some(milestone) = new.milestone
            && !self.milestones()?.contains(&milestone)
        {
            let message = format!("the milestone {milestone} does not exist");
            return Err(ProjectError::unknown(
                message,
                "leave the milestone out for a handoff without a milestone",
            ));
        }
        let _lock = self.lock()?;
        // Collect the names under the lock, so that time and id are unique in the project.
        let mut names = Vec::new();
        for folder in self.handoff_folders()? {
            names.extend(
                tree::entries(&folder)?
                    .into_iter()
                    .filter_map(|path| path.file_name().and_then(|name| name.to_str()).map(str::to_owned)),
            );
        }
        let last = names.iter().filter_map(|name| time_of(name)).max();
        let time =
            // The clock may be set back, and two handoffs may fall into one millisecond.
            last.map_or(SystemTime::now(), |last| SystemTime::now().max(last + Duration::from_millis(1)));
        let created_at = nexus_files::rfc3339::millis(time);
        let id = loop {
            let id = nexus_files::random_name()[..ID_DIGITS].to_owned();
            if !names.iter().any(|name| name.ends_with(&format!("__{id}.md"))) {
                break id;
            }
        };
        let handoff = AgentHandoff {
            schema_version: 1,
            id,
            from_agent: new.from.clone(),
            to_agent: new.to.clone(),
            topic: topic.to_owned(),
            created_at,
            milestone: new.milestone,
            slice: new.slice,
            task: new.task,
            status: HandoffStatus::Open,
        };
        let path = self.handoff_folder(new.milestone).join(name_of(&handoff));
        self.write(&path, &render(&handoff, &new.body))?;
        Ok(FoundHandoff { path, handoff })
    }

    /// Returns the handoffs that match a filter, oldest first, and the names of files that are not handoffs.
    ///
    /// # Errors
    ///
    /// Errors of the file system.
    pub fn handoffs(&self, filter: &HandoffFilter) -> Result<HandoffList, ProjectError> {
        let folders = match (filter.milestone, filter.global) {
            (Some(milestone), _) => vec![self.handoff_folder(Some(milestone))],
            (None, true) => vec![self.handoff_folder(None)],
            (None, false) => self.handoff_folders()?,
        };
        let mut list = HandoffList::default();
        for folder in folders {
            self.guard(&folder)?;
            for path in tree::entries(&folder)?.into_iter().filter(|path| is_handoff(path)) {
                match self.existing(&path, Kind::Handoff).and_then(|document| document.read::<AgentHandoff>())
                {
                    Ok(handoff) if filter.lets_through(&handoff) => {
                        list.handoffs.push(FoundHandoff { path, handoff });
                    }
                    Ok(_) => {}
                    Err(error) => list.unreadable.push(format!("{path:?}: {error}")),
                }
            }
        }
        list.handoffs.sort_by(|one, other| {
            // The times have a fixed width, so their texts sort by time.
            let key = |found: &FoundHandoff| (found.handoff.created_at.clone(), found.handoff.id.clone());
            key(one).cmp(&key(other)).then_with(|| one.path.cmp(&other.path))
        });
        Ok(list)
    }

    /// Changes the status of a handoff, and no other byte of its file.
    ///
    /// # Errors
    ///
    /// [`Unknown`](nexus_project::ProjectErrorKind::Unknown) if no handoff has this id;
    /// [`WrongState`](nexus_project::ProjectErrorKind::WrongState) if several have it; errors of the file system.
    pub fn mark_handoff(&self, id: &str, status: HandoffStatus) -> Result<FoundHandoff, ProjectError> {
        let _lock = self.lock()?;
        let all = self.handoffs(&HandoffFilter::default())?.handoffs;
        let mut same = all.into_iter().filter(|found| found.handoff.id == id);
        let Some(mut found) = same.next() else {
            let message = format!("the handoff {id:?} does not exist");
            return Err(ProjectError::unknown(message, "see `nexus artifact handoff list`"));
        };
        if let Some(other) = same.next() {
            let message = format!("{:?} and {:?} have the same id {id}", found.path, other.path);
            return Err(ProjectError::wrong_status(
                message,
                "give one of them another id, in its name and in its frontmatter",
            ));
        }
        let mut document = self.existing(&found.path, Kind::Handoff)?;
        document.set_value("status", status.as_str())?;
        // Read the changed document before it is written: a fault leaves the file unchanged.
        found.handoff = document.read()?;
        self.write(&found.path, document.text())?;
        Ok(found)
    }

    fn handoff_folder(&self, milestone: Option<MilestoneId>) -> PathBuf {
        milestone.map_or(self.folder(), |milestone| self.milestone_folder(milestone)).join("handoffs")
    }

    fn handoff_folders(&self) -> Result<Vec<PathBuf>, ProjectError> {
        let milestones = self.milestones()?.into_iter().map(Some);
        Ok(milestones.chain([None]).map(|milestone| self.handoff_folder(milestone)).collect())
    }
}

impl HandoffFilter {
    fn lets_through(&self, handoff: &AgentHandoff) -> bool {
        let is_for = |agent: &String| handoff.to_agent == *agent || handoff.to_agent == EVERYBODY;
        self.agent.as_ref().is_none_or(is_for) && self.status.is_none_or(|status| handoff.status == status)
    }
}

fn is_handoff(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    // A leading dot marks the unfinished file of a killed writer.
    name.ends_with(".md") && !name.starts_with('.')
}

fn check_agent(what: &str, agent: &str) -> Result<(), ProjectError> {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if !agent.is_empty()
        && agent.len() <= MOST_AGENT
        && agent.bytes().all(is_word)
        // In a file name, this word means all agents.
        && agent != EVERYBODY_IN_NAME
    {
        return Ok(());
    }
    let message = format!("{what}: {agent:?} is not a name of an agent");
    let instead =
        format!("write up to {MOST_AGENT} letters, digits, _ and -, or {EVERYBODY} to address all agents");
    Err(ProjectError::invalid(message, instead))
}

fn render(handoff: &AgentHandoff, body: &str) -> String {
    let quoted = |text: &str| yaml::quoted(text);
    let or_null = |text: Option<String>| text.map_or("null".to_owned(), |text| yaml::quoted(&text));
    let body = body.trim_end();
    let end = if body.is_empty() { "" } else { "\n" };
    format!(
        "---\nschema_version: {}\nid: {}\nfrom_agent: {}\nto_agent: {}\ntopic: {}\ncreated_at: {}\nmilestone: {}\nslice: {}\ntask: {}\nstatus: {}\n---\n\n{body}{end}",
        handoff.schema_version,
        quoted(&handoff.id),
        quoted(&handoff.from_agent),
        quoted(&handoff.to_agent),
        quoted(&handoff.topic),
        quoted(&handoff.created_at),
        or_null(handoff.milestone.map(|id| id.to_string())),
        or_null(handoff.slice.map(|id| id.to_string())),
        or_null(handoff.task.map(|id| id.to_string())),
        quoted(handoff.status.as_str()),
    )
}

/// Returns the file name of a handoff.
fn name_of(handoff: &AgentHandoff) -> String {
    let stamp = handoff.created_at.replace([':', '.'], "-");
    let to = if handoff.to_agent == EVERYBODY { EVERYBODY_IN_NAME } else { &handoff.to_agent };
    format!("{stamp}__{}-to-{to}__{}__{}.md", handoff.from_agent, slug(&handoff.topic), handoff.id)
}

fn slug(topic: &str) -> String {
    let words = topic.split(|next: char| !next.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let mut slug = words.collect::<Vec<_>>().join("-").to_ascii_lowercase();
    // The text is ASCII, so any byte is a valid place to cut.
    slug.truncate(MOST_SLUG);
    let slug = slug.trim_end_matches('-');
    if slug.is_empty() { "note".to_owned() } else { slug.to_owned() }
}

/// Returns the time in the name of a handoff, if it is within the supported calendar.
fn time_of(name: &str) -> Option<SystemTime> {
    let (stamp, _) = name.split_once("__")?;
    let (date, time) = stamp.split_once('T')?;
    let mut parts = time.strip_suffix('Z')?.split('-');
    let (hour, minute, second, millis) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let time = nexus_files::rfc3339::parse(&format!("{date}T{hour}:{minute}:{second}.{millis}Z"))?;
    // Times must be able to increase, and the calendar ends with the year 9999.
    (!date.starts_with("9999")).then_some(time)
}

/// Returns the fault of a handoff's file name, and the key whose value differs from the name. The key is `None` if the name
/// itself is malformed.
pub(super) fn name_fault(handoff: &AgentHandoff, name: &str) -> Option<(Option<&'static str>, String)> {
    let expected = name_of(handoff);
    let is_hex = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f');
    // Accept the star in place of the word, because other programs write it.
    let (star, word) = (format!("-to-{EVERYBODY}__"), format!("-to-{EVERYBODY_IN_NAME}__"));
    if handoff.id.len() != 8 || !handoff.id.bytes().all(is_hex) {
        Some((Some("id"), format!("{:?} are not 8 hexadecimal digits", handoff.id)))
    } else if time_of(&expected).is_none() {
        let message = format!("{:?} is not a time such as 2026-01-31T12:00:00.000Z", handoff.created_at);
        Some((Some("created_at"), message))
    } else {
        let is_called_so = name == expected || name.replacen(&star, &word, 1) == expected;
        (!is_called_so).then(|| (None, format!("the file of this handoff must have the name {expected}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_is_in_the_name_as_far_as_a_name_can_have_it() {
        assert_eq!(slug("Retry: use *exponential* back-off!"), "retry-use-exponential-back-off");
        assert_eq!(slug("../../etc/passwd"), "etc-passwd");
        assert_eq!(slug("überprüfen 日本"), "berpr-fen");
        assert_eq!(slug("日本"), "note");
        assert!(slug(&"word ".repeat(99)).len() <= MOST_SLUG);
    }

    #[test]
    fn a_time_is_read_from_a_name_or_there_is_none() {
        let time = time_of("2026-01-31T12-00-00-123Z__a-to-b__c__00000000.md").unwrap();
        assert_eq!(nexus_files::rfc3339::millis(time), "2026-01-31T12:00:00.123Z");
        for none in [
            "",
            "__",
            "2026-01-31T12-00-00Z__x",
            "9999-12-31T23-59-59-999Z__x",
            "2026-13-31T12-00-00-123Z__x",
        ] {
            assert_eq!(time_of(none), None, "{none}");
        }
    }
}
