//! A login of another machine: a credential source that asks the owner, and caches the lent token in memory.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use async_trait::async_trait;
use futures::{FutureExt as _, future::Shared};
use nexus_core::{Credential, CredentialError, CredentialSource, Standing};
use tokio::{sync::oneshot, time::Instant};

use super::{fingerprint, question::CredentialQuestion};
use crate::{
    fleet::Fleet,
    login_owner::LoginOwner,
    protocol::{LentToken, LoginFailure, LoginOutcome},
    sealing_key::FleetKey,
};

/// Minimum remaining life of a cached token for use without a request to the owner. The owner would refresh a shorter one.
const MIN_REMAINING_LIFE: Duration = Duration::from_secs(5 * 60);
/// Longest wait for the owner while a cached token is valid.
const PATIENCE_WITH_TOKEN: Duration = Duration::from_secs(10);
/// Time without requests to the owner after a failure, while a cached token is valid.
const LEFT_ALONE_FOR: Duration = Duration::from_secs(5);
/// Time for which a token without a known expiry is used before the next request. The owner may have a newer one by then.
const ASK_AGAIN_AFTER: Duration = Duration::from_secs(5 * 60);

/// Lends the tokens of a login that another machine owns. Clones in one process share the token and the running questions.
pub(super) struct SharedLogin(Arc<BorrowedLogin>);

/// Borrowed login that clones share.
struct BorrowedLogin {
    fleet: Fleet,
    login: String,
    owner: LoginOwner,
    /// Key of this machine. It is read at the first use: a machine whose turns all run elsewhere needs none.
    key: Mutex<Option<FleetKey>>,
    state: Mutex<LoanState>,
}

/// Lent credential, and the running questions.
#[derive(Default)]
struct LoanState {
    lent: Option<Lent>,
    /// Running questions, by the fingerprint of the refused token.
    under_way: HashMap<Option<String>, UnderWay>,
    failed_at: Option<Instant>,
}

#[derive(Clone)]
struct Lent {
    credential: Credential,
    at: Instant,
}

#[derive(Clone)]
struct UnderWay {
    life: Duration,
    answer: Shared<oneshot::Receiver<CredentialAnswer>>,
}

/// Answer to a question: a credential, `None` if the refused one is the only one, or the owner's failure.
type CredentialAnswer = Result<Option<Credential>, LoginFailure>;

impl SharedLogin {
    pub(super) fn new(fleet: Fleet, login: String, owner: LoginOwner) -> Self {
        Self(Arc::new(BorrowedLogin { fleet, login, owner, key: Mutex::default(), state: Mutex::default() }))
    }

    /// Asks the owner, or waits for the running question of another turn with the same content.
    async fn ask(
        &self,
        life: Duration,
        instead_of: Option<String>,
    ) -> Result<Option<Credential>, CredentialError> {
        loop {
            // The owner limits the concurrent questions of a machine, so turns with the same question share one.
            let under_way = self.0.begin(life, instead_of.clone())?;
            let answer = match self.0.usable(instead_of.as_deref(), Duration::ZERO) {
                // A valid token exists, so a slow owner must not delay the turn for long.
                Some(alive) => match tokio::time::timeout(PATIENCE_WITH_TOKEN, under_way.answer).await {
                    Ok(answer) => answer,
                    Err(_elapsed) => {
                        self.0.lock().failed_at = Some(Instant::now());
                        return Ok(Some(alive));
                    }
                },
                None => under_way.answer.await,
            };
            let answer = answer.unwrap_or_else(|_gone| {
                let reason = "the connection of the fleet ended".to_owned();
                Err(self.0.unreachable(reason).into())
            });
            match answer {
                // Another turn asked for a shorter life, which is too short for this turn: ask again.
                Ok(Some(credential)) if under_way.life < life && !lives(&credential, life) => {}
                Ok(credential) => return Ok(credential),
                Err(failure) => {
                    return match self.0.usable(instead_of.as_deref(), Duration::ZERO) {
                        Some(alive) => Ok(Some(alive)),
                        None => Err(failure.into_error()),
                    };
                }
            }
        }
    }
}

