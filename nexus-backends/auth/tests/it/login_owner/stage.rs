//! A home with a login in it, and credential managers of it.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::{Duration, Instant, SystemTime},
};

use nexus_auth::{
    Clock, CredentialManager, Login, SystemClock,
    store::{LoginStore, StoredLogin, TokenStore},
};
use nexus_core::Secret;
use tempfile::TempDir;

use super::issuer::{FromIssuer, Issuer, NAME};

pub(crate) struct Stage {
    _scratch: TempDir,
    pub(crate) home: PathBuf,
    pub(crate) issuer: Issuer,
    pub(crate) clock: Arc<SetClock>,
}

/// How old a login is, out of an hour.
pub(crate) const ALIVE_AND_DUE: Duration = Duration::from_secs(3600 - 120);
pub(crate) const EXPIRED: Duration = Duration::from_secs(3601);
pub(crate) const FRESH: Duration = Duration::from_secs(60);

impl Stage {
    /// A login that lives for an hour and was obtained so long ago.
    pub(crate) fn with_login(age: Duration) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let home = scratch.path().join("home");
        let issuer = Issuer::new(&scratch.path().join("issuer"));
        let stage = Self { home, issuer, clock: Arc::new(SetClock::now()), _scratch: scratch };
        let (access, refresh, life) = stage.issuer.issue();
        let login = Login::new(Secret::new(access), stage.clock.now() - age)
            .with_refresh_token(Some(Secret::new(refresh)))
            .with_lifetime(Some(life));
        stage.write(&StoredLogin::new(login));
        stage
    }

    pub(crate) fn manager(&self) -> CredentialManager {
        let clock: Arc<dyn Clock> = Arc::clone(&self.clock) as _;
        let strategy = FromIssuer { issuer: self.issuer.clone(), clock: Arc::clone(&clock) };
        CredentialManager::at_home(Arc::new(strategy), &self.home).with_clock(clock)
    }

    /// A credential manager that knows nothing of the others here, as one of another process: it calls the folder by another name.
    pub(crate) fn manager_apart(&self, number: usize) -> CredentialManager {
        let folder = (0..=number).fold(self.auth(), |folder, _| folder.join("../auth"));
        let clock: Arc<dyn Clock> = Arc::clone(&self.clock) as _;
        let strategy = FromIssuer { issuer: self.issuer.clone(), clock: Arc::clone(&clock) };
        CredentialManager::new(Arc::new(strategy), Arc::new(self.store()), folder).with_clock(clock)
    }

    /// A credential manager of the same login with another store.
    pub(crate) fn manager_with(&self, store: Arc<dyn TokenStore>) -> CredentialManager {
        let clock: Arc<dyn Clock> = Arc::clone(&self.clock) as _;
        let strategy = FromIssuer { issuer: self.issuer.clone(), clock: Arc::clone(&clock) };
        CredentialManager::new(Arc::new(strategy), store, self.auth()).with_clock(clock)
    }

    pub(crate) fn auth(&self) -> PathBuf {
        self.home.join("auth")
    }

    pub(crate) fn lock_file(&self) -> PathBuf {
        self.auth().join(format!("{NAME}.lock"))
    }

    pub(crate) fn store(&self) -> LoginStore {
        LoginStore::at(&self.home, NAME)
    }

    pub(crate) fn stored(&self) -> StoredLogin {
        StoredLogin::from_text(&self.store().read().unwrap().unwrap()).unwrap()
    }

    pub(crate) fn write(&self, stored: &StoredLogin) {
        self.store().prepare().unwrap().commit(&stored.to_text()).unwrap();
    }

    /// What the refresh token of the login was spent for by somebody who has not put it into the store.
    pub(crate) fn renewed_by_the_dead(&self) -> StoredLogin {
        let mut renewed = self.stored();
        let spent = renewed.login.refresh_token.as_ref().map(|token| token.expose().to_owned());
        self.issuer.change(|state| state.spent.extend(spent));
        let (access, refresh, life) = self.issuer.issue();
        renewed.login = Login::new(Secret::new(access), self.clock.now())
            .with_refresh_token(Some(Secret::new(refresh)))
            .with_lifetime(Some(life));
        renewed.generation += 1;
        renewed
    }

    /// Waits until nobody has the lock. A process that another test starts has it for a moment: files are open in it until it
    /// executes its program.
    pub(crate) async fn lock_is_free(&self) {
        let end = Instant::now() + Duration::from_secs(60);
        while std::fs::File::open(self.lock_file()).unwrap().try_lock().is_err() {
            assert!(Instant::now() < end, "the lock is kept");
            std::thread::sleep(Duration::from_millis(2));
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// What is in the folder of the login, but for the login and the two files of its lock.
    pub(crate) fn left_over(&self) -> Vec<String> {
        let names = std::fs::read_dir(self.auth()).unwrap().map(|entry| entry.unwrap().file_name());
        let names = names.map(|name| name.into_string().unwrap());
        let known = [format!("{NAME}.json"), format!("{NAME}.lock"), format!(".{NAME}.guard")];
        names.filter(|name| !known.contains(name)).collect()
    }
}

/// A credential manager by the clock of the machine, for another process.
pub(crate) fn manager_at(home: &Path, issuer: &Path) -> CredentialManager {
    let strategy = FromIssuer { issuer: Issuer::at(issuer), clock: Arc::new(SystemClock) };
    CredentialManager::at_home(Arc::new(strategy), home)
}

/// A clock that is set by hand.
#[derive(Debug)]
pub(crate) struct SetClock(Mutex<SystemTime>);

impl SetClock {
    pub(crate) fn now() -> Self {
        Self(Mutex::new(SystemTime::now()))
    }

    pub(crate) fn forward(&self, by: Duration) {
        *self.0.lock().unwrap() += by;
    }

    pub(crate) fn back(&self, by: Duration) {
        *self.0.lock().unwrap() -= by;
    }
}

impl Clock for SetClock {
    fn now(&self) -> SystemTime {
        *self.0.lock().unwrap()
    }
}
