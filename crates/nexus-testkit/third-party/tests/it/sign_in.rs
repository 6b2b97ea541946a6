//! A sign-in of one's own is owned as any other: lent, renewed once, noted when refused, and given up.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime},
};

use nexus_backends::auth::{
    Clock, CredentialError, CredentialManager, CredentialSource, LoginStep, Revocation, SignIn as _,
    store::{DamagedText, LoginStore, MemoryStore, PreparedWrite, StoreError, StoredLogin, TokenStore},
};
use nexus_core::{BuildContext, Secret};
use parrot::{Aviary, Whistle};

const STAY: Duration = Duration::from_secs(3600);
const A_WHILE: Duration = Duration::from_secs(60);

/// A clock that is ahead of the machine's.
#[derive(Debug)]
struct Ahead(Duration);

impl Clock for Ahead {
    fn now(&self) -> SystemTime {
        SystemTime::now() + self.0
    }
}

/// A store of one's own: another one, with a name.
#[derive(Debug)]
struct Nest(MemoryStore);

impl TokenStore for Nest {
    fn place(&self) -> String {
        "the nest".to_owned()
    }

    fn identity(&self) -> String {
        self.0.identity()
    }

    fn read(&self) -> Result<Option<Secret>, StoreError> {
        self.0.read()
    }

    fn prepare(&self) -> Result<Box<dyn PreparedWrite>, StoreError> {
        self.0.prepare().map_err(|error| StoreError::new(self.place(), error.reason))
    }

    fn recover(&self, is_newer: &dyn Fn(&Secret, Option<&Secret>) -> bool) -> Result<bool, StoreError> {
        self.0.recover(is_newer)
    }

    fn damaged(&self) -> Result<Option<DamagedText>, StoreError> {
        self.0.damaged()
    }

    fn remove(&self) -> Result<bool, StoreError> {
        self.0.remove()
    }
}

fn stores(home: &Path) -> Vec<Arc<dyn TokenStore>> {
    let own = Nest(MemoryStore::new());
    vec![Arc::new(MemoryStore::new()), Arc::new(LoginStore::at(home, "aviary")), Arc::new(own)]
}

#[tokio::test]
async fn a_sign_in_of_one_s_own_is_lent_renewed_once_and_given_up() {
    let scratch = tempfile::tempdir().unwrap();
    for (number, store) in stores(scratch.path()).into_iter().enumerate() {
        let aviary = Arc::new(Aviary::default());
        let whistle = Arc::new(Whistle::new(Arc::clone(&aviary), STAY));
        let locks = scratch.path().join(format!("locks-{number}"));
        let manager = CredentialManager::new(whistle, Arc::clone(&store), &locks);
        let mut shown = Vec::new();
        manager.sign_in(&mut |step: &LoginStep| shown.push(step.clone())).await.unwrap();
        assert_eq!(shown, [LoginStep::Note("the warden is on the way".to_owned())]);

        // Whoever lends to a backend knows no more than this.
        let context = BuildContext::in_home(scratch.path())
            .with_base_directory(scratch.path())
            .with_credential_source("aviary", Arc::new(manager.clone()));
        let source: Arc<dyn CredentialSource> = Arc::clone(&context.credential_sources["aviary"]);
        assert!(source.standing().await.unwrap().is_renewable);
        let lent = source.credential(A_WHILE).await.unwrap();
        assert_eq!((lent.token.expose(), lent.account.as_deref()), ("ring-1", Some("polly")));

        let later = manager.clone().with_clock(Arc::new(Ahead(STAY / 2)));
        let asked: Vec<_> = (0..20)
            .map(|_| {
                let (later, refused) = (later.clone(), lent.clone());
                tokio::spawn(async move { later.renewed(&refused, A_WHILE).await.unwrap().unwrap() })
            })
            .collect();
        for renewed in asked {
            assert_eq!(renewed.await.unwrap().token.expose(), "ring-2");
        }
        assert_eq!(aviary.heard(), ["tune-1"]);

        let text = store.read().unwrap().unwrap();
        let stored = StoredLogin::from_text(&text).unwrap();
        assert_eq!((stored.generation, stored.login.origin["door"].as_str()), (2, Some("south")));
        assert!(!format!("{manager:?}{stored:?}{lent:?}").contains("ring-"));

        let gone = manager.log_out().await.unwrap();
        assert!(gone.was_logged_in && matches!(gone.revocation, Some(Ok(Revocation::Revoked))));
        let error = source.credential(A_WHILE).await.unwrap_err();
        assert!(
            matches!(&error, CredentialError::Missing { remedy, .. } if *remedy == manager.sign_in_strategy().remedy())
        );
    }
}

#[tokio::test]
async fn a_tune_that_is_refused_is_whistled_no_more() {
    let scratch = tempfile::tempdir().unwrap();
    let aviary = Arc::new(Aviary::default());
    let whistle = Whistle::new(Arc::clone(&aviary), STAY);
    let manager = CredentialManager::at_home(Arc::new(whistle.clone()), scratch.path());
    let login = manager.sign_in(&mut |_: &LoginStep| {}).await.unwrap();
    whistle.refresh(&login).await.unwrap();

    let later = manager.with_clock(Arc::new(Ahead(STAY)));
    for _ in 0..3 {
        let error = later.credential(A_WHILE).await.unwrap_err();
        assert!(
            matches!(&error, CredentialError::Refused { reason, .. } if reason == "out of tune"),
            "{error:?}"
        );
    }
    assert_eq!(aviary.heard(), ["tune-1", "tune-1"]);
    assert_eq!(later.look().await.unwrap().unwrap().refused.as_deref(), Some("out of tune"));
}
