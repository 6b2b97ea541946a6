//! The owner's side: lends access tokens of this machine's logins to the listed machines, while its worker runs.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use async_nats::Subscriber;
use futures::StreamExt as _;
use nexus_core::{Credential, CredentialError, CredentialSource};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinSet,
    time::{Instant, timeout},
};

use super::fingerprint;
use crate::{
    error::FleetError,
    link::Link,
    protocol::{
        LentToken, LoginAnswer, LoginFailure, LoginFailureKind, LoginOutcome, LoginQuestion, LoginRefusal,
        LoginReply, LoginRequest, PROTOCOL_VERSION,
    },
    sealing_key::{FleetKey, PublicKey},
    settings::FleetSettings,
    started_key::now_milliseconds,
};

/// Maximum size of a request, in bytes. A typical request has about 500.
const MAX_REQUEST_BYTES: usize = 4 << 10;
/// Maximum number of concurrent questions of one machine. Each program of the machine may have one.
const QUESTIONS_AT_ONCE: usize = 16;
/// Maximum number of refusals that are answered per second. Further ones get no answer.
const REFUSALS_PER_SECOND: u32 = 64;
/// Maximum remaining life that a request may demand. Source: a turn waits a day at most.
const MAX_LIFE: Duration = Duration::from_secs(24 * 3600);
/// Maximum difference between the clocks of two machines. Source: our own choice, the same as Kerberos.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(300);
/// Time limit of a source. Source: a refresh takes 45 s, and waiting for another refresh up to 100 s.
const LONGEST_LENDING: Duration = Duration::from_secs(110);

/// The logins that this worker owns.
#[derive(Debug)]
pub(crate) struct TokenProvider {
    key: FleetKey,
    logins: BTreeMap<String, Owned>,
    /// Machines that may have tokens of at least one login, by public key.
    borrowers: HashMap<String, Borrower>,
}

#[derive(Debug)]
struct Owned {
    /// Source of the tokens. `None` until the program sets it.
    source: Option<Arc<dyn CredentialSource>>,
    shared_with: BTreeSet<String>,
}

#[derive(Clone, Debug)]
struct Borrower {
    key: PublicKey,
    permits: Arc<Semaphore>,
}

/// Question whose sender was verified. The answer is sealed.
struct AdmittedQuestion {
    question: LoginQuestion,
    /// The borrower's public key.
    by: String,
    borrower: Borrower,
    _permit: OwnedSemaphorePermit,
}

impl TokenProvider {
    /// Returns the logins that `worker` of `pool` owns by these settings. `None`: it owns none.
    ///
    /// # Errors
    ///
    /// [`FleetError::LoginOwner`]: the settings name the worker as an owner, but its key is missing or differs from the
    /// settings.
    pub(crate) fn of(settings: &FleetSettings, pool: &str, worker: &str) -> Result<Option<Self>, FleetError> {
        let owned: Vec<_> =
            settings.login_owner.iter().filter(|(_, owner)| owner.is_worker(pool, worker)).collect();
        let Some((first, _)) = owned.first() else { return Ok(None) };
        let refused =
            |login: &str, reason: String| FleetError::LoginOwner { login: login.to_owned(), reason };
        let Some(file) = &settings.key_file else {
            return Err(refused(first, "no `key_file` is named under `fleet`".to_owned()));
        };
        let key = FleetKey::read(file)?.ok_or_else(|| {
            let reason = format!(
                "this worker is its owner, but {} does not exist: run `nexus fleet key`, and write its \
                output as `key`",
                file.display()
            );
            refused(first, reason)
        })?;
        let mut provider = Self { key, logins: BTreeMap::new(), borrowers: HashMap::new() };
        for (login, owner) in owned {
            let own = provider.key.public();
            if owner.key != own {
                let reason = format!(
                    "this worker is its owner, but the key of this machine is {own}: write it as `key` of \
                     `login_owner.{login}` on all machines"
                );
                return Err(refused(login, reason));
            }
            for listed in &owner.shared_with {
                let key = PublicKey::read(listed).map_err(|fault| refused(login, fault.to_owned()))?;
                let borrower = || Borrower { key, permits: Arc::new(Semaphore::new(QUESTIONS_AT_ONCE)) };
                provider.borrowers.entry(listed.clone()).or_insert_with(borrower);
            }
            let shared_with = owner.shared_with.iter().cloned().collect();
            provider.logins.insert(login.clone(), Owned { source: None, shared_with });
        }
        Ok(Some(provider))
    }

