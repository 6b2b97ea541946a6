//! Programs that a test writes and then runs.

use std::path::Path;
use std::process::Command;

/// Writes a file that may be run.
///
/// Another process writes it. A file that this process has open for writing may be inherited by a child that another
/// thread is just forking, and a file that is open for writing cannot be executed.
pub(crate) fn write(path: &Path, text: &str) {
    let mut writer = Command::new("/bin/sh");
    writer.args(["-c", "printf %s \"$1\" > \"$0\" && chmod 755 \"$0\""]).arg(path).arg(text);
    assert!(writer.status().unwrap().success());
}
