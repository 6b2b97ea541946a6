//! A token that a program prints, such as the command-line tool of a cloud.

use std::{
    ffi::OsString,
    fmt,
    path::PathBuf,
    time::{Duration, Instant, SystemTime},
};

use async_trait::async_trait;
use nexus_core::Secret;
use nexus_process::environment::Environment;
use tokio::sync::Mutex;

use super::printing_program::{PrintingProgram, TIME_LIMIT};
use super::token_text::{not_text, usable};
use super::{Credential, CredentialError, CredentialSource, Standing};

/// Time during which a token without a known lifetime is reused. Source: our own choice.
const REUSED: Duration = Duration::from_secs(300);
/// Validity of a token for which [`standing`](CredentialSource::standing) counts it as known. It exceeds what a probe needs, so
/// that the token is still fresh when the probe borrows it.
const KNOWN_LIFE: Duration = Duration::from_secs(120);

/// A token that a program prints on its standard output, alone on one line.
///
/// The program runs when a turn needs a token and no fresh one is known. Turns that need one at the same time share one
/// run. The token is in memory alone. No message contains the program's output or its standard error, because a program may
/// print a token on both, for example as a shell script with `set -x`.
///
/// Processes that the program starts end with it. An agent that must outlive a run, such as `gpg-agent`, is started before.
pub struct CommandToken {
    program: PrintingProgram,
    account: Option<String>,
    /// Time from the print to the end of the token, if its owner states it.
    lifetime: Option<Duration>,
    known: Mutex<LastRun>,
}

/// Outcome of the last run.
#[derive(Default)]
struct LastRun {
    printed: Option<PrintedToken>,
    /// End of the last run that failed, with its reason.
    failed: Option<(Instant, String)>,
    /// End of the last run that printed a token again that the server had rejected, with that token.
    repeated: Option<(Instant, Secret)>,
}

/// A token, and the time at which the program began to print it.
struct PrintedToken {
    token: Secret,
    at: SystemTime,
}

impl CommandToken {
    /// Creates a token that `program` prints. A program without a `/` is looked up in the `PATH` of `environment`. It runs in
    /// `folder`.
    pub fn new(program: impl Into<OsString>, folder: impl Into<PathBuf>, environment: Environment) -> Self {
        Self {
            program: PrintingProgram {
                program: program.into(),
                arguments: Vec::new(),
                folder: folder.into(),
                environment,
                time_limit: TIME_LIMIT,
                setting: "credential.command",
                printed: "the token alone",
            },
            account: None,
            lifetime: None,
            known: Mutex::default(),
        }
    }

