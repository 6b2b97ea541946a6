//! Which task a person means.

use nexus_tasks::{Task, TaskSnapshot, Tasks};

use crate::command_error::CommandError;

/// Fewest characters of an id that stand for it.
const FEWEST: usize = 3;

/// The id of the task that `text` stands for: an id, the beginning of one alone, or `last`.
pub(super) async fn id(tasks: &Tasks, text: &str) -> Result<String, CommandError> {
    let store = tasks.store().clone();
    let listing = tokio::task::spawn_blocking(move || store.list()).await.map_err(CommandError::failed)?;
    let listed = match listing {
        Ok(listing) => listing.tasks,
        Err(error) => return Err(error.into()),
    };
    let ids: Vec<String> = listed.iter().map(|(task, _)| task.id().to_string()).collect();
    if text == "last" {
        // A creation that runs, or that was cut off, has made no task yet: none without a base either.
        let is_made =
            |(task, snapshot): &&(Task, TaskSnapshot)| snapshot.data.head.is_some() && !task.is_unfinished();
        return match listed.iter().rfind(is_made) {
            Some((task, _)) => Ok(task.id().to_string()),
            None => Err("there is no task yet; create one by `nexus task new`".to_owned().into()),
        };
    }
    let begins = |id: &&String| text.len() >= FEWEST && id.starts_with(text);
    match ids.iter().filter(begins).collect::<Vec<_>>().as_slice() {
        [one] => Ok((*one).clone()),
        // One that cannot be read is not listed: opening it says why.
        [] => Ok(text.to_owned()),
        several => Err(format!("{text} is the beginning of {} ids; write more of it", several.len()).into()),
    }
}
