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
pub(crate) struct Ledger {
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
}

#[derive(Clone, Debug)]
pub(crate) struct Issuer {
    folder: PathBuf,
}

impl Issuer {
    pub(crate) fn new(folder: &Path) -> Self {
        fs::create_dir_all(folder).unwrap();
        let issuer = Self { folder: folder.to_owned() };
        issuer.write(&Ledger { life_secs: 3600, ..Ledger::default() });
        issuer
    }

    pub(crate) fn at(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    pub(crate) fn ledger(&self) -> Ledger {
        self.change(|ledger| ledger.clone())
    }

    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Ledger) -> T) -> T {
        let lock = File::create(self.folder.join("issuer.lock")).unwrap();
        lock.lock().unwrap();
        let text = fs::read(self.folder.join("issuer.json")).unwrap();
        let mut ledger = serde_json::from_slice(&text).unwrap();
        let outcome = change(&mut ledger);
        self.write(&ledger);
        outcome
    }

    fn write(&self, ledger: &Ledger) {
        let new = self.folder.join("issuer.json.new");
        fs::write(&new, serde_json::to_vec(ledger).unwrap()).unwrap();
        fs::rename(&new, self.folder.join("issuer.json")).unwrap();
    }

    /// Hands out a new pair: the access token, the refresh token, and how long the former lives.
    pub(crate) fn issue(&self) -> (String, String, Duration) {
        self.change(Ledger::issue)
    }

    fn spend(&self, token: &str) -> Result<(String, Option<String>, Duration), RefreshError> {
        self.change(|ledger| {
            let reason = "made to fail".to_owned();
            match ledger.mood {
                Mood::Refuses => {
                    ledger.spent.push(token.to_owned());
                    return Err(RefreshError::Refused { reason: "invalid_grant".into() });
                }
                Mood::Unreachable => {
                    ledger.spent.push(token.to_owned());
                    return Err(RefreshError::Unreachable { reason });
                }
                Mood::Malformed => {
                    ledger.spent.push(token.to_owned());
                    return Err(RefreshError::Malformed { reason });
                }
                _ => {}
            }
            if ledger.spent.iter().any(|spent| spent == token) && ledger.mood != Mood::KeepsTheRefreshToken {
                ledger.reused.push(token.to_owned());
                ledger.is_over = true;
            }
            ledger.spent.push(token.to_owned());
            if ledger.is_over || ledger.current != token {
                return Err(RefreshError::Refused { reason: "invalid_grant".into() });
            }
            if ledger.mood == Mood::KeepsTheRefreshToken {
                ledger.issued += 1;
                let life = Duration::from_secs(ledger.life_secs);
                return Ok((format!("access-{}", ledger.issued), None, life));
            }
            let (access, refresh, life) = ledger.issue();
            Ok(match ledger.mood {
                Mood::RepeatsTheAccessToken => ("access-1".into(), Some(refresh), life),
                Mood::HandsOutTheDead => (access, Some(refresh), Duration::ZERO),
                _ => (access, Some(refresh), life),
            })
        })
    }
}

impl Ledger {
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
        let ledger = self.issuer.ledger();
        match ledger.mood {
            Mood::Panics => panic!("the strategy panics"),
            Mood::Hangs => std::future::pending().await,
            _ => {}
        }
        let token = login.refresh_token.as_ref().unwrap().expose().to_owned();
        let answer = self.issuer.spend(&token);
        // The token is spent, and the answer is on its way.
        tokio::time::sleep(Duration::from_millis(ledger.delay_ms)).await;
        answer.map(|(access, refresh, life)| self.login(access, refresh, life))
    }

    async fn revoke(&self, login: &Login) -> Result<Revocation, RefreshError> {
        let token = login.refresh_token.as_ref().unwrap().expose().to_owned();
        self.issuer.change(|ledger| match ledger.mood {
            Mood::Unreachable => Err(RefreshError::Unreachable { reason: "made to fail".into() }),
            Mood::Panics => panic!("the strategy panics"),
            _ => {
                ledger.revoked.push(token);
                Ok(Revocation::Revoked)
            }
        })
    }
}
