//! `nexus clean`: lists what the home holds, and removes what is old or ended.

mod inventory;
mod removal;

use std::{
    collections::{BTreeMap, BTreeSet},
    process::ExitCode,
    time::{Duration, SystemTime},
};

use nexus::BuildContext;
use nexus_files::{ReadableSize, counted};
use schemars::JsonSchema;
use serde::Serialize;

use self::{
    inventory::{HomeItem, Inventory, inventory},
    removal::remove,
};
use crate::{
    EXIT_FAILED,
    activity::Activity,
    args::{CleanArgs, ConfigArgs, HomeItemKind},
    command_error::CommandError,
    confirm::is_confirmed,
    conversation,
    output::{AnswerWriter, complain, printable, say},
    spoken_time::age,
    terminal::fitted,
    works::{blocking, note},
};

/// Kinds that are removed if the command line names none.
const REMOVED: [HomeItemKind; 4] =
    [HomeItemKind::Task, HomeItemKind::Debate, HomeItemKind::Conversation, HomeItemKind::Undo];

/// An item of the home, and what the command did with it.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CleanedItem {
    /// The item.
    #[serde(flatten)]
    item: HomeItem,
    /// What the command did.
    outcome: CleanOutcome,
    /// Reason why a selected item stays, or what remains of a removed one.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// What `nexus clean` did with an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum CleanOutcome {
    /// It was listed.
    Listed,
    /// It would be removed without `--dry-run`.
    Selected,
    /// It was removed.
    Removed,
    /// It was selected, and stays.
    Left,
}

pub(crate) async fn clean(
    out: AnswerWriter,
    config: &ConfigArgs,
    mut args: CleanArgs,
) -> Result<ExitCode, CommandError> {
    let home = BuildContext::from_process().home;
    let Inventory { items, unreadable } = {
        let _activity = Activity::start("measuring the home");
        let home = home.clone();
        blocking(move || inventory(&home)).await?
    };
    let read = conversation::exit_code_of(&unreadable);
    if args.older_than.is_none() && args.status.is_empty() && args.keep.is_none() {
        check_list_only(&args)?;
        list(out, items, &args, &home.display().to_string());
        return Ok(read);
    }
    args.status.iter_mut().for_each(|status| *status = status.replace(' ', "_"));
    check_statuses(&args.status, &items)?;
    let (selected, left) = split(selected(items, &args, SystemTime::now()), &args);
    if selected.is_empty() && left.is_empty() {
        out.nothing("nothing is selected; `nexus clean` lists what the home holds");
        return Ok(read);
    }
    if args.dry_run {
        let total = total(&selected);
        for item in selected {
            show(out, CleanedItem { item, outcome: CleanOutcome::Selected, reason: None });
        }
        show_left(out, left);
        note(&format!("{total} would be removed"));
        return Ok(ExitCode::SUCCESS);
    }
    if !selected.is_empty() && !args.yes {
        let rows: Vec<_> = selected.iter().map(|item| format!("to be removed: {}", row(item))).collect();
        if !is_confirmed("nexus clean", &rows, &format!("remove {}?", total(&selected)))? {
            return Err(CommandError::failed("nothing was removed"));
        }
    }
    let mut removed = Vec::new();
    let is_all_removed = remove_selected(config, &args, selected, |item| {
        if item.outcome == CleanOutcome::Removed {
            removed.push(item.item.clone());
        }
        show(out, item);
    })
    .await;
    let is_all_removed = is_all_removed && unreadable.is_empty();
    show_left(out, left);
    note(&format!("removed {}", total(&removed)));
    Ok(if is_all_removed { ExitCode::SUCCESS } else { ExitCode::from(EXIT_FAILED) })
}

/// Removes the items of the home that a rule selects. `show` gets each with its outcome.
pub(crate) async fn clean_by_rule(
    config: &ConfigArgs,
    rule: &CleanArgs,
    show: impl FnMut(CleanedItem),
) -> Result<(), CommandError> {
    let home = BuildContext::from_process().home;
    let items = blocking(move || inventory(&home)).await?.items;
    let (selected, _) = split(selected(items, rule, SystemTime::now()), rule);
    if !selected.is_empty() {
        remove_selected(config, rule, selected, show).await;
    }
    Ok(())
}

/// Removes items. Returns true if all of them were removed whole.
async fn remove_selected(
    config: &ConfigArgs,
    args: &CleanArgs,
    selected: Vec<HomeItem>,
    mut show: impl FnMut(CleanedItem),
) -> bool {
    let mut is_all_removed = true;
    remove(config, selected, args.unlanded, |item| {
        is_all_removed &= item.outcome == CleanOutcome::Removed && item.reason.is_none();
        show(item);
    })
    .await;
    // One sweep for all, because each one reads every log. It also removes what an interrupted removal left.
    let kinds = kinds(args);
    if kinds.contains(&HomeItemKind::Conversation) || kinds.contains(&HomeItemKind::Session) {
        if let Err(error) = blocking(|| conversation::store().sweep()).await {
            is_all_removed = false;
            note(&format!("the messages of removed conversations are still stored: {error}"));
        }
    }
    is_all_removed
}

/// Returns the kinds that a removal selects from.
fn kinds(args: &CleanArgs) -> &[HomeItemKind] {
    if args.kinds.is_empty() { &REMOVED } else { &args.kinds }
}

/// Rejects options of a removal without a selection, which would remove nothing.
fn check_list_only(args: &CleanArgs) -> Result<(), CommandError> {
    if args.yes || args.unlanded || args.dry_run {
        return Err(CommandError::usage("nothing is selected")
            .with_advice("add --older-than, --status or --keep, such as `nexus clean --older-than 30d`"));
    }
    Ok(())
}

