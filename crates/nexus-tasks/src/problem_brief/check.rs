//! Rules for a brief.

use std::{
    collections::BTreeSet,
    path::{Component, Path},
};

use nexus_core::{Brief, ParticipantScope, PathAccess, ScopeError, WriteSlice, scope::is_dot_git};
use nexus_work::{AgentTypes, DraftError, Faults, shown};

use super::{BriefDraft, BriefLimits, Criterion, OUTCOME, Plan, PlanEntry, PlanEntryDraft};

/// Built-in tiers, phases and type that the rules refer to. Source: the documentation of [`nexus_work::agent`].
const EXECUTION: &str = "execution";
const OPERATIONS: &str = "operations";
const REVIEW: &str = "review";
const REVIEWER: &str = "reviewer";
/// Phases that a plan cannot contain: the server itself starts them.
const NOT_PLANNED: [&str; 2] = ["orchestrate", "reflect"];

/// Checks all of `draft` on the tree at `root`. Returns its plan, with a review added where one is missing.
pub(super) fn check(draft: &BriefDraft, types: &AgentTypes, root: &Path) -> Result<Plan, DraftError> {
    let mut faults = Faults::default();
    texts(draft, &mut faults);
    criteria(&draft.criteria, &mut faults);
    // An invalid entry becomes `None`, so that indexes stay the same and the other entries are still checked.
    let entries: Vec<Option<PlanEntry>> = draft
        .plan
        .iter()
        .enumerate()
        .map(|(index, entry)| plan_entry(index, entry, draft, types, &mut faults))
        .collect();
    order(&draft.plan, &entries, &mut faults);
    let paths_are_plain = paths(draft, &mut faults);
    // The engine resolves paths on the tree, so it gets only well-formed ones.
    if paths_are_plain {
        scope(draft, root, &mut faults);
    }
    faults.into_result("brief")?;
    // Without a fault every entry is `Some`, so `flatten` drops none.
    let entries = entries.into_iter().flatten().collect();
    Ok(Plan { entries: with_reviews(entries) })
}

fn texts(draft: &BriefDraft, faults: &mut Faults) {
    faults.text("problem", &draft.problem, BriefLimits::PROBLEM_BYTES);
    for (name, texts) in [("clarifications", &draft.clarifications), ("out_of_scope", &draft.out_of_scope)] {
        faults.count(name, texts.len(), BriefLimits::LIST);
        for (index, text) in texts.iter().enumerate() {
            faults.text(&format!("{name}[{index}]"), text, BriefLimits::TEXT_BYTES);
        }
    }
}

fn criteria(criteria: &[Criterion], faults: &mut Faults) {
    if criteria.is_empty() {
        faults
            .add("criteria", "is empty; write at least one criterion that shows that the problem is solved");
    }
    faults.count("criteria", criteria.len(), BriefLimits::LIST);
    let mut seen = BTreeSet::new();
    for (index, Criterion { id, text }) in criteria.iter().enumerate() {
        let place = format!("criteria[{index}].id");
        if !is_name(id) {
            let rule = "is not an id; write a letter, and up to 63 letters, digits, - and _";
            faults.add(&*place, format!("{} {rule}", shown(id)));
        } else if id == OUTCOME {
            faults.add(
                &*place,
                format!("{OUTCOME:?} is reserved for the outcome of a step; choose another id"),
            );
        } else if !seen.insert(id) {
            faults.add(&*place, format!("{id:?} occurs twice"));
        }
        faults.text(&format!("criteria[{index}].text"), text, BriefLimits::TEXT_BYTES);
    }
}

