//! Completions of a command line while a person types it: words from the state of this machine.
//!
//! The script of `nexus completions SHELL` starts this program at each press of Tab, with [`VARIABLE`] set. Completing starts no other program, uses no
//! network, and prints no error. Of a configuration it reads names alone, so an untrusted file can do nothing but offer names.

use std::{
    collections::BTreeMap,
    env,
    ffi::{OsStr, OsString},
    fs::{self, File},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use clap::Command;
use clap_complete::{
    CompleteEnv, Shell,
    engine::{ArgValueCandidates, CompletionCandidate},
    env::Shells,
};
use nexus::{BuildContext, SystemClock};
use nexus_broker::{BrokerStore as _, DocumentKind, QueueLimits, Sessions, SqliteStore};
use nexus_debates::DebateStore;
use nexus_files::read_text;
use nexus_tasks::TaskStore;
use serde::{Deserialize, de::IgnoredAny};

use crate::{args, broker_home, conversation, output::printable};

/// Environment variable with the shell that asks for completions.
const VARIABLE: &str = "NEXUS_COMPLETE";

/// Maximum number of works that are offered, the newest first.
const MOST_WORKS: usize = 100;

/// Maximum size of a configuration whose names are offered, in bytes.
const MAX_CONFIGURATION_BYTES: u64 = 1 << 20;

/// Longest wait for the store of the broker, which another process may have locked.
const STORE_PATIENCE: Duration = Duration::from_millis(500);

/// Prints completions if a shell asks for them. Returns false if this is an ordinary start of the command.
pub(crate) fn answer() -> bool {
    if env::var_os(VARIABLE).is_none_or(|shell| shell.is_empty()) {
        return false;
    }
    let folder = env::current_dir().ok();
    // A shell would show an error in the middle of the line that a person types.
    let _ = CompleteEnv::with_factory(command).var(VARIABLE).try_complete(env::args_os(), folder.as_deref());
    true
}

/// Returns the script that registers the completions with a shell.
pub(crate) fn script(shell: Shell) -> std::io::Result<String> {
    let shells = Shells::builtins();
    let mut script = Vec::new();
    let name = shell.to_string();
    if let Some(completer) = shells.iter().find(|known| known.is(&name)) {
        completer.write_registration(VARIABLE, "nexus", "nexus", "nexus", &mut script)?;
    }
    Ok(String::from_utf8_lossy(&script).trim().to_owned())
}

/// The command line, with a source of words for each argument that names something of this machine.
fn command() -> Command {
    with_sources(args::command(), "")
}

fn with_sources(command: Command, name: &str) -> Command {
    let command = command.mut_args(|arg| match source(name, arg.get_id().as_str()) {
        Some(source) => arg.add(ArgValueCandidates::new(source)),
        None => arg,
    });
    command.mut_subcommands(|below| {
        let name = format!("{name} {}", below.get_name());
        with_sources(below, name.trim_start())
    })
}

type Source = fn() -> Vec<CompletionCandidate>;

/// Returns the source of words for an argument of a command.
fn source(command: &str, argument: &str) -> Option<Source> {
    let group = command.split(' ').next().unwrap_or_default();
    Some(match (group, command, argument) {
        ("run" | "explain" | "acp" | "chat", _, "first" | "kind" | "type" | "type_name") => types,
        ("run" | "chat", _, "conversation") | ("conversation", _, "name") => conversations,
        ("task", "task show", "artifact") => artifacts,
        ("task", _, "task") => tasks,
        ("debate", _, "debate") => debates,
        ("session", _, "session") => sessions,
        ("broker", "broker stop" | "broker start", "name") | ("trigger", _, "agent" | "of_agent") => agents,
        ("broker", "broker send", "to") => agents,
        ("broker", "broker land" | "broker clean", "name") => workers,
        ("trigger", "trigger enable" | "trigger disable" | "trigger delete", "id") => triggers,
        _ => return None,
    })
}

/// A word, if a shell can insert it as it is. A name with other characters could run a command once the person presses Enter.
fn word(word: &str) -> Option<CompletionCandidate> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._:-/@+".contains(&byte);
    let may_begin = word.starts_with(|first: char| first.is_ascii_alphanumeric());
    (may_begin && word.bytes().all(is_plain)).then(|| CompletionCandidate::new(word))
}

fn words(names: impl IntoIterator<Item = String>) -> Vec<CompletionCandidate> {
    names.into_iter().filter_map(|name| word(&name)).collect()
}

/// A word with its description, which some shells show.
fn described(name: &str, description: &str) -> Option<CompletionCandidate> {
    let line = printable(description.lines().next().unwrap_or_default());
    let short: String = line.chars().take(60).collect();
    Some(word(name)?.help(Some(short.into())))
}

fn home() -> PathBuf {
    BuildContext::from_process().home
}

/// Offers ids of works, the newest first, after `last`.
fn works(found: impl DoubleEndedIterator<Item = (String, String)>) -> Vec<CompletionCandidate> {
    let mut found = found.rev().take(MOST_WORKS).peekable();
    let last = found.peek().and_then(|(_, title)| described("last", title));
    let all = last.into_iter().chain(found.filter_map(|(id, title)| described(&id, &title)));
    all.zip(0..).map(|(candidate, order)| candidate.display_order(Some(order))).collect()
}

