//! Leaks: prompts and secrets in argument lists and in files left behind, and the host's own variables in the
//! environment of the processes of a turn.

use std::{collections::BTreeMap, path::PathBuf, process::Stdio, time::Duration};

use nexus_core::{OutputSchema, ToolAccess, TurnRequest};
use serde_json::json;
use tokio::{io::AsyncReadExt as _, net::TcpListener};

use crate::{
    conformance::{
        feature::Feature,
        finding::{Finding, Verdict, ensure, short},
        processes::{ProcessWatch, contains},
        subject::MARK_VARIABLE,
        trial::{Staged, Trial},
    },
    sim::{Reply, Scenario, ToolCall},
};

/// Largest file that is searched for a prompt.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// Variables of the host that a child may legitimately have itself.
const COMMON_VARIABLES: &[&str] = &[
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TERM", "TZ", "TMPDIR", "PWD", "OLDPWD",
    "SHLVL", "_", "HOSTNAME",
];

pub(crate) async fn no_argument_list_holds_what_was_sent(trial: &Trial<'_>) -> Verdict {
    if !ProcessWatch::is_possible() {
        return Ok(());
    }
    let staged = trial.stage(slow_answer(trial)).await?;
    let watch = ProcessWatch::start(trial.mark());
    scan_finds_an_allowed_canary(trial, &watch).await?;
    let before = watch.seen().len();
    staged.run(telling(trial, &staged)?).await?.result()?;
    let seen = watch.seen();
    let is_delegated = Feature::Process.is_declared(&staged.capabilities());
    ensure(seen.len() > before || !is_delegated, "the turn's processes can be seen", || "none was".into())?;
    for (process, sight) in &seen {
        for what in ["prompt", "system", "schema", "token"] {
            // Every user of the machine can read the arguments of a process.
            let held = contains(&sight.argv, trial.canary(what).as_bytes());
            ensure(!held, "argument lists", || {
                format!("the {what} stands in the arguments of process {}", process.pid)
            })?;
        }
    }
    Ok(())
}

pub(crate) async fn no_file_is_left_that_holds_what_was_sent(trial: &Trial<'_>) -> Verdict {
    let staged = trial.stage(slow_answer(trial)).await?;
    let planted = trial.folder().join("planted.txt");
    let canary = trial.canary("prompt");
    std::fs::write(&planted, &canary).map_err(|error| Finding::new("a temporary file", error.to_string()))?;
    let found = files_with(trial, &staged, "prompt");
    ensure(found == [planted.clone()], "the scan finds an allowed canary", || short(&found))?;
    std::fs::remove_file(&planted).map_err(|error| Finding::new("a temporary file", error.to_string()))?;

    staged.run(telling(trial, &staged)?).await?.result()?;
    for what in ["prompt", "system", "schema", "token", "answer"] {
        let found = files_with(trial, &staged, what);
        ensure(found.is_empty(), "files left behind", || format!("the {what} is in {}", short(&found)))?;
    }
    Ok(())
}

pub(crate) async fn the_hosts_own_variables_reach_no_child(trial: &Trial<'_>) -> Verdict {
    if !ProcessWatch::is_possible() {
        return Ok(());
    }
    let foreign: BTreeMap<String, String> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, value)| {
            !COMMON_VARIABLES.contains(&name.as_str()) && !name.starts_with("LC_") && !value.is_empty()
        })
        .collect();
    ensure(!foreign.is_empty(), "the host has a variable of its own", || {
        "run the suite under cargo, or with one more variable".into()
    })?;
    let staged = trial.stage(slow_answer(trial)).await?;
    let watch = ProcessWatch::start(trial.mark());
    scan_finds_an_allowed_canary(trial, &watch).await?;
    let allowed = watch.seen();
    staged.run(telling(trial, &staged)?).await?.result()?;
    for (process, sight) in watch.seen().iter().filter(|(process, _)| !allowed.contains_key(*process)) {
        for variable in sight.environment.split(|byte| *byte == 0) {
            let text = String::from_utf8_lossy(variable);
            let Some((name, value)) = text.split_once('=') else { continue };
            let leaked = foreign.get(name).is_some_and(|foreign| foreign == value);
            ensure(!leaked, "foreign variables", || format!("{name} reached process {}", process.pid))?;
        }
    }
    Ok(())
}

/// Command that prints `of-the-token-1` if a variable contains the credential, and otherwise `of-the-token-0`. No redactor removes
/// these texts.
const COUNT: &str = "echo of-the-token-$(env | grep -c canary-token- | sed 's/[1-9][0-9]*/1/')";

pub(crate) async fn a_tool_sees_no_credential_and_no_variable_but_those_named(trial: &Trial<'_>) -> Verdict {
    // A program that still starts may hide a variable only later, so the command runs several times.
    let looks = ["", "", "sleep 1; ", "sleep 3; "];
    let hidden = trial.canary("token");
    for access in [ToolAccess::Unrestricted, ToolAccess::ReadOnly] {
        let kept = if access == ToolAccess::Unrestricted { "env >> seen.txt; " } else { "" };
        let looks = looks.iter().map(|wait| Reply::call(ToolCall::shell(format!("{wait}{kept}{COUNT}"))));
        let staged = trial.stage(Scenario::new(looks.chain([Reply::text("Looked.")]))).await?;
        if !Feature::ReadOnly.is_declared(&staged.capabilities()) && access == ToolAccess::ReadOnly {
            continue;
        }
        staged.run(staged.work("Look.", access)).await?.result()?;
        let answers = staged.model_calls().pop().map(|call| call.tool_results).unwrap_or_default();
        let seen =
            answers.iter().find(|answer| answer.contains("of-the-token-1") || answer.contains(&hidden));
        ensure(seen.is_none(), "the credential is hidden", || format!("{access:?}: a command saw it"))?;
    }
    let seen = std::fs::read_to_string(trial.workspace().join("seen.txt"))
        .map_err(|error| Finding::new("the file", error.to_string()))?;
    ensure(!seen.contains(&hidden), "the credential is hidden", || "a command saw it".to_owned())?;
    ensure(seen.contains(trial.mark()), "the variable that was named is seen", || short(&seen))?;
    let leaked = std::env::vars_os().find(|(name, _)| {
        let name = name.to_string_lossy();
        // Cargo sets these for every test, so the host always has some.
        name.starts_with("CARGO_") && seen.lines().any(|line| line.starts_with(&format!("{name}=")))
    });
    ensure(leaked.is_none(), "foreign variables", || short(&leaked))
}

