//! Creates milestones, slices and tasks, and the files of the tasks in a slice's plan.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use nexus_project::{ProjectError, ProjectErrorKind, file};
use serde::Serialize;

use super::{
    check::{self, CheckContext, Fault, PlannedTask, planned},
    document::{Artifact, NONE},
    frontmatter::{Meta, SuccessCriterion},
    id::{MilestoneId, SliceId, SliceTaskId},
    kind::{Kind, Place},
    review::{self, Appended},
    rule::{LintFinding, Rule},
    template::{or_none, plan_of, summary_of, tags, today},
    tree::Artifacts,
};

/// Maximum length of a new name, in bytes.
const MOST_NAME: usize = 200;

/// Inputs of a new milestone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewMilestone {
    /// Name of the milestone, on one line.
    pub name: String,
    /// Purpose of the milestone.
    pub goal: String,
    /// Requirements that the milestone covers.
    pub requirements: Vec<String>,
    /// Criteria for the end of the milestone.
    pub success_criteria: Vec<String>,
}

/// Inputs of a new task in a slice's plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewTask {
    /// Name of the task, on one line.
    pub name: String,
    /// Model of the task: haiku, sonnet, opus, or a portable one.
    pub tier: String,
    /// Tasks of earlier slices that must be done first.
    pub depends_on: Vec<SliceTaskId>,
    /// Files that the task changes.
    pub files: Vec<String>,
    /// Work to do.
    pub action: String,
}

/// Result of [`Artifacts::scaffold`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Scaffolded {
    /// Tasks of the plan, in order.
    pub tasks: Vec<SliceTaskId>,
    /// Files that were created.
    pub made: Vec<PathBuf>,
    /// Files that existed and were not changed.
    pub kept: Vec<PathBuf>,
    /// Tasks that have a folder but are not in the plan.
    pub not_planned: Vec<SliceTaskId>,
}

impl Artifacts {
    /// Creates a milestone with the next number: CONTEXT, ROADMAP and META.
    ///
    /// # Errors
    ///
    /// [`InvalidArgument`](ProjectErrorKind::InvalidArgument) for a name that is empty or longer than a line; errors of the
    /// file system.
    pub fn new_milestone(&self, new: &NewMilestone) -> Result<MilestoneId, ProjectError> {
        let name = one_line("name", &new.name)?;
        let criteria = new
            .success_criteria
            .iter()
            .map(|text| one_line("criterion", text))
            .collect::<Result<Vec<_>, _>>()?;
        let _lock = self.lock()?;
        // Number the milestone under the lock: two processes would otherwise choose the same number.
        let last = self.milestones()?.last().map_or(0, |last| last.number());
        let id = MilestoneId::new(next(last)?);
        let meta = Meta {
            id,
            name: name.to_owned(),
            status: "pending".to_owned(),
            created: today(),
            goal: new.goal.trim().to_owned(),
            requirements: new.requirements.clone(),
            success_criteria: criteria
                .iter()
                .zip(1..)
                .map(|(text, number)| SuccessCriterion::Named {
                    id: format!("SC-{number}"),
                    text: (*text).to_owned(),
                })
                .collect(),
            slice_count: 0,
            task_count: 0,
        };
        let meta = serde_json::to_string_pretty(&meta)
            .map_err(|error| ProjectError::invalid(error.to_string(), "write other values"))?;
        let goal = or_none(&new.goal);
        let context = format!(
            "# {id} — {name}\n\n**Context captured:** {}\n\n{}",
            today(),
            tags(&[
                ("goal", goal),
                ("domain", NONE),
                ("decisions", NONE),
                ("deferred", NONE),
                ("canonical_refs", NONE)
            ])
        );
        let roadmap = format!(
            "# {id} — {name} — Roadmap\n\n**Generated:** {}\n\n## Slices (execution order)\n\n{NONE}\n",
            today()
        );
        let files = [(Kind::Context, context), (Kind::Roadmap, roadmap), (Kind::Meta, format!("{meta}\n"))];
        let files = files.map(|(kind, text)| (self.milestone_file(id, kind), Artifact::parse(kind, text)));
        self.make(&self.milestone_folder(id).join("slices"), &files)?;
        Ok(id)
    }

