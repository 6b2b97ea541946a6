//! The credential manager: lends the access token of an owned login, and never presents a refresh token twice.
//!
//! | module | contents |
//! | --- | --- |
//! | `managed_login` | the login with its strategy, stores, lock, clock and shared state |
//! | `decision` | decides if a request needs a refresh |
//! | `wait` | waits for a refresh elsewhere, or starts one |
//! | `refresh` | one refresh under the lock |
//! | `write`, `pending_write` | writing the refreshed login; a refreshed login that could not be written |
//! | `sign_in_out` | sign-in and log-out |
//! | `shared` | state shared by the managers of one login in this process |
//! | `in_flight`, `finish` | operations that must not be interrupted, and waiting for them |
//! | `store_access` | calls of a store that may block or panic |

mod decision;
mod finish;
mod in_flight;
mod managed_login;
mod pending_write;
mod refresh;
mod shared;
mod sign_in_out;
mod store_access;
mod wait;
mod write;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use nexus_core::{Credential, CredentialError, CredentialSource, Standing};

pub use finish::finish_refreshes;
pub use sign_in_out::{LogOut, LoginError};

use self::decision::{RefreshDecision, TokenRequest};
use self::managed_login::ManagedLogin;
use self::shared::SharedState;
use super::lock::RefreshLock;
use super::store::{LoginStore, StorePlace, StoredLogin, TokenStore};
use super::{Clock, SignIn, SystemClock};

/// Owns one login: lends its access token, and refreshes it when a caller needs a fresher one.
///
/// Any number of credential managers may own the same login, in any number of tasks, threads and processes: they coordinate through
/// its lock and its store. A manager that needs a fresher token takes the refresh lock, reads the store again, makes sure that a new
/// login can be written, spends the refresh token once, and writes the new login so that it survives a power failure. Only then is
/// the token lent. Other waiting managers take the written login.
///
/// - A valid token keeps working during and after any refresh.
/// - A refresh that the issuer refused is recorded in the store. No manager spends that token again; a person has to sign in.
/// - After a refresh that failed otherwise, or that brought no fresher token, all credential managers of this process pause
///   requests to the issuer for 5 seconds.
/// - A new login that cannot be written is not lent. It stays in memory, with its lock, and the write is repeated until it
///   succeeds.
/// - A refresh that has begun runs to its end, even if the future that began it is dropped: it runs on a task of its own,
///   which ends early only with its runtime. A program that is about to end waits for it: [`finish_refreshes`].
///
/// All of it needs a [Tokio](tokio) runtime with time enabled. Nothing here blocks it.
///
/// # Network homes
///
/// The lock is the kernel's ([`std::fs::File::try_lock`]). It works between all processes of one machine, in containers or not,
/// and between machines if the file system passes locks on (NFS with its lock manager does). A file system without locks is
/// refused with an error: put `NEXUS_HOME` on a local file system.
///
/// # Example
///
/// ```
/// use std::{sync::Arc, time::{Duration, SystemTime}};
///
/// use nexus_auth::{
///     CredentialSource, Login, CredentialManager, LoginScreen, LoginStep, RefreshError, Revocation, SignIn, SignInError,
///     store::MemoryStore,
/// };
/// use nexus_core::Secret;
///
/// /// Hands out visitor's passes.
/// #[derive(Debug)]
/// struct PassOffice;
///
/// #[async_trait::async_trait]
/// impl SignIn for PassOffice {
///     fn name(&self) -> &str {
///         "pass-office"
///     }
///
///     fn remedy(&self) -> String {
///         "ask at the pass office".into()
///     }
///
///     async fn sign_in(&self, screen: &mut dyn LoginScreen) -> Result<Login, SignInError> {
///         screen.show(&LoginStep::Note("welcome".into()));
///         let pass = Login::new(Secret::new("pass-1"), SystemTime::now());
///         Ok(pass.with_lifetime(Some(Duration::from_secs(3600))).with_refresh_token(Some(Secret::new("stub-1"))))
///     }
///
///     async fn refresh(&self, login: &Login) -> Result<Login, RefreshError> {
///         match login.refresh_token.as_ref().map(Secret::expose) {
///             Some("stub-1") => Ok(Login::new(Secret::new("pass-2"), SystemTime::now())),
///             _ => Err(RefreshError::Refused { reason: "invalid_grant".into() }),
///         }
///     }
///
///     async fn revoke(&self, _login: &Login) -> Result<Revocation, RefreshError> {
///         Ok(Revocation::NotOffered)
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let scratch = tempfile::tempdir()?;
/// # let lock_folder = scratch.path();
/// let manager = CredentialManager::new(Arc::new(PassOffice), Arc::new(MemoryStore::new()), lock_folder);
/// manager.sign_in(&mut |step: &LoginStep| println!("{step:?}")).await?;
///
/// let lent = manager.credential(Duration::from_secs(600)).await?;
/// assert_eq!(lent.token.expose(), "pass-1");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct CredentialManager {
    managed: ManagedLogin,
}

