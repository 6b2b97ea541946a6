//! The frame of a debate: its claims and its panel.

use std::collections::{BTreeMap, BTreeSet};

use nexus_work::{DraftError, Faults};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::names::{check_names, check_text};

/// Allowed number of claims.
const CLAIMS: std::ops::RangeInclusive<usize> = 2..=12;
/// Allowed number of panelists.
pub const PANELISTS: std::ops::RangeInclusive<usize> = 2..=9;
/// Maximum length of a claim, a role and a reason, in bytes. Source: our own bounds.
const MOST_CLAIM_BYTES: usize = 1 << 10;
const MOST_ROLE_BYTES: usize = 2 << 10;

/// A frame, as the framer submits it. Its texts are data and nothing else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FrameDraft {
    /// Two to twelve claims that can be contested: each a sentence that one may support or oppose.
    pub claims: Vec<DebateClaim>,
    /// The panel: as many panelists as the task requires.
    pub panelists: Vec<Panelist>,
    /// One judgement of each registered agent.
    pub relevance: Vec<Relevance>,
}

/// Something that panelists take a position on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DebateClaim {
    /// Names it: a letter, then letters, digits, `-` and `_`, at most 40 in all.
    pub id: String,
    /// The claim, at most 1 KiB.
    pub text: String,
}

/// One seat of the panel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Panelist {
    /// Names it: a letter, then letters, digits, `-` and `_`, at most 40 in all.
    pub name: String,
    /// From where it looks at the question, at most 2 KiB. It says which concerns it has, not which position it takes.
    pub role: String,
    /// The registered agent that sits here. `null` for an outsider.
    #[serde(default)]
    pub registered: Option<String>,
    /// The sources that it reads. No other panelist reads any of them.
    pub sources: Vec<String>,
}

/// Relevance of a registered agent for the question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Relevance {
    /// The agent's name.
    pub agent: String,
    /// True if the agent can contribute to the question.
    pub relevant: bool,
    /// Why, at most 1 KiB.
    pub why: String,
}

/// Rules for a frame, from the caller and the home.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrameRules {
    /// Required number of panelists.
    pub panelists: usize,
    /// Names of the registered agents.
    pub registered: Vec<String>,
    /// Registered agents and panelists that the caller requires on the panel.
    pub pins: Vec<String>,
    /// Names of the sources.
    pub sources: Vec<String>,
}

/// The checked claims and panel of a debate. Claims and panelists have different names, and each registered agent was judged
/// once. The panel includes the caller's pins. If the home has a relevant registered agent, the panel includes such an agent
/// and an outsider. No two panelists read the same source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "FrameRecord", into = "FrameRecord")]
pub struct Frame {
    rules: FrameRules,
    draft: FrameDraft,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FrameRecord {
    rules: FrameRules,
    draft: FrameDraft,
}

impl Frame {
    /// Checks a draft.
    ///
    /// # Errors
    ///
    /// All faults of the draft.
    pub fn accept(draft: FrameDraft, rules: FrameRules) -> Result<Self, DraftError> {
        let mut faults = Faults::default();
        check_claims(&mut faults, &draft.claims);
        check_panel(&mut faults, &draft.panelists, &rules);
        check_relevance(&mut faults, &draft, &rules);
        faults.into_result("frame")?;
        Ok(Self { rules, draft })
    }

    /// Returns the claims.
    pub fn claims(&self) -> &[DebateClaim] {
        &self.draft.claims
    }

    /// Returns the claim of this id.
    pub fn claim(&self, id: &str) -> Option<&DebateClaim> {
        self.draft.claims.iter().find(|claim| claim.id == id)
    }

    /// Returns the panelists.
    pub fn panelists(&self) -> &[Panelist] {
        &self.draft.panelists
    }

    /// Returns the relevance of each registered agent.
    pub fn relevance(&self) -> &[Relevance] {
        &self.draft.relevance
    }

