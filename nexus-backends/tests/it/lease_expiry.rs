//! A child whose token ends before the turn may: the turn is ended with it, and says so.
//!
//! The programs are scripts in the place of the vendors'.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use nexus_backends::codex::cli::CodexCli;
use nexus_backends::grok::cli::GrokCli;
use nexus_core::{
    BackendKind, BuildContext, CredentialSource, ErrorKind, ExecutionBackend, Limit, Limits, ToolAccess,
    TurnRequest,
};
use serde_json::json;

use crate::support::{
    program::write_script,
    ran::Ran,
    scripted_source::{Lend, ScriptedSource},
};

const TOKEN: &str = "canary-token";
const SHORT: Duration = Duration::from_secs(10);
const LONG: Duration = Duration::from_secs(3_600);

fn backend(
    kind: &dyn BackendKind,
    folder: &Path,
    version: &str,
    script: &str,
    source: &Arc<ScriptedSource>,
) -> Arc<dyn ExecutionBackend> {
    let program = folder.join(kind.name());
    let version = format!("if [ \"$1\" = --version ]; then echo '{version}'; exit; fi");
    write_script(&program, &format!("{version}\n{script}"));
    let source: Arc<dyn CredentialSource> = source.clone();
    let environment = BTreeMap::from([("PATH".to_owned(), std::env::var("PATH").unwrap())]);
    let context = BuildContext::in_home(folder.join("nexus"))
        .with_base_directory(folder)
        .with_environment(environment)
        .with_credential_source("scripted", source);
    let settings = json!({
        "executable": program, "credential": { "source": "scripted" },
    });
    kind.build(kind.name().into(), settings.as_object().unwrap(), &context).unwrap()
}

/// Each CLI that is lent a token of a vendor's login, and how it tells its version.
const CLIS: [(&dyn BackendKind, &str); 2] = [(&CodexCli, "codex-cli 0.169.0"), (&GrokCli, "grok 1.0.41 (0)")];

fn request(deadline: Option<Duration>) -> TurnRequest {
    let limits = deadline.map_or_else(Limits::new, |deadline| Limits::new().with_deadline(deadline));
    TurnRequest::new("Hello.").with_tool_access(ToolAccess::Unrestricted).with_limits(limits)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_is_ended_with_a_token_that_is_shorter_and_says_why() {
    let deadlines = [Some(Duration::from_secs(300)), None];
    let turns =
        CLIS.into_iter().flat_map(|cli| deadlines.map(|deadline| ended_with_its_token(cli, deadline)));
    futures::future::join_all(turns).await;
}

async fn ended_with_its_token((kind, version): (&dyn BackendKind, &str), deadline: Option<Duration>) {
    let folder = tempfile::tempdir().unwrap();
    let source = ScriptedSource::new([Lend::Token(TOKEN, SHORT)]);
    let backend = backend(kind, folder.path(), version, "exec sleep 300", &source);
    let began = Instant::now();
    let ran = Ran::of(&*backend, request(deadline)).await;
    assert!(began.elapsed() < Duration::from_secs(120), "{:?}", began.elapsed());
    let error = ran.outcome.as_ref().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitReached(Limit::Deadline), "{error:?}");
    let told = error.to_string();
    assert!(told.contains("because the credential in the script ends"), "{told}");
    let seconds = |text: &str| {
        let rest = text.strip_prefix("the credential in the script is valid for another ")?;
        rest.strip_suffix(" s; the turn must end by then")?.parse::<u64>().ok()
    };
    let warnings = ran.warnings();
    let told: Vec<u64> = warnings.iter().filter_map(|text| seconds(text)).collect();
    assert!(matches!(told.as_slice(), [life] if *life < SHORT.as_secs()), "{warnings:?}");
    assert_eq!(source.asked().len(), 1, "no other is borrowed in mid-turn");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_asked_to_outlive_the_turn_and_one_that_does_changes_nothing() {
    for (kind, version) in CLIS {
        let folder = tempfile::tempdir().unwrap();
        let source = ScriptedSource::new([Lend::Token(TOKEN, LONG)]);
        let backend = backend(kind, folder.path(), version, "exec sleep 300", &source);
        let ran = Ran::of(&*backend, request(Some(Duration::from_secs(2)))).await;
        let error = ran.outcome.as_ref().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LimitReached(Limit::Deadline), "{error:?}");
        assert!(!error.to_string().contains("credential"), "{error}");
        assert!(!ran.warnings().iter().any(|text| text.contains("good for")), "{:?}", ran.warnings());
        assert_eq!(source.asked(), [Duration::from_secs(302)]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_has_ended_starts_no_turn() {
    for (kind, version) in CLIS {
        let folder = tempfile::tempdir().unwrap();
        let source = ScriptedSource::new([Lend::Token(TOKEN, Duration::ZERO)]);
        let started = "touch \"${0%/*}/started\"; exec sleep 300";
        let backend = backend(kind, folder.path(), version, started, &source);
        let ran = Ran::of(&*backend, request(None)).await;
        assert_eq!(ran.outcome.as_ref().unwrap_err().kind(), ErrorKind::Unauthenticated);
        assert!(!folder.path().join("started").exists());
    }
}