    /// Creates a slice with the next number: ASSESSMENT, PLAN and UAT. Adds the slice to the milestone's ROADMAP and META.
    ///
    /// # Errors
    ///
    /// As [`Self::new_milestone`]; [`Unknown`](ProjectErrorKind::Unknown) if the milestone does not exist.
    pub fn new_slice(&self, milestone: MilestoneId, name: &str) -> Result<SliceId, ProjectError> {
        let name = one_line("name", name)?;
        let _lock = self.lock()?;
        self.require_milestone(milestone)?;
        let slices = self.slices(milestone)?;
        let id = milestone.slice(next(slices.last().map_or(0, |last| last.number()))?);
        let head = |title: &str, verb: &str| {
            format!("# {id} — {name} — {title}\n\n**Milestone:** {milestone}\n**{verb}:** {}\n\n", today())
        };
        let plan = format!(
            "---\nslice: \"{id}\"\nmilestone: \"{milestone}\"\ntype: plan\nstatus: pending\nrequirements: []\n---\n\n# {id} — {name}\n\n{}",
            tags(&[
                ("objective", name),
                ("context", NONE),
                ("tasks", NONE),
                ("verification", NONE),
                ("success_criteria", NONE)
            ])
        );
        let assessment = head("Assessment", "Assessed")
            + &tags(&[("risk", NONE), ("effort", NONE), ("dependencies", NONE), ("blockers", NONE)]);
        let uat = head("UAT", "Defined")
            + &tags(&[("acceptance_criteria", NONE), ("happy_path", NONE), ("edge_cases", NONE)]);
        let files = [(Kind::Assessment, assessment), (Kind::Uat, uat), (Kind::SlicePlan, plan)];
        let files = files.map(|(kind, text)| (self.slice_file(id, kind), Artifact::parse(kind, text)));
        self.make(&self.slice_folder(id).join("tasks"), &files)?;
        // Create the slice before its mentions. A crash in between leaves a complete slice that the ROADMAP lacks.
        let path = self.milestone_file(milestone, Kind::Roadmap);
        if let Some(mut roadmap) = self.read(&path, Kind::Roadmap)? {
            roadmap.add_to_section("Slices", &format!("- **{id}** — {name}"))?;
            self.write(&path, roadmap.text())?;
        }
        // Count the folders instead of adding one, so that this call also corrects an interrupted earlier one.
        self.count(milestone)?;
        Ok(id)
    }

    /// Adds a task with the next number to a slice's plan. [`Self::scaffold`] creates its files.
    ///
    /// # Errors
    ///
    /// [`WrongState`](ProjectErrorKind::WrongState) if the plan would not pass the lint, with every finding;
    /// [`Unknown`](ProjectErrorKind::Unknown) for a slice without a plan; errors of the file system.
    pub fn new_task(
        &self,
        slice: SliceId,
        new: &NewTask,
        models: &[String],
    ) -> Result<SliceTaskId, ProjectError> {
        let name = one_line("name", &new.name)?;
        for file in &new.files {
            one_line("file", file)?;
            if file.contains(',') {
                return Err(ProjectError::invalid(
                    format!("{file:?} contains a comma, which separates files"),
                    "write another name",
                ));
            }
        }
        let _lock = self.lock()?;
        let path = self.slice_file(slice, Kind::SlicePlan);
        let mut plan = self.existing(&path, Kind::SlicePlan)?;
        // This fails for a plan with faults. A malformed block would be missing here, and its number would be used
        // twice.
        let tasks = self.planned_tasks(slice, &plan, models)?;
        let id = slice.task(u32::try_from(tasks.len()).map_or_else(|_| next(u32::MAX), next)?);
        let depends_on = new.depends_on.iter().map(SliceTaskId::to_string).collect::<Vec<_>>().join(",");
        let tier = &new.tier;
        let block = format!(
            "<task id=\"{id}\" depends_on=\"{depends_on}\" wave=\"{}\" tier=\"{tier}\">\n  <name>{name}</name>\n  <files>{}</files>\n  <action>\n{}\n  </action>\n</task>",
            slice.number(),
            new.files.join(", "),
            or_none(&new.action),
        );
        plan.add_to_section("tasks", &block)?;
        // Check that the new block parses to the intended task.
        let after = self.planned_tasks(slice, &plan, models)?;
        let is_meant =
            |task: &PlannedTask| task.id == id && task.tier == *tier && task.depends_on == new.depends_on;
        if after.len() != tasks.len() + 1 || !after.last().is_some_and(is_meant) {
            let message = "the task would not form one block of the plan";
            return Err(ProjectError::invalid(message, "leave <task> and </task> out of its texts"));
        }
        self.write(&path, plan.text())?;
        Ok(id)
    }

