//! Which task a person means.

use nexus_spawn::Tasks;

use crate::command_error::CommandError;

/// Fewest characters of an id that stand for it.
const FEWEST: usize = 3;

/// The id of the task that `text` stands for: an id, the beginning of one alone, or `last`.
pub(super) async fn id(tasks: &Tasks, text: &str) -> Result<String, CommandError> {
    let store = tasks.store().clone();
    let listing = tokio::task::spawn_blocking(move || store.list()).await.map_err(CommandError::failed)?;
    let ids: Vec<String> = match listing {
        Ok(listing) => listing.tasks.iter().map(|(task, _)| task.id().to_string()).collect(),
        Err(error) => return Err(error.into()),
    };
    if text == "last" {
        return match ids.last() {
            Some(id) => Ok(id.clone()),
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
