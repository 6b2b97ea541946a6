//! Serving over lines: the standard input and output of this process, or any other reader and writer.

use std::{
    future::Future,
    io::{self, BufRead, BufReader, Write},
    sync::Arc,
    thread,
    time::Duration,
};

use bytes::Bytes;
use nexus_core::{CancelToken, message_line::MessageLine};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinSet,
};

use super::{
    endpoint::{ClientSide, Endpoint},
    line::{self, MAX_LINE_BYTES},
    message::{Incoming, too_long},
    reply::Reply,
    service::ToolService,
};

/// Maximum number of lines that wait for an answer, and maximum number of answers that wait to be written.
const QUEUED_LINES: usize = 64;
/// Longest time for writing finished answers when the server ends.
const LAST_LINES: Duration = Duration::from_secs(1);

/// Limits of a server over lines.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StdioSettings {
    /// Longest time for [`ToolService::stop`] and running calls when the server ends.
    pub stop_within: Duration,
}

impl Default for StdioSettings {
    fn default() -> Self {
        Self { stop_within: Duration::from_secs(10) }
    }
}

/// Reason why a server over lines ended.
#[derive(Debug)]
#[non_exhaustive]
pub enum StdioEnd {
    /// The client closed the input.
    InputClosed,
    /// The input cannot be read.
    InputFailed(io::Error),
    /// The output cannot be written, because its reader has closed it or the disk is full.
    OutputFailed(io::Error),
    /// `ended` completed.
    Asked,
}

/// Serves over the standard input and output of this process. Ends when the input ends, the output cannot be written or `ended`
/// completes; then stops the service.
///
/// From then on other code of this process reads an empty standard input, and writes to the standard error in place of the
/// standard output. Call it once.
///
/// # Errors
///
/// The streams cannot be taken over, or the system cannot start a thread.
pub async fn serve_stdio(
    service: Arc<dyn ToolService>,
    settings: StdioSettings,
    ended: impl Future<Output = ()>,
) -> io::Result<StdioEnd> {
    let (input, output) = own_streams()?;
    serve_lines(service, settings, BufReader::new(input), output, ended).await
}

/// Takes over the standard streams of this process: returns copies that no child process inherits. From then on other code
/// reads nothing from the standard input, and its standard output goes to the standard error. Call it once.
///
/// # Errors
///
/// The system cannot duplicate the descriptors.
#[cfg(unix)]
pub fn own_streams() -> io::Result<(std::fs::File, std::fs::File)> {
    use rustix::{io::fcntl_dupfd_cloexec, stdio};

    // Lowest descriptor for the copies, above the three standard streams.
    const LOWEST: i32 = 3;
    let input = fcntl_dupfd_cloexec(stdio::stdin(), LOWEST)?;
    let output = fcntl_dupfd_cloexec(stdio::stdout(), LOWEST)?;
    stdio::dup2_stdin(std::fs::File::open("/dev/null")?)?;
    // Other code of this process may print, which would corrupt the lines for the client.
    stdio::dup2_stdout(stdio::stderr())?;
    Ok((input.into(), output.into()))
}

/// Returns the standard streams of this process.
///
/// # Errors
///
/// Never fails on this system.
#[cfg(not(unix))]
pub fn own_streams() -> io::Result<(io::Stdin, io::Stdout)> {
    Ok((io::stdin(), io::stdout()))
}

