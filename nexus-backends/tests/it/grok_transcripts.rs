//! Every recording of Grok's streaming output, played by a real child through a whole turn.
//!
//! `transcripts/grok/expected.json` says what each must come to: written from what the vendor's program was
//! seen to do, not from what our translation makes of it. A recording without a row fails, and so does a row
//! without a recording. Recordings of the output formats that Nexus does not ask for (`plain`, `json`,
//! `streaming-messages-json`, the agent protocol) are not in the folder; of `json`, those that are but one
//! error line are, since that line is the same.

use std::{collections::BTreeMap, path::Path};

use nexus_backends::grok::cli::GrokCli;
use nexus_core::{
    BackendKind, BuildContext, ErrorKind, ExecutionBackendExt, Message, ToolAccess, ToolCallRecord,
    ToolCallStatus, TurnError, TurnRequest, Usage,
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::support::{player::Player, ran::Ran, recordings};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/transcripts/grok");

/// What a recording must come to.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    /// The recorded exit code; a signal is below zero.
    exit: i32,
    /// `"answered"`, or the kind of the error.
    outcome: Value,
    /// The text of the last message.
    text: String,
    /// The name of each tool call, and how it ended.
    #[serde(default)]
    calls: Vec<(String, ToolCallStatus)>,
    /// Tokens: input, cache read, output, reasoning. Absent: none were reported.
    usage: Option<[u64; 4]>,
}

fn player(script: &str) -> Player {
    Player::new(&GrokCli, "grok 1.0.41 (0)", json!({ "credential": { "env": "TOKEN" } }), script)
}

/// Runs a turn that may use every tool, where the program lies.
async fn play(player: &Player) -> Ran {
    let request =
        TurnRequest::new("go").with_tool_access(ToolAccess::Unrestricted).in_directory(player.folder.path());
    player.play(request).await
}

impl Ran {
    fn kind(&self) -> Option<ErrorKind> {
        self.outcome.as_ref().err().map(TurnError::kind)
    }

    fn messages(&self) -> &[Message] {
        match &self.outcome {
            Ok(result) => &result.messages,
            Err(error) => &error.partial().messages,
        }
    }

    fn calls(&self) -> &[ToolCallRecord] {
        match &self.outcome {
            Ok(result) => &result.tool_calls,
            Err(error) => &error.partial().tool_calls,
        }
    }

    fn usage(&self) -> Usage {
        match &self.outcome {
            Ok(result) => result.usage,
            Err(error) => error.partial().usage,
        }
    }

    /// What of it is not as expected.
    fn differences(&self, expected: &Expected) -> Vec<String> {
        let mut all = Vec::new();
        let mut same = |what: &str, is: String, should: String| {
            if is != should {
                all.push(format!("{what}: {is} instead of {should}"));
            }
        };
        let outcome = self.kind().map_or(json!("answered"), |kind| serde_json::to_value(kind).unwrap());
        same("outcome", outcome.to_string(), expected.outcome.to_string());
        let text = self.messages().last().map_or("", |message| &message.text);
        same("text", format!("{text:?}"), format!("{:?}", expected.text));
        let calls = self.calls().iter().map(|call| (call.name.clone(), call.status)).collect::<Vec<_>>();
        same("calls", format!("{calls:?}"), format!("{:?}", expected.calls));
        let usage = self.usage();
        let tokens =
            [usage.input_tokens, usage.cache_read_tokens, usage.output_tokens, usage.reasoning_tokens];
        let reported = expected.usage.map_or([None; 4], |tokens| tokens.map(Some));
        same("usage", format!("{tokens:?}"), format!("{reported:?}"));
        same("unrecognised lines", self.unrecognized().len().to_string(), "0".to_owned());
        all
    }
}

#[tokio::test]
async fn every_recording_comes_to_its_outcome() {
    let rows = recordings::rows::<Expected>(Path::new(FOLDER), 150);
    let mut wrong = Vec::new();
    for (name, expected) in &rows {
        let exit = expected.exit;
        let end = if exit < 0 { format!("kill -{} $$", -exit) } else { format!("exit {exit}") };
        let player = player(&format!("cat '{FOLDER}/{name}.jsonl'\n{end}"));
        let differences = play(&player).await.differences(expected);
        wrong.extend(differences.into_iter().map(|difference| format!("{name}: {difference}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn an_end_without_a_last_line_is_a_crash_that_keeps_what_came() {
    let script = r#"echo '{"type":"text","data":"half"}'; echo oops >&2; exit 3"#;
    let played = play(&player(script)).await;
    let error = played.outcome.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Crashed);
    assert_eq!(error.partial().text, "half");
    assert!(error.process().unwrap().stderr_tail.contains("oops"));
}

#[tokio::test]
async fn what_is_not_known_is_passed_on() {
    let script = r#"echo '{"type":"brand_new","x":1}'; echo 'not json'; echo '{"type":"text","data":7}'
        echo '{"type":"text","data":"hi"}'; echo '{"type":"usage"}'
        echo '{"type":"end","stopReason":"end_turn"}'"#;
    let played = play(&player(script)).await;
    let names: Vec<_> = played.unrecognized().iter().map(|unknown| unknown.name.as_deref()).collect();
    assert_eq!(names, [Some("brand_new"), None, Some("text")]);
    assert_eq!(played.outcome.unwrap().text, "hi");
}

#[tokio::test]
async fn a_tool_beyond_what_was_asked_for_ends_the_turn() {
    let script = r#"echo '{"type":"available_commands","tools":["run_terminal_command"]}'
        echo '{"type":"text","data":"hi"}'; echo '{"type":"usage"}'
        echo '{"type":"end","stopReason":"end_turn"}'"#;
    let player = player(script);
    for access in [ToolAccess::ScopedOnly, ToolAccess::ReadOnly] {
        let request = TurnRequest::new("go").with_tool_access(access).in_directory(player.folder.path());
        let error = player.backend.run_text(request).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{access:?}");
    }
}

#[tokio::test]
async fn without_a_credential_nothing_is_started() {
    let folder = tempfile::tempdir().unwrap();
    let marker = folder.path().join("started");
    let player = player(&format!("touch '{}'", marker.display()));
    let context = BuildContext::in_home(folder.path())
        .with_base_directory(folder.path())
        .with_environment(BTreeMap::new());
    let Value::Object(settings) = json!({ "executable": player.folder.path().join(GrokCli.name()) }) else {
        unreachable!("an object");
    };
    let backend = GrokCli.build("grok-cli".into(), &settings, &context).unwrap();
    let error = backend.run_text(TurnRequest::new("go")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unauthenticated);
    assert!(error.to_string().contains("credential"), "{error}");
    assert!(!marker.exists());
}

#[tokio::test]
async fn a_credential_of_the_other_kind_is_not_spent() {
    let player = player("exit 9");
    let folder = player.folder.path();
    for (billing, token) in [("plan", "xai-abc"), ("metered", "eyJhbGciOi.x.y")] {
        let environment = BTreeMap::from([("TOKEN".to_owned(), token.to_owned())]);
        let context = BuildContext::in_home(folder.join("nexus"))
            .with_base_directory(folder)
            .with_environment(environment);
        let settings = json!({ "executable": folder.join(GrokCli.name()), "credential": { "env": "TOKEN" }, "billing": billing });
        let Value::Object(settings) = settings else { unreachable!("an object") };
        let backend = GrokCli.build("grok-cli".into(), &settings, &context).unwrap();
        let error = backend.run_text(TurnRequest::new("go")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BillingMismatch, "{billing}");
        assert!(!format!("{error:?}").contains(token));
    }
}
