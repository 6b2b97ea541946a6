//! `nexus run`: one turn, or one panel.

pub(crate) mod held;
mod kept;
mod panel;
pub(crate) mod purpose;
mod request;
mod seat_board;
pub(crate) mod show;

use std::{
    collections::BTreeSet,
    io::{self, IsTerminal as _},
    path::Path,
    process::ExitCode,
    time::{Instant, SystemTime},
};

use nexus::{
    BackendId, CancelToken, ConversationOptions, ErrorKind, EventSink, HeldConversation, KindError,
    RecordError, RecordFile, Router, TraceContext, TurnError, TurnHost, TurnRecording, TurnRequest,
    TurnResult,
};
use serde_json::Value;

use self::{
    held::Rest,
    panel::run_panel,
    purpose::Purpose,
    request::request,
    show::{JsonLines, Quiet, Show},
};
use crate::{
    EXIT_FAILED, approval,
    approval::AlwaysAllowed,
    args::{ConfigArgs, RunArgs},
    attendance::{TypedWords, attend},
    command_error::CommandError,
    config,
    interrupt::{self, Interrupts},
    output::{self, AnswerWriter, complain, complain_line, printable, printable_lines, say},
    printer::{PrintStyle, TurnPrinter},
    screen::ScreenWriter,
    terminal,
    turn_servers::TurnServers,
    undo::TurnSnapshots,
};

pub(crate) use self::show::RunEvent;

pub(crate) async fn run(
    out: AnswerWriter,
    config: &ConfigArgs,
    args: &RunArgs,
    trace_context: Option<TraceContext>,
) -> Result<ExitCode, CommandError> {
    let router = config::load(config)?;
    let purpose = Purpose::of(args, &router.kinds())?;
    let is_panel = match router.binding(purpose.kind.as_str()) {
        Ok(_) => false,
        Err(KindError::IsPanel { .. }) => true,
        Err(error) => return Err(error.into()),
    };
    let request = request(args, &purpose, is_panel)?;
    let interrupts = TurnInterrupts::listen();
    let cancel = interrupts.cancel.clone();
    let mut host = TurnHost::new()
        .with_cancel(cancel.clone())
        .with_trace_context(trace_context)
        .with_longest_wait(args.wait_for_reset);
    // A person who can see a question can answer it.
    let mut questions = None;
    if !out.is_json() && io::stdin().is_terminal() && io::stderr().is_terminal() {
        let (approver, asked) = approval::approver();
        (host, questions) = (host.with_approver(approver), Some(asked));
    }
    let servers = TurnServers::of_turn();
    let work = async {
        let Some((host, warnings)) = servers.offer(&router, &request, host).await? else {
            return Err(CommandError::cancelled());
        };
        // The events of a panel are those of its seats, and the servers are of all seats.
        let host = match is_panel {
            true => {
                warnings.iter().for_each(|warning| complain(printable_lines(warning)));
                host
            }
            false => host.with_warnings(warnings),
        };
        let snapshots = snapshots(out, args, &purpose.kind, &request, &cancel).await;
        let done = match is_panel {
            true => run_panel(out, &router, (args, &purpose.kind), request, &host, style()).await,
            false => run_turn(out, &router, (args, &purpose.kind), request, host).await,
        };
        // Record the end of a failed turn as well, because its changes can be undone too.
        if let Some(snapshots) = snapshots {
            snapshots.end().await;
        }
        done
    };
    let work = stopping_without_output(work, &cancel);
    let done = match questions {
        Some(questions) => {
            let mut always = AlwaysAllowed::new("until this turn ends");
            let work = attend(interrupts.unless_second(work), questions, &mut always, TypedWords::Unread);
            work.await.0
        }
        None => interrupts.unless_second(work).await,
    };
    // A second interrupt drops the work, but the servers are processes of their own.
    servers.stop().await;
    done.unwrap_or_else(|| Err(CommandError::cancelled()))
}

