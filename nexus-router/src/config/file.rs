//! Reads a configuration from a file or from text.

use std::{
    fmt,
    fs::{self, File, OpenOptions},
    io::{ErrorKind, Read},
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::{
    configuration::Configuration,
    error::ConfigError,
    load::checked,
    node::{Node, NodeValue, Position},
    report::FoundProblems,
    sources::Sources,
    yaml::parse_document,
};

/// Largest configuration that is read, in bytes.
pub const MAX_FILE_BYTES: u64 = 1 << 20;

/// A configuration file that was read once.
///
/// The caller can judge its content before a [`Router`](crate::Router) uses it. The router then loads the judged bytes, even if the file
/// changes meanwhile: see [`RouterBuilder::from_read_file`](crate::RouterBuilder::from_read_file).
#[derive(Clone, PartialEq, Eq)]
pub struct ConfigFile {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl ConfigFile {
    /// Reads a regular file, or a link to one. Never blocks on a pipe.
    ///
    /// # Errors
    ///
    /// [`ConfigError`], with the path.
    pub fn read(path: impl Into<PathBuf>) -> Result<Self, ConfigError> {
        let path = path.into();
        // Opening the target of a link, and not the link, cannot block on a pipe that replaced the file.
        let open = || nexus_files::open_regular(&fs::canonicalize(&path)?, OpenOptions::new().read(true));
        match open().map_err(unreadable).and_then(read_whole) {
            Ok(bytes) => Ok(Self { path, bytes }),
            Err(error) => Err(error.in_file(&path)),
        }
    }

    /// Takes a text as the content of a file, to check it before it is written.
    pub fn of_text(path: impl Into<PathBuf>, text: impl Into<String>) -> Self {
        Self { path: path.into(), bytes: text.into().into_bytes() }
    }

    /// Returns the path of the file, as it was given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the content of the file. Of a file above the [limit](MAX_FILE_BYTES), it has the first byte after the limit as its last.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Parses the content, and checks nothing else. A configuration with unknown keys has a value too.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] if the content is too large, or not YAML.
    pub fn value(&self) -> Result<Value, ConfigError> {
        let mut report = FoundProblems::default();
        let parsed = parse(&self.bytes, &mut report).map(|(_, node)| node.to_value());
        parsed.map_err(|text| report.into_error(&text).in_file(&self.path))
    }

    pub(crate) fn load(
        &self,
        sources: &Sources,
        before: Option<&Configuration>,
    ) -> Result<Configuration, ConfigError> {
        let mut sources = sources.clone();
        sources.context.base_directory = folder_of(&self.path);
        load_bytes(&self.bytes, &sources, before).map_err(|error| error.in_file(&self.path))
    }
}

// A user may have written a secret into the file by mistake, so `Debug` does not show its content.
impl fmt::Debug for ConfigFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConfigFile").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Loads a file. Resolves relative paths in it against its folder.
pub(crate) fn load_file(
    path: &Path,
    sources: &Sources,
    before: Option<&Configuration>,
) -> Result<Configuration, ConfigError> {
    let mut sources = sources.clone();
    sources.context.base_directory = folder_of(path);
    read_file(path)
        .and_then(|bytes| load_bytes(&bytes, &sources, before))
        .map_err(|error| error.in_file(path))
}

/// Loads a configuration from text.
pub(crate) fn load_text(
    text: &str,
    sources: &Sources,
    before: Option<&Configuration>,
) -> Result<Configuration, ConfigError> {
    load_bytes(text.as_bytes(), sources, before)
}

/// Returns the folder of a file, as an absolute path if possible. A child process with another working
/// directory must also find the folder.
fn folder_of(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    path.parent().map_or_else(|| PathBuf::from("."), Path::to_owned)
}

fn read_file(path: &Path) -> Result<Vec<u8>, ConfigError> {
    let kind = fs::metadata(path).map_err(unreadable)?.file_type();
    if kind.is_dir() {
        return Err(ConfigError::unreadable("this is a folder; name the file in it", None));
    }
    File::open(path).map_err(unreadable).and_then(read_whole)
}

/// Reads up to one byte more than the limit.
fn read_whole(file: File) -> Result<Vec<u8>, ConfigError> {
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    Ok(bytes)
}

fn unreadable(error: std::io::Error) -> ConfigError {
    let reason = match error.kind() {
        ErrorKind::NotFound => "there is no such file",
        ErrorKind::PermissionDenied => "permission to read the file is denied",
        ErrorKind::InvalidData => "this is not a regular file",
        _ => "the file cannot be read",
    };
    ConfigError::unreadable(reason, Some(error))
}

fn load_bytes(
    bytes: &[u8],
    sources: &Sources,
    before: Option<&Configuration>,
) -> Result<Configuration, ConfigError> {
    let mut report = FoundProblems::default();
    let (text, node) = match parse(bytes, &mut report) {
        Ok(parsed) => parsed,
        Err(text) => return Err(report.into_error(&text)),
    };
    if matches!(node.content, NodeValue::Null) {
        report.add(Position::START, "the file is empty: it needs at least `groups` and `types`");
        return Err(report.into_error(text));
    }
    checked(&node, text, sources, before, report)
}

/// Parses a document. The error is the text to which the positions in `report` refer.
fn parse<'a>(bytes: &'a [u8], report: &mut FoundProblems) -> Result<(&'a str, Node), String> {
    if bytes.len() as u64 > MAX_FILE_BYTES {
        let end = usize::try_from(MAX_FILE_BYTES).unwrap_or(usize::MAX);
        let kept = String::from_utf8_lossy(bytes.get(..end).unwrap_or(bytes));
        let message =
            format!("the file is larger than {MAX_FILE_BYTES} bytes, the limit for a configuration");
        report.add(end_of(&kept), message);
        return Err(kept.into_owned());
    }
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => nexus_files::without_byte_order_mark(text),
        Err(error) => {
            let readable = String::from_utf8_lossy(bytes.get(..error.valid_up_to()).unwrap_or_default());
            let message = match nexus_files::is_utf_16(bytes) {
                true => "the file begins with a byte order mark of UTF-16: save it as UTF-8",
                false => "the file is not UTF-8: this byte is invalid",
            };
            report.add(end_of(&readable), message);
            return Err(String::from_utf8_lossy(bytes).into_owned());
        }
    };
    match parse_document(text) {
        Ok(node) => Ok((text, node)),
        Err(error) => {
            report.add(error.position, error.message);
            Err(text.to_owned())
        }
    }
}

/// Returns the position after the last character.
fn end_of(text: &str) -> Position {
    let line = text.matches('\n').count() + 1;
    Position { line, column: text.rsplit('\n').next().unwrap_or_default().chars().count() + 1 }
}
