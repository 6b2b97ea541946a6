//! Conversations that are forgotten: deleted by their handle, and by nothing else.

use std::path::PathBuf;

use nexus_core::{
    BackendId, CancelToken, ConversationMode, ErrorKind, ForgetError, ForgetSupport, Forgotten, ResumeHandle,
    TurnHost,
};
use serde_json::{Value, json};

use super::secrets::files_with;
use crate::{
    conformance::{
        finding::{Finding, Verdict, ensure, same, same_text, short},
        trial::{Staged, Trial},
        watch::SinkPace,
    },
    sim::{Reply, Scenario},
};

pub(crate) async fn a_forgotten_conversation_is_lost(trial: &Trial<'_>) -> Verdict {
    let handle = kept(trial).await?;
    // Simulates another process: the handle was stored, and the backend is a new one.
    let staged = trial.stage(Scenario::text("Hello.")).await?;
    let found = files_with(trial, &staged, "said");
    // Without this check, a backend that stores nothing would pass.
    ensure(!found.is_empty(), "a conversation is kept", || "nothing of it is in any file".into())?;
    deleted("what forgetting says", &staged.backend().forget(&handle).await)?;
    let found = files_with(trial, &staged, "said");
    ensure(found.is_empty(), "files that are kept", || format!("it is in {}", short(&found)))?;
    is_lost(trial, &staged, handle).await
}

pub(crate) async fn forgetting_twice_finds_nothing(trial: &Trial<'_>) -> Verdict {
    let handle = kept(trial).await?;
    let staged = trial.stage(Scenario::text("Hello.")).await?;
    deleted("what forgetting says", &staged.backend().forget(&handle).await)?;
    let again = staged.backend().forget(&handle).await;
    ensure(matches!(again, Ok(Forgotten::WasGone)), "forgotten again", || short(&again))
}

pub(crate) async fn every_handle_of_a_conversation_is_forgotten_with_it(trial: &Trial<'_>) -> Verdict {
    let first = kept(trial).await?;
    let staged = trial.stage(Scenario::text("You said it.")).await?;
    let request = staged.request("What did I say?").in_directory(trial.workspace());
    let turn = staged.run(request.with_conversation(ConversationMode::resume(first.clone()))).await?;
    let second = turn.result()?.resume.clone();
    let second = second.ok_or_else(|| Finding::new("it can go on again", "no handle"))?;
    let staged = trial.stage(Scenario::text("Hello.")).await?;
    deleted("what forgetting says", &staged.backend().forget(&first).await)?;
    is_lost(trial, &staged, second.clone()).await?;
    let again = staged.backend().forget(&second).await;
    ensure(matches!(again, Ok(Forgotten::WasGone)), "forgotten again", || short(&again))
}