/// Checks an entry against the registered tiers, phases and types. For a review, tier and phase are set by the server.
fn plan_entry(
    index: usize,
    entry: &PlanEntryDraft,
    draft: &BriefDraft,
    types: &AgentTypes,
    faults: &mut Faults,
) -> Option<PlanEntry> {
    let place = |field: &str| format!("plan[{index}].{field}");
    faults.text(&place("outcome"), &entry.outcome, BriefLimits::TEXT_BYTES);
    for id in &entry.criteria {
        if !draft.criteria.iter().any(|criterion| criterion.id == *id) {
            faults.add(place("criteria"), format!("{} is not a criterion of the brief", shown(id)));
        }
    }
    if let Some(group) = entry.parallel_group.as_ref().filter(|group| !is_name(group)) {
        let rule = "is not a name; write a letter, and up to 63 letters, digits, - and _";
        faults.add(place("parallel_group"), format!("{} {rule}", shown(group)));
    }
    let found = match types.find(&entry.agent_type) {
        Ok(found) => found,
        Err(error) => {
            faults.add(place("agent_type"), error.to_string());
            return None;
        }
    };
    let like = match types.built_in_tier(&found.tier) {
        Ok(like) => like,
        Err(error) => {
            faults.add(place("tier"), error.to_string());
            return None;
        }
    };
    let is_execution = like == EXECUTION;
    let is_review = found.phase == REVIEW && !is_execution;
    // A review has only one valid tier and phase, so those of the draft do not matter.
    if is_review {
        let mut entry = entry.clone();
        entry.tier.clone_from(&found.tier);
        REVIEW.clone_into(&mut entry.phase);
        return Some(PlanEntry { draft: entry, is_review, is_execution });
    }
    if NOT_PLANNED.contains(&found.phase.as_str()) {
        let problem =
            format!("{:?} has the phase {:?}, which is not allowed in a plan", entry.agent_type, found.phase);
        faults.add(place("agent_type"), problem);
    }
    for (field, written, is) in [("tier", &entry.tier, &found.tier), ("phase", &entry.phase, &found.phase)] {
        if written != is {
            faults.add(
                place(field),
                format!("{} differs from that of {:?}, which is {is:?}", shown(written), found.name),
            );
        }
    }
    if !is_execution && (entry.write_slice.is_some() || entry.parallel_group.is_some()) {
        faults.add(
            place("agent_type"),
            format!("{:?} only reads: leave out its slice and parallel group", entry.agent_type),
        );
    }
    Some(PlanEntry { draft: entry.clone(), is_review, is_execution })
}

/// Checks the order of the entries: reviews follow work, and the entries of a group follow one another.
fn order(drafts: &[PlanEntryDraft], entries: &[Option<PlanEntry>], faults: &mut Faults) {
    let is_review = |entry: &Option<PlanEntry>| entry.as_ref().is_some_and(|entry| entry.is_review);
    let work = entries.iter().filter(|entry| !is_review(entry)).count();
    if work == 0 {
        faults.add("plan", "contains no work; add at least one entry that is not a review");
    }
    faults.count("plan", work, BriefLimits::ENTRIES);
    let mut closed = BTreeSet::new();
    for (index, draft) in drafts.iter().enumerate() {
        let before = index.checked_sub(1);
        if is_review(&entries[index]) {
            let reviews_nothing = before.is_none_or(|before| is_review(&entries[before]));
            if reviews_nothing {
                faults.add(format!("plan[{index}]"), "is a review, but no unreviewed work comes before it");
            }
            if draft.parallel_group.is_some() {
                faults.add(
                    format!("plan[{index}].parallel_group"),
                    "a review cannot be in a group; put it \
                        after the group",
                );
            }
        }
        let Some(group) = &draft.parallel_group else { continue };
        let goes_on = before.is_some_and(|before| drafts[before].parallel_group.as_ref() == Some(group));
        // A group that appears again after a gap would be two bands under one name.
        if !goes_on && !closed.insert(group) {
            let problem = format!("the entries of {} must follow each other", shown(group));
            faults.add(format!("plan[{index}].parallel_group"), problem);
        }
        if draft.write_slice.as_ref().is_none_or(Vec::is_empty) {
            faults.add(
                format!("plan[{index}].write_slice"),
                "an entry of a parallel group needs its own paths",
            );
        }
    }
}

/// Checks the form of every path. Returns true if all are well-formed.
fn paths(draft: &BriefDraft, faults: &mut Faults) -> bool {
    let slices = draft.plan.iter().enumerate().filter_map(|(index, entry)| {
        Some((format!("plan[{index}].write_slice"), entry.write_slice.as_ref()?))
    });
    let lists = [("read".to_owned(), &draft.read), ("write".to_owned(), &draft.write)];
    let mut are_plain = true;
    for (name, list) in lists.into_iter().chain(slices) {
        faults.count(&name, list.len(), BriefLimits::LIST);
        for (index, path) in list.iter().enumerate() {
            if let Some(problem) = unfit(path) {
                are_plain = false;
                faults.add(format!("{name}[{index}]"), format!("{} {problem}", shown(path)));
            }
        }
    }
    faults.count("do_not_touch", draft.do_not_touch.len(), BriefLimits::LIST);
    are_plain
}

/// Returns the reason why `path` cannot be a path in a tree, if there is any.
fn unfit(path: &str) -> Option<&'static str> {
    let is_plain = |component: Component<'_>| matches!(component, Component::Normal(_) | Component::CurDir);
    if path.is_empty() {
        Some("is empty; write . for the whole project")
    } else if path.len() > 4_096 || path.chars().any(char::is_control) {
        Some("is not a path: it is longer than 4,096 bytes, or has control characters")
    } else if !Path::new(path).components().all(is_plain) {
        Some("leads out of the project; write a path relative to its root, without ..")
    } else if Path::new(path).components().any(|part| is_dot_git(part.as_os_str().as_encoded_bytes())) {
        Some("belongs to git; no file of a tree can have this name")
    } else {
        None
    }
}

