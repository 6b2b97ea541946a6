//! Reads a configuration from a file or from text.

use std::{
    fs::{self, File},
    io::{ErrorKind, Read},
    path::{Path, PathBuf},
};

use super::{
    configuration::Configuration,
    error::ConfigError,
    load::checked,
    node::{NodeValue, Position},
    report::FoundProblems,
    sources::Sources,
    yaml::parse_document,
};

/// Largest configuration that is read, in bytes.
pub const MAX_FILE_BYTES: u64 = 1 << 20;

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
    let unreadable = |error: std::io::Error| {
        let reason = match error.kind() {
            ErrorKind::NotFound => "there is no such file",
            ErrorKind::PermissionDenied => "permission to read the file is denied",
            _ => "the file cannot be read",
        };
        ConfigError::unreadable(reason, Some(error))
    };
    let kind = fs::metadata(path).map_err(unreadable)?.file_type();
    if kind.is_dir() {
        return Err(ConfigError::unreadable("this is a folder; name the file in it", None));
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    Ok(bytes)
}

fn load_bytes(
    bytes: &[u8],
    sources: &Sources,
    before: Option<&Configuration>,
) -> Result<Configuration, ConfigError> {
    let mut report = FoundProblems::default();
    if bytes.len() as u64 > MAX_FILE_BYTES {
        let end = usize::try_from(MAX_FILE_BYTES).unwrap_or(usize::MAX);
        let kept = String::from_utf8_lossy(bytes.get(..end).unwrap_or(bytes));
        let message =
            format!("the file is larger than {MAX_FILE_BYTES} bytes, the limit for a configuration");
        report.add(end_of(&kept), message);
        return Err(report.into_error(&kept));
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
            return Err(report.into_error(&String::from_utf8_lossy(bytes)));
        }
    };
    let node = match parse_document(text) {
        Ok(node) => node,
        Err(error) => {
            report.add(error.position, error.message);
            return Err(report.into_error(text));
        }
    };
    if matches!(node.content, NodeValue::Null) {
        report.add(Position::START, "the file is empty: it needs at least `groups` and `types`");
        return Err(report.into_error(text));
    }
    checked(&node, text, sources, before, report)
}

/// Returns the position after the last character.
fn end_of(text: &str) -> Position {
    let line = text.matches('\n').count() + 1;
    Position { line, column: text.rsplit('\n').next().unwrap_or_default().chars().count() + 1 }
}
