//! Stored conversations.
//!
//! Each turn has its own home. Grok stores a conversation in a folder below it, named after the working directory and
//! the session's id. At the end of the turn the folder of a stored conversation moves out of the home. The home of a
//! turn that resumes the conversation gets a copy.
//!
//! The copy gets the new working directory, because the CLI would otherwise work in the old one. Its system message is
//! removed, because the CLI would otherwise send it in place of the new turn's.
//!
//! Source: observed with grok 1.0.41.

use std::{
    fs,
    hash::{BuildHasher as _, RandomState},
    io,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use serde_json::Value;

use crate::cli::KeptConversation;
use nexus_process::private_home::PrivateHome;

/// Extension of a conversation's folder while a new one replaces it.
const ASIDE: &str = "old";
/// Maximum length of a folder's name, in bytes.
const MAX_NAME_BYTES: usize = 255;

/// Conversation, and the folder to which it moves when the turn ends.
#[derive(Clone, Debug)]
pub(super) struct StoredConversation {
    id: String,
    kept_at: Option<PathBuf>,
}

impl StoredConversation {
    /// Creates a conversation that ends with its turn.
    pub(super) fn for_this_turn(id: String) -> Self {
        Self { id, kept_at: None }
    }

    /// Creates a conversation that is stored below `nexus_home`.
    pub(super) fn below(nexus_home: &Path, id: String) -> Self {
        let kept_at = Some(kept_folder(nexus_home, &id));
        Self { id, kept_at }
    }

    /// Returns the session's id.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Moves the session's `folder` to its storage, if the conversation is stored.
    pub(super) fn keep(&self, folder: &Path) -> io::Result<()> {
        let Some(kept_at) = &self.kept_at else { return Ok(()) };
        if let Some(parent) = kept_at.parent() {
            nexus_files::make_private_folder(parent)?;
        }
        let aside = kept_at.with_extension(ASIDE);
        let had_one = match fs::rename(kept_at, &aside) {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => return Err(error),
        };
        if let Err(error) = fs::rename(folder, kept_at) {
            if had_one {
                fs::rename(&aside, kept_at)?;
            }
            return Err(error);
        }
        if had_one { fs::remove_dir_all(&aside) } else { Ok(()) }
    }
}

/// Returns the stored files of the session `id`, for [`Cli::kept`](crate::cli::Cli::kept). All handles of one
/// conversation name the same session.
pub(super) fn kept(nexus_home: &Path, id: &str) -> KeptConversation {
    let folder = kept_folder(nexus_home, id);
    let root = store(nexus_home);
    // If a host is killed while a turn replaces the folder, the old folder remains at this path.
    let aside = folder.with_extension(ASIDE);
    KeptConversation::new(&format!("grok-{id}")).with_folder(&root, folder).with_folder(root, aside)
}

fn kept_folder(nexus_home: &Path, id: &str) -> PathBuf {
    store(nexus_home).join(id)
}

fn store(nexus_home: &Path) -> PathBuf {
    nexus_home.join("sessions").join("grok")
}

/// Creates a session id in the form of a random UUID. The id is not a secret.
pub(super) fn new_id() -> String {
    let random = || u128::from(RandomState::new().hash_one(0_u8));
    let bits = (random() << 64) | random();
    let bits = (bits & !(0xf << 76) & !(0b11 << 62)) | (0x4 << 76) | (0b10 << 62);
    let hex = format!("{bits:032x}");
    let part = |range: std::ops::Range<usize>| hex.get(range).unwrap_or_default().to_owned();
    [part(0..8), part(8..12), part(12..16), part(16..20), part(20..32)].join("-")
}

/// Returns the id in a resume handle's state, if it has the form of our ids. The id becomes part of a path.
pub(super) fn id_in(state: &Value) -> Option<String> {
    let id = state.get("session")?.as_str()?;
    let is_id =
        (1..=64).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    is_id.then(|| id.to_owned())
}

/// Copies a stored conversation into a home, for work in `directory`. Returns false if the conversation does not exist.
pub(super) fn restore(home: &PrivateHome, nexus_home: &Path, id: &str, directory: &Path) -> io::Result<bool> {
    let kept = kept_folder(nexus_home, id);
    if !kept.join("chat_history.jsonl").is_file() {
        return Ok(false);
    }
    let folder = home.folder(Path::new("grok/sessions").join(folder_name(directory)).join(id))?;
    copy(&kept, &folder)?;
    forget_system(&folder.join("chat_history.jsonl"))?;
    let summary = folder.join("summary.json");
    let Ok(text) = fs::read(&summary) else { return Ok(true) };
    if let Ok(mut value) = serde_json::from_slice::<Value>(&text)
        && let Some(place) = value.pointer_mut("/info/cwd")
    {
        *place = Value::String(directory.to_string_lossy().into_owned());
        fs::write(&summary, serde_json::to_vec(&value)?)?;
    }
    Ok(true)
}

/// Removes the system message from a conversation; the CLI writes a new one.
fn forget_system(history: &Path) -> io::Result<()> {
    let is_system = |line: &[u8]| {
        let line = serde_json::from_slice::<Value>(line).unwrap_or_default();
        line.get("type").and_then(Value::as_str) == Some("system")
    };
    let text = fs::read(history)?;
    let lines = text.split_inclusive(|byte| *byte == b'\n').filter(|line| !is_system(line));
    fs::write(history, lines.collect::<Vec<_>>().concat())
}

/// Returns the folder name for a working directory: every byte is percent-encoded, except letters, digits and `-_.~`.
fn folder_name(directory: &Path) -> String {
    let mut name = String::new();
    for byte in directory.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(byte) {
            name.push(char::from(*byte));
        } else {
            name.push_str(&format!("%{byte:02X}"));
        }
    }
    // A truncated name works, because the CLI looks for a session id in all folders.
    name.truncate(MAX_NAME_BYTES);
    name
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    nexus_files::make_private_folder(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type()?;
        if kind.is_dir() {
            copy(&source, &target)?;
        } else if kind.is_file() {
            fs::copy(&source, &target)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nexus_process::run_registry::RunEntry;
    use serde_json::json;

    #[test]
    fn ids_differ_and_have_the_form() {
        let (first, second) = (new_id(), new_id());
        assert_ne!(first, second);
        assert_eq!(first.len(), 36);
        assert_eq!(first.as_bytes()[14], b'4');
        assert_eq!(id_in(&json!({ "session": first })), Some(first));
    }

    #[test]
    fn a_handle_cannot_leave_the_folder() {
        for id in ["../x", "", "a/b", "."] {
            assert_eq!(id_in(&json!({ "session": id })), None, "{id:?}");
        }
    }

    #[test]
    fn a_conversation_moves_from_home_to_home() {
        let nexus = tempfile::tempdir().unwrap();
        let entry = RunEntry::begin(nexus.path()).unwrap();
        let home = entry.home().unwrap();
        assert!(!restore(&home, nexus.path(), "s", Path::new("/w")).unwrap());

        let history = "{\"type\":\"system\",\"content\":\"old\"}\n{\"type\":\"user\"}\n";
        home.write("grok/sessions/%2Fold/s/chat_history.jsonl", history).unwrap();
        let summary =
            home.write("grok/sessions/%2Fold/s/summary.json", r#"{"info":{"id":"s","cwd":"/old"}}"#).unwrap();
        let stored = StoredConversation::below(nexus.path(), "s".into());
        stored.keep(summary.parent().unwrap()).unwrap();
        assert!(!summary.exists());

        for round in 0..2 {
            let next = entry.home().unwrap();
            assert!(restore(&next, nexus.path(), "s", Path::new("/new dir")).unwrap(), "{round}");
            let folder = next.path().join("grok/sessions/%2Fnew%20dir/s");
            let summary: Value =
                serde_json::from_slice(&fs::read(folder.join("summary.json")).unwrap()).unwrap();
            assert_eq!(summary["info"]["cwd"], "/new dir");
            assert_eq!(fs::read(folder.join("chat_history.jsonl")).unwrap(), b"{\"type\":\"user\"}\n");
            stored.keep(&folder).unwrap();
        }
    }
}