impl CredentialManager {
    /// Creates the manager of a login that `sign_in` obtains and `store` stores. All managers that use the same store
    /// must have the same `lock_folder`. The folder is created when it is first needed.
    pub fn new(
        sign_in: Arc<dyn SignIn>,
        store: Arc<dyn TokenStore>,
        lock_folder: impl Into<PathBuf>,
    ) -> Self {
        let lock = RefreshLock::new(lock_folder, sign_in.name());
        // This pair identifies the login, so all its managers in this process share their state.
        let shared = SharedState::of((lock.path(), store.identity()));
        let managed = ManagedLogin {
            sign_in,
            store_of_new: Arc::clone(&store),
            store,
            lock: Arc::new(lock),
            clock: Arc::new(SystemClock),
            shared,
        };
        Self { managed }
    }

    /// Creates the manager of the login below `nexus_home`, in `auth/`. An existing login stays in its store; a first
    /// login is stored in a file.
    pub fn at_home(sign_in: Arc<dyn SignIn>, nexus_home: &Path) -> Self {
        let store = LoginStore::at(nexus_home, sign_in.name());
        Self::new(sign_in, Arc::new(store), nexus_home.join("auth"))
    }

    /// [`CredentialManager::at_home`] with the store in which [`CredentialManager::sign_in`] writes a new
    /// login, even if the earlier login is in another store.
    pub fn at_home_in(sign_in: Arc<dyn SignIn>, nexus_home: &Path, place: StorePlace) -> Self {
        let store = LoginStore::at(nexus_home, sign_in.name());
        let store_of_new = store.clone().moving_to(place);
        let mut manager = Self::new(sign_in, Arc::new(store), nexus_home.join("auth"));
        manager.managed.store_of_new = Arc::new(store_of_new);
        manager
    }

    /// Replaces the system clock. The strategy must use the same clock.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.managed.clock = clock;
        self
    }

    /// Returns the location of the login, for messages.
    pub fn place(&self) -> String {
        self.managed.place()
    }

    /// Returns the strategy that obtains and refreshes the login.
    pub fn sign_in_strategy(&self) -> &dyn SignIn {
        &*self.managed.sign_in
    }

    /// Reads the stored login, and adds a refusal that could not be recorded in the store. Takes no lock, uses no
    /// network and changes nothing.
    ///
    /// # Errors
    ///
    /// [`CredentialError::Unreadable`].
    pub async fn look(&self) -> Result<Option<StoredLogin>, CredentialError> {
        self.managed.look().await
    }

    /// Returns a credential for the request, or `None` if the refused token is the only one.
    async fn lend(&self, request: TokenRequest) -> Result<Option<Credential>, CredentialError> {
        let managed = &self.managed;
        let stored = managed.look().await?.ok_or_else(|| managed.missing())?;
        match managed.settle(&request, &stored) {
            Some(settled) => settled,
            None => managed.wait_for_refresh(&request, stored).await,
        }
    }
}

#[async_trait]
impl CredentialSource for CredentialManager {
    fn describe(&self) -> String {
        format!("the login {} in {}", self.managed.sign_in.name(), self.place())
    }

    async fn standing(&self) -> Result<Standing, CredentialError> {
        let stored = self.look().await?.ok_or_else(|| self.managed.missing())?;
        let is_renewable = stored.refused.is_none() && stored.login.refresh_token.is_some();
        let request = TokenRequest::of_life(Duration::ZERO);
        if let RefreshDecision::Ended(reason) = request.decide(&stored, self.managed.now()) {
            return Err(self.managed.over(reason));
        }
        let mut standing = Standing::default();
        standing.expires_at = stored.login.expires_at;
        standing.is_renewable = is_renewable;
        Ok(standing)
    }

    async fn credential(&self, life: Duration) -> Result<Credential, CredentialError> {
        // `lend` returns `None` only for a request that names a refused token.
        self.lend(TokenRequest::of_life(life)).await?.ok_or_else(|| self.managed.missing())
    }

    async fn renewed(
        &self,
        refused: &Credential,
        life: Duration,
    ) -> Result<Option<Credential>, CredentialError> {
        self.lend(TokenRequest::instead_of(refused.token.clone(), life)).await
    }
}
