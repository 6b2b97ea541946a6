//! The owner before requests that nobody should send.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use nexus_core::{Secret, Standing};

use super::*;
use crate::login_owner::LoginOwner;

/// Lends `token-N`, and counts N up when one is refused.
#[derive(Debug, Default)]
struct Counter(AtomicUsize);

impl Counter {
    fn current(&self) -> Credential {
        let token = Secret::new(format!("token-{}", self.0.load(Ordering::SeqCst)));
        Credential::new(token).with_expiry(SystemTime::now() + Duration::from_secs(3600)).with_account("a")
    }
}

#[async_trait]
impl CredentialSource for Counter {
    fn describe(&self) -> String {
        "a counter".to_owned()
    }

    async fn standing(&self) -> Result<Standing, CredentialError> {
        Ok(Standing::default())
    }

    async fn credential(&self, _: Duration) -> Result<Credential, CredentialError> {
        Ok(self.current())
    }

    async fn renewed(
        &self,
        refused: &Credential,
        _: Duration,
    ) -> Result<Option<Credential>, CredentialError> {
        if refused.token == self.current().token {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
        Ok(Some(self.current()))
    }
}

struct Stage {
    owner: PublicKey,
    listed: FleetKey,
    provider: TokenProvider,
    folder: tempfile::TempDir,
}

fn stage() -> Stage {
    let folder = tempfile::tempdir().unwrap();
    let key_file = folder.path().join("fleet.key");
    let (own, listed) = (FleetKey::read_or_make(&key_file).unwrap(), FleetKey::random());
    let owner = LoginOwner {
        pool: "p".to_owned(),
        worker: "w".to_owned(),
        key: own.public().to_owned(),
        shared_with: vec![listed.public().to_owned()],
        ..LoginOwner::default()
    };
    let settings = FleetSettings {
        key_file: Some(key_file),
        login_owner: [("codex".to_owned(), owner)].into(),
        ..FleetSettings::default()
    };
    let mut provider = TokenProvider::of(&settings, "p", "w").unwrap().expect("it owns one");
    assert!(provider.check().unwrap_err().to_string().contains("`Worker::with_login`"));
    provider.add("codex", Arc::new(Counter::default()));
    provider.check().unwrap();
    Stage { owner: PublicKey::read(own.public()).unwrap(), listed, provider, folder }
}

fn question() -> LoginQuestion {
    LoginQuestion {
        request: "r1".to_owned(),
        login: "codex".to_owned(),
        life: 60,
        instead_of: None,
        sent_at: now_milliseconds(),
    }
}

impl Stage {
    fn request(&self, by: &FleetKey, named: &FleetKey, question: &LoginQuestion) -> Vec<u8> {
        let sealed = by.seal(question, &self.owner).unwrap();
        let request = LoginRequest { version: PROTOCOL_VERSION, key: named.public().to_owned(), sealed };
        serde_json::to_vec(&request).unwrap()
    }

    /// What the listed machine reads in the answer.
    async fn asked(&self, question: &LoginQuestion) -> LoginOutcome {
        let request = self.request(&self.listed, &self.listed, question);
        let admitted = self.provider.admit(&request).unwrap_or_else(|refusal| panic!("{refusal:?}"));
        let answer = self.provider.answer(admitted).await.unwrap();
        assert!(!String::from_utf8_lossy(&answer).contains("token-"), "it is sealed");
        let LoginAnswer::Sealed(sealed) = serde_json::from_slice(&answer).unwrap() else { panic!("refused") };
        let reply: LoginReply = self.listed.open(&sealed, &self.owner).unwrap();
        assert_eq!((&reply.request, &reply.login), (&question.request, &question.login));
        reply.outcome
    }