/// Checks the paths on the tree by the engine's own rules.
fn scope(draft: &BriefDraft, root: &Path, faults: &mut Faults) {
    let brief = engine_brief(draft, root);
    // The engine lets writable paths be read, so a scope without `write` shows whether `read` covers them.
    let mut reading = brief.clone();
    reading.write.clear();
    let assembled = ParticipantScope::assemble(&brief, None, None)
        .and_then(|scope| Ok((scope, ParticipantScope::assemble(&reading, None, None)?)));
    let (scope, reading) = match assembled {
        Ok(scopes) => scopes,
        Err(error) => return faults.add(place_of(&error), error.to_string()),
    };
    for (index, path) in draft.write.iter().enumerate() {
        let place = || format!("write[{index}]");
        if let Err(denial) = scope.check_path(path, PathAccess::Read) {
            faults.add(place(), format!("{} may not be touched: {denial}", shown(path)));
        } else if reading.check_path(path, PathAccess::Read).is_err() {
            faults.add(place(), format!("{} may not be read; add it to `read`", shown(path)));
        }
    }
    for slices in bands(&draft.plan) {
        if let Err(error) = scope.check_slices(&slices) {
            faults.add("plan", below(error, &scope).to_string());
        }
    }
}

/// Rewrites an error to name paths as a brief does: relative to the root. The location of the tree is of no use to an agent.
fn below(error: ScopeError, scope: &ParticipantScope) -> ScopeError {
    match (error, scope.root()) {
        (ScopeError::Overlap { first, second, path }, Some(root)) => {
            let path = path.strip_prefix(root).map(Path::to_owned).unwrap_or(path);
            // The root itself would become an empty path.
            let path = if path.as_os_str().is_empty() { Path::new(".").to_owned() } else { path };
            ScopeError::Overlap { first, second, path }
        }
        (error, _) => error,
    }
}

/// Returns the write slices by band. An entry outside of any band is a group of its own. Slices of one band may not overlap, since their
/// units write at the same time.
pub(super) fn bands(plan: &[PlanEntryDraft]) -> Vec<Vec<WriteSlice>> {
    let mut bands: Vec<(Option<&String>, Vec<WriteSlice>)> = Vec::new();
    for (index, entry) in plan.iter().enumerate() {
        let Some(paths) = &entry.write_slice else { continue };
        let slice = WriteSlice::new(format!("plan[{index}]"), paths);
        let group = entry.parallel_group.as_ref();
        // Consecutive entries of one group form a band. Every other entry is alone.
        match bands.last_mut().filter(|(last, _)| group.is_some() && *last == group) {
            Some((_, slices)) => slices.push(slice),
            None => bands.push((group, vec![slice])),
        }
    }
    bands.into_iter().map(|(_, slices)| slices).collect()
}

fn place_of(error: &ScopeError) -> &'static str {
    match error {
        ScopeError::Rule { .. } => "do_not_touch",
        ScopeError::Root { .. } => "the project",
        _ => "read and write",
    }
}

/// Converts the draft's paths and rules for the engine.
pub(super) fn engine_brief(draft: &BriefDraft, root: &Path) -> Brief {
    let brief = draft.read.iter().fold(Brief::new(root), Brief::reading);
    let brief = draft.write.iter().fold(brief, Brief::writing);
    draft.do_not_touch.iter().cloned().fold(brief, Brief::do_not_touch)
}

/// Adds a review after all work that changes files and has none.
fn with_reviews(entries: Vec<PlanEntry>) -> Vec<PlanEntry> {
    let mut reviewed: Vec<PlanEntry> = Vec::new();
    let mut entries = entries.into_iter().peekable();
    while let Some(entry) = entries.next() {
        let band = entry.parallel_group().map(str::to_owned);
        let is_execution = entry.is_execution;
        reviewed.push(entry);
        let goes_on =
            entries.peek().is_some_and(|next| band.is_some() && next.parallel_group() == band.as_deref());
        // A band gets one review, after its last unit.
        if is_execution && !goes_on && !entries.peek().is_some_and(|next| next.is_review) {
            reviewed.push(review());
        }
    }
    reviewed
}

fn review() -> PlanEntry {
    let draft = PlanEntryDraft {
        tier: OPERATIONS.to_owned(),
        phase: REVIEW.to_owned(),
        agent_type: REVIEWER.to_owned(),
        outcome: "A verdict on the step before it.".to_owned(),
        ..PlanEntryDraft::default()
    };
    PlanEntry { draft, is_review: true, is_execution: false }
}

/// Returns true if it is a letter, and up to 63 letters, digits, `-` and `_`, all of them ASCII.
fn is_name(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let begins_well = text.bytes().next().is_some_and(|first| first.is_ascii_alphabetic());
    begins_well && text.len() <= BriefLimits::ID_BYTES && text.bytes().all(fits)
}
