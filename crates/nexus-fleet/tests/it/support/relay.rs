//! A proxy that loses, repeats and reorders messages.

#![allow(dead_code, reason = "a kit: not every test needs all of it")]

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::{Instant, timeout_at};

use super::acceptor::Acceptor;
use super::frames::{Decoder, Frame};

/// Maximum time that a message waits for the next one, to be sent after it.
pub(crate) const HELD_FOR: Duration = Duration::from_millis(100);

/// A proxy on loopback for the protocol of NATS, without TLS. It loses, repeats and reorders messages to the client whose
/// subject begins with a prefix. All else passes unchanged.
///
/// For faults of the link too, put a `Relay` in front of a `Proxy`.
#[derive(Debug)]
pub(crate) struct Relay {
    acceptor: Acceptor,
    state: Arc<State>,
}

/// Which of the messages with the prefix are changed. They are counted from one, over all connections. Zero means none.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    /// Each n-th is lost. The other faults do not apply to it.
    pub(crate) drop_every: u64,
    /// Each n-th is sent twice in a row.
    pub(crate) duplicate_every: u64,
    /// Each n-th is sent after the next one, or after 100 ms if there is none until then. Frames without the prefix that
    /// arrive meanwhile are sent before it.
    pub(crate) swap_every: u64,
}

/// What a relay did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Messages with the prefix.
    pub(crate) matched: u64,
    /// Frames of all other kinds.
    pub(crate) others: u64,
    pub(crate) dropped: u64,
    pub(crate) duplicated: u64,
    /// Messages that were sent after the next one.
    pub(crate) swapped: u64,
    /// Connections that ended because the server sent what is not of the protocol.
    pub(crate) malformed: u64,
}

#[derive(Debug)]
struct State {
    prefix: String,
    faults: Mutex<Faults>,
    counts: Mutex<Counts>,
}

impl Relay {
    /// Listens on a free port, and forwards to `server` without any fault.
    pub(crate) async fn in_front_of(server: SocketAddr, prefix: &str) -> Self {
        let state = State { prefix: prefix.to_owned(), faults: Mutex::default(), counts: Mutex::default() };
        let state = Arc::new(state);
        let shared = Arc::clone(&state);
        let acceptor =
            Acceptor::in_front_of(server, move |client, server| join(client, server, Arc::clone(&shared)));
        Self { acceptor: acceptor.await, state }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.acceptor.address()
    }

    /// The URL for clients.
    pub(crate) fn url(&self) -> String {
        format!("nats://{}", self.address())
    }

    /// Closes all connections, and returns when they are closed.
    pub(crate) async fn cut(&self) {
        self.acceptor.cut().await;
    }

    /// Faults of the messages that arrive from now on.
    pub(crate) fn set_faults(&self, faults: Faults) {
        *self.state.faults.lock().unwrap_or_else(PoisonError::into_inner) = faults;
    }

    pub(crate) fn counts(&self) -> Counts {
        *self.state.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn join(client: TcpStream, server: TcpStream, state: Arc<State>) -> io::Result<()> {
    let (mut from_client, to_client) = client.into_split();
    let (from_server, mut to_server) = server.into_split();
    let requests = async {
        tokio::io::copy(&mut from_client, &mut to_server).await?;
        to_server.shutdown().await
    };
    tokio::try_join!(requests, messages(from_server, to_client, &state))?;
    Ok(())
}

/// Forwards what the server sends.
async fn messages(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, state: &State) -> io::Result<()> {
    let mut decoder = Decoder::default();
    let mut waiting = Waiting::default();
    let mut output = BytesMut::new();
    loop {
        let read = from.read_buf(decoder.buffer());
        let read = match &waiting.held {
            Some((_, until)) => timeout_at(*until, read).await,
            None => Ok(read.await),
        };
        let ended = match read {
            Ok(bytes) => bytes? == 0,
            Err(_elapsed) => {
                waiting.release(&mut output);
                false
            }
        };
        while let Some(frame) =
            decoder.next().inspect_err(|_| state.counted(|counts| counts.malformed += 1))?
        {
            state.pass(frame, &mut waiting, &mut output);
        }
        if ended {
            waiting.release(&mut output);
            output.put(decoder.remaining());
        }
        to.write_all_buf(&mut output).await?;
        if ended {
            return to.shutdown().await;
        }
    }
}

/// The message of a connection that waits for the next one, and until when.
#[derive(Debug, Default)]
struct Waiting {
    held: Option<(Bytes, Instant)>,
}

impl Waiting {
    /// True if there was one.
    fn release(&mut self, output: &mut BytesMut) -> bool {
        let held = self.held.take();
        held.is_some_and(|(bytes, _)| {
            output.put(bytes);
            true
        })
    }
}

impl State {
    fn counted<T>(&self, change: impl FnOnce(&mut Counts) -> T) -> T {
        change(&mut self.counts.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn pass(&self, frame: Frame, waiting: &mut Waiting, output: &mut BytesMut) {
        if !frame.subject.is_some_and(|subject| subject.starts_with(&self.prefix)) {
            self.counted(|counts| counts.others += 1);
            output.put(frame.bytes);
            return;
        }
        let faults = *self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        self.counted(|counts| {
            counts.matched += 1;
            let is_each = |every: u64| every > 0 && counts.matched.is_multiple_of(every);
            let (drops, duplicates, swaps) =
                (is_each(faults.drop_every), is_each(faults.duplicate_every), is_each(faults.swap_every));
            if drops {
                counts.dropped += 1;
                return;
            }
            let mut bytes = frame.bytes;
            if duplicates {
                counts.duplicated += 1;
                bytes = [&bytes[..], &bytes[..]].concat().into();
            }
            if swaps && waiting.held.is_none() {
                waiting.held = Some((bytes, Instant::now() + HELD_FOR));
                return;
            }
            output.put(bytes);
            counts.swapped += u64::from(waiting.release(output));
        });
    }
}
