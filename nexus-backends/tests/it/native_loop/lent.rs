//! A source of credentials that the host brings along, and a turn that outlives what it lends.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use nexus_backends::registry;
use nexus_core::{
    BackendId, BuildContext, Credential, CredentialError, CredentialSource, ErrorKind, ExecutionBackend,
    Secret, Standing,
};
use serde_json::{Value, json};

use super::{
    server::{Asked, Canned, call, message, reply},
    stage::{host, request, run},
};

/// Lends one token after another, each with so much life.
#[derive(Debug)]
struct Vault(Mutex<VecDeque<(&'static str, Duration)>>);

impl Vault {
    fn new(tokens: impl IntoIterator<Item = (&'static str, u64)>) -> Arc<Self> {
        let tokens = tokens.into_iter().map(|(token, life)| (token, Duration::from_secs(life)));
        Arc::new(Self(Mutex::new(tokens.collect())))
    }

    fn left(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

#[async_trait]
impl CredentialSource for Vault {
    fn describe(&self) -> String {
        "the vault".into()
    }

    async fn standing(&self) -> Result<Standing, CredentialError> {
        match self.left() {
            0 => Err(CredentialError::Missing { place: self.describe(), remedy: "fill it".into() }),
            _ => Ok(Standing::default()),
        }
    }

    async fn credential(&self, _life: Duration) -> Result<Credential, CredentialError> {
        let next = self.0.lock().unwrap().pop_front();
        let (token, life) = next.ok_or_else(|| CredentialError::Unreachable {
            place: self.describe(),
            reason: "it does not open".into(),
        })?;
        let credential = Credential::new(Secret::new(token)).with_account("account");
        Ok(credential.with_expiry(SystemTime::now() + life))
    }

    async fn renewed(
        &self,
        _refused: &Credential,
        life: Duration,
    ) -> Result<Option<Credential>, CredentialError> {
        self.credential(life).await.map(Some)
    }
}

fn lent_by(vault: &Arc<Vault>, kind: &str, server: &Canned) -> Arc<dyn ExecutionBackend> {
    lent_with(vault, kind, server, json!({}))
}

fn lent_with(vault: &Arc<Vault>, kind: &str, server: &Canned, more: Value) -> Arc<dyn ExecutionBackend> {
    let context = BuildContext::in_home("/nonexistent/nexus")
        .with_base_directory("/")
        .with_credential_source("vault", vault.clone());
    let settings = json!({
        "base_url": server.base_url(), "credential": { "source": "vault" }, "retries": 0, "model": "grok-4.6",
    });
    let (Value::Object(mut settings), Value::Object(more)) = (settings, more) else { unreachable!() };
    settings.extend(more);
    registry().kind(kind).unwrap().build(BackendId::new(kind), &settings, &context).unwrap()
}

fn is_summary(asked: &Asked) -> bool {
    asked.body.to_string().contains("You summarize")
}

/// The token of each request that was a call of the model.
fn tokens(server: &Canned) -> Vec<String> {
    let posts = server.asked().into_iter().filter(|asked| asked.head.starts_with("POST "));
    let token = |head: &str| {
        let line = head.lines().find(|line| line.to_ascii_lowercase().starts_with("authorization:"));
        line.and_then(|line| line.split_once("Bearer ")).map(|(_, token)| token.trim().to_owned())
    };
    posts.filter_map(|asked| token(&asked.head)).collect()
}

#[tokio::test]
async fn a_turn_that_outlives_its_token_goes_on_with_another() {
    let vault = Vault::new([("first-token", 30), ("second-token", 3600)]);
    let server = Canned::new([reply(&[call("call_1", "echo", "{}")]), reply(&[message("Done.")])]);
    let ran = run(&*lent_by(&vault, "responses", &server), request(), host()).await;
    assert_eq!(ran.result().text, "Done.");
    // The first would not have lived for another minute.
    assert_eq!(tokens(&server), ["second-token", "second-token"]);

    let vault = Vault::new([("first-token", 3600), ("second-token", 3600)]);
    let server = Canned::new([reply(&[call("call_1", "echo", "{}")]), reply(&[message("Done.")])]);
    run(&*lent_by(&vault, "responses", &server), request(), host()).await;
    assert_eq!(tokens(&server), ["first-token", "first-token"]);
}

#[tokio::test]
async fn a_summary_is_requested_with_a_token_that_lives() {
    // Each request gets a token of its own, because none lives for another minute.
    let names: Vec<String> = (0..200).map(|number| format!("token-number-{number:03}")).collect();
    let vault = Vault::new(names.into_iter().map(|name| (&*name.leak(), 30)));
    let server = Canned::deciding(|index, asked| match index {
        _ if is_summary(asked) => reply(&[message("SUMMARY")]),
        0..60 => {
            let arguments = json!({ "text": format!("{index} {}", "a line ".repeat(24)) });
            let reply = reply(&[call(&format!("call_{index}"), "echo", &arguments.to_string())]);
            let tokens = format!("\"input_tokens\":{}", asked.body.to_string().len() / 4);
            String::from_utf8(reply).unwrap().replace("\"input_tokens\":10", &tokens).into_bytes()
        }
        _ => reply(&[message("Done.")]),
    });
    let settings = json!({ "context_window": 4_000, "summary_model": "grok-4.6" });
    let ran = run(&*lent_with(&vault, "responses", &server, settings), request(), host()).await;
    assert_eq!(ran.result().text, "Done.", "{:?}", ran.warnings());
    assert!(server.asked().iter().any(is_summary));
    let tokens = tokens(&server);
    let different: BTreeSet<_> = tokens.iter().collect();
    assert_eq!(tokens.len(), different.len(), "{tokens:?}");
}

#[tokio::test]
async fn a_vault_that_does_not_open_is_no_login_that_is_over() {
    let vault = Vault::new([("first-token", 30)]);
    let server = Canned::new([reply(&[message("Never asked.")])]);
    let backend = lent_by(&vault, "responses", &server);
    assert!(backend.probe().await.is_ready());
    let ran = run(&*backend, request(), host()).await;
    assert_eq!(ran.error().kind(), ErrorKind::Transport);
    assert!(server.asked().iter().all(|asked| asked.head.starts_with("HEAD ")), "{:?}", server.asked());
    assert!(!backend.probe().await.is_ready(), "an empty vault is told without being opened");
}

#[tokio::test]
async fn every_kind_takes_a_source_of_the_host() {
    for kind in ["responses", "codex-sub-token", "grok-sub-token", "codex-cli", "grok-cli"] {
        let vault = Vault::new([("a-token", 3600)]);
        let context = BuildContext::in_home("/nonexistent/nexus")
            .with_base_directory("/")
            .with_credential_source("vault", vault.clone());
        let registry = registry();
        let build = |source: &str| {
            let settings = json!({ "credential": { "source": source }, "base_url": "http://127.0.0.1:9" });
            let Value::Object(settings) = settings else { unreachable!() };
            registry.kind(kind).unwrap().build(BackendId::new(kind), &settings, &context)
        };
        assert!(build("vault").is_ok(), "{kind}");
        let error = build("valt").unwrap_err();
        assert_eq!(error.path, ["credential"], "{kind}");
        assert!(error.reason.contains("vault"), "{error}");
        assert_eq!(vault.left(), 1, "{kind}: nothing is borrowed before a turn");
    }
}
