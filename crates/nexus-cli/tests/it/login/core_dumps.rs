//! The memory of a command that holds tokens is written to no file.

#![cfg(target_os = "linux")]

use std::{fs, process::Command};

use super::{
    home::{Home, issuer},
    running::Running,
};

/// The limit on core dumps that a process has now, as the kernel tells it.
fn core_limit(process: u32) -> String {
    let limits = fs::read_to_string(format!("/proc/{process}/limits")).unwrap();
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    core.split_whitespace().nth(4).unwrap().to_owned()
}

#[test]
fn a_login_under_way_dumps_no_core() {
    let (home, issuer) = (Home::new(), issuer());
    // Its parent may dump as much as it can be allowed, so that the zero is the command's own.
    let inner =
        home.command(&["login", "codex", "--browser", "--json", "--port", "0", "--issuer", &issuer.url()]);
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "ulimit -S -c hard; echo \"$(ulimit -S -c)\"; exec \"$@\"", "sh"]);
    command.arg(inner.get_program()).args(inner.get_args()).current_dir(home.path()).env_clear();
    command.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut login = Running::start(command);
    let allowed = login.line();
    login.line_of_json();
    assert_eq!(core_limit(login.id()), "0", "where {} was allowed", allowed.trim());
    login.interrupt();
    assert_eq!(login.finish().code, Some(130));
}
