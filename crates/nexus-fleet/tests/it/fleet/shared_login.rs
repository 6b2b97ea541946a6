//! Logins that several machines share, before a real `nats-server`: the owner's worker, those who ask it, and those who should not.

use std::{
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

use async_nats::Client;
use async_trait::async_trait;
use futures::{StreamExt as _, future::join_all};
use nexus_core::{BuildContext, Credential, CredentialError, CredentialSource, Registry, Secret, Standing};
use nexus_fleet::{Fleet, FleetKey, FleetSettings, LoginOwner, WorkerSettings};
use nexus_router::Router;
use nexus_testkit::{nats::NatsServer, sim::Scenario};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::python_client::reference;
use crate::support::remote::WorkerThread;

const HOUR: Duration = Duration::from_secs(3600);
/// Within which an owner that is there has answered, on a busy machine.
const SOON: Duration = Duration::from_secs(60);
/// How each token begins.
const CANARY: &str = "canary-of-a-token";
const SUBJECT: &str = "nexus.login.owners.o1";

/// The login of the owner. Its token is another one after each refusal.
#[derive(Debug)]
pub(crate) struct Vault {
    life: Duration,
    /// How long it takes to answer.
    delay: Duration,
    asked: AtomicUsize,
    renewed: AtomicUsize,
    is_empty: bool,
}

impl Default for Vault {
    fn default() -> Self {
        let none = AtomicUsize::default;
        Self { life: HOUR, delay: Duration::ZERO, asked: none(), renewed: none(), is_empty: false }
    }
}

impl Vault {
    fn token(&self) -> String {
        format!("{CANARY}-{}", self.renewed.load(Ordering::SeqCst))
    }

    fn current(&self) -> Credential {
        Credential::new(Secret::new(self.token()))
            .with_expiry(SystemTime::now() + self.life)
            .with_account("a1")
    }
}

#[async_trait]
impl CredentialSource for Vault {
    fn describe(&self) -> String {
        "a vault".to_owned()
    }

    async fn standing(&self) -> Result<Standing, CredentialError> {
        Ok(Standing::default())
    }

    async fn credential(&self, _: Duration) -> Result<Credential, CredentialError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(self.delay).await;
        match self.is_empty {
            true => {
                Err(CredentialError::Missing { place: "the vault".to_owned(), remedy: "fill it".to_owned() })
            }
            false => Ok(self.current()),
        }
    }

    async fn renewed(
        &self,
        refused: &Credential,
        _: Duration,
    ) -> Result<Option<Credential>, CredentialError> {
        // As a credential manager: once, however many say so.
        if refused.token.expose() == self.token() {
            self.renewed.fetch_add(1, Ordering::SeqCst);
        }
        Ok(Some(self.current()))
    }
}

/// A server, the keys of an owner and of those who borrow, and the settings of each.
struct Stage {
    server: NatsServer,
    folder: TempDir,
    owner: LoginOwner,
}

impl Stage {
    async fn new(borrowers: usize) -> Self {
        let (server, folder) = (NatsServer::start().await, tempfile::tempdir().unwrap());
        let key = |name: &str| make_key(folder.path(), name);
        let owner = LoginOwner {
            pool: "owners".to_owned(),
            worker: "o1".to_owned(),
            key: key("o1"),
            shared_with: (0..borrowers).map(|index| key(&format!("b{index}"))).collect(),
            ..LoginOwner::default()
        };
        Self { server, folder, owner }
    }

    /// Settings of the machine that has this key.
    fn settings(&self, key: &str) -> FleetSettings {
        FleetSettings {
            servers: vec![self.server.url()],
            key_file: Some(self.folder.path().join(key)),
            login_owner: [("codex".to_owned(), self.owner.clone())].into(),
            worker: WorkerSettings { name: Some("o1".to_owned()), ..WorkerSettings::default() },
            ..FleetSettings::default()
        }
    }

