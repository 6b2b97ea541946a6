//! Runs the program `git` in an environment of its own.

use std::{
    env,
    ffi::{OsStr, OsString},
    io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use nexus_core::CancelToken;

use super::{
    TreeError, TreeErrorKind,
    process::{GitBounds, GitExit, GitProcess},
};

/// Oldest git that supports every variable and option in use: it introduced `GIT_CONFIG_GLOBAL`.
const MINIMUM: [u32; 2] = [2, 32];
/// Longest duration of one run of git.
const TIME_LIMIT: Duration = Duration::from_secs(600);
/// Maximum size of a list that git may print, in bytes.
const MAX_OUTPUT: u64 = 1 << 30;

/// Settings for every run. A setting on the command line overrides all files.
const SETTINGS: [&str; 26] = [
    // Programs that the configuration of a repository can name.
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.alternateRefsCommand=",
    "core.sshCommand=false",
    "core.askPass=",
    "core.pager=cat",
    "core.editor=false",
    "credential.helper=",
    "commit.gpgSign=false",
    "tag.gpgSign=false",
    "diff.external=",
    "gc.auto=0",
    "maintenance.auto=false",
    "protocol.allow=never",
    "submodule.recurse=false",
    // Files outside of the repository, and replacements of objects.
    "core.attributesFile=/dev/null",
    "core.excludesFile=/dev/null",
    "core.useReplaceRefs=false",
    "core.commitGraph=false",
    "core.multiPackIndex=false",
    // Checks of names.
    "core.protectNTFS=true",
    "core.protectHFS=true",
    "core.precomposeUnicode=false",
    "core.quotePath=true",
    // Format of a temporary index.
    "core.splitIndex=false",
    "core.untrackedCache=false",
];

/// The program `git`, run in an environment of its own: no variable of this process is passed on.
///
/// No hook, file-system monitor, filter, signature, helper or transport runs, with any configuration of a
/// repository: `core.hooksPath` is empty, no protocol is allowed, and no filter, text conversion or driver is
/// configured in the files that git reads. Git does not follow replaced objects and grafts, fetches nothing,
/// and collects no garbage.
///
/// Needs git 2.32 or newer (2.45 for a project whose refs are a reftable).
#[derive(Clone, Debug)]
pub struct Git {
    program: PathBuf,
    version: [u32; 3],
    time_limit: Duration,
    cancel: Option<CancelToken>,
    /// Configuration files of the user. A later file overrides an earlier one.
    user_configuration: Vec<PathBuf>,
    /// Home of the user.
    home: Option<PathBuf>,
    /// The user's file of ignored paths, unless a setting names another one.
    default_ignore: Option<PathBuf>,
}

impl Git {
    /// Finds the first `git` in this process's `PATH`, and the configuration files for [`Git::with_user_configuration`] by
    /// this process's variables and the defaults of the system.
    ///
    /// # Errors
    ///
    /// [`GitMissing`](TreeErrorKind::GitMissing) and [`GitTooOld`](TreeErrorKind::GitTooOld), with the command that installs
    /// it.
    pub fn find() -> Result<Self, TreeError> {
        let path = env::var_os("PATH").unwrap_or_default();
        let is_program = |file: &PathBuf| {
            file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
        };
        let found = env::split_paths(&path)
            // A relative entry of PATH would run a program of the current folder.
            .filter(|folder| folder.is_absolute())
            .map(|folder| folder.join("git"))
            .find(is_program);
        match found {
            Some(program) => {
                let mut git = Self::at(program)?.with_user_configuration(user_configuration());
                git.home = folder("HOME");
                git.default_ignore = shared_configuration().map(|folder| folder.join("git/ignore"));
                Ok(git)
            }
            None => Err(missing("git was not found in the PATH")),
        }
    }

    /// Uses the `git` at a path.
    ///
    /// # Errors
    ///
    /// As [`Git::find`].
    pub fn at(program: impl Into<PathBuf>) -> Result<Self, TreeError> {
        let program = program.into();
        let git = Self {
            program,
            version: [0; 3],
            time_limit: Duration::from_secs(30),
            cancel: None,
            user_configuration: Vec::new(),
            home: None,
            default_ignore: None,
        };
        let mut command = Command::new(&git.program);
        command.env_clear().env("LC_ALL", "C").arg("--version");
        // The short limit of 30 seconds applies to this run only.
        let running = GitProcess::start(command, "git --version".to_owned(), git.bounds())
            .map_err(|error| not_started(&git.program, error))?;
        let (ended, output) = running.run(b"", 4 << 10)?;
        ended.success()?;
        let text = String::from_utf8_lossy(&output);
        let Some(version) = version_in(&text) else {
            return Err(missing(&format!("{:?} is not git: its output is {:?}", git.program, text.trim())));
        };
        if version[..2] < MINIMUM[..] {
            let [major, minor, patch] = version;
            let message = format!(
                "{:?} is git {major}.{minor}.{patch}, but {}.{} or newer is needed: {INSTALL}",
                git.program, MINIMUM[0], MINIMUM[1]
            );
            return Err(TreeError::new(TreeErrorKind::GitTooOld, message));
        }
        Ok(Self { version, time_limit: TIME_LIMIT, ..git })
    }

    /// Sets the time limit for each run of git. Ten minutes by default.
    #[must_use]
    pub fn with_time_limit(mut self, time_limit: Duration) -> Self {
        self.time_limit = time_limit;
        self
    }

    /// Sets the configuration files of the user. They are read only for the settings of checkouts (`core.autocrlf`,
    /// `core.eol`, `core.safecrlf`, `core.fileMode`, `core.symlinks`) that the repository does not have. The last file is
    /// read first.
    #[must_use]
    pub fn with_user_configuration(mut self, files: impl IntoIterator<Item = PathBuf>) -> Self {
        self.user_configuration = files.into_iter().collect();
        self
    }

    /// Returns the configuration files of the user. A later file overrides an earlier one.
    pub(super) fn user_configuration(&self) -> &[PathBuf] {
        &self.user_configuration
    }

    /// Returns the home of the user.
    pub(super) fn home(&self) -> Option<&Path> {
        self.home.as_deref()
    }

    /// Returns the user's file of ignored paths that applies without a setting.
    pub(super) fn default_ignore(&self) -> Option<&Path> {
        self.default_ignore.as_deref()
    }

    /// Sets a cancel token. When it is cancelled, git is killed, and the call fails with
    /// [`Cancelled`](TreeErrorKind::Cancelled).
    #[must_use]
    pub fn with_cancel(mut self, cancel: CancelToken) -> Self {
        self.cancel = Some(cancel);
        self
    }

    /// Returns the version: major, minor, patch.
    pub fn version(&self) -> [u32; 3] {
        self.version
    }

    /// Returns the time limit and cancel token for a run that begins now.
    pub(super) fn bounds(&self) -> GitBounds {
        GitBounds::new(self.time_limit, self.cancel.clone())
    }

    /// Returns true if both values run the same program.
    pub(super) fn is_program_of(&self, other: &Self) -> bool {
        self.program == other.program
    }

    /// Returns a command on the repository at `git_dir`.
    pub(super) fn command(&self, git_dir: &Path, name: &str) -> GitCommand<'_> {
        self.command_with(git_dir, name, &[])
    }

    /// Returns a command with additional settings. The settings must not name programs.
    pub(super) fn command_with(&self, git_dir: &Path, name: &str, settings: &[String]) -> GitCommand<'_> {
        let mut command = Command::new(&self.program);
        // With `GIT_DIR`, git searches for no repository, so a `.git` elsewhere cannot take effect.
        command.env_clear().current_dir(git_dir).env("GIT_DIR", git_dir);
        let environment = [
            ("PATH", "/usr/bin:/bin"),
            ("LC_ALL", "C"),
            ("TZ", "UTC"),
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_CONFIG_SYSTEM", "/dev/null"),
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
            ("GIT_ATTR_NOSYSTEM", "1"),
            ("GIT_NO_REPLACE_OBJECTS", "1"),
            ("GIT_GRAFT_FILE", "/dev/null"),
            ("GIT_NO_LAZY_FETCH", "1"),
            ("GIT_ALLOW_PROTOCOL", "none"),
            ("GIT_TERMINAL_PROMPT", "0"),
            // Commands that only read would otherwise refresh and lock the person's index.
            ("GIT_OPTIONAL_LOCKS", "0"),
            ("GIT_ADVICE", "0"),
            ("GIT_AUTHOR_NAME", AUTHOR.0),
            ("GIT_AUTHOR_EMAIL", AUTHOR.1),
            ("GIT_COMMITTER_NAME", AUTHOR.0),
            ("GIT_COMMITTER_EMAIL", AUTHOR.1),
        ];
        command.envs(environment);
        for setting in SETTINGS {
            command.args(["-c", setting]);
        }
        for setting in settings {
            command.args(["-c", setting]);
        }
        command.arg("--no-pager");
        GitCommand { git: self, command, name: format!("git {name}") }.arg(name)
    }
}

