//! The kinds of artifacts: one table of names, sections, entries and frontmatters.

use std::path::Path;

use schemars::{JsonSchema, schema_for};
use serde::{Serialize, de::DeserializeOwned};

use super::{
    frontmatter::{
        AgentHandoff, Meta, Research, ResearcherOutput, SlicePlan, TaskPlan, TaskSummary, Todo, Validation,
        Verification,
    },
    id::{MilestoneId, SliceId, SliceTaskId},
    yaml::{self, YamlError},
};

/// A kind of artifact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Purpose of a milestone and its decisions.
    Context,
    /// Slices of a milestone, in order.
    Roadmap,
    /// Facts about a milestone, as JSON.
    Meta,
    /// Reconciled findings of several researchers.
    Research,
    /// Findings of one researcher.
    ResearcherOutput,
    /// Reviews of a plan; append-only.
    PlanReview,
    /// Result of each success criterion.
    Verification,
    /// Requirements that tests observe.
    Validation,
    /// Knowledge about a slice before it is planned.
    Assessment,
    /// A slice with its tasks.
    SlicePlan,
    /// Findings for a slice.
    SliceResearch,
    /// User acceptance test of a slice.
    Uat,
    /// Changes of a slice.
    SliceSummary,
    /// A task.
    TaskPlan,
    /// Changes of a task.
    TaskSummary,
    /// Generated list of a slice's tasks.
    Todo,
    /// A message from one agent to another.
    Handoff,
}

/// Owner of an artifact, which determines the folder of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    Milestone,
    Slice,
    Task,
    Other,
}

/// Parts of a body, in the order of a new file.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sections {
    /// `## Name`.
    Headings(&'static [&'static str]),
    /// `<name>` and `</name>`, each on its own line.
    Tags(&'static [&'static str]),
}

/// Rules for the entries `### D-1: text` of one section.
#[derive(Clone, Copy, Debug)]
pub(super) struct EntrySpec {
    pub(super) section: &'static str,
    /// Prefix of the numbered ids. Empty if any id is accepted.
    pub(super) prefix: &'static str,
    /// Names of the lines `- **Name:** value` that each entry must have.
    pub(super) fields: &'static [&'static str],
    /// Key of the frontmatter with the number of entries.
    pub(super) count: &'static str,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct FrontmatterSpec {
    pub(super) check: fn(&str) -> Result<(), YamlError>,
    pub(super) schema: fn() -> serde_json::Value,
}

/// Description of a kind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spec {
    pub(super) kind: Kind,
    pub(super) name: &'static str,
    pub(super) owner: Owner,
    /// File name, without the owner's id in front.
    pub(super) file: &'static str,
    pub(super) sections: Sections,
    pub(super) entries: &'static [EntrySpec],
    pub(super) frontmatter: Option<FrontmatterSpec>,
}

const fn typed<T: DeserializeOwned + JsonSchema>() -> Option<FrontmatterSpec> {
    fn check<T: DeserializeOwned>(text: &str) -> Result<(), YamlError> {
        yaml::read::<T>(text).map(drop)
    }
    fn schema<T: JsonSchema>() -> serde_json::Value {
        schema_for!(T).to_value()
    }
    Some(FrontmatterSpec { check: check::<T>, schema: schema::<T> })
}

const fn spec(
    kind: Kind,
    name: &'static str,
    (owner, file): (Owner, &'static str),
    frontmatter: Option<FrontmatterSpec>,
    sections: Sections,
    entries: &'static [EntrySpec],
) -> Spec {
    Spec { kind, name, owner, file, sections, entries, frontmatter }
}

const fn entry(
    section: &'static str,
    prefix: &'static str,
    count: &'static str,
    fields: &'static [&'static str],
) -> EntrySpec {
    EntrySpec { section, prefix, fields, count }
}

use Owner::{Milestone, Other, Slice, Task};
use Sections::{Headings, Tags};

const SUMMARY: Sections = Headings(&["Changes", "Verification", "Follow-ups"]);