    /// Creates the files of the tasks in a slice's plan, and its TODO. Existing files stay byte for byte.
    ///
    /// # Errors
    ///
    /// [`WrongState`](ProjectErrorKind::WrongState) if a `<task>` block is malformed, with every finding. Then no file is
    /// created, so that no task is left out. Errors of the file system.
    pub fn scaffold(&self, slice: SliceId, models: &[String]) -> Result<Scaffolded, ProjectError> {
        let _lock = self.lock()?;
        let plan = self.existing(&self.slice_file(slice, Kind::SlicePlan), Kind::SlicePlan)?;
        let tasks = self.planned_tasks(slice, &plan, models)?;
        let mut done =
            Scaffolded { tasks: tasks.iter().map(|task| task.id).collect(), ..Scaffolded::default() };
        for task in &tasks {
            for (kind, text) in [(Kind::TaskPlan, plan_of(task)), (Kind::TaskSummary, summary_of(task.id))] {
                let path = self.task_file(task.id, kind);
                // An agent may have filled the file already, so never replace it.
                if self.read(&path, kind)?.is_some() {
                    done.kept.push(path);
                } else {
                    self.write(&path, &text)?;
                    done.made.push(path);
                }
            }
        }
        done.not_planned = self.tasks(slice)?.into_iter().filter(|task| !done.tasks.contains(task)).collect();
        // Write the TODO last, because it lists the tasks that have folders.
        self.write_todo_locked(slice)?;
        self.count(slice.milestone)?;
        Ok(done)
    }

    /// Appends an entry to a milestone's review of its plan. Without an entry, it only seals the existing bytes.
    ///
    /// # Errors
    ///
    /// [`Damaged`](ProjectErrorKind::Damaged) if earlier entries were changed; nothing is appended then.
    /// [`WrongState`](ProjectErrorKind::WrongState) if the file has another SHA-256 than expected. Errors of the file
    /// system.
    pub fn append_review(
        &self,
        milestone: MilestoneId,
        entry: &str,
        expected_sha256: Option<&str>,
    ) -> Result<Appended, ProjectError> {
        let _lock = self.lock()?;
        self.require_milestone(milestone)?;
        let path = self.milestone_file(milestone, Kind::PlanReview);
        self.guard(&path)?;
        let head =
            format!("# {milestone} — Plan review\n\nOnly ever appended to, by `nexus artifact append`.\n");
        review::append(&path, &head, entry, expected_sha256)
    }

    /// Creates a folder and its files. Fails if the lint has a finding for one of them.
    fn make(&self, folder: &Path, files: &[(PathBuf, Artifact)]) -> Result<(), ProjectError> {
        // Check all files before the first write, so that an error leaves nothing behind.
        for (path, document) in files {
            let faults = check::faults(document, Place::of(path).as_ref(), "", &[]);
            if let Some(findings) = findings_of(path, document, faults) {
                let message = format!("the new file would not pass the lint:{findings}\nnothing was written");
                return Err(ProjectError::invalid(message, "write other names and texts"));
            }
        }
        // Check for links first: creating the folder would follow them.
        self.guard(folder)?;
        file::make_folder(folder)?;
        files.iter().try_for_each(|(path, document)| self.write(path, document.text()))
    }

    /// Returns the tasks of a plan, if none has a fault.
    fn planned_tasks(
        &self,
        slice: SliceId,
        plan: &Artifact,
        models: &[String],
    ) -> Result<Vec<PlannedTask>, ProjectError> {
        let path = self.slice_file(slice, Kind::SlicePlan);
        let mut check = CheckContext::new(plan, Place::of(&path).as_ref(), models);
        for section in plan.sections().iter().filter(|section| !section.is_closed) {
            check.fault(section.start, Rule::SectionUnclosed, format!("<{}> has no end", section.name));
        }
        let tasks = planned(&mut check);
        for task in &tasks {
            self.check_dependencies(task, &mut check)?;
        }
        let Some(findings) = findings_of(&path, plan, check.faults) else { return Ok(tasks) };
        let message = format!("the plan of {slice} cannot be used:{findings}\nnothing was written");
        Err(ProjectError::wrong_status(message, "correct the plan, then repeat the call"))
    }

