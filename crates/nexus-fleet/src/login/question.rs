//! One question to the owner of a login, until the owner answers it.

use std::time::Duration;

use async_nats::StatusCode;
use futures::StreamExt as _;
use nexus_core::CredentialError;
use tokio::time::{Instant, sleep, timeout_at};

use crate::{
    link::Link,
    login_owner::LoginOwner,
    protocol::{
        FIRST_VERSION, LoginAnswer, LoginOutcome, LoginQuestion, LoginRefusal, LoginReply, LoginRequest,
        login_subject,
    },
    sealing_key::{FleetKey, PublicKey},
    started_key::now_milliseconds,
};

/// Maximum size of an answer, in bytes. Access tokens have a few KiB.
const MAX_ANSWER_BYTES: usize = 64 << 10;
/// Longest wait for the owner. Source: a refresh takes up to 45 s.
const PATIENCE: Duration = Duration::from_secs(60);
/// Pause before the question is sent again, because core messages may be lost.
const SEND_AGAIN_AFTER: Duration = Duration::from_secs(10);
/// Time for which the owner may be absent, for example while it reconnects.
const ABSENT_FOR: Duration = Duration::from_secs(3);
/// Pause between two attempts while the owner is absent or busy.
const PAUSE: Duration = Duration::from_millis(250);
/// Additional wait for the owner's sealed answer after an unsealed refusal, which any program could have sent.
const AFTER_REFUSAL: Duration = Duration::from_secs(1);

/// Question for a credential, and its addressee.
pub(super) struct CredentialQuestion {
    pub(super) key: FleetKey,
    pub(super) owner: LoginOwner,
    pub(super) login: String,
    pub(super) life: Duration,
    pub(super) instead_of: Option<String>,
}

impl CredentialQuestion {
    /// Sends the question until the owner answers. Ignores a message without the owner's seal or with another question's
    /// answer.
    ///
    /// # Errors
    ///
    /// [`CredentialError`]: the owner's own error, or [`CredentialError::Unreachable`] within a minute.
    pub(super) async fn ask(self, link: &Link) -> Result<LoginOutcome, CredentialError> {
        let owner_key = PublicKey::read(&self.owner.key).map_err(|fault| CredentialError::Unreadable {
            place: format!("login_owner.{}.key", self.login),
            reason: fault.to_owned(),
        })?;
        let request = uuid::Uuid::new_v4().simple().to_string();
        let subject = login_subject(&self.owner.pool, &self.owner.worker);
        let inbox = link.nats.client().new_inbox();
        // Subscribe before the first request: the servers drop a core message without a subscriber.
        let answers = link.nats.client().subscribe(inbox.clone()).await;
        let mut answers = answers.map_err(|error| self.unreachable(&error.to_string()))?;
        let (began, asked_at) = (Instant::now(), std::time::Instant::now());
        let mut until = began + PATIENCE;
        let mut refusal = None;
        loop {
            // Create the message again for each attempt, because the owner compares `sent_at` with its clock.
            let message = self.message(&request, &owner_key)?;
            let sent =
                link.nats.client().publish_with_reply(subject.clone(), inbox.clone(), message.into()).await;
            sent.map_err(|error| self.unreachable(&error.to_string()))?;
            let send_again = Instant::now() + SEND_AGAIN_AFTER;
            // Wait for answers until it is time to send the question again.
            let pause = loop {
                let next = tokio::select! {
                    next = timeout_at(until.min(send_again), answers.next()) => next,
                    denied = link.nats.refused(asked_at, |denied| denied == subject) => {
                        return Err(self.unreachable(&format!("the account of this program may not use {denied}")));
                    }
                };
                let Ok(next) = next else { break Duration::ZERO };
                let Some(message) = next else { return Err(self.unreachable("the connection ended")) };
                if message.status == Some(StatusCode::NO_RESPONDERS) {
                    if began.elapsed() >= ABSENT_FOR {
                        return Err(self.unreachable(&format!(
                            "the owner does not answer on {subject}: run `nexus worker --pool {} --name {}` \
                            on the machine of the owner",
                            self.owner.pool, self.owner.worker
                        )));
                    }
                    break PAUSE;
                }
                match self.opened(&message.payload, &request, &owner_key) {
                    Some(Ok(outcome)) => return Ok(outcome),
                    Some(Err(LoginRefusal::Busy)) => {
                        refusal = Some(LoginRefusal::Busy);
                        break PAUSE;
                    }
                    // Any program could have sent an unsealed refusal, so wait a little longer for a sealed answer.
                    Some(Err(other)) => {
                        refusal = Some(other);
                        until = until.min(Instant::now() + AFTER_REFUSAL);
                    }
                    None => tracing::warn!(
                        login = self.login,
                        "an answer does not come from the owner or belongs to another request"
                    ),
                }
            };
            if Instant::now() >= until {
                let waited = began.elapsed().as_secs();
                return Err(match refusal {
                    Some(refusal) => self.unreachable(&refusal.to_string()),
                    None => self.unreachable(&format!("no answer within {waited} s on {subject}")),
                });
            }
            sleep(pause).await;
        }
    }

