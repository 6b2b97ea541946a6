//! A hub in a git repository.

use std::{
    io,
    process::{Command, Stdio},
    sync::mpsc::{self, Receiver},
    time::{Duration, Instant},
};

use super::index::{FolderHub, NOTHING_INSTALLED};
use crate::error::{ProjectError, ProjectErrorKind};

/// Maximum size of the stored part of git's output, in bytes.
const MAX_OUTPUT_BYTES: usize = 64 << 10;
/// Maximum number of lines of git's output in an error.
const MAX_SHOWN_LINES: usize = 20;
/// Longest wait for the rest of git's output after it exited.
const OUTPUT_TIME: Duration = Duration::from_secs(5);
/// Longest time a clone may take.
const CLONE_TIME: Duration = Duration::from_secs(300);

/// Clones the newest commit of a hub's repository, an `https://` address or a path. Runs no code of the repository. Blocks
/// for at most five minutes.
///
/// # Errors
///
/// [`Failed`](ProjectErrorKind::Failed), with the last lines of git.
pub fn clone_hub(repository: &str) -> Result<FolderHub, ProjectError> {
    let failed = |reason: String| {
        let message = format!("the hub {} cannot be cloned: {reason}", without_password(repository));
        ProjectError::new(ProjectErrorKind::Failed, message, NOTHING_INSTALLED)
    };
    // Git would read it as an option. The `--` below also prevents that, but gives no clear error.
    if repository.starts_with('-') {
        return Err(failed("this is not a git repository, as required".to_owned()));
    }
    let folder = tempfile::tempdir().map_err(|error| failed(error.to_string()))?;
    let clone = folder.path().join("hub");
    let mut git = Command::new("git");
    // The user's configuration could run programs, so git gets an empty home and a chosen environment.
    git.env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", folder.path())
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("GIT_ALLOW_PROTOCOL", "https:file")
        .env("LC_ALL", "C")
        .args([
            "-c",
            "core.hooksPath=/dev/null",
            "-c",
            "core.symlinks=false",
            "-c",
            "safe.directory=*",
            "-c",
            "gc.auto=0",
            "-c",
            "maintenance.auto=false",
        ])
        .args(["clone", "--quiet", "--depth=1", "--no-tags", "--template=", "--no-recurse-submodules", "--"])
        .arg(repository)
        .arg(&clone)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    // Without these, git reaches no server behind a company's proxy.
    for variable in ["https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY", "SSL_CERT_FILE"] {
        if let Some(value) = std::env::var_os(variable) {
            git.env(variable, value);
        }
    }
    let mut child = git.spawn().map_err(|error| failed(format!("git cannot be started: {error}")))?;
    // Read the output meanwhile: git blocks when the pipe is full.
    let output = child.stderr.take().map(last_lines);
    let until = Instant::now() + CLONE_TIME;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() >= until => {
                let _ = child.kill();
                // Collect the exit status, so that no zombie process remains.
                let _ = child.wait();
                return Err(failed(format!("it took more than {} s", CLONE_TIME.as_secs())));
            }
            Ok(None) => std::thread::sleep(Duration::from_millis(20)),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(failed(error.to_string()));
            }
        }
    };
    if !status.success() {
        // A helper process of git may keep the pipe open after git has ended, so limit the wait.
        let output = output.and_then(|output| output.recv_timeout(OUTPUT_TIME).ok()).unwrap_or_default();
        return Err(failed(format!("{status}: {output}")));
    }
    Ok(FolderHub::from_clone(folder, without_password(repository)))
}

/// Reads a program's standard error to its end. Sends its last lines, without passwords.
fn last_lines(mut stderr: impl io::Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = mpsc::sync_channel(1);
    std::thread::spawn(move || {
        let mut output = Vec::new();
        let mut chunk = [0; 4 << 10];
        let mut is_cut = false;
        loop {
            match stderr.read(&mut chunk) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => break,
                Ok(read) => {
                    output.extend_from_slice(&chunk[..read]);
                    let over = output.len().saturating_sub(MAX_OUTPUT_BYTES);
                    is_cut |= over > 0;
                    output.drain(..over);
                }
            }
        }
        let text = String::from_utf8_lossy(&output);
        // Drop the first line if it is cut: it may begin in the middle of a password.
        let mut lines: Vec<_> = text.lines().skip(usize::from(is_cut)).collect();
        lines.drain(..lines.len().saturating_sub(MAX_SHOWN_LINES));
        // The receiver may be gone.
        let _ = sender.send(without_password(lines.join("\n").trim()));
    });
    receiver
}

/// Removes the user and password from each address in the text.
fn without_password(text: &str) -> String {
    let mut cleaned = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("://") {
        cleaned.push_str(before);
        cleaned.push_str("://");
        let end = after.find(['/', ' ', '\'', '"', '\n']).unwrap_or(after.len());
        rest = match after[..end].rfind('@') {
            Some(at) => &after[at + 1..],
            None => after,
        };
    }
    cleaned.push_str(rest);
    cleaned
}
