//! A source that lends what a test scripts, token by token.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use nexus_core::{Credential, CredentialError, CredentialSource, Secret, Standing};

/// What is lent when it is asked for.
#[derive(Clone, Debug)]
pub(crate) enum Lend {
    /// A token that lives so long from now.
    Token(&'static str, Duration),
}

/// Lends in turn; the last for ever.
#[derive(Debug)]
pub(crate) struct ScriptedSource {
    script: Mutex<VecDeque<Lend>>,
    asked: Mutex<Vec<Duration>>,
}

impl ScriptedSource {
    pub(crate) fn new(script: impl IntoIterator<Item = Lend>) -> Arc<Self> {
        Arc::new(Self { script: Mutex::new(script.into_iter().collect()), asked: Mutex::default() })
    }

    /// For how long each credential was asked for.
    pub(crate) fn asked(&self) -> Vec<Duration> {
        self.asked.lock().unwrap().clone()
    }
}

#[async_trait]
impl CredentialSource for ScriptedSource {
    fn describe(&self) -> String {
        "the script".into()
    }

    async fn standing(&self) -> Result<Standing, CredentialError> {
        Ok(Standing::new(None, true))
    }

    async fn credential(&self, life: Duration) -> Result<Credential, CredentialError> {
        self.asked.lock().unwrap().push(life);
        let mut script = self.script.lock().unwrap();
        let next = if script.len() > 1 { script.pop_front() } else { script.front().cloned() };
        match next {
            Some(Lend::Token(token, life)) => {
                Ok(Credential::new(Secret::new(token)).with_expiry(SystemTime::now() + life))
            }
            None => {
                Err(CredentialError::Unreachable { place: self.describe(), reason: "nobody answers".into() })
            }
        }
    }

    async fn renewed(
        &self,
        _refused: &Credential,
        _life: Duration,
    ) -> Result<Option<Credential>, CredentialError> {
        Ok(None)
    }
}
