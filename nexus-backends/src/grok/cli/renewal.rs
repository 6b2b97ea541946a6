//! Gives a turn that outlives its token a fresh one.
//!
//! The CLI cannot be sent a token, but when its own has run out it looks for a new `auth.json` before it calls the
//! model. So the end that it is told of lies a little before the real one; a fresh token is borrowed in time; and
//! the new file is renamed into its place, to stay there where the model has no tool that reads files, and else
//! only when none runs (see [`gate`](super::hooks)).
//!
//! All of it happens in the turn's own future: whoever drops the turn drops this.
//!
//! Source: observed with grok 1.0.41.

use std::{
    io,
    path::PathBuf,
    time::{Duration, Instant, SystemTime},
};

use futures::{
    StreamExt as _,
    stream::{self, BoxStream},
};
use nexus_core::{Credential, CredentialError, ToolAccess, TurnRequest, redact::Redactor};
use tokio::time::sleep;

use super::home;
use super::hooks::{Gate, Moment};
use crate::auth::{Lease, LeaseTerms};
use crate::cli::settings::Billing;

/// How long before a token's end a fresh one is borrowed, unless half its life is less.
const AHEAD: Duration = Duration::from_secs(300);
/// Pauses between two tries to borrow.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// How long before the CLI looks for the file its hooks begin to wait, so that a tool that began before they did is
/// known from the output.
const OPENING: Duration = Duration::from_secs(2);
/// How long a hook waits until it is noticed, at most.
const TICK: Duration = Duration::from_millis(10);

/// Renews the credential of one process.
pub(super) struct Renewal {
    pub(super) lease: Lease,
    pub(super) file: PathBuf,
    pub(super) billing: Billing,
    pub(super) redactor: Redactor,
    /// When the turn ends at the latest; until then a token may be needed.
    pub(super) turn: TurnTime,
    /// `None` where no tool of the model reads files.
    pub(super) gate: Option<Gate>,
    /// The end that the CLI was told of; `None` if it was told of none.
    pub(super) told: Option<SystemTime>,
    /// What the CLI was given last. The lease holds another while handing that over fails.
    pub(super) held: Credential,
    pub(super) has_warned: bool,
}

/// When a turn ends at the latest.
#[derive(Clone, Copy, Debug)]
pub(super) struct TurnTime {
    began: Instant,
    /// What a credential is borrowed for when the turn begins.
    pub(super) term: LeaseTerms,
    /// Whether the turn ends with its term: it has a deadline.
    is_certain: bool,
    pub(super) access: ToolAccess,
}

impl TurnTime {
    /// The end of a turn that begins now.
    pub(super) fn of(request: &TurnRequest, term: LeaseTerms) -> Self {
        let is_certain = request.limits.deadline.is_some();
        Self { began: Instant::now(), term, is_certain, access: request.tool_access }
    }

    /// Whether the turn may last longer than `left`.
    pub(super) fn may_outlive(&self, left: Duration) -> bool {
        !self.is_certain || left < self.term().run
    }

    /// The term of a credential that is borrowed now.
    fn term(&self) -> LeaseTerms {
        let run = match self.is_certain {
            true => self.term.run.saturating_sub(self.began.elapsed()),
            false => self.term.run,
        };
        LeaseTerms { run, ..self.term }
    }
}

