//! The agent: serves clients, each over a reader and a writer.

use std::{
    io,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use agent_client_protocol_schema::v1::Error;
use nexus_conversations::Conversations;
use nexus_core::message_line::MessageLine;
use nexus_router::Router;
use tokio::{
    io::{AsyncRead, AsyncWrite, BufReader},
    sync::mpsc,
    task::{JoinHandle, JoinSet},
    time::timeout,
};

use crate::{
    connection::Connection,
    incoming::{Incoming, with_reason},
    lines::{self, MAX_LINE_BYTES},
    outgoing::{INPUT_WAITS_BYTES, Outgoing},
    record::SessionRecords,
    setup::{AcpOptions, Setup},
};

/// Maximum number of concurrent requests of a client. Source: our own bound.
const MAX_REQUESTS: usize = 256;
/// Maximum number of lines that were read and not handled yet.
const QUEUED_LINES: usize = 4;
/// Longest time for writing finished answers at the end.
const LAST_LINES: Duration = Duration::from_secs(1);

/// Reason why serving a client ended.
#[derive(Debug)]
#[non_exhaustive]
pub enum AcpEnd {
    /// The client closed the input.
    InputClosed,
    /// The input cannot be read.
    InputFailed(io::Error),
    /// The output cannot be written: its reader is gone, or the disk is full.
    OutputFailed(io::Error),
    /// The future `ended` completed.
    Asked,
}

/// Nexus as an agent of the protocol. Clones share the configuration. Each served client has its own sessions.
#[derive(Clone, Debug)]
pub struct AcpAgent(Arc<Setup>);

impl AcpAgent {
    /// Creates an agent that runs prompts on the router that `open` returns, and stores conversations and
    /// sessions in `home`.
    ///
    /// The router is opened with the first session. If that fails, the client gets the reason, and the next
    /// session opens it again. Its configuration is read again for each prompt ([`Router::reload`]).
    pub fn new(
        open: impl Fn() -> Result<Router, String> + Send + Sync + 'static,
        home: impl AsRef<Path>,
        options: AcpOptions,
    ) -> Self {
        Self(Arc::new(Setup {
            open: Box::new(open),
            router: Mutex::default(),
            conversations: Conversations::in_home(&home),
            records: SessionRecords::in_home(home.as_ref()),
            options,
        }))
    }

    /// Serves one client, until its input ends, the output cannot be written, or `ended` completes. Then cancels running
    /// turns. When this returns, none of their processes is left.
    pub async fn serve(
        &self,
        input: impl AsyncRead + Send + Unpin + 'static,
        output: impl AsyncWrite + Send + Unpin + 'static,
        ended: impl Future<Output = ()>,
    ) -> AcpEnd {
        let (out, writing) = Outgoing::new(output);
        let mut writing = tokio::spawn(writing);
        let (reading, mut lines) = read_lines(input, out.clone());
        let connection = Arc::new(Connection::new(Arc::clone(&self.0), out.clone()));
        let mut work = JoinSet::new();
        let mut ended = std::pin::pin!(ended);
        let end = loop {
            let line = tokio::select! {
                // `biased`: check the reasons to stop first, so that a client with many lines cannot delay them.
                biased;
                () = &mut ended => break AcpEnd::Asked,
                written = &mut writing => break AcpEnd::OutputFailed(failure(written)),
                // Remove finished requests from the set.
                Some(_) = work.join_next() => continue,
                line = lines.recv() => line,
            };
            match line {
                None => break AcpEnd::InputClosed,
                Some(Err(error)) => break AcpEnd::InputFailed(error),
                Some(Ok(line)) => {
                    if let Some(message) = read(&line, &out, work.len())
                        && let Some(task) = connection.receive(message)
                    {
                        work.spawn(task);
                    }
                }
            }
        };
        // Read no more before the turns stop, so that no new prompt begins.
        reading.abort();
        connection.cancel_all();
        let all = async { while work.join_next().await.is_some() {} };
        if timeout(self.0.options.stop_within, all).await.is_err() {
            tracing::error!(within = ?self.0.options.stop_within, "turns did not stop in time and are killed");
            work.shutdown().await;
        }
        // Stop the servers after the turns, which may still use their tools.
        connection.stop_servers().await;
        // The writer has already ended, so nothing can be flushed.
        if matches!(end, AcpEnd::OutputFailed(_)) {
            return end;
        }
        out.finish();
        // A client that does not read must not delay the end.
        match timeout(LAST_LINES, &mut writing).await {
            Ok(Ok(Ok(()))) => end,
            Ok(written) => AcpEnd::OutputFailed(failure(written)),
            Err(_) => {
                writing.abort();
                end
            }
        }
    }
}

/// Returns the message of a line. Answers a malformed line, and a request above the bound, at once.
fn read(line: &MessageLine, out: &Outgoing, at_work: usize) -> Option<Incoming> {
    let line = match line {
        MessageLine::Whole(line) => line,
        MessageLine::TooLong { id } => {
            let reason = format!("a line has at most {MAX_LINE_BYTES} bytes");
            let id = id.clone().unwrap_or_default();
            out.answer(&id, &Err(with_reason(Error::parse_error(), reason)));
            return None;
        }
    };
    match Incoming::read(line) {
        // Only requests are limited: cancellations and answers must pass, because they end requests.
        Ok(Incoming::Request { id, .. }) if at_work >= MAX_REQUESTS => {
            let reason = format!("{MAX_REQUESTS} requests are in progress: wait for their answers");
            out.answer(&id, &Err(with_reason(Error::invalid_request(), reason)));
            None
        }
        Ok(message) => Some(message),
        Err(refused) => {
            out.answer(&refused.id, &Err(refused.error));
            None
        }
    }
}

/// Reads lines until the input ends or fails. Pauses while too much output waits to be written.
fn read_lines(
    input: impl AsyncRead + Send + Unpin + 'static,
    out: Outgoing,
) -> (JoinHandle<()>, mpsc::Receiver<io::Result<MessageLine>>) {
    let (sender, lines) = mpsc::channel(QUEUED_LINES);
    let reading = tokio::spawn(async move {
        let mut input = BufReader::new(input);
        loop {
            out.below(INPUT_WAITS_BYTES).await;
            let Some(line) = lines::next(&mut input).await.transpose() else { return };
            let is_last = line.is_err();
            if sender.send(line).await.is_err() || is_last {
                return;
            }
        }
    });
    (reading, lines)
}

/// Returns the reason why writing ended.
fn failure(written: Result<io::Result<()>, tokio::task::JoinError>) -> io::Error {
    match written {
        Ok(Err(error)) => error,
        Ok(Ok(())) => io::ErrorKind::BrokenPipe.into(),
        Err(error) => io::Error::other(error),
    }
}
