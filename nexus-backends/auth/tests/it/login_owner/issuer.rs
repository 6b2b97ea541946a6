//! An issuer in a folder, the same for any number of processes. Its refresh tokens are good once; the second use of
//! one is noted, and ends the login.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use nexus_auth::{Clock, Login, LoginScreen, LoginStep, RefreshError, Revocation, SignIn, SignInError};
use nexus_core::Secret;
use serde::{Deserialize, Serialize};

/// The name of the login.
pub(crate) const NAME: &str = "test-login";

/// How the issuer answers when a refresh token is spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Mood {
    #[default]
    Works,
    Refuses,
    Unreachable,
    Malformed,
    /// The strategy panics, before the token is spent.
    Panics,
    /// Never answers; the token is not spent.
    Hangs,
    KeepsTheRefreshToken,
    RepeatsTheAccessToken,
    HandsOutTheDead,
}

/// What the issuer knows.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct IssuerState {
    pub(crate) mood: Mood,
    pub(crate) current: String,
    pub(crate) issued: u32,
    /// Every refresh token that was sent here, in order.
    pub(crate) spent: Vec<String>,
    /// Those that were sent here again.
    pub(crate) reused: Vec<String>,
    pub(crate) is_over: bool,
    pub(crate) revoked: Vec<String>,
    pub(crate) life_secs: u64,
    pub(crate) delay_ms: u64,
    /// Whether answers are on their way until this is no longer so.
    pub(crate) holds_answers: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Issuer {
    folder: PathBuf,
}

impl Issuer {
    pub(crate) fn new(folder: &Path) -> Self {
        fs::create_dir_all(folder).unwrap();
        let issuer = Self { folder: folder.to_owned() };
        issuer.write(&IssuerState { life_secs: 3600, ..IssuerState::default() });
        issuer
    }

    pub(crate) fn at(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    pub(crate) fn state(&self) -> IssuerState {
        self.change(|state| state.clone())
    }

    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut IssuerState) -> T) -> T {
        let lock = File::create(self.folder.join("issuer.lock")).unwrap();
        lock.lock().unwrap();
        let text = fs::read(self.folder.join("issuer.json")).unwrap();
        let mut state = serde_json::from_slice(&text).unwrap();
        let outcome = change(&mut state);
        self.write(&state);
        outcome
    }

    fn write(&self, state: &IssuerState) {
        let new = self.folder.join("issuer.json.new");
        fs::write(&new, serde_json::to_vec(state).unwrap()).unwrap();
        fs::rename(&new, self.folder.join("issuer.json")).unwrap();
    }

    /// Waits until a refresh token was sent here, whose answer is on its way.
    pub(crate) async fn was_asked(&self) {
        let end = std::time::Instant::now() + Duration::from_secs(60);
        while self.state().spent.is_empty() {
            assert!(std::time::Instant::now() < end, "no refresh token is sent");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Hands out a new pair: the access token, the refresh token, and how long the former lives.
    pub(crate) fn issue(&self) -> (String, String, Duration) {
        self.change(IssuerState::issue)
    }

    fn spend(&self, token: &str) -> Result<(String, Option<String>, Duration), RefreshError> {
        self.change(|state| {
            let reason = "made to fail".to_owned();
            match state.mood {
                Mood::Refuses => {
                    state.spent.push(token.to_owned());
                    return Err(RefreshError::Refused { reason: "invalid_grant".into() });
                }
                Mood::Unreachable => {
                    state.spent.push(token.to_owned());
                    return Err(RefreshError::Unreachable { reason });
                }
                Mood::Malformed => {
                    state.spent.push(token.to_owned());
                    return Err(RefreshError::Malformed { reason });
                }
                _ => {}
            }
            if state.spent.iter().any(|spent| spent == token) && state.mood != Mood::KeepsTheRefreshToken {
                state.reused.push(token.to_owned());
                state.is_over = true;
            }
            state.spent.push(token.to_owned());
            if state.is_over || state.current != token {
                return Err(RefreshError::Refused { reason: "invalid_grant".into() });
            }
            if state.mood == Mood::KeepsTheRefreshToken {
                state.issued += 1;
                let life = Duration::from_secs(state.life_secs);
                return Ok((format!("access-{}", state.issued), None, life));
            }
            let (access, refresh, life) = state.issue();
            Ok(match state.mood {
                Mood::RepeatsTheAccessToken => ("access-1".into(), Some(refresh), life),
                Mood::HandsOutTheDead => (access, Some(refresh), Duration::ZERO),
                _ => (access, Some(refresh), life),
            })
        })
    }
}

impl IssuerState {
    fn issue(&mut self) -> (String, String, Duration) {
        self.issued += 1;
        self.current = format!("refresh-{}", self.issued);
        (format!("access-{}", self.issued), self.current.clone(), Duration::from_secs(self.life_secs))
    }
}

/// The strategy for it.
#[derive(Debug)]
pub(crate) struct FromIssuer {
    pub(crate) issuer: Issuer,
    pub(crate) clock: Arc<dyn Clock>,
}

impl FromIssuer {
    fn login(&self, access: String, refresh: Option<String>, life: Duration) -> Login {
        Login::new(Secret::new(access), self.clock.now())
            .with_refresh_token(refresh.map(Secret::new))
            .with_lifetime(Some(life))
    }
}

#[async_trait]
impl SignIn for FromIssuer {
    fn name(&self) -> &str {
        NAME
    }

    fn remedy(&self) -> String {
        "log in at the test".into()
    }

    async fn sign_in(&self, screen: &mut dyn LoginScreen) -> Result<Login, SignInError> {
        screen.show(&LoginStep::Note("hello".into()));
        let (access, refresh, life) = self.issuer.issue();
        Ok(self.login(access, Some(refresh), life))
    }

    async fn refresh(&self, login: &Login) -> Result<Login, RefreshError> {
        let state = self.issuer.state();
        match state.mood {
            Mood::Panics => panic!("the strategy panics"),
            Mood::Hangs => std::future::pending().await,
            _ => {}
        }
        let token = login.refresh_token.as_ref().unwrap().expose().to_owned();
        let answer = self.issuer.spend(&token);
        // The token is spent, and the answer is on its way.
        tokio::time::sleep(Duration::from_millis(state.delay_ms)).await;
        while self.issuer.state().holds_answers {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        answer.map(|(access, refresh, life)| self.login(access, refresh, life))
    }

    async fn revoke(&self, login: &Login) -> Result<Revocation, RefreshError> {
        let token = login.refresh_token.as_ref().unwrap().expose().to_owned();
        self.issuer.change(|state| match state.mood {
            Mood::Unreachable => Err(RefreshError::Unreachable { reason: "made to fail".into() }),
            Mood::Panics => panic!("the strategy panics"),
            _ => {
                state.revoked.push(token);
                Ok(Revocation::Revoked)
            }
        })
    }
}