impl Renewal {
    /// Renews as long as it is polled, and says what the caller should know.
    pub(super) fn into_stream(self) -> BoxStream<'static, String> {
        stream::unfold(self, |mut renewal| async {
            let warning = renewal.renew().await;
            Some((warning, renewal))
        })
        .boxed()
    }

    /// Renews until there is something to tell.
    async fn renew(&mut self) -> String {
        loop {
            let Some(left) = self.left() else { return std::future::pending().await };
            sleep(match self.has_warned {
                true => (left / 4).clamp(PAUSES.0, PAUSES.1),
                false => left.saturating_sub(AHEAD).max(left / 2),
            })
            .await;
            if self.left().is_none_or(|left| !self.turn.may_outlive(left)) {
                return std::future::pending().await;
            }
            let Err(problem) = self.give_a_fresh_one().await else {
                tracing::debug!(place = %self.lease.place(), "the running turn has a fresh token");
                self.has_warned = false;
                continue;
            };
            if !std::mem::replace(&mut self.has_warned, true) {
                return problem;
            }
            tracing::debug!(%problem, "no fresh token yet");
        }
    }

    /// How long the CLI takes what it holds for good.
    fn left(&self) -> Option<Duration> {
        Some(self.told?.duration_since(SystemTime::now()).unwrap_or_default())
    }

    /// Borrows a fresh token and hands it over; or says why the CLI has none.
    async fn give_a_fresh_one(&mut self) -> Result<(), String> {
        if !self.has_one_at_hand() {
            self.borrow().await.map_err(|error| error.to_string())?;
        }
        if !self.has_one_at_hand() || self.lease.credential().expires_at == self.held.expires_at {
            return Err(format!(
                "{} gives no fresh token yet, and the one in use runs out",
                self.lease.place()
            ));
        }
        self.hand_over().await.map_err(|error| format!("a fresh token cannot be handed over: {error}"))
    }

    /// Whether a token that is good was borrowed and never handed over.
    fn has_one_at_hand(&self) -> bool {
        let is_over = self.lease.life_left(OPENING, SystemTime::now()).is_some_and(|left| left.is_zero());
        self.lease.credential().token != self.held.token && !is_over
    }

    /// Borrows anew. Whatever came is known to the redactor before anything else is done with it.
    async fn borrow(&mut self) -> Result<(), CredentialError> {
        if self.lease.renew(self.turn.term()).await? {
            self.redactor.learn(self.lease.credential().token.expose());
        }
        Ok(())
    }

    /// Puts the file where the CLI finds it when its token has run out.
    async fn hand_over(&mut self) -> io::Result<()> {
        let Some(gate) = self.gate.take() else { return self.put() };
        let handed = self.hand_over_between_tools(&gate).await;
        gate.close();
        self.gate = Some(gate);
        handed
    }

    async fn hand_over_between_tools(&mut self, gate: &Gate) -> io::Result<()> {
        let Some(told) = self.told else { return Ok(()) };
        let until = |at: SystemTime| at.duration_since(SystemTime::now()).unwrap_or_default();
        sleep(until(told).saturating_sub(OPENING)).await;
        gate.open()?;
        sleep(until(told).min(OPENING / 2)).await;
        // What the model had said when the CLI was about to call it and found the file.
        let mut said = None;
        let mut asks_again = self.best_before();
        loop {
            // A tool may take longer than a token lives.
            if asks_again.is_some_and(|at| at <= SystemTime::now()) {
                if let Err(error) = self.borrow().await {
                    tracing::debug!(%error, "no fresher token for a turn that is busy");
                }
                asks_again = self.best_before().map(|at| at.max(SystemTime::now() + PAUSES.1));
            }
            {
                let visit = gate.visit();
                // It was called, and has answered: with whatever tool there is by now.
                if said.is_some_and(|said| gate.words() > said) {
                    break;
                }
                match visit.moment {
                    Moment::Busy => said = None,
                    Moment::Idle if self.file.exists() => {}
                    Moment::Idle => self.put()?,
                    Moment::BeforeModel => {
                        self.put()?;
                        said = (SystemTime::now() >= told).then(|| gate.words());
                    }
                }
            }
            sleep(TICK).await;
        }
        self.lease.erase();
        Ok(())
    }

    /// When the token at hand is no longer one to begin with.
    fn best_before(&self) -> Option<SystemTime> {
        let left = self.lease.life_left(Duration::ZERO, SystemTime::now())?;
        let end = self.lease.credential().expires_at?;
        end.checked_sub(AHEAD.min(left / 2))
    }

    fn put(&mut self) -> io::Result<()> {
        self.told = home::lend(&mut self.lease, &self.file, self.billing)?;
        self.held = self.lease.credential().clone();
        Ok(())
    }
}