    /// The owner's worker, which lends what is in `vault`.
    async fn owner(&self, vault: &Arc<Vault>) -> (WorkerThread, TempDir) {
        let (backend, home) = reference(Scenario::text("it ran here"));
        let context = BuildContext::in_home(home.path());
        let builder = Router::builder(Registry::new(), context).backend(backend);
        let (settings, source) = (self.settings("o1"), Arc::clone(vault) as Arc<dyn CredentialSource>);
        let start = move || WorkerThread::start_lending(settings, "owners", builder, vec![("codex", source)]);
        (tokio::task::spawn_blocking(start).await.unwrap(), home)
    }

    /// What lends the login at the machine that has this key.
    fn borrower(&self, key: &str) -> Arc<dyn CredentialSource> {
        borrower(self.settings(key))
    }
}

fn make_key(folder: &Path, name: &str) -> String {
    FleetKey::read_or_make(&folder.join(name)).unwrap().public().to_owned()
}

fn borrower(settings: FleetSettings) -> Arc<dyn CredentialSource> {
    Fleet::new(settings).unwrap().shared_logins().remove("codex").expect("it is another's")
}

async fn token(source: &Arc<dyn CredentialSource>) -> String {
    let lent = source.credential(Duration::from_secs(60)).await.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(lent.account.as_deref(), Some("a1"));
    lent.token.expose().to_owned()
}

/// Everything that crosses the server from now on.
async fn overhear(client: &Client) -> Arc<Mutex<Vec<u8>>> {
    let heard = Arc::<Mutex<Vec<u8>>>::default();
    let (mut messages, into) = (client.subscribe(">").await.unwrap(), Arc::clone(&heard));
    client.flush().await.unwrap();
    tokio::spawn(async move {
        while let Some(message) = messages.next().await {
            let mut heard = into.lock().unwrap();
            heard.extend_from_slice(message.subject.as_bytes());
            heard.extend_from_slice(&message.payload);
        }
    });
    heard
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[tokio::test]
#[ignore = "needs a real nats-server"]
async fn eight_machines_are_lent_one_token_and_another_one_once_all_of_them_were_refused() {
    let stage = Stage::new(8).await;
    let heard = overhear(&stage.server.client().await).await;
    let vault = Arc::new(Vault { delay: Duration::from_millis(500), ..Vault::default() });
    let (owner, _home) = stage.owner(&vault).await;
    let machines: Vec<_> = (0..8).map(|index| stage.borrower(&format!("b{index}"))).collect();
    for machine in &machines {
        assert!(machine.standing().await.unwrap().is_renewable, "it is there to be asked for");
    }
    assert_eq!(vault.asked.load(Ordering::SeqCst), 0, "a look asks for nothing");

    // Twenty turns on each.
    let turns = machines.iter().flat_map(|machine| std::iter::repeat_n(machine, 20));
    let lent = join_all(turns.map(token)).await;
    assert!(lent.iter().all(|token| *token == format!("{CANARY}-0")));
    assert_eq!(vault.asked.load(Ordering::SeqCst), 8, "the turns of one machine share a question");
    join_all(machines.iter().map(token)).await;
    assert_eq!(vault.asked.load(Ordering::SeqCst), 8, "what lives long enough is at hand");

    let refused = Credential::new(Secret::new(format!("{CANARY}-0")));
    let renewed = join_all(machines.iter().map(|machine| machine.renewed(&refused, HOUR / 2))).await;
    for renewed in renewed {
        assert_eq!(renewed.unwrap().expect("there is another").token.expose(), format!("{CANARY}-1"));
    }
    assert_eq!(vault.renewed.load(Ordering::SeqCst), 1);
    let at_hand = machines[0].renewed(&refused, Duration::ZERO).await.unwrap();
    assert_eq!(at_hand.expect("it is at hand").token.expose(), format!("{CANARY}-1"));
    assert_eq!(vault.asked.load(Ordering::SeqCst), 16);

    tokio::task::spawn_blocking(move || drop(owner)).await.unwrap();
    let heard = heard.lock().unwrap();
    assert!(holds(&heard, SUBJECT) && holds(&heard, &stage.owner.shared_with[7]), "everything was heard");
    assert!(!holds(&heard, CANARY));
    assert!(!holds_below(&stage.server.store(), CANARY));
    assert!(!stage.server.log().contains(CANARY));
}

/// Whether a file below a folder holds a text.
fn holds_below(folder: &Path, text: &str) -> bool {
    std::fs::read_dir(folder).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => holds_below(&path, text),
            false => holds(&std::fs::read(&path).unwrap_or_default(), text),
        }
    })
}