    /// Returns the logins, each with the number of machines that may borrow it.
    pub(crate) fn logins(&self) -> impl Iterator<Item = (&str, usize)> {
        self.logins.iter().map(|(login, owned)| (login.as_str(), owned.shared_with.len()))
    }

    /// Adds the source of a login. Ignores a login that this machine does not own.
    pub(crate) fn add(&mut self, login: &str, source: Arc<dyn CredentialSource>) {
        if let Some(owned) = self.logins.get_mut(login) {
            owned.source = Some(source);
        }
    }

    /// Checks that each login has a source.
    ///
    /// # Errors
    ///
    /// [`FleetError::LoginOwner`]
    pub(crate) fn check(&self) -> Result<(), FleetError> {
        let Some((login, _)) = self.logins.iter().find(|(_, owned)| owned.source.is_none()) else {
            return Ok(());
        };
        let reason = "this worker is its owner, but the program names no source of it (`Worker::with_login`)";
        Err(FleetError::LoginOwner { login: login.clone(), reason: reason.to_owned() })
    }

    /// Answers requests until the connection ends.
    pub(crate) async fn serve(self: Arc<Self>, mut requests: Subscriber, link: Link) {
        let (mut answering, mut refusals) = (JoinSet::new(), Refusals::default());
        loop {
            let message = tokio::select! {
                message = requests.next() => message,
                Some(_) = answering.join_next(), if !answering.is_empty() => continue,
            };
            let Some(message) = message else { return };
            // Without a reply subject, nothing could receive the answer.
            let Some(reply) = message.reply else { continue };
            match self.admit(&message.payload) {
                Ok(admitted) => {
                    let (provider, link) = (Arc::clone(&self), link.clone());
                    answering.spawn(async move {
                        if let Some(answer) = provider.answer(admitted).await {
                            link.nats.send(&reply, answer);
                        }
                    });
                }
                Err(Some(refusal)) if refusals.may_answer() => {
                    tracing::warn!(?refusal, "a request for an access token is rejected");
                    if let Ok(answer) = serde_json::to_vec(&LoginAnswer::Refused(refusal)) {
                        link.nats.send(&reply, answer);
                    }
                }
                Err(_) => {}
            }
        }
    }

    /// Opens a request after checking that its sender is listed. `None` in the error: the message is not a
    /// request at all.
    fn admit(&self, payload: &[u8]) -> Result<AdmittedQuestion, Option<LoginRefusal>> {
        if payload.len() > MAX_REQUEST_BYTES {
            return Err(None);
        }
        let request: LoginRequest = serde_json::from_slice(payload).map_err(|_| None)?;
        if request.version > PROTOCOL_VERSION {
            return Err(Some(LoginRefusal::Version));
        }
        let borrower = self.borrowers.get(&request.key).ok_or(Some(LoginRefusal::NotShared))?;
        // Take the permit before the seal is opened, because opening it costs time.
        let permit = Arc::clone(&borrower.permits).try_acquire_owned();
        let permit = permit.map_err(|_| Some(LoginRefusal::Busy))?;
        let question = self.key.open(&request.sealed, &borrower.key).ok_or(Some(LoginRefusal::Seal))?;
        Ok(AdmittedQuestion { question, by: request.key, borrower: borrower.clone(), _permit: permit })
    }

