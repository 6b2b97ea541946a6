//! Checks of tasks: the `<task>` blocks of a slice's plan, and a task's own plan.

use super::{
    super::{
        document::NONE,
        frontmatter::TaskPlan,
        id::{SliceId, SliceTaskId},
        rule::Rule,
        task_block::{self, TaskBlock},
    },
    CheckContext,
};

/// Models that are valid without a configuration.
const TIERS: [&str; 3] = ["haiku", "sonnet", "opus"];

/// A task as its block defines it.
#[derive(Clone, Debug)]
pub(in super::super) struct PlannedTask {
    pub(in super::super) id: SliceTaskId,
    pub(in super::super) depends_on: Vec<SliceTaskId>,
    pub(in super::super) tier: String,
    /// Text of the block.
    pub(in super::super) body: String,
    /// Byte offset of the dependencies.
    pub(in super::super) depends_on_at: usize,
}

/// Returns the tasks of a plan. Reports the faults of a malformed task and leaves it out.
pub(in super::super) fn planned(check: &mut CheckContext<'_>) -> Vec<PlannedTask> {
    let document = check.artifact;
    let (blocks, block_faults) = task_block::blocks(document);
    if blocks.is_empty()
        && block_faults.is_empty()
        && let Some(section) = document.section("tasks")
        && !document.is_blank(section.body.clone())
        && document.text()[section.body.clone()].trim() != NONE
    {
        let message = format!(
            "<tasks> has no <task> block outside of code and comments; write {NONE} if there is none"
        );
        check.fault(section.start, Rule::TaskBlock, message);
    }
    for (at, message) in block_faults {
        check.fault(at, Rule::TaskBlock, message);
    }
    let within = document.section("tasks").map(|section| section.body.clone());
    for block in &blocks {
        if within.as_ref().is_some_and(|within| block.start < within.start || block.body.end > within.end) {
            check.fault(block.start, Rule::TaskBlock, "the <task> is not between <tasks> and </tasks>");
        }
    }
    let mut tasks = Vec::new();
    for (index, block) in blocks.iter().enumerate() {
        tasks.extend(task(check, index, block));
    }
    tasks
}

fn task(check: &mut CheckContext<'_>, index: usize, block: &TaskBlock) -> Option<PlannedTask> {
    let before = check.faults.len();
    let name =
        block.attributes.get("id").map_or(format!("task {} of the plan", index + 1), |(id, _)| id.clone());
    for attribute in ["id", "depends_on", "wave", "tier"] {
        if !block.attributes.contains_key(attribute) {
            check.fault(block.start, Rule::TaskAttribute, format!("{name} has no {attribute}"));
        }
    }
    if check.faults.len() > before {
        return None;
    }
    let of = |attribute: &str| {
        block.attributes.get(attribute).map_or(("", 0), |(value, at)| (value.as_str(), *at))
    };
    let (id, id_at) = of("id");
    let id = match id.parse::<SliceTaskId>() {
        Ok(id) => id,
        Err(error) => {
            check.fault(id_at, Rule::TaskId, error.to_string());
            return None;
        }
    };
    let slice = check.slice.unwrap_or(id.slice);
    let number = u32::try_from(index + 1).unwrap_or(u32::MAX);
    // Tasks are numbered by position: `new_task` derives the next id from the number of blocks.
    if id != slice.task(number) {
        check.fault(id_at, Rule::TaskId, format!("{id} is in the position of {}", slice.task(number)));
    }
    let (wave, wave_at) = of("wave");
    check.wave(wave, wave_at, slice);
    let (tier, tier_at) = of("tier");
    check.tier(tier, tier_at);
    let (named, depends_on_at) = of("depends_on");
    let named = named.trim().trim_start_matches('[').trim_end_matches(']');
    let named = named.split(',').map(str::trim).filter(|one| !one.is_empty());
    let depends_on = named.filter_map(|one| check.dependency(one, depends_on_at, slice)).collect();
    let body = check.artifact.text()[block.body.clone()].to_owned();
    let task = PlannedTask { id, depends_on, tier: tier.to_owned(), body, depends_on_at };
    // Leave out a task with any fault, so that no caller creates files from it.
    (check.faults.len() == before).then_some(task)
}

impl CheckContext<'_> {
    fn wave(&mut self, wave: &str, at: usize, slice: SliceId) {
        if wave.parse() != Ok(slice.number()) {
            let message = format!("wave is {wave:?}; the number of {slice} is {}", slice.number());
            self.fault(at, Rule::TaskWave, message);
        }
    }

    fn tier(&mut self, tier: &str, at: usize) {
        if !TIERS.contains(&tier) && !self.models.iter().any(|model| model == tier) {
            let models = TIERS.into_iter().chain(self.models.iter().map(String::as_str)).collect::<Vec<_>>();
            let message = format!("{tier:?} is not a tier; write one of {}", models.join(", "));
            self.fault(at, Rule::TaskTier, message);
        }
    }

    fn dependency(&mut self, named: &str, at: usize, slice: SliceId) -> Option<SliceTaskId> {
        let parsed = named.parse::<SliceTaskId>();
        let reason = match &parsed {
            Ok(task) if task.slice < slice => return Some(*task),
            Ok(task) => {
                format!(
                    "{task} does not belong to a slice before {slice}; tasks of one slice run in parallel"
                )
            }
            Err(error) => error.to_string(),
        };
        self.fault(at, Rule::TaskDependency, reason);
        None
    }

    /// Checks a task's own plan.
    pub(super) fn task_plan(&mut self) {
        let Ok(plan) = self.artifact.read::<TaskPlan>() else { return };
        let values = self.artifact.values();
        let at = |key: &str| values.get(key).map_or(0, |range| range.start);
        let slice = self.slice.unwrap_or(plan.slice);
        self.wave(&plan.wave.to_string(), at("wave"), slice);
        self.tier(&plan.tier, at("tier"));
        for task in plan.depends_on {
            self.dependency(&task.to_string(), at("depends_on"), slice);
        }
    }
}
