//! A login before an OpenID provider that nobody here wrote: made, renewed, fought over, ended.
//!
//! Needs `NEXUS_REAL_OIDC` (see `real/servers/README.md`), and Node:
//!
//! `real/clis/in-namespace cargo test -p nexus-turn-auth --test it login_real -- --ignored`

use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::future::join_all;
use nexus_auth::{
    CredentialManager, RefreshError, Revocation, SignIn as _, SignInMethod, store::StoredLogin,
};
use nexus_core::{Credential, CredentialError, CredentialSource as _};
use nexus_testkit::{child_test, issuer::Browser};
use serde::Deserialize;
use serde_json::{Value, json};

use super::provider::{Ahead, Provider, manager, person, sign_in};

const HOUR: u64 = 3600;
const PROCESSES: usize = 16;
const TASKS: usize = 20;

/// A request to the provider's token endpoint, by its own log.
#[derive(Debug, Deserialize)]
struct Asked {
    #[serde(default)]
    grant_type: String,
    /// Which refresh token of the login was presented: zero is the first.
    rotations: Option<u64>,
    status: u16,
    reuse: bool,
}

/// Every request to the token endpoint so far.
async fn asked(provider: &Provider) -> Vec<Asked> {
    let lines = provider.lines().await;
    let answered = lines.into_iter().filter(|line| line["event"] == "answered");
    answered.map(|line| serde_json::from_value(line).unwrap()).collect()
}

/// Every refresh so far.
async fn refreshes(provider: &Provider) -> Vec<Asked> {
    let mut asked = asked(provider).await;
    asked.retain(|asked| asked.grant_type == "refresh_token");
    asked
}

/// How many refreshes there were, and how many of them with a token that was spent.
async fn spent(provider: &Provider) -> (usize, usize) {
    let refreshes = refreshes(provider).await;
    (refreshes.len(), refreshes.iter().filter(|asked| asked.reuse).count())
}

async fn stored(manager: &CredentialManager) -> StoredLogin {
    manager.look().await.unwrap().expect("there is a login")
}

async fn lend(manager: &CredentialManager) -> Credential {
    manager.credential(Duration::ZERO).await.unwrap()
}

#[tokio::test]
#[ignore = "needs a server of somebody else's; run by .ci/deep"]
async fn a_login_by_browser_lasts_until_it_is_ended_on_both_sides() {
    let (provider, home) = (Provider::start(HOUR), tempfile::tempdir().unwrap());
    let manager = manager(&provider.url, home.path());
    assert!(manager.look().await.unwrap().is_none());
    assert!(matches!(manager.credential(Duration::ZERO).await, Err(CredentialError::Missing { .. })));

    let login = manager.sign_in(&mut person()).await.unwrap();
    let identity = &login.identity;
    assert_eq!(identity.account.as_deref(), Some("invented-account"));
    assert_eq!(identity.email.as_deref(), Some("somebody@example.test"));
    assert_eq!(identity.plan.as_deref(), Some("pro"));
    let lent = lend(&manager).await;
    assert_eq!((&lent.token, lent.account.as_deref()), (&login.access_token, Some("invented-account")));
    let grants: Vec<_> =
        asked(&provider).await.into_iter().map(|asked| (asked.grant_type, asked.status)).collect();
    assert_eq!(grants, [("authorization_code".to_owned(), 200)], "a fresh token is lent without a question");

    let ended = manager.log_out().await.unwrap();
    assert!(ended.was_logged_in);
    assert!(matches!(ended.revocation, Some(Ok(Revocation::Revoked))), "{:?}", ended.revocation);
    assert!(manager.look().await.unwrap().is_none());
    let refused = sign_in(&provider.url, SignInMethod::Browser).refresh(&login).await;
    assert!(matches!(refused, Err(RefreshError::Refused { .. })), "{refused:?}");
    assert_eq!(spent(&provider).await, (1, 0), "it was void, not spent");
}

