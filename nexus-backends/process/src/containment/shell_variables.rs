//! Transport of variables that a launcher's shell would lose or change.
//!
//! A shell passes on only variables whose names are identifiers, and it sets some itself. `env -S` reads an assignment
//! from another variable, so no value appears in an argument list, which other users can read.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::attempt::CachedTrial;
use super::parent_death::program_of_the_system;
use crate::environment::Environment;

/// Prefix of the variables that each contain one assignment.
const CARRIER: &str = "NEXUS_CARRIED_";
/// Identifiers that shells set, unset or interpret, or that a script cannot change.
const SHELLS_OWN: [&str; 22] = [
    "_",
    "BASHOPTS",
    "BASHPID",
    "BASH_ENV",
    "ENV",
    "EUID",
    "GROUPS",
    "IFS",
    "LINENO",
    "OLDPWD",
    "OPTARG",
    "OPTERR",
    "OPTIND",
    "PPID",
    "PS1",
    "PS2",
    "PS4",
    "PWD",
    "RANDOM",
    "SHELLOPTS",
    "SHLVL",
    "UID",
];

/// Programs that assign the transported variables after the shell.
#[derive(Clone, Debug)]
struct CarrierPrograms {
    env: PathBuf,
    /// Starts a program whose path contains `=`, which `env` would read as an assignment.
    nice: PathBuf,
}

/// An environment that a shell passes on unchanged, and the command that restores the original one.
#[derive(Debug)]
pub(crate) struct ShellVariables {
    variables: Vec<(OsString, OsString)>,
    /// Arguments before the program; empty if no variable needs transport.
    pub(crate) restore: Vec<OsString>,
}

impl ShellVariables {
    /// Prepares an environment for a launcher that ends in a shell. `program` is the program that the shell starts.
    ///
    /// # Errors
    ///
    /// The machine is short of descriptors, processes or memory.
    pub(crate) fn new(environment: &Environment, program: &Path) -> io::Result<Self> {
        let owned = |(name, value): (&OsStr, &OsStr)| (name.to_owned(), value.to_owned());
        let (mut variables, odd): (Vec<_>, Vec<_>) =
            environment.iter().map(owned).partition(|(name, _)| is_passed_on(name));
        if odd.is_empty() {
            return Ok(Self { variables, restore: Vec::new() });
        }
        let Some(programs) = CarrierPrograms::find()? else {
            let names: Vec<_> = odd.iter().map(|(name, _)| name).collect();
            tracing::warn!(
                ?names,
                "the program starts without these variables: a shell cannot pass them on, and this machine has no `env -S`"
            );
            return Ok(Self { variables, restore: Vec::new() });
        };
        let (mut unset, mut assigned) = (String::new(), String::new());
        for (number, (name, value)) in odd.into_iter().enumerate() {
            let carrier = format!("{CARRIER}{number}");
            // `env -S` expands `${…}` before it applies `-u`, so the program gets the assignment without its carrier.
            unset.push_str(&format!("-u {carrier} "));
            assigned.push_str(&format!(" ${{{carrier}}}"));
            let mut assignment = name;
            assignment.push("=");
            assignment.push(value);
            variables.push((carrier.into(), assignment));
        }
        let mut restore = vec![programs.env.into(), "-S".into(), format!("{unset}--{assigned}").into()];
        if program.as_os_str().as_bytes().contains(&b'=') {
            restore.extend([programs.nice.into(), "-n".into(), "0".into(), "--".into()]);
        }
        Ok(Self { variables, restore })
    }

    /// Returns the variables of the launcher.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.variables.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }
}

impl CarrierPrograms {
    /// Returns the programs, if this machine has them and they work.
    fn find() -> io::Result<Option<Self>> {
        static FOUND: CachedTrial<CarrierPrograms> = CachedTrial::new();
        FOUND.get_or_try(|| {
            let programs = (program_of_the_system("env"), program_of_the_system("nice"));
            let (Some(env), Some(nice)) = programs else { return Ok(None) };
            let mut command = Command::new(&env);
            // Test with a name that shells drop because of its hyphen, and with a space in the value.
            command.env_clear().env("A", "b-c=d e").args(["-S", "-u A -- ${A}"]).arg(&env);
            let output = command.stdin(Stdio::null()).output()?;
            Ok((output.stdout == b"b-c=d e\n").then_some(Self { env, nice }))
        })
    }
}

/// Returns true if every shell passes the variable on unchanged.
fn is_passed_on(name: &OsStr) -> bool {
    let bytes = name.as_bytes();
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    bytes.iter().all(is_plain)
        && bytes.first().is_some_and(|first| !first.is_ascii_digit())
        && !bytes.starts_with(CARRIER.as_bytes())
        && !SHELLS_OWN.iter().any(|own| name == *own)
}