/// Serves one client over lines, as [`serve_stdio`] does over the standard streams. Reader and writer have a thread each. If
/// the reader never ends, its thread outlives the call.
///
/// # Errors
///
/// The system cannot start a thread.
pub async fn serve_lines(
    service: Arc<dyn ToolService>,
    settings: StdioSettings,
    input: impl BufRead + Send + 'static,
    output: impl Write + Send + 'static,
    ended: impl Future<Output = ()>,
) -> io::Result<StdioEnd> {
    let endpoint = Arc::new(Endpoint::new(service));
    let mut lines = read_lines(input)?;
    let mut writer = LineWriter::start(output)?;
    let mut calls = JoinSet::new();
    let mut client = ClientSide::default();
    let mut ended = std::pin::pin!(ended);
    let end = loop {
        let line = tokio::select! {
            // `biased`: check the reasons to stop first, so that a client with many lines cannot delay them.
            biased;
            () = &mut ended => break StdioEnd::Asked,
            error = writer.failed() => break StdioEnd::OutputFailed(error),
            // Remove finished calls.
            Some(_) = calls.join_next() => continue,
            line = lines.recv() => line,
        };
        let reply = match line {
            None => break StdioEnd::InputClosed,
            Some(Err(error)) => break StdioEnd::InputFailed(error),
            Some(Ok(MessageLine::TooLong { id })) => Endpoint::refuse(too_long(MAX_LINE_BYTES, id)),
            Some(Ok(MessageLine::Whole(line))) => match Incoming::read(&line) {
                Err(refused) => Endpoint::refuse(refused),
                Ok(message) => {
                    note_roots(&message, &mut client);
                    endpoint.receive(message, &client)
                }
            },
        };
        match reply {
            Reply::Nothing => {}
            Reply::Message(message, _) => {
                let output = writer.lines.clone();
                tokio::select! {
                    biased;
                    () = &mut ended => break StdioEnd::Asked,
                    error = writer.failed() => break StdioEnd::OutputFailed(error),
                    _ = output.send(message) => {}
                }
            }
            Reply::Stream(mut stream) => {
                let output = writer.lines.clone();
                calls.spawn(async move {
                    while let Some(message) = stream.next().await {
                        if output.send(message).await.is_err() {
                            return;
                        }
                    }
                });
            }
        }
    };
    // Waits end immediately, but answers that result from that are still written.
    let stopping = async {
        endpoint.stop().await;
        while calls.join_next().await.is_some() {}
    };
    if tokio::time::timeout(settings.stop_within, stopping).await.is_err() {
        tracing::error!(within = ?settings.stop_within, "the calls did not end in time");
    }
    calls.abort_all();
    match writer.finish().await {
        Some(error) => Ok(StdioEnd::OutputFailed(error)),
        None => Ok(end),
    }
}

/// Stores from `initialize` if the client supports roots.
fn note_roots(message: &Incoming, client: &mut ClientSide) {
    if let Incoming::Request { method, params, .. } = message
        && method == "initialize"
    {
        client.offers_roots = offers_roots(params);
    }
}

/// Returns true if the parameters of `initialize` announce roots.
pub(crate) fn offers_roots(params: &serde_json::Value) -> bool {
    params.pointer("/capabilities/roots").is_some_and(serde_json::Value::is_object)
}

/// Reads lines in a thread, until the input ends or cannot be read.
pub(crate) fn read_lines(
    mut input: impl BufRead + Send + 'static,
) -> io::Result<mpsc::Receiver<io::Result<MessageLine>>> {
    let (sender, lines) = mpsc::channel(QUEUED_LINES);
    thread::Builder::new().name("mcp-input".into()).spawn(move || {
        while let Some(line) = line::next(&mut input).transpose() {
            let is_last = line.is_err();
            if sender.blocking_send(line).is_err() || is_last {
                return;
            }
        }
    })?;
    Ok(lines)
}

/// Writes lines in a thread, until a line cannot be written.
pub(crate) struct LineWriter {
    pub(crate) lines: mpsc::Sender<Bytes>,
    /// Completes when the thread ends: with the error, or without a value after the last line.
    over: oneshot::Receiver<io::Error>,
    is_failed: CancelToken,
}

impl LineWriter {
    pub(crate) fn start(mut output: impl Write + Send + 'static) -> io::Result<Self> {
        let (lines, mut waiting) = mpsc::channel::<Bytes>(QUEUED_LINES);
        let (failure, over) = oneshot::channel();
        thread::Builder::new().name("mcp-output".into()).spawn(move || {
            while let Some(line) = waiting.blocking_recv() {
                let line = [&*line, b"\n"].concat();
                if let Err(error) = output.write_all(&line).and_then(|()| output.flush()) {
                    let _nobody_asks = failure.send(error);
                    return;
                }
            }
        })?;
        Ok(Self { lines, over, is_failed: CancelToken::new() })
    }

    /// Waits until a line cannot be written.
    pub(crate) async fn failed(&mut self) -> io::Error {
        if self.is_failed.is_cancelled() {
            return std::future::pending().await;
        }
        let error = (&mut self.over).await;
        self.is_failed.cancel();
        error.unwrap_or_else(|_| io::ErrorKind::BrokenPipe.into())
    }

    /// Waits a limited time until the last line is written. Returns the error if a line could not be written.
    pub(crate) async fn finish(self) -> Option<io::Error> {
        let Self { lines, over, is_failed } = self;
        drop(lines);
        if is_failed.is_cancelled() {
            return None;
        }
        tokio::time::timeout(LAST_LINES, over).await.ok()?.ok()
    }
}
