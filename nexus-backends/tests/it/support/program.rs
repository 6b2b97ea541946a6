//! Programs that a test writes and then runs.

use std::{path::Path, process::Command};

/// Writes a script for the shell that its user may run.
///
/// Another process writes it. A file that this process has open for writing may be inherited by a child that another
/// thread is just forking, and a file that is open for writing cannot be executed.
pub(crate) fn write_script(path: &Path, script: &str) {
    let mut writer = Command::new("/bin/sh");
    writer.args(["-c", "printf '%s\\n' \"$1\" > \"$0\" && chmod 755 \"$0\""]);
    writer.arg(path).arg(format!("#!/bin/sh\n{script}"));
    assert!(writer.status().unwrap().success());
}