/// Records the working folder of a turn that may write. A person at the terminal learns the reason if that is impossible.
async fn snapshots(
    out: AnswerWriter,
    args: &RunArgs,
    kind: &str,
    request: &TurnRequest,
    cancel: &CancelToken,
) -> Option<TurnSnapshots> {
    let conversation = args.conversation.as_ref().map(|name| format!(" · {name}")).unwrap_or_default();
    let label = format!("{kind}{conversation}");
    let folder = request.working_directory.clone();
    match TurnSnapshots::begin(folder, request.tool_access, label, cancel.clone()).await {
        Ok(snapshots) => snapshots,
        Err(error) => {
            if io::stderr().is_terminal() && !out.is_json() && !args.quiet && !cancel.is_cancelled() {
                complain(printable(&format!("`nexus undo` cannot undo this turn: {error}")));
            }
            None
        }
    }
}

/// Runs `work` to its end. Once its output cannot be written, it is cancelled, so that no more money is spent on it.
async fn stopping_without_output<T>(work: impl Future<Output = T>, cancel: &CancelToken) -> T {
    let mut work = std::pin::pin!(work);
    tokio::select! {
        done = &mut work => return done,
        () = output::broken() => cancel.cancel(),
    }
    // A cancelled turn still ends its processes and returns its partial result, so wait for it.
    work.await
}

async fn run_turn(
    out: AnswerWriter,
    router: &Router,
    (args, kind): (&RunArgs, &str),
    request: TurnRequest,
    host: TurnHost,
) -> Result<ExitCode, CommandError> {
    let mut held = None;
    if let Some(name) = &args.conversation {
        held = held::take(name, args.wait.unwrap_or_default(), &host.cancel).await?;
        if held.is_none() {
            return Err(CommandError::cancelled());
        }
    }
    let mut recording = match place_for_record(args)? {
        Some(path) => Some(open(path)?.begin(kind, &request, &host).map_err(|error| unwritten(&error))?),
        None => None,
    };
    let mut shown: Box<dyn Show> = if out.is_json() {
        Box::new(JsonLines)
    } else if args.quiet {
        Box::new(Quiet)
    } else {
        Box::new(printer())
    };
    let options = ConversationOptions::new().when_lost(args.on_lost.into());
    let conversation = held.as_mut().map(|held| (held, options));
    let turn = ShownTurn { out, router, kind, conversation, recording: recording.as_mut() };
    let (outcome, rest) = turn.run(request, host, &mut *shown).await?;
    let code = match &outcome {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => code_of(error),
    };
    if let Some(recording) = recording {
        recording.end(&outcome).map_err(|error| unwritten(&error))?;
    }
    if let (Some(held), Some(rest)) = (&held, rest) {
        rest.end(router, held.name()).await?;
    }
    Ok(code)
}

/// A turn that is shown to a person or a program as it runs.
pub(crate) struct ShownTurn<'a> {
    pub(crate) out: AnswerWriter,
    pub(crate) router: &'a Router,
    pub(crate) kind: &'a str,
    /// The conversation of the turn, if it has one.
    pub(crate) conversation: Option<(&'a mut HeldConversation, ConversationOptions)>,
    pub(crate) recording: Option<&'a mut TurnRecording>,
}

impl ShownTurn<'_> {
    /// Runs the turn, and shows its events, its outcome and its answer.
    pub(crate) async fn run(
        self,
        request: TurnRequest,
        host: TurnHost,
        shown: &mut dyn Show,
    ) -> Result<(Result<TurnResult, TurnError>, Option<Rest>), CommandError> {
        let Self { out, router, kind, conversation, recording } = self;
        let began = Instant::now();
        let mut recorded;
        let events: &mut dyn EventSink = match recording {
            Some(recording) => {
                recorded = recording.beside(shown.as_events());
                &mut recorded
            }
            None => shown.as_events(),
        };
        let (outcome, rest) = match conversation {
            Some((held, options)) => {
                let (outcome, rest) =
                    held::run(out, held, router, (kind, options), request, host, events).await?;
                (outcome, Some(rest))
            }
            None => (router.run_turn(kind, request, host, events).await, None),
        };
        shown.outcome(&outcome, began);
        match &outcome {
            Ok(result) => print_answer(out, result, shown),
            Err(error) => advise_on_holds(out, router, error),
        }
        Ok((outcome, rest))
    }
}

