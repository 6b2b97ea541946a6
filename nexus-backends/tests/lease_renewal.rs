//! A child whose token ends before the turn may: renewed where the vendor has a way, and told of in any case.
//!
//! The programs are scripts. What the real one makes of a fresh token is among its own tests.

#![cfg(all(unix, feature = "codex", feature = "grok"))]

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use nexus_backends::codex::cli::CodexCli;
use nexus_backends::grok::cli::GrokCli;
use nexus_core::{
    BackendKind, BuildContext, CredentialSource, ErrorKind, ExecutionBackend, Limits, TurnEvent, TurnRequest,
};
use serde_json::json;

use crate::{
    ran::Ran,
    scripted_source::{Lend, ScriptedSource},
};

#[path = "support/ran.rs"]
mod ran;
#[path = "support/scripted_source.rs"]
mod scripted_source;

const FIRST: &str = "canary-token-number-one";
const SECOND: &str = "canary-token-number-two";
const SHORT: Duration = Duration::from_secs(4);
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
    fs::write(&program, format!("#!/bin/sh\n{version}\n{script}\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
    let source: Arc<dyn CredentialSource> = source.clone();
    let environment = BTreeMap::from([("PATH".to_owned(), std::env::var("PATH").unwrap())]);
    let context = BuildContext::new(folder.join("nexus"), folder)
        .with_environment(environment)
        .with_credential_source("scripted", source);
    let settings = json!({
        "executable": program, "credential": { "source": "scripted" }, "record": folder.join("record"),
    });
    kind.build(kind.name().into(), settings.as_object().unwrap(), &context).unwrap()
}

/// Waits for another token than the first, tells of it on standard error, and fails.
const SPIES: &str = r#"
file="$GROK_HOME/auth.json"
token() { sed -n 's/.*"key":"\([^"]*\)".*/\1/p' "$file"; }
first=$(token); n=0
while [ "$(token)" = "$first" ] && [ $n -lt 100 ]; do sleep 0.1; n=$((n+1)); done
cp -p "$file" "${0%/*}/second.json"
echo "the tokens are $first and $(token)." >&2
exit 9"#;

fn warnings(ran: &Ran) -> Vec<&str> {
    let warnings = ran.events.iter().filter_map(|event| match event {
        TurnEvent::Warning(warning) => Some(warning.text.as_str()),
        _ => None,
    });
    warnings.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fresh_token_takes_the_place_of_the_first_and_shows_nowhere() {
    let folder = tempfile::tempdir().unwrap();
    let source = ScriptedSource::new([Lend::Token(FIRST, SHORT), Lend::Token(SECOND, LONG)]);
    let backend = backend(&GrokCli, folder.path(), "grok 1.0.41 (0)", SPIES, &source);
    let limits = Limits::new().with_deadline(Duration::from_secs(60));
    let ran = Ran::of(&*backend, TurnRequest::new("Hello.").with_limits(limits)).await;
    let error = ran.outcome.as_ref().unwrap_err();

    let entry = folder.path().join("second.json");
    let text = fs::read_to_string(&entry).unwrap();
    assert!(text.contains(SECOND) && !text.contains("refresh_token"), "{text}");
    assert_eq!(fs::metadata(entry).unwrap().permissions().mode() & 0o777, 0o600);
    let tail = &error.process().unwrap().stderr_tail;
    assert!(tail.contains("the tokens are [redacted] and [redacted]."), "{tail}");
    assert!(!format!("{:?} {error:?}", ran.events).contains("canary-token"));
    let records = fs::read_dir(folder.path().join("record")).unwrap().flatten().map(|entry| entry.path());
    let kept: Vec<String> =
        records.map(|record| fs::read_to_string(record.join("stderr.txt")).unwrap()).collect();
    assert_eq!(kept.len(), 1);
    assert!(kept[0].contains("[redacted]") && !kept[0].contains("canary-token"), "{kept:?}");

    // Asked for the deadline and the vendor's margin, and then for what was left of it.
    let asked = source.asked();
    assert_eq!(asked.len(), 2, "{asked:?}");
    assert_eq!(asked[0], Duration::from_secs(360));
    assert!((Duration::from_secs(355)..Duration::from_secs(359)).contains(&asked[1]), "{asked:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewal_that_fails_is_told_once_and_tried_again() {
    let folder = tempfile::tempdir().unwrap();
    let script = [Lend::Token(FIRST, SHORT), Lend::Unreachable, Lend::Unreachable, Lend::Token(SECOND, LONG)];
    let source = ScriptedSource::new(script);
    let backend = backend(&GrokCli, folder.path(), "grok 1.0.41 (0)", SPIES, &source);
    let ran = Ran::of(&*backend, TurnRequest::new("Hello.")).await;
    assert!(fs::read_to_string(folder.path().join("second.json")).unwrap().contains(SECOND));
    let told: Vec<_> = warnings(&ran).into_iter().filter(|text| text.contains("nobody answers")).collect();
    assert_eq!(told.len(), 1, "{:?}", warnings(&ran));
    assert_eq!(source.asked().len(), 4);
}

/// Keeps the place of the file taken for a while once it was read.
const IN_THE_WAY: &str = r#"
file="$GROK_HOME/auth.json"
rm -f "$file"; mkdir "$file"
sleep 3.5; rmdir "$file"; n=0
while [ ! -e "$file" ] && [ $n -lt 100 ]; do sleep 0.1; n=$((n+1)); done
cp -p "$file" "${0%/*}/second.json"
exit 9"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_fresh_token_that_cannot_be_handed_over_is_tried_again_and_no_other_is_borrowed() {
    let folder = tempfile::tempdir().unwrap();
    let source = ScriptedSource::new([Lend::Token(FIRST, SHORT), Lend::Token(SECOND, LONG)]);
    let backend = backend(&GrokCli, folder.path(), "grok 1.0.41 (0)", IN_THE_WAY, &source);
    let ran = Ran::of(&*backend, TurnRequest::new("Hello.")).await;
    assert!(ran.outcome.is_err());
    assert!(fs::read_to_string(folder.path().join("second.json")).unwrap().contains(SECOND));
    let told: Vec<_> = warnings(&ran).into_iter().filter(|text| text.contains("handed over")).collect();
    assert_eq!(told.len(), 1, "{:?}", warnings(&ran));
    assert_eq!(source.asked().len(), 2, "what is at hand is not borrowed again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_is_over_renews_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let source = ScriptedSource::new([Lend::Token(FIRST, SHORT), Lend::Token(SECOND, LONG)]);
    let backend = backend(&GrokCli, folder.path(), "grok 1.0.41 (0)", "sleep 60", &source);
    let turn = tokio::spawn(async move { Ran::of(&*backend, TurnRequest::new("Hello.")).await });
    let began = Instant::now();
    while source.asked().is_empty() {
        assert!(began.elapsed() < Duration::from_secs(10), "nothing was borrowed");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    turn.abort();
    assert!(turn.await.is_err());
    tokio::time::sleep(SHORT).await;
    assert_eq!(source.asked().len(), 1, "whoever dropped the turn dropped its renewal");
}

#[tokio::test(flavor = "multi_thread")]
async fn where_there_is_no_way_the_caller_is_told_before() {
    let folder = tempfile::tempdir().unwrap();
    let source = ScriptedSource::new([Lend::Token(FIRST, Duration::from_secs(599))]);
    let backend = backend(&CodexCli, folder.path(), "codex-cli 0.169.0", "exit 9", &source);
    let limits = Limits::new().with_deadline(Duration::from_secs(1_800));
    let request =
        TurnRequest::new("Hello.").with_tool_access(nexus_core::ToolAccess::Unrestricted).with_limits(limits);
    let ran = Ran::of(&*backend, request).await;
    assert_ne!(ran.outcome.as_ref().unwrap_err().kind(), ErrorKind::Unauthenticated);
    let told = "the credential in the script is good for 9 min more, and the turn may last 30 min";
    assert!(warnings(&ran).contains(&told), "{:?}", warnings(&ran));
    assert_eq!(source.asked(), [Duration::from_secs(1_800)]);
}
