//! Shared parts of the commands on tasks, debates, experiments, sessions, conversations and the broker.

use std::{
    fs,
    io::{self, IsTerminal as _},
    ops::AsyncFnMut,
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

use nexus::harness::run_blocking;
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    command_error::CommandError,
    for_a_person::for_a_person,
    interrupt::{self, Interrupts},
    output::{AnswerWriter, broken, complain, is_broken, printable_lines, say},
};

/// Minimum length of an abbreviated id.
const FEWEST: usize = 3;

/// Prints a note for people that is not part of the answer.
pub(crate) fn note(text: &str) {
    complain(printable_lines(text));
}

/// Appends a row. Further lines are aligned below the first one, and an empty value is left out.
pub(crate) fn push_row(text: &mut String, name: &str, value: &str) {
    if !value.is_empty() {
        text.push_str(&format!("{name:<10}{}\n", value.replace('\n', "\n          ")));
    }
}

/// Resolves `text` to an id: it is an id, a unique prefix, or `last`. `ids` belong to works of one `kind`, oldest first.
pub(crate) fn pick(
    kind: &str,
    ids: &[String],
    last: Option<&String>,
    text: &str,
) -> Result<String, CommandError> {
    if text == "last" {
        return last.cloned().ok_or_else(|| {
            CommandError::usage(format_args!("there is no {kind} yet; create one by `nexus {kind} new`"))
        });
    }
    let begins = |id: &&String| text.len() >= FEWEST && id.starts_with(text);
    match ids.iter().filter(begins).collect::<Vec<_>>().as_slice() {
        [one] => Ok((*one).clone()),
        // An unreadable work is not listed. Opening it reports the reason.
        [] => Ok(text.to_owned()),
        several => Err(format!("{text} is the beginning of {} ids; write more of it", several.len()).into()),
    }
}

/// Runs blocking work on files on a thread for blocking work.
pub(crate) async fn blocking<T: Send + 'static, E: Into<CommandError> + Send + 'static>(
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, CommandError> {
    let ended = run_blocking(work).await;
    ended.map_err(|_| CommandError::failed("the work on files ended early"))?.map_err(Into::into)
}

/// A page of a list: its items, the errors of unreadable items, and the start of the next page.
pub(crate) type ListPage<T, N> = (Vec<T>, Vec<String>, Option<N>);

/// Shows every item of a paged list. The errors of unreadable items come from the first page. `nothing` says that the list is empty.
pub(crate) async fn list<T: Serialize + JsonSchema, N: Clone + Default>(
    out: AnswerWriter,
    mut page: impl AsyncFnMut(N) -> Result<ListPage<T, N>, CommandError>,
    text: impl Fn(&T) -> String,
    nothing: &str,
) -> Result<(), CommandError> {
    let mut next = Some(N::default());
    let mut is_first = true;
    let mut is_empty = true;
    while let Some(offset) = next {
        let (items, unreadable, following) = page(offset).await?;
        is_empty &= items.is_empty() && unreadable.is_empty();
        for item in &items {
            out.show(item, |item| say(text(item)));
        }
        // Every page repeats the list of unreadable works, so print that of the first page.
        if std::mem::take(&mut is_first) {
            unreadable.iter().for_each(|reason| note(&for_a_person(reason)));
        }
        next = following;
    }
    if is_empty {
        out.nothing(nothing);
    }
    Ok(())
}

/// Calls `look` again after each `wait` until it returns `IsOver` or the reader of the output is gone. A signal ends the command with
/// `at_signal`.
pub(crate) async fn watch(
    mut wait: impl AsyncFnMut(),
    at_signal: fn() -> ExitCode,
    mut look: impl AsyncFnMut() -> Result<WatchProgress, CommandError>,
) -> Result<ExitCode, CommandError> {
    let mut interrupts = Interrupts::listen().map_err(CommandError::failed)?;
    loop {
        let looking = async {
            let found = look().await?;
            // Without a reader of the output, nothing is left to wait for.
            if found == WatchProgress::GoesOn && !is_broken() {
                wait().await;
            }
            Ok::<_, CommandError>(found)
        };
        tokio::select! {
            found = looking => {
                if found? == WatchProgress::IsOver || is_broken() {
                    return Ok(ExitCode::SUCCESS);
                }
            }
            () = broken() => return Ok(ExitCode::SUCCESS),
            came = interrupts.next() => {
                came.map_err(CommandError::failed)?;
                return Ok(at_signal());
            }
        }
    }
}

/// Returns a wait of fixed length for [`watch`], for subjects that report no changes.
pub(crate) fn every(pause: Duration) -> impl AsyncFnMut() {
    async move || tokio::time::sleep(pause).await
}

/// State of a watched thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WatchProgress {
    GoesOn,
    IsOver,
}

impl WatchProgress {
    /// Returns `IsOver` if `is_over`.
    pub(crate) fn until(is_over: bool) -> Self {
        if is_over { Self::IsOver } else { Self::GoesOn }
    }
}

/// Runs work to its end. A signal drops the work; then `stop` cleans up, and the command ends as cancelled.
pub(crate) async fn unless_stopped<T>(
    work: impl Future<Output = Result<T, CommandError>>,
    stop: impl AsyncFnOnce(),
) -> Result<T, CommandError> {
    tokio::select! {
        done = work => done,
        listened = interrupt::interrupted() => {
            stop().await;
            Err(CommandError::by_signal(listened))
        }
    }
}

/// Report of a work: a page, or the file that it was written to.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct WorkReport {
    /// The file that was written.
    file: Option<PathBuf>,
    /// The page, if no file was named.
    page: Option<String>,
}

/// Writes the report of a work to a file, else to standard output. A terminal gets no page of HTML.
pub(crate) fn report(out: AnswerWriter, page: String, file: Option<PathBuf>) -> Result<(), CommandError> {
    if let Some(path) = file {
        fs::write(&path, page)
            .map_err(|error| CommandError::failed(format_args!("{}: {error}", path.display())))?;
        let text = format!("the report is in {}", path.display());
        out.show(&WorkReport { file: Some(path), page: None }, |_| note(&text));
        return Ok(());
    }
    if !out.is_json() && page.starts_with("<!DOCTYPE") && io::stdout().is_terminal() {
        return Err(CommandError::usage("the report is a page for a browser")
            .with_advice("name a file for it: --output report.html"));
    }
    out.show(&WorkReport { file: None, page: Some(page) }, |report| {
        say(report.page.as_deref().unwrap_or_default().trim_end());
    });
    Ok(())
}