#[tokio::test]
#[ignore = "needs a server of somebody else's; run by .ci/deep"]
async fn a_login_by_another_device_is_as_good() {
    let (provider, home) = (Provider::start(HOUR), tempfile::tempdir().unwrap());
    let strategy = sign_in(&provider.url, SignInMethod::DeviceCode);
    let manager = CredentialManager::at_home(Arc::new(strategy), home.path());
    let login = manager.sign_in(&mut person()).await.unwrap();
    assert_eq!(login.identity.email.as_deref(), Some("somebody@example.test"));

    let ahead = super::provider::manager(&provider.url, home.path())
        .with_clock(Arc::new(Ahead(Duration::from_secs(HOUR - 60))));
    let lent = lend(&ahead).await;
    assert_ne!(lent.token, login.access_token);
    assert_eq!(spent(&provider).await, (1, 0));
}

#[tokio::test]
#[ignore = "needs a server of somebody else's; run by .ci/deep"]
async fn a_token_is_renewed_before_its_end_and_when_it_is_refused() {
    let (provider, home) = (Provider::start(HOUR), tempfile::tempdir().unwrap());
    let first = manager(&provider.url, home.path()).sign_in(&mut person()).await.unwrap();

    // Four minutes before its end.
    let late = Arc::new(Ahead(Duration::from_secs(HOUR - 240)));
    let at_end = manager(&provider.url, home.path()).with_clock(late);
    let second = lend(&at_end).await;
    assert_ne!(second.token, first.access_token);
    assert_eq!(spent(&provider).await, (1, 0));

    // A minute old, and refused by whoever it was shown to.
    let minute = Arc::new(Ahead(Duration::from_secs(60)));
    let refused = manager(&provider.url, home.path()).with_clock(minute);
    assert_eq!(lend(&refused).await.token, second.token);
    let third = refused.renewed(&second, Duration::ZERO).await.unwrap().expect("there is another");
    assert_ne!(third.token, second.token);
    // Whoever comes later with the same refusal gets what there is.
    let adopted = refused.renewed(&second, Duration::ZERO).await.unwrap().expect("there is another");
    assert_eq!(adopted.token, third.token);
    let refreshes = refreshes(&provider).await;
    let presented: Vec<_> = refreshes.iter().map(|asked| (asked.rotations, asked.status)).collect();
    assert_eq!(presented, [(Some(0), 200), (Some(1), 200)]);
    let stored = stored(&refused).await;
    assert_eq!(stored.login.access_token, third.token);
    assert_eq!(stored.login.identity, first.identity);
}

#[tokio::test]
#[ignore = "needs a server of somebody else's; run by .ci/deep"]
async fn a_login_that_somebody_else_spent_is_told_as_such_and_spends_nothing_more() {
    let (provider, home) = (Provider::start(HOUR), tempfile::tempdir().unwrap());
    let login = manager(&provider.url, home.path()).sign_in(&mut person()).await.unwrap();
    // A copy of the login is renewed elsewhere: what nobody may do.
    let elsewhere = sign_in(&provider.url, SignInMethod::Browser);
    let theirs = elsewhere.refresh(&login).await.unwrap();

    let later = Arc::new(Ahead(Duration::from_secs(HOUR + 60)));
    let ours = manager(&provider.url, home.path()).with_clock(later);
    let error = ours.credential(Duration::ZERO).await.unwrap_err();
    assert!(matches!(error, CredentialError::Refused { .. }), "{error:?}");
    assert!(error.to_string().contains("log in again"), "{error}");
    assert_eq!(spent(&provider).await, (2, 1));
    assert!(ours.credential(Duration::ZERO).await.is_err());
    assert!(stored(&ours).await.refused.is_some(), "what was refused is kept, and marked");
    assert_eq!(spent(&provider).await, (2, 1), "a refused token is not tried again");
    // The provider ended the whole login, as it should.
    assert!(matches!(elsewhere.refresh(&theirs).await, Err(RefreshError::Refused { .. })));
}