/// Returns the configuration files of the system and the user, by the variables of this process. Source: git-config(1).
fn user_configuration() -> Vec<PathBuf> {
    let mut files = Vec::new();
    if env::var_os("GIT_CONFIG_NOSYSTEM").is_none() {
        files.push(folder("GIT_CONFIG_SYSTEM").unwrap_or_else(|| PathBuf::from("/etc/gitconfig")));
    }
    if let Some(file) = folder("GIT_CONFIG_GLOBAL") {
        files.push(file);
        return files;
    }
    files.extend(shared_configuration().map(|folder| folder.join("git/config")));
    files.extend(folder("HOME").map(|home| home.join(".gitconfig")));
    files
}

/// Returns the folder that a variable of this process names.
fn folder(name: &str) -> Option<PathBuf> {
    env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// Returns the folder with the configuration of the user's programs.
fn shared_configuration() -> Option<PathBuf> {
    folder("XDG_CONFIG_HOME").or_else(|| Some(folder("HOME")?.join(".config")))
}

/// Author of the commits that Nexus creates.
pub(super) const AUTHOR: (&str, &str) = ("Nexus", "nexus@localhost");

const INSTALL: &str = "install it with `apt-get install git`, `dnf install git` or `brew install git`";

fn missing(what: &str) -> TreeError {
    let message = format!("{what}, but git {}.{} or newer is needed: {INSTALL}", MINIMUM[0], MINIMUM[1]);
    TreeError::new(TreeErrorKind::GitMissing, message)
}

/// Returns the error for a git that could not be started.
fn not_started(program: &Path, error: io::Error) -> TreeError {
    if error.kind() == io::ErrorKind::NotFound && !program.exists() {
        return missing(&format!("git does not exist at {program:?}"));
    }
    TreeError::from_io(program, "cannot be started", error)
}

fn version_in(text: &str) -> Option<[u32; 3]> {
    let numbers = text.strip_prefix("git version ")?.split_whitespace().next()?;
    let mut parts = numbers.split('.');
    let (major, minor) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    // Versions such as "2.50.GIT" and "2.50.0-rc1" are valid, too.
    let digits = parts.next().unwrap_or_default();
    let end = digits.bytes().take_while(u8::is_ascii_digit).count();
    Some([major, minor, digits[..end].parse().unwrap_or(0)])
}

/// One command of git, before it runs.
#[derive(Debug)]
pub(super) struct GitCommand<'a> {
    git: &'a Git,
    command: Command,
    name: String,
}

