//! `nexus run`: one turn, or one panel.

use std::{
    fs,
    io::{self, IsTerminal as _, Read as _, Write as _},
    path::Path,
    process::ExitCode,
    time::Instant,
};

use nexus::{
    CancelToken, ConversationMode, ErrorKind, EventEnvelope, EventSink, KindError, Limits, OutputSchema,
    PromptBlock, ResumeHandle, Router, SeatEvent, TurnError, TurnHost, TurnRequest, TurnResult, Vote,
};
use serde_json::{Value, json};

use crate::{
    EXIT_CANCELLED, EXIT_FAILED,
    args::{ConfigArgs, RunArgs},
    config,
    interrupt::interrupted,
    printer::{PrintStyle, TurnPrinter},
};

pub(crate) async fn run(config: &ConfigArgs, args: &RunArgs) -> Result<ExitCode, String> {
    let router = config::load(config)?;
    let is_panel = match router.binding(args.kind.as_str()) {
        Ok(_) => false,
        Err(KindError::IsPanel { .. }) => true,
        Err(error) => return Err(error.to_string()),
    };
    let request = request(args)?;
    let interrupts = Interrupts::listen();
    let cancel = interrupts.cancel.clone();
    let work = async {
        match is_panel {
            true => run_panel(&router, args, request, &cancel).await,
            false => run_turn(&router, args, request, cancel.clone()).await,
        }
    };
    interrupts.unless_second(work).await.unwrap_or(Ok(ExitCode::from(EXIT_CANCELLED)))
}

async fn run_turn(
    router: &Router,
    args: &RunArgs,
    request: TurnRequest,
    cancel: CancelToken,
) -> Result<ExitCode, String> {
    let began = Instant::now();
    let host = TurnHost::new().with_cancel(cancel);
    let mut sink: Box<dyn Show> = if args.json {
        Box::new(JsonLines)
    } else if args.quiet {
        Box::new(Nothing)
    } else {
        Box::new(TurnPrinter::new(io::stderr()).with_style(style()))
    };
    let outcome = router.run_turn(args.kind.as_str(), request, host, sink.as_events()).await;
    sink.outcome(&outcome, began);
    finish(args, &outcome)
}

/// Shows a turn in one of the ways that the command line offers.
trait Show: Send {
    fn as_events(&mut self) -> &mut dyn EventSink;
    fn outcome(&mut self, outcome: &Result<TurnResult, TurnError>, began: Instant);
}

impl<W: io::Write + Send> Show for TurnPrinter<W> {
    fn as_events(&mut self) -> &mut dyn EventSink {
        self
    }

    fn outcome(&mut self, outcome: &Result<TurnResult, TurnError>, began: Instant) {
        TurnPrinter::outcome(self, outcome, began.elapsed());
    }
}

/// One line of JSON per event, then one for the outcome.
struct JsonLines;

impl EventSink for JsonLines {
    fn poll_ready(&mut self, _context: &mut std::task::Context<'_>) -> std::task::Poll<()> {
        std::task::Poll::Ready(())
    }

    fn accept(&mut self, event: EventEnvelope) {
        print_line(&json!({ "event": event }));
    }
}

impl Show for JsonLines {
    fn as_events(&mut self) -> &mut dyn EventSink {
        self
    }

    fn outcome(&mut self, outcome: &Result<TurnResult, TurnError>, _began: Instant) {
        print_line(&match outcome {
            Ok(result) => json!({ "result": result }),
            Err(error) => json!({ "error": error.report() }),
        });
    }
}

/// Shows nothing; an error still goes to standard error.
struct Nothing;

impl EventSink for Nothing {
    fn poll_ready(&mut self, _context: &mut std::task::Context<'_>) -> std::task::Poll<()> {
        std::task::Poll::Ready(())
    }

    fn accept(&mut self, _event: EventEnvelope) {}
}

impl Show for Nothing {
    fn as_events(&mut self) -> &mut dyn EventSink {
        self
    }

    fn outcome(&mut self, outcome: &Result<TurnResult, TurnError>, _began: Instant) {
        if let Err(error) = outcome {
            let causes: String = error.report().causes.iter().map(|cause| format!(": {cause}")).collect();
            eprintln!("nexus: {error}{causes}");
        }
    }
}

fn print_line(value: &Value) {
    // A reader that went away ends the output, not the turn.
    let _ = writeln!(io::stdout(), "{value}");
}

