//! `nexus debate`: debates, for a person at a terminal.

mod create;
mod show;
mod walk;

use std::{fs, process::ExitCode};

use nexus::{BuildContext, Router};
use nexus_debates::{
    DebateCancelRequest, DebateError, DebateErrorKind, DebateListRequest, DebateSettings, Debates,
    DebatesOptions, debate_report,
};
use nexus_tasks::{TaskConfiguration, Tasks, TasksOptions};
use serde_json::json;

use crate::{
    args::{ConfigArgs, DebateCommand},
    command_error::CommandError,
    config,
    output::{complain, printable_lines, say, say_json},
};

/// Fewest characters of an id that stand for it.
const FEWEST: usize = 3;

pub(crate) async fn debate(config: &ConfigArgs, command: &DebateCommand) -> Result<ExitCode, CommandError> {
    match command {
        DebateCommand::New(args) => create::create(&configured(config)?, args).await,
        DebateCommand::Advance { debate, all, json } => {
            let debates = configured(config)?;
            walk::walk(&debates, &id(&debates, debate).await?, *all, *json).await
        }
        other => look(&unconfigured()?, other).await,
    }
}

/// What asks no agent.
async fn look(debates: &Debates, command: &DebateCommand) -> Result<ExitCode, CommandError> {
    match command {
        DebateCommand::Show(args) => {
            show::record(debates, &id(debates, &args.debate).await?, args.json).await?;
        }
        DebateCommand::List { status, json } => {
            let request = DebateListRequest { status: status.clone(), ..DebateListRequest::default() };
            show::list(debates, request, *json).await?;
        }
        DebateCommand::Cancel(args) => {
            let debate_id = id(debates, &args.debate).await?;
            let view = debates.cancel(DebateCancelRequest { debate_id }).await?;
            match args.json {
                true => say_json(&view),
                false => say(format_args!("{} is {}", view.debate_id, view.status)),
            }
        }
        DebateCommand::Report { debate, output } => {
            let debate = debates.store().open(&id(debates, debate).await?)?;
            let page = tokio::task::spawn_blocking(move || debate_report(&debate)).await;
            let page = page.map_err(CommandError::failed)??;
            match output {
                None => say(page.trim_end()),
                Some(path) => fs::write(path, page)
                    .map_err(|error| CommandError::failed(format_args!("{}: {error}", path.display())))?,
            }
        }
        DebateCommand::Watch { debate } => {
            return show::watch(debates, &id(debates, debate).await?).await;
        }
        DebateCommand::New(_) | DebateCommand::Advance { .. } => {}
    }
    Ok(ExitCode::SUCCESS)
}

/// The debates of the home, with who runs their turns. The configuration is that of tasks: see [`config::load_for_tasks`].
fn configured(config: &ConfigArgs) -> Result<Debates, CommandError> {
    open(&config::load_for_tasks(config)?, BuildContext::from_process())
        .map_err(|error| error.to_string().into())
}

/// The debates of a home, run by a router: for this command and for the server.
pub(crate) fn open(router: &Router, context: BuildContext) -> Result<Debates, nexus::SettingsError> {
    let configuration = TaskConfiguration::of(router)?;
    let mut options = DebatesOptions::in_home(&context.home);
    options.settings = DebateSettings::of(router)?;
    options.roots.clone_from(&configuration.roots);
    let mut tasks = TasksOptions::in_home(context.home);
    (tasks.roots, tasks.settings) = (configuration.roots, configuration.defaults);
    Ok(Debates::new(router.clone(), Tasks::new(router.clone(), tasks), options))
}

/// The debates of the home, for what asks nobody: they can be looked at whatever the configuration says.
fn unconfigured() -> Result<Debates, CommandError> {
    let context = BuildContext::from_process();
    let router = Router::from_value(json!({}), nexus::Registry::new(), context.clone())?;
    let tasks = Tasks::new(router.clone(), TasksOptions::in_home(&context.home));
    Ok(Debates::new(router, tasks, DebatesOptions::in_home(context.home)))
}

/// The id of the debate that `text` stands for: an id, the beginning of one alone, or `last`.
async fn id(debates: &Debates, text: &str) -> Result<String, CommandError> {
    let store = debates.store().clone();
    let listing = tokio::task::spawn_blocking(move || store.list()).await.map_err(CommandError::failed)??;
    let ids: Vec<String> = listing.debates.iter().map(|(debate, _)| debate.id().to_string()).collect();
    if text == "last" {
        return match ids.last() {
            Some(id) => Ok(id.clone()),
            None => Err("there is no debate yet; create one by `nexus debate new`".to_owned().into()),
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

/// Says something beside the answer.
fn note(text: &str) {
    complain(printable_lines(text));
}

/// A message for a person: commands in place of tools.
fn for_a_person(text: &str) -> String {
    [
        ("debate_create", "`nexus debate new`"),
        ("debate_advance", "`nexus debate advance`"),
        ("debate_status with wait_s", "`nexus debate watch`"),
        ("debate_status", "`nexus debate watch`"),
        ("debate_result", "`nexus debate show`"),
        ("debate_list", "`nexus debate list`"),
        ("debate_cancel", "`nexus debate cancel`"),
    ]
    .iter()
    .fold(text.to_owned(), |text, (tool, command)| text.replace(tool, command))
}

impl From<DebateError> for CommandError {
    fn from(error: DebateError) -> Self {
        use DebateErrorKind::{InvalidArgument, NotConfigured, OutsideRoots, UnknownDebate};
        let words = for_a_person(&error.to_string());
        match error.kind {
            UnknownDebate | InvalidArgument | OutsideRoots | NotConfigured => words.into(),
            _ => Self::failed(words),
        }
    }
}
