//! The sign-in of a parrot: a custom sign-in strategy.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use nexus_backends::auth::{
    Identity, Login, LoginScreen, LoginStep, RefreshError, Revocation, SignIn, SignInError,
};
use nexus_core::Secret;
use serde_json::Map;

/// Server that parrots sign in to. It knows every tune that it has taught, and accepts each tune once.
#[derive(Debug, Default)]
pub struct Aviary(Mutex<Tunes>);

#[derive(Debug, Default)]
struct Tunes {
    taught: u32,
    heard: Vec<String>,
    is_closed: bool,
}

impl Aviary {
    /// Tunes that were presented, in order.
    pub fn heard(&self) -> Vec<String> {
        self.tunes().heard.clone()
    }

    fn tunes(&self) -> MutexGuard<'_, Tunes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Signs in to an [`Aviary`] with the tune that it taught the last time.
#[derive(Clone, Debug)]
pub struct Whistle {
    aviary: Arc<Aviary>,
    stay: Duration,
}

impl Whistle {
    /// Creates a sign-in to `aviary`, whose credentials last this long.
    pub fn new(aviary: Arc<Aviary>, stay: Duration) -> Self {
        Self { aviary, stay }
    }

    fn taught(&self, tunes: &mut Tunes) -> Login {
        tunes.taught += 1;
        let mut identity = Identity::default();
        identity.account = Some("polly".to_owned());
        Login::new(Secret::new(format!("ring-{}", tunes.taught)), SystemTime::now())
            .with_refresh_token(Some(Secret::new(format!("tune-{}", tunes.taught))))
            .with_lifetime(Some(self.stay))
            .with_identity(identity)
            .with_origin(Map::from_iter([("door".to_owned(), "south".into())]))
    }
}

#[async_trait]
impl SignIn for Whistle {
    fn name(&self) -> &str {
        "aviary"
    }

    fn remedy(&self) -> String {
        "ask the warden".to_owned()
    }

    async fn sign_in(&self, screen: &mut dyn LoginScreen) -> Result<Login, SignInError> {
        screen.show(&LoginStep::Note("the warden is on the way".to_owned()));
        let mut tunes = self.aviary.tunes();
        if tunes.is_closed {
            return Err(SignInError::Declined { reason: "closed".to_owned() });
        }
        Ok(self.taught(&mut tunes))
    }

    async fn refresh(&self, login: &Login) -> Result<Login, RefreshError> {
        let Some(tune) = &login.refresh_token else {
            return Err(RefreshError::Refused { reason: "silence".to_owned() });
        };
        let mut tunes = self.aviary.tunes();
        let is_due = !tunes.is_closed && tune.expose() == format!("tune-{}", tunes.taught);
        tunes.heard.push(tune.expose().to_owned());
        if is_due {
            Ok(self.taught(&mut tunes))
        } else {
            Err(RefreshError::Refused { reason: "out of tune".to_owned() })
        }
    }

    async fn revoke(&self, _login: &Login) -> Result<Revocation, RefreshError> {
        self.aviary.tunes().is_closed = true;
        Ok(Revocation::Revoked)
    }
}