    /// Checks that all dependencies of a task are planned.
    pub(super) fn check_dependencies(
        &self,
        task: &PlannedTask,
        check: &mut CheckContext<'_>,
    ) -> Result<(), ProjectError> {
        // Group by slice, so that each plan is read once.
        let slices: BTreeSet<SliceId> = task.depends_on.iter().map(|task| task.slice).collect();
        for slice in slices {
            let path = self.slice_file(slice, Kind::SlicePlan);
            let plan = self.read(&path, Kind::SlicePlan)?;
            let known: BTreeSet<SliceTaskId> = plan.map_or_else(BTreeSet::new, |plan| {
                let mut check = CheckContext::new(&plan, Place::of(&path).as_ref(), check.models);
                planned(&mut check).iter().map(|task| task.id).collect()
            });
            for missing in task.depends_on.iter().filter(|one| one.slice == slice && !known.contains(one)) {
                let message =
                    format!("{} depends on {missing}, which is not in the plan of {slice}", task.id);
                check.fault(task.depends_on_at, Rule::TaskDependency, message);
            }
        }
        Ok(())
    }

    pub(super) fn require_milestone(&self, milestone: MilestoneId) -> Result<(), ProjectError> {
        if self.milestones()?.contains(&milestone) {
            return Ok(());
        }
        let message = format!("the milestone {milestone} does not exist");
        Err(ProjectError::unknown(message, "create one with `nexus artifact new milestone NAME`"))
    }

    /// Returns the numbers of slices and tasks of a milestone.
    pub(super) fn counted(&self, milestone: MilestoneId) -> Result<(u64, u64), ProjectError> {
        let slices = self.slices(milestone)?;
        let mut tasks = 0;
        for slice in &slices {
            tasks += self.tasks(*slice)?.len() as u64;
        }
        Ok((slices.len() as u64, tasks))
    }

    /// Updates the numbers of slices and tasks in META.
    fn count(&self, milestone: MilestoneId) -> Result<(), ProjectError> {
        let path = self.milestone_file(milestone, Kind::Meta);
        let Some(mut meta) = self.read(&path, Kind::Meta)? else { return Ok(()) };
        let said = meta.read::<Meta>()?;
        let (slices, tasks) = self.counted(milestone)?;
        // Without a difference, leave the file untouched, so that version control shows no change.
        if (said.slice_count, said.task_count) != (slices, tasks) {
            meta.set_value("slice_count", &slices.to_string())?;
            meta.set_value("task_count", &tasks.to_string())?;
            self.write(&path, meta.text())?;
        }
        Ok(())
    }
}

/// Returns the faults of an artifact, one per line. `None` without faults.
fn findings_of(path: &Path, document: &Artifact, faults: Vec<Fault>) -> Option<String> {
    let mut findings: Vec<_> = faults
        .into_iter()
        .map(|(at, rule, message)| LintFinding::at(path, document.position(at), rule, message))
        .collect();
    findings.sort();
    (!findings.is_empty()).then(|| findings.iter().map(|finding| format!("\n{finding}")).collect())
}

fn next(last: u32) -> Result<u32, ProjectError> {
    let next = last.checked_add(1).filter(|next| *next <= 999_999_999);
    next.ok_or_else(|| {
        ProjectError::new(
            ProjectErrorKind::WrongState,
            "the highest number is already used",
            "move the folder with the highest number away",
        )
    })
}

fn one_line<'a>(what: &str, text: &'a str) -> Result<&'a str, ProjectError> {
    let text = text.trim();
    if text.is_empty()
        || text.len() > MOST_NAME
        || text.contains(|next: char| next.is_control())
        || text.contains(['<', '>'])
    {
        let message = format!("a {what} must be one line of at most {MOST_NAME} bytes without < and >");
        return Err(ProjectError::invalid(message, "write another one"));
    }
    Ok(text)
}
