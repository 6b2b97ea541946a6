//! Inputs of a fake, noted beside its script.

use std::{
    collections::BTreeMap,
    fs, io,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};

use crate::model_call::ModelCall;

/// Inputs of one call of a fake.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Given {
    /// The arguments, the name first. What is not Unicode is replaced.
    pub arguments: Vec<String>,
    /// The whole environment.
    pub environment: BTreeMap<String, String>,
    /// The working directory.
    pub directory: PathBuf,
    /// The number of the process.
    pub pid: u32,
}

impl Given {
    /// Returns the inputs of this process.
    pub(super) fn of_this_process() -> Self {
        let text = |text: std::ffi::OsString| String::from_utf8_lossy(text.as_bytes()).into_owned();
        Self {
            arguments: std::env::args_os().map(text).collect(),
            environment: std::env::vars_os().map(|(name, value)| (text(name), text(value))).collect(),
            directory: std::env::current_dir().unwrap_or_default(),
            pid: std::process::id(),
        }
    }

    /// The value of a variable.
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.environment.get(name).map(String::as_str)
    }

    /// The credential that the vendor's program would send: of its variable, or of Grok's file.
    pub(super) fn credential(&self) -> Option<String> {
        let variables = ["CLAUDE_CODE_OAUTH_TOKEN", "NEXUS_CODEX_TOKEN"];
        let of_grok = || {
            let file = PathBuf::from(self.variable("GROK_HOME")?).join("auth.json");
            let login: serde_json::Value = serde_json::from_slice(&std::fs::read(file).ok()?).ok()?;
            let key = login.as_object()?.values().find_map(|entry| entry.get("key")?.as_str());
            key.map(str::to_owned)
        };
        variables.iter().find_map(|name| self.variable(name)).map(str::to_owned).or_else(of_grok)
    }

    /// Returns true if one of the arguments is `word`.
    pub fn has(&self, word: &str) -> bool {
        self.arguments.iter().skip(1).any(|argument| argument == word)
    }

    /// The argument after `flag`, or after `flag=`.
    pub fn value_of(&self, flag: &str) -> Option<&str> {
        let mut arguments = self.arguments.iter().skip(1);
        while let Some(argument) = arguments.next() {
            if argument == flag {
                return arguments.next().map(String::as_str);
            }
            if let Some(value) = argument.strip_prefix(flag).and_then(|rest| rest.strip_prefix('=')) {
                return Some(value);
            }
        }
        None
    }
}

/// One call of a fake, as a test reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invocation {
    /// Inputs at the start.
    pub given: Given,
    /// Bytes read from standard input so far.
    pub stdin: Vec<u8>,
}

/// The folder of notes beside a script.
#[derive(Clone, Debug)]
pub(super) struct Notes {
    folder: PathBuf,
}

impl Notes {
    /// The notes of the fake whose link is `link`.
    pub(super) fn beside(link: &Path) -> Self {
        Self { folder: link.with_extension("notes") }
    }

    /// Records a call of the fake. Returns the file for its standard input.
    pub(super) fn invocation(&self, given: &Given) -> io::Result<PathBuf> {
        let folder = self.folder.join("invocations");
        fs::create_dir_all(&folder)?;
        let name = unique_name();
        self.write(&folder.join(format!("{name}.json")), &serde_json::to_vec(given)?)?;
        Ok(folder.join(format!("{name}.stdin")))
    }

    /// Every call so far but those for the version, in order.
    pub(super) fn invocations(&self) -> Vec<Invocation> {
        let folder = self.folder.join("invocations");
        let read = |path: PathBuf| {
            let given = serde_json::from_slice(&fs::read(&path).ok()?).ok()?;
            // A fake that ended before it read its input has no such file.
            let stdin = fs::read(path.with_extension("stdin")).unwrap_or_default();
            Some(Invocation { given, stdin })
        };
        json_files(&folder).into_iter().filter_map(read).collect()
    }

    /// Takes the next index in the script `key`, from 0. Two processes never take the same index.
    pub(super) fn next_place(&self, key: &str) -> io::Result<usize> {
        let folder = self.folder.join("places").join(key);
        fs::create_dir_all(&folder)?;
        for place in 0_usize.. {
            // Creating a file is atomic, so it serves as a counter between processes.
            match fs::File::create_new(folder.join(place.to_string())) {
                Ok(_) => return Ok(place),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Ok(0)
    }

    /// Notes a call of the model.
    pub(super) fn model_call(&self, call: &ModelCall) -> io::Result<()> {
        let folder = self.folder.join("model-calls");
        fs::create_dir_all(&folder)?;
        self.write(&folder.join(format!("{}.json", unique_name())), &serde_json::to_vec(call)?)
    }

    /// Every call of the model so far, in order.
    pub(super) fn model_calls(&self) -> Vec<ModelCall> {
        let read = |path: PathBuf| serde_json::from_slice(&fs::read(path).ok()?).ok();
        json_files(&self.folder.join("model-calls")).into_iter().filter_map(read).collect()
    }

    /// Writes a file atomically: it is complete as soon as it exists.
    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let unfinished = path.with_extension("unfinished");
        fs::write(&unfinished, bytes)?;
        fs::rename(&unfinished, path)
    }
}

/// A file name that sorts by time.
fn unique_name() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    // A fixed width lets the names sort by time as text.
    format!("{:024}-{}", now.as_nanos(), std::process::id())
}

fn json_files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort();
    paths
}