    /// Sets the arguments. Every process of the machine can read them.
    #[must_use]
    pub fn with_arguments(mut self, arguments: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.program.arguments = arguments.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the account that requests send with the token.
    #[must_use]
    pub fn with_account(mut self, account: Option<String>) -> Self {
        self.account = account;
        self
    }

    /// Sets the time for which a printed token is valid. A turn gets a token that is valid for at least half of it.
    #[must_use]
    pub fn with_lifetime(mut self, lifetime: Option<Duration>) -> Self {
        self.lifetime = lifetime;
        self
    }

    /// Sets the longest run of the program. Default: 30 seconds.
    #[must_use]
    pub fn with_time_limit(mut self, limit: Option<Duration>) -> Self {
        self.program.time_limit = limit.unwrap_or(TIME_LIMIT);
        self
    }

    /// Returns true if the token may be lent for `life`.
    fn is_fresh(&self, printed: &PrintedToken, life: Duration) -> bool {
        // After a clock was set back, the age of the token is not known.
        let Ok(age) = printed.at.elapsed() else { return false };
        match self.lifetime {
            Some(lifetime) => lifetime.saturating_sub(age) > life.min(lifetime / 2),
            None => age < REUSED,
        }
    }

    fn lend(&self, printed: &PrintedToken) -> Credential {
        let mut credential = Credential::new(printed.token.clone());
        credential.account.clone_from(&self.account);
        credential.expires_at = self.expiry(printed);
        credential
    }

    fn expiry(&self, printed: &PrintedToken) -> Option<SystemTime> {
        printed.at.checked_add(self.lifetime?)
    }

    /// Runs the program and stores its token. `asked` is the time since which the caller waits. If a run has failed since
    /// then, returns that failure, so that a hanging program does not run once for each turn.
    async fn renew(&self, known: &mut LastRun, asked: Instant) -> Result<Credential, CredentialError> {
        let outcome = match &known.failed {
            // A run that failed while this caller waited counts for it too.
            Some((ended, reason)) if *ended > asked => Err(reason.clone()),
            _ => {
                // Count the lifetime from before the run, which can only underestimate it.
                let at = SystemTime::now();
                self.print().await.map(|token| PrintedToken { token, at }).inspect_err(|reason| {
                    known.failed = Some((Instant::now(), reason.clone()));
                })
            }
        };
        match outcome {
            Ok(printed) => {
                let credential = self.lend(&printed);
                known.printed = Some(printed);
                known.failed = None;
                Ok(credential)
            }
            Err(reason) => {
                // After a failed run, the earlier token is not lent again.
                known.printed = None;
                Err(CredentialError::Unreadable { place: self.describe(), reason })
            }
        }
    }

    /// Runs the program. The error is the reason, without any of its output that may be secret.
    async fn print(&self) -> Result<Secret, String> {
        let bytes = self.program.output().await?;
        token_of(&bytes).map_err(|reason| match bytes.trim_ascii().is_empty() {
            true => format!("{reason}: run `credential.command` in a terminal to see its error output"),
            false => format!("{reason}: `credential.command` must print the token alone, on one line"),
        })
    }
}

/// Returns the token that a program printed, or the reason why its output cannot be used.
fn token_of(output: &[u8]) -> Result<Secret, String> {
    let text =
        std::str::from_utf8(output).map_err(|_| format!("its output is no token: {}", not_text(output)))?;
    let lines = text.trim().lines().count();
    match lines {
        0 => Err("the program printed nothing on its standard output".to_owned()),
        1 => usable(text).map_err(|reason| format!("its output is no token: {reason}")),
        lines => Err(format!("the program printed {lines} lines")),
    }
}

impl fmt::Debug for CommandToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CommandToken({})", self.describe())
    }
}

#[async_trait]
impl CredentialSource for CommandToken {
    fn describe(&self) -> String {
        format!("the output of {} (`credential.command`)", self.program.program.display())
    }

    /// Does not run the program, because it may use the network.
    async fn standing(&self) -> Result<Standing, CredentialError> {
        if let Err(reason) = self.program.executable() {
            return Err(CredentialError::Unreadable { place: self.describe(), reason });
        }
        // During a run the lock is taken for up to the time limit. Do not wait for it.
        let known = self.known.try_lock().ok();
        let printed = known.as_ref().and_then(|known| known.printed.as_ref());
        let is_known = printed.is_some_and(|printed| self.is_fresh(printed, KNOWN_LIFE));
        let expires_at = printed.and_then(|printed| self.expiry(printed));
        Ok(Standing::new(expires_at, true).with_program(!is_known))
    }

    async fn credential(&self, life: Duration) -> Result<Credential, CredentialError> {
        let asked = Instant::now();
        let mut known = self.known.lock().await;
        match &known.printed {
            Some(printed) if self.is_fresh(printed, life) => Ok(self.lend(printed)),
            _ => self.renew(&mut known, asked).await,
        }
    }

    async fn renewed(
        &self,
        refused: &Credential,
        life: Duration,
    ) -> Result<Option<Credential>, CredentialError> {
        let asked = Instant::now();
        let mut known = self.known.lock().await;
        // A run that ended while this caller waited has already printed the refused token again.
        if known.repeated.as_ref().is_some_and(|(ended, token)| *ended > asked && *token == refused.token) {
            return Ok(None);
        }
        let credential = match &known.printed {
            // Another turn has already replaced the refused token.
            Some(printed) if printed.token != refused.token && self.is_fresh(printed, life) => {
                self.lend(printed)
            }
            _ => self.renew(&mut known, asked).await?,
        };
        if credential.token == refused.token {
            // The next turn must not get it without another run.
            known.printed = None;
            known.repeated = Some((Instant::now(), credential.token));
            return Ok(None);
        }
        Ok(Some(credential))
    }
}

#[cfg(test)]
mod tests;