#[tokio::test]
#[ignore = "needs a real nats-server"]
async fn who_is_not_listed_is_refused_and_told_where_to_be_listed() {
    let mut stage = Stage::new(1).await;
    let vault = Arc::new(Vault::default());
    let (owner, _home) = stage.owner(&vault).await;
    let stranger = make_key(stage.folder.path(), "stranger");
    let error = stage.borrower("stranger").credential(HOUR).await.unwrap_err();
    assert!(matches!(error, CredentialError::Refused { .. }), "{error:?}");
    assert!(error.to_string().contains(&stranger) && error.to_string().contains("`shared_with`"), "{error}");
    let error = stage.borrower("absent").standing().await.unwrap_err();
    assert!(
        matches!(&error, CredentialError::Missing { remedy, .. } if remedy.contains("nexus fleet key")),
        "{error:?}"
    );

    // Its own file lists it, and the owner's does not.
    stage.owner.shared_with.push(stranger);
    let began = Instant::now();
    let error = stage.borrower("stranger").credential(HOUR).await.unwrap_err();
    assert!(
        matches!(&error, CredentialError::Unreachable { reason, .. } if reason.contains("`shared_with`")),
        "{error:?}"
    );
    // Or it names another key as the owner's.
    stage.owner.key = make_key(stage.folder.path(), "another");
    let error = stage.borrower("b0").credential(HOUR).await.unwrap_err();
    assert!(
        error.to_string().contains("worker o1 of pool owners") && error.to_string().contains("`key`"),
        "{error}"
    );
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    assert_eq!(vault.asked.load(Ordering::SeqCst), 0);
    tokio::task::spawn_blocking(move || drop(owner)).await.unwrap();
}

#[tokio::test]
#[ignore = "needs a real nats-server"]
async fn an_answer_that_is_forged_or_was_recorded_counts_for_nothing() {
    let stage = Stage::new(2).await;
    let client = stage.server.client().await;
    // An answer of the owner's to another question, as anybody in the account can record it.
    let vault = Arc::new(Vault::default());
    let (owner, home) = stage.owner(&vault).await;
    let mut answers = client.subscribe("_INBOX_nexus.>").await.unwrap();
    client.flush().await.unwrap();
    assert_eq!(token(&stage.borrower("b0")).await, format!("{CANARY}-0"));
    let recorded = loop {
        let answer = tokio::time::timeout(SOON, answers.next()).await.unwrap().unwrap();
        if answer.payload.starts_with(b"{\"sealed\"") {
            break answer.payload;
        }
    };
    tokio::task::spawn_blocking(move || drop((owner, home))).await.unwrap();

    // Who is there in the owner's place; it answers everything, at once.
    let mut requests = client.subscribe(SUBJECT).await.unwrap();
    client.flush().await.unwrap();
    let (liar, lies) = (client.clone(), Arc::new(AtomicUsize::default()));
    let told = Arc::clone(&lies);
    tokio::spawn(async move {
        while let Some(request) = requests.next().await {
            let reply = request.reply.unwrap();
            let asked: Value = serde_json::from_slice(&request.payload).unwrap();
            let back = json!({ "sealed": asked["sealed"] }).to_string();
            for lie in [recorded.clone(), back.into(), "{}".into(), "".into(), "x".repeat(900_000).into()] {
                liar.publish(reply.clone(), lie).await.unwrap();
                told.fetch_add(1, Ordering::SeqCst);
            }
        }
    });
    // The same machine, to which the recorded answer is sealed.
    let source = stage.borrower("b0");
    let asking = tokio::spawn(async move { token(&source).await });
    let began = Instant::now();
    while lies.load(Ordering::SeqCst) < 5 {
        assert!(began.elapsed() < SOON, "nothing is asked");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!asking.is_finished(), "no lie is taken");
    let vault = Arc::new(Vault { renewed: AtomicUsize::new(7), ..Vault::default() });
    let (owner, _home) = stage.owner(&vault).await;
    assert_eq!(tokio::time::timeout(SOON, asking).await.unwrap().unwrap(), format!("{CANARY}-7"));
    tokio::task::spawn_blocking(move || drop(owner)).await.unwrap();
}