fn finish(args: &RunArgs, outcome: &Result<TurnResult, TurnError>) -> Result<ExitCode, String> {
    let (resume, code) = match outcome {
        Ok(result) => {
            // The printer wrote the answer to the terminal already; elsewhere it is wanted alone.
            if !args.json && (args.quiet || !io::stdout().is_terminal()) {
                let answer = result.output.as_ref().map_or_else(|| result.text.clone(), Value::to_string);
                let _ = writeln!(io::stdout(), "{answer}");
            }
            (result.resume.as_ref(), ExitCode::SUCCESS)
        }
        Err(error) => {
            let code = if error.kind() == ErrorKind::Cancelled { EXIT_CANCELLED } else { EXIT_FAILED };
            (error.partial().resume.as_ref(), ExitCode::from(code))
        }
    };
    if let (Some(path), Some(resume)) = (args.keep.as_ref().or(args.resume.as_ref()), resume) {
        let text = serde_json::to_string(resume).map_err(|error| error.to_string())?;
        fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(code)
}

async fn run_panel(
    router: &Router,
    args: &RunArgs,
    request: TurnRequest,
    cancel: &CancelToken,
) -> Result<ExitCode, String> {
    let mut events = |event: SeatEvent| {
        if args.json {
            print_line(&json!({ "seat": event.seat, "event": event.event }));
        }
    };
    let hosts = |_seat: &nexus::Seat| TurnHost::new().with_cancel(cancel.clone());
    let panel = router.run_panel(args.kind.as_str(), request, hosts, &mut events).await;
    let panel = panel.map_err(|error| error.to_string())?;
    for seat in &panel.seats {
        match (seat.vote(), args.json) {
            (Vote::Answer(result), true) => print_line(&json!({ "seat": seat.seat, "result": result })),
            (Vote::None(reason), true) => print_line(&json!({ "seat": seat.seat, "no_vote": reason })),
            (Vote::Answer(result), false) => {
                println!("## {} · {}\n\n{}\n", seat.seat, seat.backend, result.text);
            }
            (Vote::None(reason), false) => println!("## {} · no vote\n\n{reason}\n", seat.seat),
        }
    }
    let spread = panel.spread().len();
    if !args.json && !args.quiet {
        eprintln!(
            "= {} of {} seats answered, from {spread} vendors",
            panel.answers().count(),
            panel.seats.len()
        );
    }
    Ok(if spread == 0 { ExitCode::from(EXIT_FAILED) } else { ExitCode::SUCCESS })
}

fn request(args: &RunArgs) -> Result<TurnRequest, String> {
    let prompt = match args.prompt.as_deref() {
        Some("-") | None => {
            let mut text = String::new();
            io::stdin().read_to_string(&mut text).map_err(|error| format!("standard input: {error}"))?;
            text
        }
        Some(prompt) => prompt.to_owned(),
    };
    let mut request = TurnRequest::new(prompt).with_tool_access(args.access.into());
    request.working_directory.clone_from(&args.directory);
    request.system.clone_from(&args.system);
    request.model = args.model.as_deref().map(Into::into);
    request.effort = args.effort;
    if let Some(deadline) = args.deadline {
        request = request.with_limits(Limits::new().with_deadline(deadline));
    }
    if let Some(path) = &args.schema {
        let schema: Value = read_json(path)?;
        let schema = OutputSchema::new(schema).map_err(|error| format!("{}: {error}", path.display()))?;
        request = request.with_output(schema);
    }
    for path in &args.images {
        request = request.with_block(image(path)?);
    }
    if let Some(path) = &args.resume {
        let handle: ResumeHandle = read_json(path)?;
        request = request.with_conversation(ConversationMode::resume(handle));
    } else if args.keep.is_some() {
        request = request.with_conversation(ConversationMode::Keep);
    }
    Ok(request)
}

fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
}

fn image(path: &Path) -> Result<PromptBlock, String> {
    let bytes = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    PromptBlock::image(&bytes)
        .ok_or_else(|| format!("{}: not a PNG, JPEG, GIF or WebP picture", path.display()))
}

fn style() -> PrintStyle {
    let wants_none = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    if io::stderr().is_terminal() && !wants_none { PrintStyle::Ansi } else { PrintStyle::Plain }
}

/// The first Ctrl-C stops the turn politely; the second drops it, which ends its processes at once.
struct Interrupts {
    cancel: CancelToken,
    second: tokio::sync::oneshot::Receiver<()>,
}

impl Interrupts {
    fn listen() -> Self {
        let cancel = CancelToken::new();
        let (sender, second) = tokio::sync::oneshot::channel();
        let token = cancel.clone();
        tokio::spawn(async move {
            if interrupted().await.is_ok() {
                eprintln!("nexus: stopping; press Ctrl-C again to stop at once");
                token.cancel();
            }
            if interrupted().await.is_ok() {
                let _ = sender.send(());
            }
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