fn tasks() -> Vec<CompletionCandidate> {
    let listed = TaskStore::in_home(&home()).list().map(|listed| listed.entries).unwrap_or_default();
    // A task whose creation still runs cannot be used yet.
    let made = listed.into_iter().filter(|(task, _)| !task.is_unfinished());
    works(
        made.map(|(task, snapshot)| (task.id().to_string(), snapshot.data.goal))
            .collect::<Vec<_>>()
            .into_iter(),
    )
}

fn debates() -> Vec<CompletionCandidate> {
    let listed = DebateStore::in_home(&home()).list().map(|listed| listed.entries).unwrap_or_default();
    works(listed.into_iter().map(|(debate, snapshot)| (debate.id().to_string(), snapshot.data.question)))
}

/// Offers the artifacts of the task that the line names before them.
fn artifacts() -> Vec<CompletionCandidate> {
    let line: Vec<OsString> = env::args_os().collect();
    // The line is incomplete, so search it for the word after `show` and do not parse it.
    let named = line.iter().skip_while(|word| *word != "show").skip(1).find(|word| !is_option(word));
    let store = TaskStore::in_home(&home());
    let listed = store.list().map(|listed| listed.entries).unwrap_or_default();
    let is_named = |id: &str| {
        named.and_then(|named| named.to_str()).is_some_and(|named| named == "last" || id.starts_with(named))
    };
    let task = listed.into_iter().rev().map(|(task, _)| task).find(|task| is_named(task.id().as_str()));
    let names = task.and_then(|task| task.artifacts().ok()).unwrap_or_default();
    words(names)
}

fn is_option(word: &OsStr) -> bool {
    word.as_encoded_bytes().starts_with(b"-")
}

fn conversations() -> Vec<CompletionCandidate> {
    let listed = conversation::store().list().map(|listed| listed.conversations).unwrap_or_default();
    words(listed.into_iter().map(|found| found.name.to_string()))
}

fn sessions() -> Vec<CompletionCandidate> {
    let listed =
        Sessions::new(conversation::store()).list().map(|listed| listed.sessions).unwrap_or_default();
    words(listed.into_iter().map(|(key, _)| key.to_string()))
}

/// Names of a configuration. Everything else in the file is ignored.
#[derive(Debug, Default, Deserialize)]
struct ConfiguredNames {
    #[serde(default)]
    types: BTreeMap<String, IgnoredAny>,
    #[serde(default)]
    broker: BrokerNames,
}

/// Names of a configuration's section `broker`.
#[derive(Debug, Default, Deserialize)]
struct BrokerNames {
    #[serde(default)]
    agents: BTreeMap<String, IgnoredAny>,
}

fn types() -> Vec<CompletionCandidate> {
    words(configured(&[PathBuf::from("nexus.yaml"), home().join("nexus.yaml")]).types.into_keys())
}

fn agents() -> Vec<CompletionCandidate> {
    words(configured(&[home().join("nexus.yaml")]).broker.agents.into_keys())
}

/// Reads the names of the configuration that the line or the environment names, else of the first file that exists.
fn configured(files: &[PathBuf]) -> ConfiguredNames {
    let line: Vec<OsString> = env::args_os().collect();
    let named = line.iter().position(|word| word == "--config").and_then(|at| line.get(at + 1)).cloned();
    let named = named.or_else(|| env::var_os("NEXUS_CONFIG")).filter(|named| !named.is_empty());
    let file = named.map(PathBuf::from).or_else(|| files.iter().find(|file| file.exists()).cloned());
    file.and_then(|file| names_in(&file)).unwrap_or_default()
}

fn names_in(file: &Path) -> Option<ConfiguredNames> {
    // Opening a pipe would wait for its writer.
    if !fs::metadata(file).ok()?.is_file() {
        return None;
    }
    let text = read_text(File::open(file).ok()?, MAX_CONFIGURATION_BYTES).ok()?;
    serde_yaml::from_str(&text).ok()
}

fn triggers() -> Vec<CompletionCandidate> {
    words(documents(DocumentKind::Trigger))
}

/// Returns the workers: agents that another agent started, so that the configuration does not name them.
fn workers() -> Vec<CompletionCandidate> {
    let configured = configured(&[home().join("nexus.yaml")]).broker.agents;
    words(documents(DocumentKind::Agent).into_iter().filter(|name| !configured.contains_key(name)))
}

/// Returns the keys of documents in the broker's store of this home; none without a store.
fn documents(kind: DocumentKind) -> Vec<String> {
    let path = broker_home::folder().join("messages.db");
    // Opening a missing store would create it.
    if !path.is_file() {
        return Vec::new();
    }
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_time().build() else {
        return Vec::new();
    };
    let read = runtime.block_on(async {
        let reading = async {
            let store = SqliteStore::open(path, QueueLimits::default(), Arc::new(SystemClock)).await.ok()?;
            store.documents(kind).await.ok()
        };
        tokio::time::timeout(STORE_PATIENCE, reading).await.ok().flatten()
    });
    // Do not wait for a blocked read: the person waits for the shell.
    runtime.shutdown_background();
    read.unwrap_or_default().into_iter().map(|document| document.key).collect()
}
