//! `nexus service`: the units of systemd that start `nexus serve` and `nexus worker`.

use std::{
    fs,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
};

use nexus::BuildContext;
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    EXIT_FAILED,
    args::{ConfigArgs, ServiceCommand, ServiceProgram},
    command_error::CommandError,
    output::{AnswerWriter, printable, say},
    works::{blocking, note},
};

/// First line of a unit of this command. A unit without it is a person's own, and stays.
const MARK: &str = "# Written by `nexus service install`. `nexus service uninstall` removes it.";

/// A unit of systemd.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ServiceUnit {
    /// Program of the unit.
    program: ServiceProgram,
    /// Path of the unit.
    unit: PathBuf,
    /// State of the unit.
    state: UnitState,
    /// Commands that start it, if this command did not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    to_do: Vec<String>,
}

/// State of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum UnitState {
    /// There is no unit.
    Absent,
    /// The unit is written. Its state in systemd is unknown.
    Written,
    /// The unit does not run.
    Stopped,
    /// The unit runs.
    Running,
    /// The program of the unit failed.
    Failed,
    /// The unit was removed.
    Removed,
}

pub(crate) async fn service(
    out: AnswerWriter,
    config: &ConfigArgs,
    command: ServiceCommand,
) -> Result<ExitCode, CommandError> {
    let config = config.config.clone();
    let units = blocking(move || match command {
        ServiceCommand::Install { program, no_start, arguments } => {
            install(program, no_start, config.as_deref(), &arguments).map(|unit| vec![unit])
        }
        ServiceCommand::Status => ServiceProgram::ALL.into_iter().map(status).collect(),
        ServiceCommand::Uninstall { program } => uninstall(program).map(|unit| vec![unit]),
    })
    .await?;
    let has_failed = units.iter().any(|unit| unit.state == UnitState::Failed);
    for unit in &units {
        out.show(unit, print);
    }
    Ok(if has_failed { ExitCode::from(EXIT_FAILED) } else { ExitCode::SUCCESS })
}

fn print(unit: &ServiceUnit) {
    let state = match unit.state {
        UnitState::Absent => "is not installed",
        UnitState::Written => "is written",
        UnitState::Stopped => "does not run",
        UnitState::Running => "runs",
        UnitState::Failed => "failed",
        UnitState::Removed => "is removed",
    };
    say(printable(&format!("{} {state} ({})", name(unit.program), unit.unit.display())));
    match unit.state {
        UnitState::Failed | UnitState::Running => {
            note(&format!("`journalctl --user -u {}` shows its output", name(unit.program)));
        }
        UnitState::Written if !unit.to_do.is_empty() => {
            note(&format!("start it with: {}", unit.to_do.join(" && ")))
        }
        _ => {}
    }
}

fn name(program: ServiceProgram) -> String {
    format!("nexus-{}.service", program.command())
}

/// Returns the path of a unit. Source: systemd.unit(5): units of a user are in `$XDG_CONFIG_HOME/systemd/user`, else `~/.config/systemd/user`.
fn unit_path(program: ServiceProgram) -> Result<PathBuf, CommandError> {
    let folder = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let configuration = folder("XDG_CONFIG_HOME")
        .filter(|path| path.is_absolute())
        .or_else(|| folder("HOME").map(|home| home.join(".config")))
        .ok_or_else(|| {
            CommandError::failed("the variable HOME is not set").with_advice("set it to your home folder")
        })?;
    Ok(configuration.join("systemd/user").join(name(program)))
}

fn install(
    program: ServiceProgram,
    no_start: bool,
    config: Option<&Path>,
    arguments: &[String],
) -> Result<ServiceUnit, CommandError> {
    let path = unit_path(program)?;
    check_own(&path)?;
    let binary = std::env::current_exe().map_err(CommandError::failed)?;
    let home = std::path::absolute(BuildContext::from_process().home).map_err(CommandError::failed)?;
    let config = config.map(std::path::absolute).transpose().map_err(CommandError::failed)?;
    let text = unit_text(program, &binary, &home, config.as_deref(), arguments)?;
    let folder = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(folder).map_err(|error| failed(folder, &error))?;
    nexus_files::replace(&path, text.as_bytes()).map_err(|error| failed(&path, &error))?;
    let unit = name(program);
    let commands = [vec!["daemon-reload"], vec!["enable", unit.as_str()], vec!["restart", unit.as_str()]];
    let mut written = ServiceUnit {
        program,
        unit: path,
        state: UnitState::Written,
        to_do: commands.iter().map(|words| format!("systemctl --user {}", words.join(" "))).collect(),
    };
    if no_start {
        return Ok(written);
    }
    for words in &commands {
        if let Err(reason) = systemctl(words) {
            note(&format!("the unit is written and was not started: {reason}"));
            return Ok(written);
        }
    }
    (written.state, written.to_do) = (state_of(&unit), Vec::new());
    Ok(written)
}

fn status(program: ServiceProgram) -> Result<ServiceUnit, CommandError> {
    let unit = unit_path(program)?;
    let state = match fs::symlink_metadata(&unit) {
        Ok(_) => state_of(&name(program)),
        Err(error) if error.kind() == ErrorKind::NotFound => UnitState::Absent,
        Err(error) => return Err(failed(&unit, &error)),
    };
    Ok(ServiceUnit { program, unit, state, to_do: Vec::new() })
}