#[async_trait]
impl CredentialSource for SharedLogin {
    fn describe(&self) -> String {
        format!("the login {}, which {} lends", self.0.login, self.0.owner.describe())
    }

    async fn standing(&self) -> Result<Standing, CredentialError> {
        self.0.key()?;
        let lent = self.0.usable(None, Duration::ZERO);
        Ok(Standing::new(lent.and_then(|credential| credential.expires_at), true))
    }

    async fn credential(&self, life: Duration) -> Result<Credential, CredentialError> {
        let inner = &self.0;
        if let Some(credential) = inner.usable(None, life.max(MIN_REMAINING_LIFE)) {
            return Ok(credential);
        }
        if let Some(credential) = inner.usable(None, Duration::ZERO)
            // The owner did not answer a moment ago. Use the valid token instead of another wait.
            && inner.failed_lately()
        {
            return Ok(credential);
        }
        self.ask(life, None).await?.ok_or_else(|| CredentialError::Malformed {
            place: inner.place(),
            reason: "it has no other token, and none was rejected".to_owned(),
        })
    }

    async fn renewed(
        &self,
        refused: &Credential,
        life: Duration,
    ) -> Result<Option<Credential>, CredentialError> {
        // Send a fingerprint: the refused token itself need not leave this machine.
        let refused = fingerprint(refused.token.expose());
        // The vendor refused the same token in another turn, which already received a new one.
        if let Some(credential) = self.0.usable(Some(&refused), life.max(MIN_REMAINING_LIFE)) {
            return Ok(Some(credential));
        }
        self.ask(life, Some(refused)).await
    }
}

impl BorrowedLogin {
    fn lock(&self) -> MutexGuard<'_, LoanState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the cached token, if it is not the refused one and lives this long.
    fn usable(&self, refused: Option<&str>, life: Duration) -> Option<Credential> {
        let lent = self.lock().lent.clone()?;
        let is_refused =
            refused.is_some_and(|refused| fingerprint(lent.credential.token.expose()) == refused);
        let is_old =
            lent.credential.expires_at.is_none() && !life.is_zero() && lent.at.elapsed() >= ASK_AGAIN_AFTER;
        (!is_refused && !is_old && lives(&lent.credential, life)).then_some(lent.credential)
    }

    fn failed_lately(&self) -> bool {
        self.lock().failed_at.is_some_and(|at| at.elapsed() < LEFT_ALONE_FOR)
    }

    /// Returns the running question, or starts it. It continues without waiting receivers.
    fn begin(
        self: &Arc<Self>,
        life: Duration,
        instead_of: Option<String>,
    ) -> Result<UnderWay, CredentialError> {
        let key = self.key()?;
        let mut state = self.lock();
        if let Some(under_way) = state.under_way.get(&instead_of) {
            return Ok(under_way.clone());
        }
        let (sender, answer) = oneshot::channel();
        let under_way = UnderWay { life, answer: answer.shared() };
        state.under_way.insert(instead_of.clone(), under_way.clone());
        drop(state);
        let entry = QuestionGuard { inner: Arc::clone(self), question: instead_of.clone() };
        let (owner, login) = (self.owner.clone(), self.login.clone());
        let question = CredentialQuestion { key, owner, login, life, instead_of };
        self.fleet.0.start(async move {
            let inner = Arc::clone(&entry.inner);
            let answer = inner.put(question).await;
            // Store the token before the entry is removed, so that no turn asks in between.
            inner.keep(&answer);
            // Remove the entry before the answer is sent: a later request then finds the token or asks again.
            drop(entry);
            let _ = sender.send(answer);
        });
        Ok(under_way)
    }

    async fn put(&self, question: CredentialQuestion) -> CredentialAnswer {
        let link = self.fleet.0.link().await.map_err(|error| self.unreachable(error.to_string()))?;
        match question.ask(&link).await? {
            LoginOutcome::Lent(lent) => self.credential_of(lent).map(Some),
            LoginOutcome::NoOther => Ok(None),
            LoginOutcome::Failed(failure) => Err(failure.at(&self.owner.describe())),
        }
    }