    fn message(&self, request: &str, owner_key: &PublicKey) -> Result<Vec<u8>, CredentialError> {
        let question = LoginQuestion {
            request: request.to_owned(),
            login: self.login.clone(),
            // Round up, because a token with a shorter life could expire during the turn.
            life: self.life.as_secs().saturating_add(u64::from(self.life.subsec_nanos() > 0)),
            instead_of: self.instead_of.clone(),
            sent_at: now_milliseconds(),
        };
        let sealed = self.key.seal(&question, owner_key);
        let message = sealed.and_then(|sealed| {
            let key = self.key.public().to_owned();
            serde_json::to_vec(&LoginRequest { version: FIRST_VERSION, key, sealed }).ok()
        });
        message.ok_or_else(|| self.unreachable("the request could not be encrypted"))
    }

    /// Opens an answer. `None`: it is not from the owner, or belongs to another question.
    fn opened(
        &self,
        payload: &[u8],
        request: &str,
        owner_key: &PublicKey,
    ) -> Option<Result<LoginOutcome, LoginRefusal>> {
        if payload.len() > MAX_ANSWER_BYTES {
            return None;
        }
        let sealed = match serde_json::from_slice(payload).ok()? {
            LoginAnswer::Sealed(sealed) => sealed,
            LoginAnswer::Refused(refusal) => return Some(Err(refusal)),
        };
        let reply: LoginReply = self.key.open(&sealed, owner_key)?;
        (reply.request == request && reply.login == self.login).then_some(Ok(reply.outcome))
    }

    fn unreachable(&self, reason: &str) -> CredentialError {
        let (login, owner) = (&self.login, self.owner.describe());
        CredentialError::Unreachable { place: format!("{login} of {owner}"), reason: reason.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use nexus_core::Secret;

    use super::*;
    use crate::protocol::LentToken;

    fn question(owner: &FleetKey) -> CredentialQuestion {
        let owner = LoginOwner {
            pool: "p".into(),
            worker: "w".into(),
            key: owner.public().into(),
            ..LoginOwner::default()
        };
        let (key, login) = (FleetKey::random(), "codex".to_owned());
        CredentialQuestion { key, owner, login, life: Duration::from_millis(1_500), instead_of: None }
    }

    fn reply(request: &str, login: &str) -> LoginReply {
        let token = LentToken { token: Secret::new("canary"), account: None, expires_at: Some(7) };
        LoginReply { request: request.into(), login: login.into(), outcome: LoginOutcome::Lent(token) }
    }

    #[test]
    fn only_the_owners_word_on_this_question_counts() {
        let (owner, stranger) = (FleetKey::random(), FleetKey::random());
        let question = question(&owner);
        let owner_key = PublicKey::read(owner.public()).unwrap();
        let to = PublicKey::read(question.key.public()).unwrap();
        let answer = |by: &FleetKey, reply: &LoginReply| {
            serde_json::to_vec(&LoginAnswer::Sealed(by.seal(reply, &to).unwrap())).unwrap()
        };
        let opened = |payload: &[u8]| question.opened(payload, "r1", &owner_key);
        assert_eq!(opened(&answer(&owner, &reply("r1", "codex"))), Some(Ok(reply("r1", "codex").outcome)));
        assert_eq!(
            opened(&answer(&owner, &reply("r0", "codex"))),
            None,
            "an answer that was recorded before"
        );
        assert_eq!(opened(&answer(&owner, &reply("r1", "grok"))), None, "a token of another login");
        assert_eq!(opened(&answer(&stranger, &reply("r1", "codex"))), None, "another's seal");
        let mut huge = answer(&owner, &reply("r1", "codex"));
        huge.resize(MAX_ANSWER_BYTES + 1, b' ');
        assert_eq!(opened(&huge), None);
        // With one pair of keys both directions have the same seal: a question that is sent back is no answer.
        let sent: LoginRequest =
            serde_json::from_slice(&question.message("r1", &owner_key).unwrap()).unwrap();
        assert_eq!(opened(&serde_json::to_vec(&LoginAnswer::Sealed(sent.sealed)).unwrap()), None);
        for garbage in [&b""[..], b"{}", b"null", b"{\"sealed\":7}", b"{\"sealed\":\"AA\"}", b"\xff\xfe"] {
            assert_eq!(opened(garbage), None);
        }
        assert_eq!(opened(b"{\"refused\":\"not_shared\"}"), Some(Err(LoginRefusal::NotShared)));
    }

    #[test]
    fn the_question_is_sealed_and_asks_for_whole_seconds() {
        let owner = FleetKey::random();
        let question = question(&owner);
        let owner_key = PublicKey::read(owner.public()).unwrap();
        let sent: LoginRequest =
            serde_json::from_slice(&question.message("r1", &owner_key).unwrap()).unwrap();
        assert_eq!((sent.version, sent.key.as_str()), (FIRST_VERSION, question.key.public()));
        let opened: LoginQuestion =
            owner.open(&sent.sealed, &PublicKey::read(question.key.public()).unwrap()).unwrap();
        assert_eq!((opened.request.as_str(), opened.login.as_str(), opened.life), ("r1", "codex", 2));
    }
}