/// Description of each kind, in the order of [`Kind`].
pub(super) const SPECS: [Spec; 17] = [
    spec(
        Kind::Context,
        "context",
        (Milestone, "CONTEXT.md"),
        None,
        Tags(&["goal", "domain", "decisions", "deferred", "canonical_refs"]),
        &[],
    ),
    spec(Kind::Roadmap, "roadmap", (Milestone, "ROADMAP.md"), None, Headings(&["Slices"]), &[]),
    spec(Kind::Meta, "meta", (Milestone, "META.json"), typed::<Meta>(), Headings(&[]), &[]),
    spec(
        Kind::Research,
        "research",
        (Milestone, "RESEARCH.md"),
        typed::<Research>(),
        Headings(&[
            "Reconciler Summary",
            "Final Decisions",
            "Contested Decisions",
            "Final Risks",
            "Final Patterns",
            "Final Open Questions",
            "Sources",
        ]),
        &[
            entry("Final Decisions", "D", "decision_count", &["Reasoning-Trace-Agreement", "Reasoning"]),
            entry("Contested Decisions", "CD", "contested_count", &["Reconciler verdict"]),
            entry("Final Risks", "R", "risk_count", &["Reasoning"]),
            entry("Final Patterns", "P", "pattern_count", &["Reasoning"]),
            entry("Final Open Questions", "Q", "open_question_count", &[]),
            entry("Sources", "S", "source_count", &[]),
        ],
    ),
    spec(
        Kind::ResearcherOutput,
        "researcher-output",
        (Other, "spawn-N.md"),
        typed::<ResearcherOutput>(),
        Headings(&["Decisions", "Risks", "Patterns", "Open Questions", "Sources"]),
        &[
            entry("Decisions", "D", "decision_count", &["Reasoning"]),
            entry("Risks", "R", "risk_count", &["Reasoning"]),
            entry("Patterns", "P", "pattern_count", &["Reasoning"]),
            entry("Open Questions", "Q", "open_question_count", &[]),
            entry("Sources", "S", "source_count", &[]),
        ],
    ),
    spec(Kind::PlanReview, "plan-review", (Milestone, "PLAN-REVIEW.md"), None, Headings(&[]), &[]),
    spec(
        Kind::Verification,
        "verification",
        (Milestone, "VERIFICATION.md"),
        typed::<Verification>(),
        Headings(&["Success Criteria"]),
        &[entry("Success Criteria", "SC", "sc_total", &["Status", "Classified by", "Evidence"])],
    ),
    spec(
        Kind::Validation,
        "validation",
        (Milestone, "VALIDATION.md"),
        typed::<Validation>(),
        Headings(&["Summary", "Covered", "Under-Sampled", "Uncovered"]),
        &[entry("Under-Sampled", "", "under_sampled", &[]), entry("Uncovered", "", "uncovered", &[])],
    ),
    spec(
        Kind::Assessment,
        "assessment",
        (Slice, "ASSESSMENT.md"),
        None,
        Tags(&["risk", "effort", "dependencies", "blockers"]),
        &[],
    ),
    spec(
        Kind::SlicePlan,
        "slice-plan",
        (Slice, "PLAN.md"),
        typed::<SlicePlan>(),
        Tags(&["objective", "context", "tasks", "verification", "success_criteria"]),
        &[],
    ),
    spec(
        Kind::SliceResearch,
        "slice-research",
        (Slice, "RESEARCH.md"),
        None,
        Tags(&["stack", "pitfalls", "references"]),
        &[],
    ),
    spec(
        Kind::Uat,
        "uat",
        (Slice, "UAT.md"),
        None,
        Tags(&["acceptance_criteria", "happy_path", "edge_cases"]),
        &[],
    ),
    spec(Kind::SliceSummary, "slice-summary", (Slice, "SUMMARY.md"), None, SUMMARY, &[]),
    spec(
        Kind::TaskPlan,
        "task-plan",
        (Task, "PLAN.md"),
        typed::<TaskPlan>(),
        Tags(&["read_first", "action", "verify", "acceptance_criteria", "done"]),
        &[],
    ),
    spec(Kind::TaskSummary, "task-summary", (Task, "SUMMARY.md"), typed::<TaskSummary>(), SUMMARY, &[]),
    spec(Kind::Todo, "todo", (Slice, "TODO.md"), typed::<Todo>(), Headings(&[]), &[]),
    spec(Kind::Handoff, "handoff", (Other, "handoffs/*.md"), typed::<AgentHandoff>(), Headings(&[]), &[]),
];

impl Kind {
    /// Returns every kind.
    pub fn all() -> impl Iterator<Item = Self> {
        SPECS.iter().map(|spec| spec.kind)
    }

    pub(super) fn spec(self) -> &'static Spec {
        &SPECS[self as usize]
    }

    /// Returns the name, as the option `--schema` accepts it.
    pub fn name(self) -> &'static str {
        self.spec().name
    }

    /// Returns the kind of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::all().find(|kind| kind.name() == name)
    }

    /// Returns the pattern of the kind's file names.
    pub fn file_pattern(self) -> String {
        let Spec { owner, file, .. } = self.spec();
        match owner {
            Owner::Milestone => format!("M001-{file}"),
            Owner::Slice if self == Self::Todo => (*file).to_owned(),
            Owner::Slice => format!("S001-{file}"),
            Owner::Task => format!("T0001-{file}"),
            Owner::Other => (*file).to_owned(),
        }
    }

    /// Returns the required sections, in order: headings, or tags in angle brackets.
    pub fn sections(self) -> Vec<String> {
        match self.spec().sections {
            Sections::Headings(names) => names.iter().map(|name| format!("## {name}")).collect(),
            Sections::Tags(names) => names.iter().map(|name| format!("<{name}>")).collect(),
        }
    }

    /// Returns the JSON Schema of the frontmatter, or of the whole content of META. `None` for a kind without a frontmatter.
    pub fn schema(self) -> Option<serde_json::Value> {
        self.spec().frontmatter.map(|frontmatter| (frontmatter.schema)())
    }
}