fn uninstall(program: ServiceProgram) -> Result<ServiceUnit, CommandError> {
    let path = unit_path(program)?;
    if fs::symlink_metadata(&path).is_err_and(|error| error.kind() == ErrorKind::NotFound) {
        return Ok(ServiceUnit { program, unit: path, state: UnitState::Absent, to_do: Vec::new() });
    }
    check_own(&path)?;
    // Without systemd nothing runs the unit, and its file is removed all the same.
    let stopped = systemctl(&["disable", "--now", &name(program)]);
    fs::remove_file(&path).map_err(|error| failed(&path, &error))?;
    if let Err(reason) = stopped.and_then(|()| systemctl(&["daemon-reload"])) {
        note(&format!("systemd does not know that the unit is gone: {reason}"));
    }
    Ok(ServiceUnit { program, unit: path, state: UnitState::Removed, to_do: Vec::new() })
}

fn failed(path: &Path, error: &io::Error) -> CommandError {
    CommandError::failed(format_args!("{}: {error}", path.display()))
}

/// Rejects a unit that a person wrote.
fn check_own(path: &Path) -> Result<(), CommandError> {
    match fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Ok(text) if text.starts_with(MARK) => Ok(()),
        Ok(_) => Err(CommandError::failed(format_args!("{} is not from this command", path.display()))
            .with_advice("move it away, then run the command again")),
        Err(error) => Err(failed(path, &error)),
    }
}

/// Returns the text of a unit. It contains paths and arguments, and no secret: the program reads keys from the keyring or from files.
fn unit_text(
    program: ServiceProgram,
    binary: &Path,
    home: &Path,
    config: Option<&Path>,
    arguments: &[String],
) -> Result<String, CommandError> {
    let word = |text: &str| {
        quoted(text, true).ok_or_else(|| {
            CommandError::usage(format_args!("{:?} cannot be part of a unit", printable(text)))
                .with_advice("leave out control characters")
        })
    };
    let path = |path: &Path| match path.to_str() {
        Some(text) => word(text),
        None => Err(CommandError::usage(format_args!("{} is not UTF-8", path.display()))
            .with_advice("use another path")),
    };
    let mut command = vec![path(binary)?, program.command().to_owned()];
    if let Some(config) = config {
        command.extend(["--config".to_owned(), path(config)?]);
    }
    for argument in arguments {
        command.push(word(argument)?);
    }
    // The assignment is one word, so it is quoted as a whole.
    let home = home.to_str().and_then(|home| quoted(&format!("NEXUS_HOME={home}"), false));
    let home = home.ok_or_else(|| {
        CommandError::usage("the path of the home cannot be part of a unit")
            .with_advice("set NEXUS_HOME to a path of plain characters")
    })?;
    Ok(format!(
        "{MARK}\n\
         [Unit]\n\
         Description=Nexus: nexus {command_name}\n\
         \n\
         [Service]\n\
         Type=exec\n\
         ExecStart={command}\n\
         Environment={home}\n\
         WorkingDirectory=%h\n\
         Restart=on-failure\n\
         RestartSec=10\n\
         # A configuration that cannot be used needs a person.\n\
         RestartPreventExitStatus=2\n\
         # Only the server gets SIGTERM, and the programs of its running step go on.\n\
         KillMode=mixed\n\
         # A running step finishes after SIGTERM. systemd ends it after this time, and it is repeated at the next start.\n\
         TimeoutStopSec=600\n\
         UMask=0077\n\
         \n\
         [Install]\n\
         WantedBy=default.target\n",
        command_name = program.command(),
        command = command.join(" "),
    ))
}

/// Quotes a word for a unit. `None` for a text with control characters. Source: systemd.service(5), "Command lines", systemd.exec(5) and
/// systemd.syntax(7): `%` is doubled, and double quotes with C escapes protect spaces. `$` is doubled in arguments alone.
fn quoted(text: &str, is_argument: bool) -> Option<String> {
    if text.chars().any(char::is_control) {
        return None;
    }
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%");
    let escaped = if is_argument { escaped.replace('$', "$$") } else { escaped };
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "/._-=:,@+".contains(character);
    Some(match !text.is_empty() && text.chars().all(is_plain) {
        true => escaped,
        false => format!("\"{escaped}\""),
    })
}

fn state_of(unit: &str) -> UnitState {
    let asked = Command::new("systemctl").args(["--user", "is-active", unit]).stdin(Stdio::null()).output();
    // Source: systemctl(1): `is-active` prints the state, also for a unit that does not run.
    match asked.map(|answer| String::from_utf8_lossy(&answer.stdout).trim().to_owned()).as_deref() {
        Ok("active" | "activating" | "reloading") => UnitState::Running,
        Ok("failed") => UnitState::Failed,
        Ok("inactive" | "deactivating") => UnitState::Stopped,
        _ => UnitState::Written,
    }
}

/// Runs systemctl for this user. The error is its reason.
fn systemctl(words: &[&str]) -> Result<(), String> {
    let ran = Command::new("systemctl").arg("--user").args(words).stdin(Stdio::null()).output();
    match ran {
        Ok(ended) if ended.status.success() => Ok(()),
        Ok(ended) => Err(String::from_utf8_lossy(&ended.stderr)
            .trim()
            .lines()
            .next()
            .unwrap_or("systemctl failed")
            .to_owned()),
        Err(error) if error.kind() == ErrorKind::NotFound => Err("this machine has no systemd".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_unit_are_quoted_as_systemd_reads_them() {
        assert_eq!(quoted("/usr/bin/nexus", true).as_deref(), Some("/usr/bin/nexus"));
        assert_eq!(quoted("/my home/100%/$x", true).as_deref(), Some("\"/my home/100%%/$$x\""));
        assert_eq!(quoted("a\"b\\c", true).as_deref(), Some("\"a\\\"b\\\\c\""));
        assert_eq!(quoted("A=/$x y", false).as_deref(), Some("\"A=/$x y\""));
        assert_eq!(quoted("", true).as_deref(), Some("\"\""));
        assert_eq!(quoted("a\nExecStartPre=/bin/evil", true), None);
    }
}
