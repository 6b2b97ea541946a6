//! A token that a program prints, such as the command-line tool of a cloud.

use std::{
    ffi::OsString,
    fmt,
    path::PathBuf,
    time::{Duration, Instant, SystemTime},
};

use async_trait::async_trait;
use nexus_core::{ErrorKind, Secret, harness::Failure};
use nexus_process::{
    environment::Environment,
    executable::Executable,
    spawn::{Bounds, EndedBy, ExitStatus, Invocation},
};
use tokio::sync::Mutex;
use zeroize::Zeroizing;

use super::token_text::{not_text, usable};
use super::{Credential, CredentialError, CredentialSource, Standing};

/// Time during which a token without a known lifetime is reused. Source: our own choice.
const REUSED: Duration = Duration::from_secs(300);
/// Longest run of the program, unless the owner sets another limit. Source: our own choice.
const TIME_LIMIT: Duration = Duration::from_secs(30);
/// Most output of the program, in bytes.
const MAX_OUTPUT_BYTES: usize = 64 << 10;
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
    program: OsString,
    arguments: Vec<OsString>,
    folder: PathBuf,
    environment: Environment,
    account: Option<String>,
    /// Time from the print to the end of the token, if its owner states it.
    lifetime: Option<Duration>,
    time_limit: Duration,
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
            program: program.into(),
            arguments: Vec::new(),
            folder: folder.into(),
            environment,
            account: None,
            lifetime: None,
            time_limit: TIME_LIMIT,
            known: Mutex::default(),
        }
    }

    /// Sets the arguments. Every process of the machine can read them.
    #[must_use]
    pub fn with_arguments(mut self, arguments: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.arguments = arguments.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the account that requests send beside the token.
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
        self.time_limit = limit.unwrap_or(TIME_LIMIT);
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

    /// Runs the program and stores its token. A caller that has waited since `asked` for a run that failed meanwhile gets
    /// that failure, so that a hanging program does not run once for each turn.
    async fn renew(&self, known: &mut LastRun, asked: Instant) -> Result<Credential, CredentialError> {
        let outcome = match &known.failed {
            Some((ended, reason)) if *ended > asked => Err(reason.clone()),
            _ => {
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
                known.printed = None;
                Err(CredentialError::Unreadable { place: self.describe(), reason })
            }
        }
    }

    fn executable(&self) -> Result<Executable, String> {
        Executable::find(&self.program, self.environment.value("PATH"))
            .map_err(|error| format!("{}: install it, or correct `credential.command`", words(&error)))
    }

    /// Runs the program. The error is the reason, without any of its output that may be secret.
    async fn print(&self) -> Result<Secret, String> {
        let mut bounds = Bounds::default();
        bounds.time_limit = Some(self.time_limit);
        let process = Invocation::new(self.executable()?, &self.folder)
            .arguments(&self.arguments)
            .environment(self.environment.clone())
            .bounds(bounds)
            .keep_output(MAX_OUTPUT_BYTES as u64, MAX_OUTPUT_BYTES)
            .spawn()
            .map_err(|error| format!("{}: correct `credential.command`", words(&error)))?;
        let exit = process.wait().await;
        let [output, _] = process.take_kept();
        let bytes = Zeroizing::new(output.head());
        match (exit.ended_by, exit.status) {
            (EndedBy::TimeLimit, _) => Err(format!(
                "the program did not end within {} s: run it in a terminal to see what it waits for, or set \
                 `credential.timeout`",
                self.time_limit.as_secs_f32()
            )),
            (EndedBy::OutputLimit, _) => Err(format!(
                "the program printed more than {MAX_OUTPUT_BYTES} bytes: `credential.command` must print the token alone"
            )),
            (_, status) if !status.is_success() => {
                let end = match status {
                    ExitStatus::Code(code) => format!("exited with code {code}"),
                    ExitStatus::Signal(signal) => format!("was ended by signal {signal}"),
                    ExitStatus::Unknown => "ended without a status".to_owned(),
                };
                Err(format!(
                    "the program {end}: run it in a terminal to see its error output, or correct `credential.command`"
                ))
            }
            _ => token_of(&bytes).map_err(|reason| match bytes.trim_ascii().is_empty() {
                true => format!("{reason}: run `credential.command` in a terminal to see its error output"),
                false => format!("{reason}: `credential.command` must print the token alone, on one line"),
            }),
        }
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

/// Returns the words of an error and of its causes.
fn words(error: &(dyn std::error::Error + 'static)) -> String {
    Failure::of(ErrorKind::Unauthenticated, error).message.unwrap_or_default()
}

impl fmt::Debug for CommandToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CommandToken({})", self.describe())
    }
}

#[async_trait]
impl CredentialSource for CommandToken {
    fn describe(&self) -> String {
        format!("the output of {} (`credential.command`)", self.program.display())
    }

    /// Does not run the program, because it may use the network.
    async fn standing(&self) -> Result<Standing, CredentialError> {
        if let Err(reason) = self.executable() {
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