#[tokio::test]
#[ignore = "needs a server of somebody else's; run by .ci/deep"]
async fn without_the_provider_a_living_token_goes_on_and_a_dead_one_is_no_refusal() {
    let (provider, home) = (Provider::start(HOUR), tempfile::tempdir().unwrap());
    let url = provider.url.clone();
    let login = manager(&url, home.path()).sign_in(&mut person()).await.unwrap();
    drop(provider);
    let at = |seconds| manager(&url, home.path()).with_clock(Arc::new(Ahead(Duration::from_secs(seconds))));
    assert_eq!(lend(&at(HOUR - 60)).await.token, login.access_token);
    let error = at(HOUR + 60).credential(Duration::ZERO).await.unwrap_err();
    assert!(!matches!(error, CredentialError::Refused { .. } | CredentialError::Missing { .. }), "{error:?}");
    let stored = stored(&at(0)).await;
    assert_eq!((stored.login.access_token, stored.refused), (login.access_token, None));
}

/// Tells the program that it is one of many: where, and what happened to the token.
const ONE_OF_MANY: &str = "NEXUS_TEST_ONE_OF_MANY";

/// Not a test of its own: what one of the processes does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_many() {
    let Ok(told) = std::env::var(ONE_OF_MANY) else { return };
    let told: Value = serde_json::from_str(&told).unwrap();
    let text = |key: &str| told[key].as_str().unwrap().to_owned();
    let home = PathBuf::from(text("home"));
    let clock = Arc::new(Ahead(Duration::from_secs(told["ahead"].as_u64().unwrap())));
    let manager = Arc::new(manager(&text("url"), &home).with_clock(clock));
    let refused = match told["is_refused"].as_bool().unwrap() {
        true => Some(lend(&manager).await),
        false => None,
    };
    fs::write(home.join(format!("ready-{}", std::process::id())), "").unwrap();
    wait_until("the start", || home.join("go").exists());
    let lent = join_all((0..TASKS).map(|_| {
        let (manager, refused) = (Arc::clone(&manager), refused.clone());
        tokio::spawn(async move {
            match refused {
                Some(refused) => manager.renewed(&refused, Duration::ZERO).await.unwrap().expect("another"),
                None => lend(&manager).await,
            }
        })
    }))
    .await;
    let stored = stored(&manager).await;
    assert_eq!(lent.len(), TASKS);
    for credential in lent {
        assert_eq!(credential.unwrap().token, stored.login.access_token);
    }
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what} never came to be");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Lets all processes want a token of the login in `home` at the same moment.
fn let_many_want_a_token(url: &str, home: &Path, ahead: u64, is_refused: bool) {
    let told = json!({ "url": url, "home": home, "ahead": ahead, "is_refused": is_refused }).to_string();
    let start =
        |_| child_test::command(one_of_many).env(ONE_OF_MANY, &told).stdout(Stdio::null()).spawn().unwrap();
    let processes: Vec<_> = (0..PROCESSES).map(start).collect();
    let ready = || {
        let files = fs::read_dir(home).unwrap().flatten();
        files.filter(|file| file.file_name().to_string_lossy().starts_with("ready-")).count()
    };
    wait_until("every process", || ready() == PROCESSES);
    fs::write(home.join("go"), "").unwrap();
    for mut process in processes {
        let status = process.wait().unwrap();
        assert!(status.success(), "{status}: see above");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a server of somebody else's; run by .ci/deep"]
async fn many_tasks_of_many_processes_spend_one_refresh_token_on_an_expired_token() {
    let (provider, home) = (Provider::start(1), tempfile::tempdir().unwrap());
    let manager = manager(&provider.url, home.path());
    manager.sign_in(&mut person()).await.unwrap();
    let longer = format!("{}/test/access-token?seconds={HOUR}", provider.url);
    assert_eq!(Browser::new().submit(&longer, &[]).await.unwrap().status, 204);
    tokio::time::sleep(Duration::from_millis(1100)).await;

    let_many_want_a_token(&provider.url, home.path(), 0, false);
    assert_eq!(spent(&provider).await, (1, 0));
    assert_eq!(stored(&manager).await.generation, 2);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a server of somebody else's; run by .ci/deep"]
async fn many_tasks_of_many_processes_spend_one_refresh_token_on_a_refused_token() {
    let (provider, home) = (Provider::start(HOUR), tempfile::tempdir().unwrap());
    let manager = manager(&provider.url, home.path());
    manager.sign_in(&mut person()).await.unwrap();

    let_many_want_a_token(&provider.url, home.path(), 60, true);
    assert_eq!(spent(&provider).await, (1, 0));
}