    /// Returns the answer, sealed to the machine that sent the question.
    async fn answer(&self, admitted: AdmittedQuestion) -> Option<Vec<u8>> {
        let AdmittedQuestion { question, by, borrower, _permit } = admitted;
        let outcome = match self.source_for(&question, &by) {
            Ok(source) => match timeout(LONGEST_LENDING, lend(source, &question)).await {
                Ok(outcome) => outcome,
                Err(_elapsed) => LoginOutcome::Failed(LoginFailure {
                    kind: LoginFailureKind::Unreachable,
                    place: source.describe(),
                    reason: "it took too long".to_owned(),
                    remedy: String::new(),
                }),
            },
            Err(failure) => LoginOutcome::Failed(failure),
        };
        match &outcome {
            LoginOutcome::Lent(_) => {
                tracing::debug!(login = question.login, to = by, "an access token is lent");
            }
            LoginOutcome::NoOther => {
                tracing::debug!(login = question.login, to = by, "there is no other access token");
            }
            LoginOutcome::Failed(failure) => {
                tracing::warn!(login = question.login, to = by, kind = ?failure.kind, "no access token can be lent");
            }
        }
        // The answer repeats the request's id, so that an old answer cannot stand for this one.
        let reply = LoginReply { request: question.request, login: question.login, outcome };
        let sealed = self.key.seal(&reply, &borrower.key)?;
        serde_json::to_vec(&LoginAnswer::Sealed(sealed)).ok()
    }

    fn source_for(
        &self,
        question: &LoginQuestion,
        by: &str,
    ) -> Result<&Arc<dyn CredentialSource>, LoginFailure> {
        let refused = |reason: String, remedy: &str| LoginFailure {
            kind: LoginFailureKind::Refused,
            place: question.login.clone(),
            reason,
            remedy: remedy.to_owned(),
        };
        // The time is inside of the seal, so a recorded request is useless after a few minutes.
        let apart = now_milliseconds().abs_diff(question.sent_at);
        if Duration::from_millis(apart) > CLOCK_TOLERANCE {
            let reason = format!("the clocks of the two machines are {} s apart", apart / 1_000);
            return Err(refused(reason, "and here: set the clocks"));
        }
        let owned = self.logins.get(&question.login).filter(|owned| owned.shared_with.contains(by));
        let source = owned.and_then(|owned| owned.source.as_ref());
        source.ok_or_else(|| {
            let remedy = format!("add the key to `shared_with` of `fleet.login_owner.{}`", question.login);
            refused(format!("because it is not shared with {by}"), &remedy)
        })
    }
}

/// Lends a token of this machine's login.
async fn lend(source: &Arc<dyn CredentialSource>, question: &LoginQuestion) -> LoginOutcome {
    match lent(&**source, question).await {
        Ok(Some(credential)) => LoginOutcome::Lent(LentToken {
            token: credential.token,
            account: credential.account,
            expires_at: credential.expires_at.map(|at| {
                let since = at.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
                u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
            }),
        }),
        Ok(None) => LoginOutcome::NoOther,
        Err(error) => LoginOutcome::Failed(error.into()),
    }
}

async fn lent(
    source: &dyn CredentialSource,
    question: &LoginQuestion,
) -> Result<Option<Credential>, CredentialError> {
    let life = Duration::from_secs(question.life).min(MAX_LIFE);
    let current = source.credential(life).await?;
    match &question.instead_of {
        // The current token is the refused one: refresh it, once for all borrowers that report it.
        Some(refused) if fingerprint(current.token.expose()) == *refused => {
            source.renewed(&current, life).await
        }
        _ => Ok(Some(current)),
    }
}

/// Counts the answered refusals of the current second.
#[derive(Default)]
struct Refusals {
    since: Option<Instant>,
    count: u32,
}

impl Refusals {
    fn may_answer(&mut self) -> bool {
        if self.since.is_none_or(|since| since.elapsed() >= Duration::from_secs(1)) {
            *self = Self { since: Some(Instant::now()), count: 0 };
        }
        self.count += 1;
        self.count <= REFUSALS_PER_SECOND
    }
}

#[cfg(test)]
mod tests;
