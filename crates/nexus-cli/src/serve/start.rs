//! Starts a server in the background for a command that queues a task.

use std::{
    fs::{File, OpenOptions},
    io::{Read as _, Seek as _, SeekFrom},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use nexus::BuildContext;
use nexus_files::FileLock;

use super::NAME;
use crate::{args::ConfigArgs, command_error::CommandError, output::printable_lines, works::blocking};

/// Longest wait until a started server has claimed the home.
const START_TIME: Duration = Duration::from_secs(20);
/// Pause between two looks at a starting server.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Size of the server's output at which the next server begins a new file, in bytes.
const MAX_OUTPUT: u64 = 1 << 20;
/// Largest part of a failed server's output in an error, in bytes.
const SHOWN_OUTPUT: u64 = 2 << 10;

/// Starts a server that runs queued tasks until none is left, unless a server runs. Returns true if it started one.
pub(crate) async fn ensure_server(config: &ConfigArgs) -> Result<bool, CommandError> {
    let home = std::path::absolute(BuildContext::from_process().home).map_err(CommandError::failed)?;
    let config = config.config.clone();
    blocking(move || start(&home, config.as_deref())).await
}

/// Returns true if a server runs for the home.
pub(crate) fn is_running(home: &Path) -> bool {
    // A home without the file never had a server.
    FileLock::is_locked(&home.join("mcp").join(format!("{NAME}.lock"))).unwrap_or(false)
}

fn start(home: &Path, config: Option<&Path>) -> Result<bool, CommandError> {
    if is_running(home) {
        return Ok(false);
    }
    let folder = home.join(NAME);
    let failed = |path: &Path, error: &std::io::Error| {
        CommandError::failed(format_args!("{}: {error}", path.display()))
    };
    nexus_files::make_private_folder(&folder).map_err(|error| failed(&folder, &error))?;
    let path = output_path(home);
    if std::fs::symlink_metadata(&path).is_ok_and(|found| !found.is_file()) {
        return Err(CommandError::failed(format_args!("{} is not a regular file", path.display()))
            .with_advice("remove it, then run the command again"));
    }
    let is_long = std::fs::symlink_metadata(&path).is_ok_and(|found| found.len() > MAX_OUTPUT);
    let output = OpenOptions::new()
        .create(true)
        .append(!is_long)
        .write(is_long)
        .truncate(is_long)
        .mode(0o600)
        .open(&path)
        .map_err(|error| failed(&path, &error))?;
    let begun = output.metadata().map_or(0, |found| found.len());
    let program = std::env::current_exe().map_err(CommandError::failed)?;
    let mut command = Command::new(&program);
    command.args([NAME, "--until-idle", "--detached"]).stdin(Stdio::null()).current_dir(home);
    // A relative home would be another folder for the server.
    command.env("NEXUS_HOME", home);
    if let Some(config) = config {
        let config = std::path::absolute(config).map_err(CommandError::failed)?;
        command.arg("--config").arg(config);
    }
    let errors = output.try_clone().map_err(|error| failed(&path, &error))?;
    let mut server =
        command.stdout(output).stderr(errors).spawn().map_err(|error| failed(&program, &error))?;
    let began = Instant::now();
    loop {
        if is_running(home) {
            return Ok(true);
        }
        match server.try_wait() {
            // A server that found no work to do, since another one has run it, ends well.
            Ok(Some(status)) if status.success() => return Ok(true),
            Ok(None) if began.elapsed() < START_TIME => std::thread::sleep(LOOK_EVERY),
            _ => {
                let output = tail(&path, begun).unwrap_or_default();
                let output = printable_lines(output.trim());
                return Err(CommandError::failed(format_args!(
                    "the server of the queue did not start: {output}"
                ))
                .with_advice(format_args!(
                    "the task stays queued; `nexus serve` runs it, and {} has the output",
                    path.display()
                )));
            }
        }
    }
}

/// Returns the file with the output of servers that run in the background.
fn output_path(home: &Path) -> PathBuf {
    home.join(NAME).join("output.log")
}

fn tail(path: &Path, begun: u64) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(begun))?;
    let mut bytes = Vec::new();
    file.take(SHOWN_OUTPUT).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Leaves the session of the terminal, so that its end does not end the server.
pub(super) fn leave_session() {
    // It fails only for the leader of a process group, which a terminal does not end with another group.
    let _ = rustix::process::setsid();
}
