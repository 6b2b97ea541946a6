//! Removal of items of the home, each by the service that it belongs to.

use std::{fs, io, path::Path};

use nexus_debates::{Debate, DebateRemoveRequest, Debates};
use nexus_files::FileLock;
use nexus_tasks::{Task, TaskRemoveRequest, Tasks};
use nexus_trees::StoredHistory;

use super::{
    CleanOutcome, CleanedItem,
    inventory::{HomeItem, ItemSubject},
};
use crate::{
    activity::Activity,
    args::{ConfigArgs, HomeItemKind},
    command_error::CommandError,
    conversation, debate,
    task::unconfigured,
    works::blocking,
};

/// Removes items one by one, and shows each with its outcome. What cannot be removed stays, and the others are removed all the same.
/// An item that has changed since it was listed stays.
pub(super) async fn remove(
    config: &ConfigArgs,
    items: Vec<HomeItem>,
    with_unlanded: bool,
    mut show: impl FnMut(CleanedItem),
) {
    let _activity = Activity::start("removing");
    let (tasks, debates) = (unconfigured(), debate::unconfigured());
    for item in items {
        let removed = match (item.kind, item.details.subject.clone()) {
            (HomeItemKind::Task, _) => task(&tasks, &item, with_unlanded).await,
            (HomeItemKind::Debate, _) => of_debate(&debates, &item).await,
            (_, Some(ItemSubject::Conversation(name, changed_ms))) => {
                let removed = conversation::remove(config, name, Some(changed_ms)).await;
                removed.map(Result::err).map_err(|error| error.to_string())
            }
            (_, Some(ItemSubject::History(history))) => of_history(history).await,
            (HomeItemKind::Demo, None) => demo(&item.details.path).map(|()| None),
            _ => Err("this command does not remove it".to_owned()),
        };
        let (outcome, reason) = match removed {
            Ok(remaining) => (CleanOutcome::Removed, remaining),
            Err(reason) => (CleanOutcome::Left, Some(reason)),
        };
        show(CleanedItem { item, outcome, reason });
    }
}

/// Outcome of a removal: what remains elsewhere, or the reason why the item stays.
type Removal = Result<Option<String>, String>;

async fn task(tasks: &Result<Tasks, CommandError>, item: &HomeItem, with_unlanded: bool) -> Removal {
    let tasks = tasks.as_ref().map_err(ToString::to_string)?;
    let listed = item.details.changed;
    // The person agreed to the state in the list, so a task that has changed since then stays.
    let is_removable = move |task: &Task| {
        Ok(Some(task.snapshot()?.updated_at) == listed && (with_unlanded || !task.has_unlanded_work()?))
    };
    let removed = tasks.remove_if(TaskRemoveRequest { task_id: item.name.clone() }, is_removable).await;
    removed.map(|_| None).map_err(|error| error.message)
}

async fn of_debate(debates: &Result<Debates, CommandError>, item: &HomeItem) -> Removal {
    let debates = debates.as_ref().map_err(ToString::to_string)?;
    let listed = item.details.changed;
    let is_removable = move |debate: &Debate| Ok(Some(debate.snapshot()?.updated_at) == listed);
    let removed = debates.remove_if(DebateRemoveRequest { debate_id: item.name.clone() }, is_removable).await;
    removed.map(|_| None).map_err(|error| error.message)
}

async fn of_history(history: StoredHistory) -> Removal {
    match blocking(move || history.remove().map_err(CommandError::failed)).await {
        Ok(true) => Ok(None),
        Ok(false) => Err("a turn uses it now, or has used it meanwhile".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Removes the home of the demo, unless a demo runs. The demo's own lock identifies the folder.
fn demo(folder: &Path) -> Result<(), String> {
    let at = |path: &Path, error: &io::Error| format!("{}: {error}", path.display());
    if !fs::symlink_metadata(folder).map_err(|error| at(folder, &error))?.is_dir() {
        return Err("it is a link; remove it yourself".to_owned());
    }
    let path = folder.join("demo.lock");
    let lock = match FileLock::try_lock_existing(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err("`nexus demo` did not make this folder; remove it yourself".to_owned());
        }
        locked => locked.map_err(|error| at(&path, &error))?,
    };
    let Some(_lock) = lock else { return Err("a demo runs in it".to_owned()) };
    fs::remove_dir_all(folder).map_err(|error| at(folder, &error))
}