#[tokio::test]
#[ignore = "needs a real nats-server"]
async fn a_flood_of_requests_keeps_nobody_from_a_token() {
    let stage = Stage::new(1).await;
    let vault = Arc::new(Vault::default());
    let (owner, _home) = stage.owner(&vault).await;
    let client = stage.server.client().await;
    let (stranger, listed) = (make_key(stage.folder.path(), "stranger"), &stage.owner.shared_with[0]);
    let request = |key: &str, sealed: &str| json!({ "version": 1, "key": key, "sealed": sealed }).to_string();
    let sealed = "eGt2MQ".repeat(50);
    let floods = [
        "a JSON object".to_owned(),
        "x".repeat(200_000),
        request(&stranger, &sealed),
        request(listed, &sealed),
        request(listed, ""),
        json!({ "version": 2, "key": listed, "sealed": "" }).to_string(),
    ];
    for round in 0..500 {
        for flood in &floods {
            let inbox = client.new_inbox();
            client.publish_with_reply(SUBJECT, inbox, flood.clone().into()).await.unwrap();
            client.publish(SUBJECT, flood.clone().into()).await.unwrap();
        }
        if round == 250 {
            client.flush().await.unwrap();
        }
    }
    let began = Instant::now();
    assert_eq!(token(&stage.borrower("b0")).await, format!("{CANARY}-0"));
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    assert_eq!(vault.asked.load(Ordering::SeqCst), 1, "nothing of the flood was lent");
    tokio::task::spawn_blocking(move || drop(owner)).await.unwrap();
}

#[tokio::test]
#[ignore = "needs a real nats-server"]
async fn a_token_that_is_alive_is_lent_while_the_owner_is_away_and_a_dead_one_is_not() {
    let stage = Stage::new(1).await;
    // Shorter than a token that is lent without a question.
    let vault = Arc::new(Vault { life: Duration::from_secs(30), ..Vault::default() });
    let (owner, home) = stage.owner(&vault).await;
    let machine = stage.borrower("b0");
    assert_eq!(token(&machine).await, format!("{CANARY}-0"));
    let until = machine.standing().await.unwrap().expires_at.expect("its end is known");
    tokio::task::spawn_blocking(move || drop((owner, home))).await.unwrap();
    // Each question to the owner would take seconds of its life.
    for _ in 0..50 {
        assert_eq!(token(&machine).await, format!("{CANARY}-0"));
    }
    let refused = Credential::new(Secret::new(format!("{CANARY}-0")));
    let error = machine.renewed(&refused, Duration::ZERO).await.unwrap_err();
    assert!(matches!(error, CredentialError::Unreachable { .. }), "{error:?}");
    let left = until.duration_since(SystemTime::now()).unwrap_or_default();
    tokio::time::sleep(left + Duration::from_millis(100)).await;
    let error = machine.credential(Duration::ZERO).await.unwrap_err();
    assert!(
        matches!(&error, CredentialError::Unreachable { place, .. } if place.contains("o1")),
        "{error:?}"
    );
    assert_eq!(machine.standing().await.unwrap().expires_at, None);

    // The owner comes back, with a login that has ended, and with none.
    for (vault, words) in [
        (Vault { life: Duration::ZERO, ..Vault::default() }, "clock"),
        (
            Vault { is_empty: true, ..Vault::default() },
            "the vault of worker o1 of pool owners: there, fill it",
        ),
    ] {
        let (owner, home) = stage.owner(&Arc::new(vault)).await;
        let error = machine.credential(Duration::ZERO).await.unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
        tokio::task::spawn_blocking(move || drop((owner, home))).await.unwrap();
    }
}