    fn credential_of(&self, lent: LentToken) -> Result<Credential, LoginFailure> {
        let malformed = |reason: &str| {
            CredentialError::Malformed { place: self.place(), reason: reason.to_owned() }.into()
        };
        if lent.token.expose().is_empty() {
            return Err(malformed("the token is empty"));
        }
        let mut credential = Credential::new(lent.token);
        if let Some(at) = lent.expires_at {
            let at = UNIX_EPOCH.checked_add(Duration::from_millis(at));
            credential.expires_at =
                Some(at.ok_or_else(|| malformed("the end of the token is not a valid time"))?);
        }
        // An expired token would be requested again and again. The likely cause is a wrong clock.
        if !lives(&credential, Duration::ZERO) {
            return Err(malformed(
                "the token has expired by the clock of this machine: set the clocks of both",
            ));
        }
        credential.account = lent.account;
        Ok(credential)
    }

    fn keep(&self, answer: &CredentialAnswer) {
        let mut state = self.lock();
        match answer {
            Ok(Some(credential)) => {
                state.lent = Some(Lent { credential: credential.clone(), at: Instant::now() });
                state.failed_at = None;
            }
            Ok(None) => state.failed_at = None,
            Err(_) => state.failed_at = Some(Instant::now()),
        }
    }

    /// Returns the key of this machine, if the login is shared with it.
    fn key(&self) -> Result<FleetKey, CredentialError> {
        let mut kept = self.key.lock().unwrap_or_else(PoisonError::into_inner);
        let key = match &*kept {
            Some(key) => key.clone(),
            None => kept.insert(self.read_key()?).clone(),
        };
        drop(kept);
        if self.owner.shared_with.iter().any(|listed| listed == key.public()) {
            return Ok(key);
        }
        let (place, public) = (self.place(), key.public());
        Err(CredentialError::Refused {
            place,
            reason: format!("because it is not shared with the key of this machine, {public}"),
            remedy: format!(
                "add the key to `shared_with` of `fleet.login_owner.{}`, here and at the owner",
                self.login
            ),
        })
    }

    fn read_key(&self) -> Result<FleetKey, CredentialError> {
        let Some(file) = &self.fleet.settings().key_file else {
            return Err(CredentialError::Unreadable {
                place: self.place(),
                reason: "no `key_file` is named under `fleet`".to_owned(),
            });
        };
        let place = file.display().to_string();
        match FleetKey::read(file) {
            Ok(Some(key)) => Ok(key),
            Ok(None) => Err(CredentialError::Missing {
                place,
                remedy: format!(
                    "run `nexus fleet key`, and add its output to `shared_with` of `fleet.login_owner.{}`",
                    self.login
                ),
            }),
            Err(error) => Err(CredentialError::Unreadable { place, reason: error.to_string() }),
        }
    }

    fn place(&self) -> String {
        format!("{} of {}", self.login, self.owner.describe())
    }

    fn unreachable(&self, reason: String) -> CredentialError {
        CredentialError::Unreachable { place: self.place(), reason }
    }
}

/// Guard that removes a running question, even if its task is dropped.
struct QuestionGuard {
    inner: Arc<BorrowedLogin>,
    question: Option<String>,
}

impl Drop for QuestionGuard {
    fn drop(&mut self) {
        self.inner.lock().under_way.remove(&self.question);
    }
}

/// Returns true if a token stays valid for this long, as far as its expiry is known.
fn lives(credential: &Credential, life: Duration) -> bool {
    let Some(end) = credential.expires_at else { return true };
    end.duration_since(SystemTime::now()).is_ok_and(|left| !left.is_zero() && left >= life)
}

impl fmt::Debug for SharedLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedLogin")
            .field("login", &self.0.login)
            .field("owner", &self.0.owner.describe())
            .finish_non_exhaustive()
    }
}
