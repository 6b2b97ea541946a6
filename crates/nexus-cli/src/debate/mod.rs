//! `nexus debate`: debates, for a person at a terminal.

mod create;
mod show;
mod watch;

use std::process::ExitCode;

use nexus::{BuildContext, Router};
use nexus_debates::{
    DebateAdvanceRequest, DebateCancelRequest, DebateListRequest, DebateRemoveRequest, DebateSettings,
    DebateStatusWord, DebateView, Debates, DebatesOptions, debate_report,
};
use nexus_tasks::{TaskConfiguration, Tasks, TasksOptions};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

pub(crate) use self::watch::DebateWatchEvent;
use crate::{
    args::{ConfigArgs, DebateCommand},
    command_error::CommandError,
    config,
    output::{AnswerWriter, say},
    works::{self, blocking, note, unless_stopped},
};

/// Event of `nexus debate advance`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum DebateAdvanceEvent {
    /// Current activity.
    Progress {
        /// In words.
        text: String,
    },
    /// A stage was run.
    Stage {
        /// State of the debate after the stage.
        debate: Box<DebateView>,
    },
}

pub(crate) async fn debate(
    out: AnswerWriter,
    config: &ConfigArgs,
    command: DebateCommand,
) -> Result<ExitCode, CommandError> {
    match command {
        DebateCommand::New(args) => create::create(out, &configured(config)?, &args).await,
        DebateCommand::Advance { debate, all } => {
            let debates = configured(config)?;
            let id = id(&debates, &debate).await?;
            let advanced =
                unless_stopped(stages(out, &debates, &id, all), async || note("stopping the stage …")).await;
            // The stage runs in this process, so stop it before the process ends.
            debates.shutdown().await;
            advanced.map(|()| ExitCode::SUCCESS)
        }
        other => look(out, &unconfigured()?, other).await,
    }
}

/// Runs the commands that start no agent.
async fn look(
    out: AnswerWriter,
    debates: &Debates,
    command: DebateCommand,
) -> Result<ExitCode, CommandError> {
    match command {
        DebateCommand::Show(args) => {
            show::record(out, debates, &id(debates, &args.debate).await?).await?;
        }
        DebateCommand::List { status } => {
            let request = DebateListRequest { status, ..DebateListRequest::default() };
            let page = async |offset| {
                let page = debates.list(DebateListRequest { offset, ..request.clone() }).await?;
                Ok((page.debates, page.unreadable, page.next_offset))
            };
            let nothing = match &request.status {
                Some(status) => format!("no debate is {status}"),
                None => "no debates yet; `nexus debate new QUESTION` creates one".to_owned(),
            };
            works::list(out, page, show::row, &nothing).await?;
        }
        DebateCommand::Cancel(args) => {
            let debate_id = id(debates, &args.debate).await?;
            let view = debates.cancel(DebateCancelRequest { debate_id }).await?;
            out.line(&view, format_args!("{} is {}", view.debate_id, view.status));
        }
        DebateCommand::Remove(args) => {
            let debate_id = id(debates, &args.debate).await?;
            let removed = debates.remove(DebateRemoveRequest { debate_id }).await?;
            out.line(&removed, format_args!("{} is removed", removed.debate_id));
        }
        DebateCommand::Report { debate, output } => {
            let debate = debates.store().open(&id(debates, &debate).await?)?;
            works::report(out, blocking(move || debate_report(&debate)).await?, output)?;
        }
        DebateCommand::Watch(args) => {
            return watch::watch(out, debates, &id(debates, &args.debate).await?).await;
        }
        DebateCommand::New(_) | DebateCommand::Advance { .. } => {}
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs the next stage or, with `all`, every stage until the debate is done.
async fn stages(out: AnswerWriter, debates: &Debates, debate: &str, all: bool) -> Result<(), CommandError> {
    loop {
        let view = stage(out, debates, debate).await?;
        let is_last = !all || view.status == DebateStatusWord::Done;
        let print = || {
            note(&format!("next: {}", show::status(&view)));
            if is_last {
                say(show::view(&view));
                note(&show::next(&view));
            }
        };
        out.event(|| DebateAdvanceEvent::Stage { debate: Box::new(view.clone()) }, print);
        if is_last {
            return Ok(());
        }
    }
}

async fn stage(out: AnswerWriter, debates: &Debates, debate: &str) -> Result<DebateView, CommandError> {
    let mut last = String::new();
    loop {
        // A short wait, so that new progress appears within a second.
        let request = DebateAdvanceRequest { debate_id: debate.to_owned(), wait_s: Some(1) };
        let view = debates.advance(request).await?;
        if !view.running {
            return Ok(view);
        }
        let line = view.progress.unwrap_or_default();
        // Most calls return the same progress again, so print only a change.
        if line != last {
            out.event(|| DebateAdvanceEvent::Progress { text: line.clone() }, || note(&line));
            last = line;
        }
    }
}

/// Opens the debates of the home with the backends for their turns. The configuration is that of tasks: see [`config::load_for_tasks`].
fn configured(config: &ConfigArgs) -> Result<Debates, CommandError> {
    open(&config::load_for_tasks(config)?, BuildContext::from_process())
        .map_err(|error| error.to_string().into())
}

/// Opens the debates of a home with a router, for this command and for the server.
pub(crate) fn open(router: &Router, context: BuildContext) -> Result<Debates, nexus::SettingsError> {
    let configuration = TaskConfiguration::of(router)?;
    let mut options = DebatesOptions::in_home(&context.home);
    options.settings = DebateSettings::of(router)?;
    options.roots.clone_from(&configuration.roots);
    let mut tasks = TasksOptions::in_home(context.home);
    (tasks.roots, tasks.settings) = (configuration.roots, configuration.defaults);
    Ok(Debates::new(router.clone(), Tasks::new(router.clone(), tasks), options))
}

/// Opens the debates of the home for commands that start no agent. They work with any configuration, even an invalid one.
pub(crate) fn unconfigured() -> Result<Debates, CommandError> {
    let context = BuildContext::from_process();
    let router = Router::from_value(json!({}), nexus::Registry::new(), context.clone())?;
    let tasks = Tasks::new(router.clone(), TasksOptions::in_home(&context.home));
    Ok(Debates::new(router, tasks, DebatesOptions::in_home(context.home)))
}

/// Resolves `text` to the id of a debate.
async fn id(debates: &Debates, text: &str) -> Result<String, CommandError> {
    let store = debates.store().clone();
    let listed = blocking(move || store.list()).await?.entries;
    let ids: Vec<String> = listed.iter().map(|(debate, _)| debate.id().to_string()).collect();
    works::pick("debate", &ids, ids.last(), text)
}