pub(crate) async fn a_conversation_in_use_is_not_forgotten(trial: &Trial<'_>) -> Verdict {
    let handle = kept(trial).await?;
    let staged = trial.stage(Reply::text("You said").stalled()).await?;
    let other = trial.stage(Scenario::text("Hello.")).await?;
    let cancel = CancelToken::new();
    let host = TurnHost::new().with_cancel(cancel.clone());
    let request = staged.request("What did I say?").in_directory(trial.workspace());
    let request = request.with_conversation(ConversationMode::resume(handle.clone()));
    let forgetting = async {
        // Wait for the model call: only then does the turn own its conversation for certain.
        while staged.model_calls().is_empty() {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        // Both the backend that runs the turn and a backend that simulates another process must refuse.
        let answers = [staged.backend().forget(&handle).await, other.backend().forget(&handle).await];
        cancel.cancel();
        answers
    };
    let running = staged.run_with(request, host, SinkPace::Ready);
    let bound = trial.timing().bound;
    let both = tokio::time::timeout(bound, async { tokio::join!(running, forgetting) });
    let (turn, answers) = both.await.map_err(|_| Finding::new("bounded time", format!("{bound:?}")))?;
    trial.expect_kind(turn?.error()?, &[ErrorKind::Cancelled])?;
    for answer in answers {
        ensure(matches!(answer, Err(ForgetError::InUse { .. })), "in use", || short(&answer))?;
    }
    deleted("forgotten afterwards", &other.backend().forget(&handle).await)?;
    is_lost(trial, &other, handle).await
}

pub(crate) async fn a_handle_from_elsewhere_deletes_nothing(trial: &Trial<'_>) -> Verdict {
    let handle = kept(trial).await?;
    let victims = victims(trial)?;
    let staged = trial.stage(Scenario::text("You said it.")).await?;
    let declared = staged.capabilities().forget;
    // A handle is data that a caller stores, so its content must not lead to foreign files.
    for state in strange_states(trial, handle.state()) {
        let strange = ResumeHandle::new(handle.backend().clone(), state);
        let answer = staged.backend().forget(&strange).await;
        for victim in &victims {
            ensure(victim.is_file(), "nothing else is deleted", || {
                format!("{} is gone by {}", victim.display(), short(&strange))
            })?;
        }
        let is_right = match &answer {
            Err(ForgetError::InvalidHandle { .. } | ForgetError::NoBackend { .. }) => true,
            Err(ForgetError::Unsupported { .. }) => declared == ForgetSupport::Unsupported,
            Ok(Forgotten::WasGone) => declared == ForgetSupport::Deletes,
            Ok(Forgotten::InHandle) => declared == ForgetSupport::InHandle,
            _ => false,
        };
        ensure(is_right, "a strange handle", || format!("{} by {}", short(&answer), short(&strange)))?;
    }
    // And the conversation is still there.
    let request = staged.request("What did I say?").in_directory(trial.workspace());
    let turn = staged.run(request.with_conversation(ConversationMode::resume(handle))).await?;
    same_text("answer", &turn.result()?.text, "You said it.")
}

pub(crate) async fn a_conversation_in_its_handle_is_stored_nowhere(trial: &Trial<'_>) -> Verdict {
    let handle = kept(trial).await?;
    let staged = trial.stage(Scenario::text("Hello.")).await?;
    let found = files_with(trial, &staged, "said");
    ensure(found.is_empty(), "files that are kept", || format!("it is in {}", short(&found)))?;
    let answer = staged.backend().forget(&handle).await;
    ensure(matches!(answer, Ok(Forgotten::InHandle)), "what forgetting says", || short(&answer))
}

pub(crate) async fn a_handle_of_another_backend_is_not_forgotten(trial: &Trial<'_>) -> Verdict {
    let staged = trial.stage(Scenario::text("Hello.")).await?;
    let is_declared = staged.capabilities().forget != ForgetSupport::Unsupported;
    let other = ResumeHandle::new(BackendId::new("somebody-else"), json!({ "session": "1" }));
    let answer = staged.backend().forget(&other).await;
    ensure(
        match &answer {
            Err(ForgetError::InvalidHandle { .. }) => is_declared,
            Err(ForgetError::Unsupported { .. }) => !is_declared,
            _ => false,
        },
        "a strange handle",
        || short(&answer),
    )?;
    same("nothing is spent", &staged.model_calls().len(), &0)
}

/// Runs a turn with a canary, whose conversation is stored.
async fn kept(trial: &Trial<'_>) -> Result<ResumeHandle, Finding> {
    let staged = trial.stage(Scenario::text("I shall.")).await?;
    let words = format!("Remember {}.", trial.canary("said"));
    let request = staged.request(words).in_directory(trial.workspace());
    let turn = staged.run(request.with_conversation(ConversationMode::Keep)).await?;
    let handle = turn.result()?.resume.clone();
    handle.ok_or_else(|| Finding::new("a kept conversation has a handle", "there is none"))
}

fn deleted(check: &'static str, answer: &Result<Forgotten, ForgetError>) -> Verdict {
    let is_deleted = matches!(answer, Ok(Forgotten::Deleted { files, .. }) if *files > 0);
    ensure(is_deleted, check, || short(answer))
}

/// Checks that the conversation cannot be resumed, and that the attempt makes no model call.
async fn is_lost(trial: &Trial<'_>, staged: &Staged<'_>, handle: ResumeHandle) -> Verdict {
    let request = staged.request("What did I say?").in_directory(trial.workspace());
    let turn = staged.run(request.with_conversation(ConversationMode::resume(handle))).await?;
    trial.expect_kind(turn.error()?, &[ErrorKind::ConversationLost])?;
    same("nothing is spent", &staged.model_calls().len(), &0)
}

/// Creates files that do not belong to the backend, at places to which a path that escapes its folder would lead.
fn victims(trial: &Trial<'_>) -> Result<Vec<PathBuf>, Finding> {
    let nexus = trial.folder().join("nexus");
    let places = [trial.folder().to_owned(), nexus.clone(), nexus.join("sessions"), trial.workspace()];
    let make = |folder: PathBuf| {
        let path = folder.join("victim");
        std::fs::create_dir_all(&folder)?;
        std::fs::write(&path, "mine")?;
        std::io::Result::Ok(path)
    };
    let made = places.into_iter().map(make).collect::<Result<Vec<_>, _>>();
    made.map_err(|error| Finding::new("a temporary folder", error.to_string()))
}

/// Builds handle states that lead elsewhere: a real state with one text replaced, and values that are not states.
fn strange_states(trial: &Trial<'_>, state: &Value) -> Vec<Value> {
    let absolute = trial.folder().join("victim").to_string_lossy().into_owned();
    let ups = (1..=4).map(|levels| format!("{}victim", "../".repeat(levels)));
    let folders = [trial.folder(), &trial.workspace()].map(|folder| folder.to_string_lossy().into_owned());
    let odd = ["", ".", "..", "/", "a\0b", "\u{202e}", "victim", "../sessions", "*"].map(str::to_owned);
    let texts: Vec<String> = ups.chain([absolute, "x".repeat(5_000)]).chain(folders).chain(odd).collect();
    let mut states = vec![Value::Null, json!([]), json!({}), json!(7), json!("x")];
    for place in places_of_texts(state) {
        for text in &texts {
            let mut strange = state.clone();
            if let Some(found) = strange.pointer_mut(&place) {
                // Skip a text that equals the original: the state would still name the real conversation.
                if found.as_str() != Some(text) {
                    *found = Value::String(text.clone());
                    states.push(strange);
                }
            }
        }
    }
    states
}

/// Returns the JSON pointers of all texts in a value.
fn places_of_texts(value: &Value) -> Vec<String> {
    let below = |key: String, value: &Value| {
        let key = key.replace('~', "~0").replace('/', "~1");
        places_of_texts(value).into_iter().map(move |place| format!("/{key}{place}"))
    };
    match value {
        Value::String(_) => vec![String::new()],
        Value::Array(items) => {
            items.iter().enumerate().flat_map(|(index, item)| below(index.to_string(), item)).collect()
        }
        Value::Object(fields) => fields.iter().flat_map(|(key, field)| below(key.clone(), field)).collect(),
        _ => Vec::new(),
    }
}
