//! Log of the issuer's requests, in order, without any token.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use tokio::sync::watch;

use super::fault::Fault;

/// Purpose of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RequestKind {
    /// The page on which a person agrees, shown or answered.
    Authorize,
    /// A code for tokens.
    CodeExchange,
    /// A refresh token for new tokens.
    Refresh,
    /// The end of a login.
    Revoke,
    /// The beginning of a device flow.
    DeviceStart,
    /// A poll for the person's approval on another device.
    DevicePoll,
    /// The page on which a person enters a device's code, shown or answered.
    DevicePage,
    /// Addresses of the endpoints, or the signing keys.
    Discovery,
    /// Anything else.
    Unknown,
}

/// One request. No part of it is secret.
#[non_exhaustive]
#[derive(Clone, Debug)]
pub struct Asked {
    /// Index among all requests, from zero.
    pub number: usize,
    /// Purpose of the request.
    pub kind: RequestKind,
    /// The HTTP method.
    pub method: String,
    /// The path, without the query.
    pub path: String,
    /// All headers except `authorization` and `cookie`, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The names of the form's or JSON's members, and of the query's, in order.
    pub members: Vec<String>,
    /// The client that it names.
    pub client_id: Option<String>,
    /// Time at which it was read in full.
    pub at: SystemTime,
    /// Time at which its answer was passed to the connection, or the connection was closed on purpose.
    pub answered_at: Option<SystemTime>,
    /// The login that the presented token or code belongs to, counted from zero.
    pub family: Option<u64>,
    /// Generation of the presented refresh token in that login: zero is the first.
    pub generation: Option<u64>,
    /// True if the presented token or code was already spent.
    pub reuse: bool,
    /// Outcome of the request.
    pub outcome: Outcome,
}

/// Outcome of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It has no answer, or not yet.
    Open,
    /// It was performed and answered.
    Done,
    /// Tokens were granted.
    Granted {
        /// The login that they belong to.
        family: u64,
        /// Generation of the refresh token that is good after it.
        generation: u64,
    },
    /// The person has not agreed yet.
    Pending,
    /// The device polled too soon.
    TooFast,
    /// It was refused, with this code.
    Refused(String),
    /// It failed by a planned fault.
    Failed(Fault),
}

/// All requests to the issuer.
#[derive(Debug)]
pub(super) struct Log {
    asked: Mutex<Vec<Asked>>,
    changes: watch::Sender<u64>,
    print: bool,
}

impl Log {
    pub(super) fn new(print: bool) -> Self {
        Self { asked: Mutex::default(), changes: watch::Sender::new(0), print }
    }

    /// Adds a request; returns its number.
    pub(super) fn add(&self, mut request: Asked) -> usize {
        let mut asked = self.lock();
        let number = asked.len();
        request.number = number;
        asked.push(request);
        // A waiter takes this lock as soon as it wakes.
        drop(asked);
        self.changed();
        number
    }

    /// Updates the entry of a request.
    pub(super) fn note(&self, number: usize, change: impl FnOnce(&mut Asked)) {
        if let Some(asked) = self.lock().get_mut(number) {
            change(asked);
        }
        self.changed();
    }

    /// Notes that the answer leaves now.
    pub(super) fn answered(&self, number: usize) {
        self.note(number, |asked| {
            asked.answered_at = Some(SystemTime::now());
            if self.print {
                println!("{}", line(asked));
            }
        });
    }

    pub(super) fn asked(&self) -> Vec<Asked> {
        self.lock().clone()
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn changed(&self) {
        self.changes.send_modify(|count| *count = count.wrapping_add(1));
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Asked>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One line about a request, for a person who watches.
fn line(asked: &Asked) -> String {
    let mut line =
        format!("issuer  {:<5}{}  {:?}  {:?}", asked.method, asked.path, asked.kind, asked.outcome);
    if let (Some(family), Some(generation)) = (asked.family, asked.generation) {
        line.push_str(&format!("  login {family}, generation {generation}"));
    }
    if asked.reuse {
        line.push_str("  REUSE");
    }
    line
}