/// Rejects a status that no item has and that is no status at all, because a misspelt one would silently select nothing.
fn check_statuses(statuses: &[String], items: &[HomeItem]) -> Result<(), CommandError> {
    let is_known = |status: &String| {
        items.iter().any(|item| item.status.as_ref() == Some(status))
            || nexus_tasks::TaskStatusWord::of(status).is_some()
            || nexus_debates::DebateStatusWord::of(status).is_some()
    };
    match statuses.iter().find(|status| !is_known(status)) {
        None => Ok(()),
        Some(unknown) => Err(CommandError::usage(format_args!("{:?} is no status", printable(unknown)))
            .with_advice("`nexus clean task debate` shows the status of each")),
    }
}

/// Lists the items of some kinds.
fn list(out: AnswerWriter, items: Vec<HomeItem>, args: &CleanArgs, home: &str) {
    let items: Vec<_> =
        items.into_iter().filter(|item| args.kinds.is_empty() || args.kinds.contains(&item.kind)).collect();
    if items.is_empty() {
        out.nothing(format_args!("{} holds none of it", printable(home)));
        return;
    }
    let total = total(&items);
    for item in items {
        show(out, CleanedItem { item, outcome: CleanOutcome::Listed, reason: None });
    }
    note(&format!(
        "{total} in {home}; `nexus clean --older-than 30d` removes what has not changed for 30 days"
    ));
}

/// Returns the items that all options of the command line select.
fn selected(items: Vec<HomeItem>, args: &CleanArgs, now: SystemTime) -> Vec<HomeItem> {
    let kinds = kinds(args);
    let is_old = |item: &HomeItem, than: Duration| {
        // A clock that was set back leaves times in the future. Such an item has no age.
        item.details.changed.is_some_and(|time| now.duration_since(time).is_ok_and(|age| age >= than))
    };
    let kept = newest(&items, args.keep.unwrap_or(0));
    let mut selected = items;
    selected.retain(|item| {
        let is_kept = kept.contains(&(item.kind, item.name.clone()));
        !is_kept
            && item.kind != HomeItemKind::State
            && kinds.contains(&item.kind)
            && args.older_than.is_none_or(|than| is_old(item, than))
            && (args.status.is_empty() || item.status.as_ref().is_some_and(|word| args.status.contains(word)))
    });
    selected
}

/// Returns the newest items of each kind.
fn newest(items: &[HomeItem], count: usize) -> BTreeSet<(HomeItemKind, String)> {
    let mut by_age: Vec<&HomeItem> = items.iter().collect();
    by_age.sort_by_key(|item| std::cmp::Reverse(item.details.changed));
    let mut left: BTreeMap<HomeItemKind, usize> = BTreeMap::new();
    by_age.retain(|item| {
        let taken = left.entry(item.kind).or_default();
        *taken += 1;
        *taken <= count
    });
    by_age.into_iter().map(|item| (item.kind, item.name.clone())).collect()
}

/// Separates the items that stay, each with the reason.
fn split(items: Vec<HomeItem>, args: &CleanArgs) -> (Vec<HomeItem>, Vec<(HomeItem, String)>) {
    let mut left = Vec::new();
    let mut selected = Vec::new();
    for item in items {
        let reason = match &item.details {
            details if details.obstacle.is_some() => details.obstacle.clone(),
            details if details.has_unlanded_work && !args.unlanded => Some(format!(
                "its work is not landed; `nexus task land {0}` lands commits, `nexus task reopen {0}` continues unfinished \
                 work, and --unlanded removes both",
                item.name
            )),
            _ => None,
        };
        match reason {
            Some(reason) => left.push((item, reason)),
            None => selected.push(item),
        }
    }
    (selected, left)
}

fn show_left(out: AnswerWriter, left: Vec<(HomeItem, String)>) {
    for (item, reason) in left {
        show(out, CleanedItem { item, outcome: CleanOutcome::Left, reason: Some(reason) });
    }
}

fn show(out: AnswerWriter, cleaned: CleanedItem) {
    out.show(&cleaned, CleanedItem::print);
}

impl CleanedItem {
    /// Prints the outcome for people.
    pub(crate) fn print(&self) {
        let row = row(&self.item);
        let name = printable(&self.item.name);
        match (self.outcome, &self.reason) {
            (CleanOutcome::Listed | CleanOutcome::Selected, _) => say(row),
            (CleanOutcome::Removed, None) => say(format_args!("removed  {row}")),
            (CleanOutcome::Removed, Some(reason)) => {
                say(format_args!("removed  {row}"));
                complain(printable(&format!("{name}: {reason}")));
            }
            (CleanOutcome::Left, reason) => {
                complain(printable(&format!("{name} stays: {}", reason.as_deref().unwrap_or_default())));
            }
        }
    }
}

/// Formats an item for a row of a table.
fn row(item: &HomeItem) -> String {
    let kind = serde_json::to_value(item.kind).unwrap_or_default();
    let size = match item.is_size_complete {
        true => ReadableSize(item.bytes).to_string(),
        false => format!("> {}", ReadableSize(item.bytes)),
    };
    let changed = item.changed_at.as_deref().map(age).unwrap_or_default();
    let status = item.status.as_deref().unwrap_or_default().replace('_', " ");
    let title = item.title.as_deref().unwrap_or_default();
    let row = format!(
        "{:<12}  {size:>11}  {changed:>4}  {}  {status}  {title}",
        kind.as_str().unwrap_or_default(),
        item.name
    );
    fitted(printable(&row).trim_end())
}

/// Formats the number and size of items.
fn total(items: &[HomeItem]) -> String {
    let bytes = items.iter().fold(0_u64, |sum, item| sum.saturating_add(item.bytes));
    format!("{} of {}", counted(items.len(), "item"), ReadableSize(bytes))
}