pub(crate) async fn the_credential_goes_to_the_model_and_nowhere_else(trial: &Trial<'_>) -> Verdict {
    let unusable = |error: std::io::Error| Finding::new("a place of our own", error.to_string());
    let elsewhere = TcpListener::bind("127.0.0.1:0").await.map_err(unusable)?;
    let url = format!("http://{}/v1/elsewhere", elsewhere.local_addr().map_err(unusable)?);
    // Clients repeat a POST only after 307. After 302 they may send a GET, with the same headers.
    for status in [302, 307] {
        // The model's server redirects to another address. The backend may follow, but without the credential.
        let staged = trial.stage(Reply::status(status).header("location", url.as_str())).await?;
        let (is_over, over) = tokio::sync::oneshot::channel();
        let turn = async {
            let turn = staged.run(staged.request("Hello.")).await;
            drop(is_over);
            turn
        };
        let (turn, told) = tokio::join!(turn, listen(&elsewhere, over));
        let holds = told.contains(&trial.canary("token"));
        ensure(!holds, "the credential goes nowhere else", || "a redirect took it along".to_owned())?;
        turn?;
    }
    Ok(())
}

/// Returns everything that clients send until a moment after `over`. No client gets an answer.
async fn listen(place: &TcpListener, over: tokio::sync::oneshot::Receiver<()>) -> String {
    const MOMENT: Duration = Duration::from_millis(300);
    let mut said = Vec::new();
    let hear = async {
        while let Ok((mut stream, _)) = place.accept().await {
            let mut piece = [0; 4096];
            while let Ok(Ok(read @ 1..)) = tokio::time::timeout(MOMENT, stream.read(&mut piece)).await {
                said.extend_from_slice(&piece[..read]);
            }
        }
    };
    tokio::select! {
        () = hear => {}
        () = async { let _ = over.await; tokio::time::sleep(2 * MOMENT).await } => {}
    }
    String::from_utf8_lossy(&said).into_owned()
}

/// A request with a canary in every field that the backend supports.
fn telling(trial: &Trial<'_>, staged: &Staged<'_>) -> Result<TurnRequest, Finding> {
    let capabilities = staged.capabilities();
    let mut request = staged.request(trial.canary("prompt"));
    if Feature::System.is_declared(&capabilities) {
        request = request.with_system(trial.canary("system"));
    }
    if Feature::Output.is_declared(&capabilities) {
        let schema = json!({ "type": "object", "description": trial.canary("schema") });
        let schema = OutputSchema::new(schema).map_err(|error| Finding::new("schema", error.to_string()))?;
        request = request.with_output(schema);
    }
    Ok(request)
}

/// An answer that takes long enough for processes to be looked at, and that fits the schema.
fn slow_answer(trial: &Trial<'_>) -> Scenario {
    let answer = json!({ "answer": trial.canary("answer") });
    Reply::json(&answer).paced(8, Duration::from_millis(60)).into()
}

/// Checks the observer itself: it must see a test process with the mark and a canary.
async fn scan_finds_an_allowed_canary(trial: &Trial<'_>, watch: &ProcessWatch) -> Verdict {
    let canary = trial.canary("allowed");
    let mut child = tokio::process::Command::new("sh")
        .args(["-c", "read end", &canary])
        .env(MARK_VARIABLE, trial.mark())
        .stdin(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| Finding::new("a process of our own", error.to_string()))?;
    let mut found = false;
    for _ in 0..200 {
        found = watch.seen().values().any(|sight| contains(&sight.argv, canary.as_bytes()));
        if found {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // If it cannot be killed, it ends by itself.
    let _ = child.kill().await;
    ensure(found, "the scan finds an allowed canary", || "it did not".into())
}

/// The files that hold the canary `what`: everything of the trial, and what was made in
/// the system's folder for temporary files meanwhile. What belongs to the stage itself is not looked at.
pub(super) fn files_with(trial: &Trial<'_>, staged: &Staged<'_>, what: &str) -> Vec<PathBuf> {
    let canary = trial.canary(what);
    let own = &staged.stage.own_folders;
    let mut found = Vec::new();
    let mut look = |path: &std::path::Path| {
        let is_small =
            path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.len() <= MAX_FILE_BYTES);
        if !is_small || own.iter().any(|folder| path.starts_with(folder)) {
            return;
        }
        if std::fs::read(path).is_ok_and(|bytes| contains(&bytes, canary.as_bytes())) {
            found.push(path.to_owned());
        }
    };
    super::walk(trial.folder(), &mut look);
    let began = trial.folder().metadata().and_then(|metadata| metadata.created());
    let entries = std::fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.path() != trial.folder()) {
        let is_new = match (&began, entry.metadata().and_then(|metadata| metadata.created())) {
            // Other programs use the same folder, so look only at entries that are newer than the trial.
            (Ok(began), Ok(created)) => created >= *began,
            _ => false,
        };
        if is_new {
            super::walk(&entry.path(), &mut look);
        }
    }
    found
}