    /// Returns the sources that no panelist reads.
    pub fn unassigned_sources(&self) -> impl Iterator<Item = &str> {
        let read: BTreeSet<&String> =
            self.draft.panelists.iter().flat_map(|panelist| &panelist.sources).collect();
        self.rules.sources.iter().filter(move |source| !read.contains(source)).map(String::as_str)
    }
}

fn check_claims(faults: &mut Faults, claims: &[DebateClaim]) {
    if !CLAIMS.contains(&claims.len()) {
        let (least, most) = CLAIMS.into_inner();
        faults.add("claims", format!("has {} entries; name {least} to {most}", claims.len()));
    }
    let ids = claims.iter().enumerate().map(|(at, claim)| (format!("claims[{at}].id"), claim.id.as_str()));
    check_names(faults, ids, "claim");
    for (at, claim) in claims.iter().enumerate() {
        check_text(faults, &format!("claims[{at}].text"), &claim.text, MOST_CLAIM_BYTES);
    }
}

fn check_panel(faults: &mut Faults, panelists: &[Panelist], rules: &FrameRules) {
    if panelists.len() != rules.panelists {
        faults.add("panelists", format!("has {} entries; name {}", panelists.len(), rules.panelists));
    }
    let names =
        panelists.iter().enumerate().map(|(at, seat)| (format!("panelists[{at}].name"), seat.name.as_str()));
    check_names(faults, names, "panelist");
    let mut readers: BTreeMap<&str, &str> = BTreeMap::new();
    let mut sits: BTreeSet<&str> = BTreeSet::new();
    for (at, panelist) in panelists.iter().enumerate() {
        let place = format!("panelists[{at}]");
        check_text(faults, &format!("{place}.role"), &panelist.role, MOST_ROLE_BYTES);
        if let Some(agent) = &panelist.registered {
            if !rules.registered.contains(agent) {
                faults.add(
                    format!("{place}.registered"),
                    "this agent is not registered; write `null` for an outsider",
                );
            } else if !sits.insert(agent) {
                faults.add(
                    format!("{place}.registered"),
                    "the agent already has a seat; give each seat another agent or `null`",
                );
            }
        }
        for (which, source) in panelist.sources.iter().enumerate() {
            let place = format!("{place}.sources[{which}]");
            if !rules.sources.contains(source) {
                faults.add(place, "no source has this name");
            // Each source goes to one panelist, so that the panelists know different facts.
            } else if let Some(other) = readers.insert(source, &panelist.name) {
                faults.add(
                    place,
                    format!(
                        "{} already has it; give each source to at most one panelist",
                        nexus_core::visible::Visible(other)
                    ),
                );
            }
        }
    }
    for pin in &rules.pins {
        // A pin means the registered agent of that name, and without one a panelist of that name.
        let is_there = match rules.registered.contains(pin) {
            true => sits.contains(pin.as_str()),
            false => panelists.iter().any(|panelist| panelist.name == *pin),
        };
        if !is_there {
            faults.add("panelists", format!("the caller requires a seat for {pin:?}"));
        }
    }
}

fn check_relevance(faults: &mut Faults, draft: &FrameDraft, rules: &FrameRules) {
    let mut judged = BTreeSet::new();
    for (at, relevance) in draft.relevance.iter().enumerate() {
        let place = format!("relevance[{at}].agent");
        if !rules.registered.contains(&relevance.agent) {
            faults.add(place, "no such agent is registered");
        } else if !judged.insert(&relevance.agent) {
            faults.add(place, "the agent is judged twice");
        }
        check_text(faults, &format!("relevance[{at}].why"), &relevance.why, MOST_CLAIM_BYTES);
    }
    for agent in rules.registered.iter().filter(|agent| !judged.contains(agent)) {
        faults.add("relevance", format!("the registered agent {agent} is not judged"));
    }
    let registered = draft.panelists.iter().filter(|panelist| panelist.registered.is_some()).count();
    let relevant: Vec<&String> = draft
        .relevance
        .iter()
        .filter(|relevance| relevance.relevant)
        .map(|relevance| &relevance.agent)
        .collect();
    // Pinned agents count as relevant, even if the framer judges otherwise.
    let counts = |agent: &String| relevant.contains(&agent) || rules.pins.contains(agent);
    let sits = draft.panelists.iter().filter_map(|panelist| panelist.registered.as_ref()).any(counts);
    if !relevant.is_empty() && !sits {
        faults.add("panelists", "some registered agents are relevant, so give at least one of them a seat");
    }
    if registered > 0 && registered == draft.panelists.len() {
        faults.add("panelists", "registered agents have seats, so give at least one seat to an outsider");
    }
}

impl TryFrom<FrameRecord> for Frame {
    type Error = DraftError;

    fn try_from(record: FrameRecord) -> Result<Self, DraftError> {
        Self::accept(record.draft, record.rules)
    }
}

impl From<Frame> for FrameRecord {
    fn from(frame: Frame) -> Self {
        Self { rules: frame.rules, draft: frame.draft }
    }
}