/// Creates the printer of a turn for a person.
pub(crate) fn printer() -> TurnPrinter<ScreenWriter> {
    TurnPrinter::new(ScreenWriter).with_style(style())
}

/// Names the command that ends the holds which kept a turn from its backends.
fn advise_on_holds(out: AnswerWriter, router: &Router, error: &TurnError) {
    let (now, holds) = (SystemTime::now(), router.holds());
    let held = error
        .skipped()
        .iter()
        .map(|skipped| &skipped.backend)
        .filter(|backend| holds.iter().any(|hold| hold.backend == **backend && hold.is_standing(now)));
    let held: BTreeSet<&str> = held.map(BackendId::as_str).collect();
    if !held.is_empty() && !out.is_json() {
        let held = held.into_iter().collect::<Vec<_>>().join(" ");
        complain(printable(&format!("`nexus hold release {held}` lets turns ask again before that time")));
    }
}

/// Returns the file for the record of the turn: `--keep`, else the file of `--resume`.
fn place_for_record(args: &RunArgs) -> Result<Option<&Path>, String> {
    match (&args.keep, &args.resume) {
        (None, Some(path)) if !path.is_file() => Err(format!(
            "{}: the next turn of the conversation cannot be appended, because this is not a file; name a \
             file with `--keep` beside `--resume`",
            path.display()
        )),
        (keep, resume) => Ok(keep.as_deref().or(resume.as_deref())),
    }
}

fn open(path: &Path) -> Result<RecordFile, String> {
    RecordFile::open(path).map_err(|error| error.to_string())
}

/// Error of a record that could not be written. The displayed outcome of the turn is still correct.
fn unwritten(error: &RecordError) -> CommandError {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
    CommandError::failed(format_args!("{error}{cause}"))
}

/// Writes the answer to standard output, unless the terminal has shown it already. A terminal gets no character that it would obey.
fn print_answer(out: AnswerWriter, result: &TurnResult, shown: &dyn Show) {
    let on_terminal = io::stdout().is_terminal();
    // The printer has shown the answer on the same terminal already.
    if out.is_json() || (shown.has_shown_answer() && on_terminal && io::stderr().is_terminal()) {
        return;
    }
    let answer = result.output.as_ref().map_or_else(|| result.text.clone(), Value::to_string);
    match on_terminal {
        true => say(printable_lines(&answer)),
        false => say(&answer),
    }
    // The answer was paid for. On a full disk it is better on standard error than lost. A reader that goes away has read enough.
    if output::is_broken() && !output::is_reader_gone() && !shown.has_shown_answer() {
        match io::stderr().is_terminal() {
            true => complain_line(printable_lines(&answer)),
            false => complain_line(&answer),
        }
    }
}

fn code_of(error: &TurnError) -> ExitCode {
    match error.kind() {
        ErrorKind::Cancelled => interrupt::exit_code(),
        _ => ExitCode::from(EXIT_FAILED),
    }
}

fn style() -> PrintStyle {
    if terminal::takes_escapes(&io::stderr()) { PrintStyle::Ansi } else { PrintStyle::Plain }
}

/// The first Ctrl-C cancels the turn. The second drops it, which ends its processes at once.
struct TurnInterrupts {
    cancel: CancelToken,
    second: tokio::sync::oneshot::Receiver<()>,
}

impl TurnInterrupts {
    fn listen() -> Self {
        let cancel = CancelToken::new();
        let (sender, second) = tokio::sync::oneshot::channel();
        let token = cancel.clone();
        tokio::spawn(async move {
            // One listener for both, so that no signal between the two waits is lost.
            let mut interrupts = Interrupts::listen()?;
            interrupts.next().await?;
            complain("stopping; press Ctrl-C again to stop immediately");
            token.cancel();
            interrupts.next().await?;
            let _ = sender.send(());
            io::Result::Ok(())
        });
        Self { cancel, second }
    }

    /// Runs `work` to its end, or drops it at the second Ctrl-C.
    async fn unless_second<T>(self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            done = work => Some(done),
            Ok(()) = self.second => None,
        }
    }
}