impl GitCommand<'_> {
    pub(super) fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.command.arg(arg);
        self
    }

    pub(super) fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.command.args(args);
        self
    }

    /// Adds an option whose value is a path.
    pub(super) fn path_option(self, option: &str, path: &Path) -> Self {
        let mut text = OsString::from(option);
        text.push(path);
        self.arg(text)
    }

    pub(super) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Uses another index than the repository's.
    pub(super) fn index(self, path: &Path) -> Self {
        self.env("GIT_INDEX_FILE", path)
    }

    /// Uses a folder as the work tree.
    pub(super) fn work_tree(mut self, path: &Path) -> Self {
        self.command.current_dir(path);
        self.env("GIT_WORK_TREE", path)
    }

    pub(super) fn start(self) -> Result<GitProcess, TreeError> {
        let bounds = self.git.bounds();
        bounds.check(&self.name)?;
        GitProcess::start(self.command, self.name, bounds)
            .map_err(|error| not_started(&self.git.program, error))
    }

    /// Runs the command, and returns its output if it succeeded.
    pub(super) fn run(self, input: &[u8]) -> Result<Vec<u8>, TreeError> {
        self.run_within(input, MAX_OUTPUT)
    }

    /// Like [`run`](Self::run), with a limit on the output.
    pub(super) fn run_within(self, input: &[u8], max_bytes: u64) -> Result<Vec<u8>, TreeError> {
        let (ended, output) = self.start()?.run(input, max_bytes)?;
        ended.success()?;
        Ok(output)
    }

    /// Runs the command, and returns its exit and its output.
    pub(super) fn outcome(self, input: &[u8]) -> Result<(GitExit, Vec<u8>), TreeError> {
        self.start()?.run(input, MAX_OUTPUT)
    }

    /// Runs the command, and returns the single line of its output.
    pub(super) fn line(self, input: &[u8]) -> Result<String, TreeError> {
        let output = self.run(input)?;
        Ok(String::from_utf8_lossy(&output).trim_end_matches('\n').to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_in_every_form() {
        for (text, version) in [
            ("git version 2.47.3\n", [2, 47, 3]),
            ("git version 2.39.5 (Apple Git-154)\n", [2, 39, 5]),
            ("git version 2.50.GIT\n", [2, 50, 0]),
            ("git version 2.50.0-rc1\n", [2, 50, 0]),
            ("git version 3.0\n", [3, 0, 0]),
        ] {
            assert_eq!(version_in(text), Some(version), "{text}");
        }
        for text in ["", "hub version 2.0", "git version x.y", "git version 2"] {
            assert_eq!(version_in(text), None, "{text}");
        }
    }
}
