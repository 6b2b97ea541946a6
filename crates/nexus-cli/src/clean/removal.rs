//! Removal of items of the home, each by the service that it belongs to.

use std::{fs, path::Path};

use nexus::ConversationName;
use nexus_debates::{DebateRemoveRequest, Debates};
use nexus_files::FileLock;
use nexus_tasks::{TaskRemoveRequest, Tasks};
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

/// Removes items, and returns each with its outcome. What cannot be removed stays, and the others are removed all the same.
pub(super) async fn remove(config: &ConfigArgs, items: Vec<HomeItem>) -> Vec<CleanedItem> {
    let _activity = Activity::start("removing");
    let (tasks, debates) = (unconfigured(), debate::unconfigured());
    let (mut cleaned, mut has_conversations) = (Vec::new(), false);
    for item in items {
        let removed = match (item.kind, item.details.subject.clone()) {
            (HomeItemKind::Task, _) => task(&tasks, &item).await,
            (HomeItemKind::Debate, _) => of_debate(&debates, &item).await,
            (_, Some(ItemSubject::Conversation(name))) => {
                has_conversations = true;
                of_conversation(config, name).await
            }
            (_, Some(ItemSubject::History(history))) => of_history(history).await,
            (HomeItemKind::Demo, None) => demo(&item.details.path).map(|()| None),
            _ => Err("this command does not remove it".to_owned()),
        };
        let (outcome, reason) = match removed {
            Ok(remaining) => (CleanOutcome::Removed, remaining),
            Err(reason) => (CleanOutcome::Left, Some(reason)),
        };
        cleaned.push(CleanedItem { item, outcome, reason });
    }
    // One sweep for all, because each one reads every log.
    if has_conversations && let Err(error) = blocking(|| conversation::store().sweep()).await {
        let reason = format!("the messages of the removed conversations are still stored: {error}");
        let of_conversation = cleaned.iter_mut().rev().find(|cleaned| {
            matches!(cleaned.item.kind, HomeItemKind::Conversation | HomeItemKind::Session)
                && cleaned.reason.is_none()
        });
        if let Some(last) = of_conversation {
            last.reason = Some(reason);
        }
    }
    cleaned
}

/// Outcome of a removal: what remains elsewhere, or the reason why the item stays.
type Removal = Result<Option<String>, String>;

async fn task(tasks: &Result<Tasks, CommandError>, item: &HomeItem) -> Removal {
    let tasks = tasks.as_ref().map_err(ToString::to_string)?;
    let removed = tasks.remove(TaskRemoveRequest { task_id: item.name.clone() }).await;
    removed.map(|_| None).map_err(|error| error.message)
}

async fn of_debate(debates: &Result<Debates, CommandError>, item: &HomeItem) -> Removal {
    let debates = debates.as_ref().map_err(ToString::to_string)?;
    let removed = debates.remove(DebateRemoveRequest { debate_id: item.name.clone() }).await;
    removed.map(|_| None).map_err(|error| error.message)
}

async fn of_conversation(config: &ConfigArgs, name: ConversationName) -> Removal {
    conversation::remove(config, name).await.map(Result::err).map_err(|error| error.to_string())
}

async fn of_history(history: StoredHistory) -> Removal {
    match blocking(move || history.remove().map_err(CommandError::failed)).await {
        Ok(true) => Ok(None),
        Ok(false) => Err("a turn uses it now".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Removes the home of the demo, unless a demo runs.
fn demo(folder: &Path) -> Result<(), String> {
    let lock = folder.join("demo.lock");
    let Some(_lock) = FileLock::try_lock(&lock).map_err(|error| format!("{}: {error}", lock.display()))?
    else {
        return Err("a demo runs in it".to_owned());
    };
    fs::remove_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))
}