    fn refusal(&self, payload: &[u8]) -> Option<LoginRefusal> {
        self.provider.admit(payload).err().expect("it is refused")
    }
}

fn token(outcome: LoginOutcome) -> String {
    let LoginOutcome::Lent(lent) = outcome else { panic!("{outcome:?}") };
    assert_eq!(lent.account.as_deref(), Some("a"));
    assert!(lent.expires_at.unwrap() > now_milliseconds());
    lent.token.expose().to_owned()
}

#[tokio::test]
async fn a_listed_machine_is_lent_a_token_and_another_one_once_it_was_refused() {
    let stage = stage();
    assert_eq!(token(stage.asked(&question()).await), "token-0");
    let refused = LoginQuestion { instead_of: Some(fingerprint("token-0")), ..question() };
    assert_eq!(token(stage.asked(&refused).await), "token-1");
    // The same question again, as one that was recorded: nothing is spent.
    assert_eq!(token(stage.asked(&refused).await), "token-1");
    let garbage = LoginQuestion { instead_of: Some("x".repeat(900)), life: u64::MAX, ..question() };
    assert_eq!(token(stage.asked(&garbage).await), "token-1");
}

#[test]
fn who_is_not_listed_is_refused_before_anything_is_opened() {
    let stage = stage();
    let stranger = FleetKey::random();
    let request = stage.request(&stranger, &stranger, &question());
    assert_eq!(stage.refusal(&request), Some(LoginRefusal::NotShared));
    // One that takes the name of another.
    let request = stage.request(&stranger, &stage.listed, &question());
    assert_eq!(stage.refusal(&request), Some(LoginRefusal::Seal));
    let mut later: serde_json::Value =
        serde_json::from_slice(&stage.request(&stage.listed, &stage.listed, &question())).unwrap();
    later["version"] = (PROTOCOL_VERSION + 1).into();
    assert_eq!(stage.refusal(&serde_json::to_vec(&later).unwrap()), Some(LoginRefusal::Version));
    later["version"] = 1.into();
    let sealed = later["sealed"].as_str().unwrap().to_owned();
    for tampered in [&sealed[1..], &sealed[..sealed.len() - 4], "", "AAAA"] {
        later["sealed"] = tampered.into();
        assert_eq!(stage.refusal(&serde_json::to_vec(&later).unwrap()), Some(LoginRefusal::Seal));
    }
    let mut huge = stage.request(&stage.listed, &stage.listed, &question());
    huge.resize(MAX_REQUEST_BYTES + 1, b' ');
    for garbage in [&b""[..], b"null", b"{}", b"[1]", b"\xff", &huge, &b"[".repeat(MAX_REQUEST_BYTES)] {
        assert_eq!(stage.refusal(garbage), None);
    }
    assert_eq!(
        stage.provider.borrowers[stage.listed.public()].permits.available_permits(),
        QUESTIONS_AT_ONCE
    );
}

#[test]
fn a_machine_has_a_bound_on_its_questions_and_strangers_on_their_answers() {
    let stage = stage();
    let request = stage.request(&stage.listed, &stage.listed, &question());
    let held: Vec<_> = (0..QUESTIONS_AT_ONCE).map(|_| stage.provider.admit(&request).ok().unwrap()).collect();
    assert_eq!(stage.refusal(&request), Some(LoginRefusal::Busy));
    drop(held);
    assert!(stage.provider.admit(&request).is_ok());
    let mut refusals = Refusals::default();
    let answered = (0..10_000).filter(|_| refusals.may_answer()).count();
    assert!(answered < 5_000, "{answered}");
}

#[tokio::test]
async fn a_login_that_is_not_shared_and_a_clock_that_is_off_are_told_under_seal() {
    let stage = stage();
    let hour = 3_600_000;
    for (question, words) in [
        (LoginQuestion { login: "grok".to_owned(), ..question() }, "not shared"),
        (LoginQuestion { sent_at: now_milliseconds() - hour, ..question() }, "3600 s apart"),
        (LoginQuestion { sent_at: now_milliseconds() + hour, ..question() }, "clocks"),
        (LoginQuestion { sent_at: u64::MAX, ..question() }, "clocks"),
    ] {
        let LoginOutcome::Failed(failure) = stage.asked(&question).await else { panic!("{question:?}") };
        assert_eq!(failure.kind, LoginFailureKind::Refused);
        assert!(failure.reason.contains(words), "{failure:?}");
    }
}

#[test]
fn an_owner_without_its_key_or_with_another_one_does_not_begin() {
    let stage = stage();
    let other = FleetKey::random();
    let settings = |key: &str, file: &str| FleetSettings {
        key_file: Some(stage.folder.path().join(file)),
        login_owner: [(
            "codex".to_owned(),
            LoginOwner {
                pool: "p".to_owned(),
                worker: "w".to_owned(),
                key: key.to_owned(),
                ..LoginOwner::default()
            },
        )]
        .into(),
        ..FleetSettings::default()
    };
    let error = |settings: &FleetSettings| TokenProvider::of(settings, "p", "w").unwrap_err().to_string();
    let absent = error(&settings(other.public(), "absent"));
    assert!(absent.contains("codex") && absent.contains("`nexus fleet key`"), "{absent}");
    let own = FleetKey::read(&stage.folder.path().join("fleet.key")).unwrap().unwrap();
    let wrong = error(&settings(other.public(), "fleet.key"));
    assert!(wrong.contains(own.public()) && wrong.contains("login_owner.codex"), "{wrong}");
    assert!(TokenProvider::of(&settings(other.public(), "absent"), "p", "another").unwrap().is_none());
}