/// Description of the artifact at a path, from the path alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Kind of the artifact.
    pub kind: Kind,
    /// The milestone.
    pub milestone: Option<MilestoneId>,
    /// The slice.
    pub slice: Option<SliceId>,
    /// The task.
    pub task: Option<SliceTaskId>,
}

impl Place {
    /// Parses a path. `None` if it is not the path of an artifact.
    pub fn of(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?;
        let above: Vec<&str> =
            path.ancestors().skip(1).filter_map(|folder| folder.file_name()?.to_str()).collect();
        let above_milestone = above.iter().find_map(|name| name.parse::<MilestoneId>().ok());
        let slice_in =
            |milestone: Option<MilestoneId>| above.iter().find_map(|name| SliceId::below(milestone?, name));
        let owned = |owner: Owner, file: &str| {
            SPECS.iter().find(|spec| spec.owner == owner && spec.file == file).map(|spec| spec.kind)
        };
        let mut place = Self { kind: Kind::Handoff, milestone: above_milestone, slice: None, task: None };
        if above.first() == Some(&"handoffs") {
            return name.ends_with(".md").then_some(place);
        }
        if name == Kind::Todo.spec().file {
            return Some(Self { kind: Kind::Todo, slice: slice_in(above_milestone), ..place });
        }
        if let Some(number) = name.strip_prefix("spawn-").and_then(|rest| rest.strip_suffix(".md")) {
            let is_number = !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit());
            return is_number.then_some(Self { kind: Kind::ResearcherOutput, ..place });
        }
        let (short, file) = name.split_once('-')?;
        if let Ok(milestone) = short.parse::<MilestoneId>() {
            place.kind = owned(Owner::Milestone, file)?;
            place.milestone = Some(milestone);
            return Some(place);
        }
        // The file name alone determines the kind, even if no folder names the milestone.
        let any = above_milestone.unwrap_or(MilestoneId::new(0));
        if let Some(slice) = SliceId::below(any, short) {
            let review = Kind::PlanReview.spec().file;
            place.kind = if file == review { Kind::PlanReview } else { owned(Owner::Slice, file)? };
            place.slice = above_milestone.map(|_| slice);
            return Some(place);
        }
        let slice = slice_in(above_milestone);
        let task = SliceTaskId::below(slice.unwrap_or(any.slice(0)), short)?;
        place.kind = owned(Owner::Task, file)?;
        place.slice = slice;
        place.task = slice.map(|_| task);
        Some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_kinds() {
        for (index, spec) in SPECS.iter().enumerate() {
            assert_eq!(spec.kind as usize, index);
            assert_eq!(Kind::named(spec.name), Some(spec.kind));
        }
    }

    #[test]
    fn a_path_says_what_the_artifact_is() {
        let kind = |path: &str| Place::of(Path::new(path)).map(|place| place.kind);
        let task = "x/M001/slices/S002/tasks/T0003/T0003-PLAN.md";
        let place = Place::of(Path::new(task)).unwrap();
        assert_eq!(place.task.unwrap().to_string(), "M001-S002-T0003");
        assert_eq!(place.kind, Kind::TaskPlan);
        assert_eq!(kind("S001-PLAN.md"), Some(Kind::SlicePlan));
        assert_eq!(kind("T0001-SUMMARY.md"), Some(Kind::TaskSummary));
        assert_eq!(kind("M001-PLAN-REVIEW.md"), Some(Kind::PlanReview));
        assert_eq!(kind("S001-PLAN-REVIEW.md"), Some(Kind::PlanReview));
        assert_eq!(kind("M001/research/spawn-12.md"), Some(Kind::ResearcherOutput));
        assert_eq!(kind("handoffs/whatever.md"), Some(Kind::Handoff));
        for none in [
            "README.md",
            "M001-PLAN.md",
            "S001-META.json",
            "spawn-.md",
            "spawn-x.md",
            "M01-CONTEXT.md",
            "T001-PLAN.md",
            "",
        ] {
            assert_eq!(kind(none), None, "{none}");
        }
    }
}
