//! A program to run, and the limits of its run.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::bounds::Bounds;
use super::error::SpawnError;
use super::process::{Process, Start};
use super::stdin::StdinMode;
use super::watch::EndWatch;
use crate::capture::Capture;
use crate::containment::{
    Cgroup, Containment, ContainmentPolicy, Holding, Means, ParentDeath, RunTag, ShellVariables, Subreaper,
    choose,
};
use crate::environment::{Environment, EnvironmentError};
use crate::executable::Executable;
use crate::process_tree::RUN_MARKER;
use crate::run_id::RunId;
use crate::run_registry::RunEntry;
use nexus_core::redact::Redactor;

/// Check interval of a watch without a condition: a day.
const NEVER: Duration = Duration::from_secs(86400);
/// Device that reads as empty.
const NULL_DEVICE: &str = "/dev/null";

/// Description of one process to run; [`spawn`](Self::spawn) consumes it.
///
/// `Debug` shows neither arguments nor values of variables.
#[derive(Debug)]
pub struct Invocation {
    executable: Executable,
    arguments: Arguments,
    working_directory: PathBuf,
    environment: Environment,
    stdin: StdinMode,
    bounds: Bounds,
    run: RunId,
    entry: Option<RunEntry>,
    redactor: Redactor,
    capture: Option<PathBuf>,
    containment: ContainmentPolicy,
    keeps_privileges: bool,
    ends_with_host: bool,
    watch: Option<EndWatch>,
}

/// Arguments. `Debug` shows only their number.
struct Arguments(Vec<OsString>);

impl std::fmt::Debug for Arguments {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} arguments", self.0.len())
    }
}

impl Invocation {
    /// Creates an invocation of `executable` in `working_directory`, without arguments, with the run's marker as the
    /// only variable, and with empty input.
    #[must_use]
    pub fn new(executable: Executable, working_directory: impl Into<PathBuf>) -> Self {
        Self {
            executable,
            arguments: Arguments(Vec::new()),
            working_directory: working_directory.into(),
            environment: Environment::empty(),
            stdin: StdinMode::Empty,
            bounds: Bounds::default(),
            run: RunId::new(),
            entry: None,
            redactor: Redactor::default(),
            capture: None,
            containment: ContainmentPolicy::default(),
            keeps_privileges: false,
            ends_with_host: false,
            watch: None,
        }
    }

    /// Adds one argument. Every process of the machine can read it, so it must not contain a prompt or a secret.
    #[must_use]
    pub fn argument(mut self, argument: impl Into<OsString>) -> Self {
        self.arguments.0.push(argument.into());
        self
    }

    /// Adds arguments; see [`argument`](Self::argument).
    #[must_use]
    pub fn arguments(mut self, arguments: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.arguments.0.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Sets the child's complete environment. Only the run's marker is added.
    #[must_use]
    pub fn environment(mut self, environment: Environment) -> Self {
        self.environment = environment;
        self
    }

    /// Adds one variable to the environment.
    ///
    /// # Errors
    ///
    /// Errors of [`Environment::set`].
    pub fn variable(mut self, name: &str, value: impl Into<OsString>) -> Result<Self, EnvironmentError> {
        self.environment.set(name, value)?;
        Ok(self)
    }

    /// Sets the child's standard input.
    #[must_use]
    pub fn stdin(mut self, stdin: StdinMode) -> Self {
        self.stdin = stdin;
        self
    }

    /// Replaces the limits.
    #[must_use]
    pub fn bounds(mut self, bounds: Bounds) -> Self {
        self.bounds = bounds;
        self
    }

    /// Sets the name of the run. Default: a new name.
    #[must_use]
    pub fn run(mut self, run: RunId) -> Self {
        self.run = run;
        self
    }

    /// Runs under an entry of the run registry, and adopts its run. The entry records the child, so a later sweep ends
    /// it if this program dies.
    #[must_use]
    pub fn entry(mut self, entry: &RunEntry) -> Self {
        self.run = entry.run().clone();
        self.entry = Some(entry.clone());
        self
    }

    /// Sets the secrets that are removed from the stderr tail and the capture.
    #[must_use]
    pub fn redactor(mut self, redactor: Redactor) -> Self {
        self.redactor = redactor;
        self
    }

    /// Records the child's output, redacted, in a new folder at this path.
    #[must_use]
    pub fn capture(mut self, folder: impl Into<PathBuf>) -> Self {
        self.capture = Some(folder.into());
        self
    }

    /// Sets the containment that the child must have. Default: the strongest that is available.
    #[must_use]
    pub fn containment(mut self, policy: ContainmentPolicy) -> Self {
        self.containment = policy;
        self
    }

    /// Lets the child keep the rights that it would lose in a user namespace, for example for `sudo` and `ssh`. The
    /// next weaker kind then contains it, unless containment is required.
    #[must_use]
    pub fn keep_privileges(mut self) -> Self {
        self.keeps_privileges = true;
        self
    }

    /// Asks the kernel to end the child when this program is killed, even without a namespace. The child then does not
    /// continue by itself until the next sweep. If only the mark identifies the child's processes, the child has it
    /// before its first instruction.
    ///
    /// The cost is the start of one small program, or two with the mark. Without util-linux it has no effect.
    #[must_use]
    pub fn end_with_host(mut self) -> Self {
        self.ends_with_host = true;
        self
    }

    /// Stores both outputs as bytes, in place of lines and a tail: `kept_bytes` of each, half from its beginning and
    /// half from its end. Once the process has written more than `most_bytes` in total, it is
    /// [ended](super::EndedBy::OutputLimit). See [`Process::take_kept`].
    #[must_use]
    pub fn keep_output(self, most_bytes: u64, kept_bytes: usize) -> Self {
        self.watch(EndWatch::new(NEVER, |_| false).output(most_bytes, kept_bytes))
    }

    /// Stores the output as bytes, and watches the process while it runs.
    #[must_use]
    pub(crate) fn watch(mut self, watch: EndWatch) -> Self {
        self.watch = Some(watch);
        self
    }

    /// Starts the process. Blocks for about a millisecond; needs no async runtime.
    ///
    /// # Errors
    ///
    /// A [`SpawnError`]. Then no process exists.
    pub fn spawn(self) -> Result<Process, SpawnError> {
        self.executable.check()?;
        self.check_working_directory()?;
        if let Some(position) =
            self.arguments.0.iter().position(|argument| argument.as_encoded_bytes().contains(&0))
        {
            return Err(SpawnError::Argument { position: position + 1 });
        }
        let capture = match &self.capture {
            Some(folder) => Some(
                Capture::begin(
                    folder,
                    &self.executable,
                    &self.arguments.0,
                    &self.environment,
                    &self.redactor,
                )
                .map_err(|source| SpawnError::Capture { path: folder.clone(), source })?,
            ),
            None => None,
        };

        let means = self.means()?;
        let containment = means.kind();
        let parent_death = match self.needs_parent_death(containment) {
            true => ParentDeath::find().map_err(|source| self.refused(source))?,
            false => None,
        };
        let carried = match means {
            Means::Namespace(..) | Means::Cgroup(_) => {
                let carried = ShellVariables::new(&self.environment, self.executable.path());
                Some(carried.map_err(|source| self.refused(source))?)
            }
            Means::Subreaper | Means::Search => None,
        };
        let (mut command, holding) = self.contained(means, parent_death.as_ref(), carried.as_ref())?;
        command.args(&self.arguments.0).env_clear();
        match &carried {
            Some(carried) => command.envs(carried.iter()),
            None => command.envs(self.environment.iter()),
        };
        command
            .env(RUN_MARKER, self.run.as_str())
            .current_dir(&self.working_directory)
            .stdin(match self.stdin {
                // Open it here, because std would report its failure as the program's.
                StdinMode::Empty => std::fs::File::open(NULL_DEVICE).map_err(SpawnError::NullDevice)?.into(),
                _ => Stdio::piped(),
            })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // No `pre_exec` and no user or group change: with either, std forks the whole host instead
        // of calling posix_spawn, which costs 19 ms from a host of 512 MiB.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        Process::start(Start {
            command,
            holding,
            containment,
            // The kernel watches the *thread* that started such a process, so the serving thread must start it.
            is_in_thread: containment >= Containment::UserNamespace || parent_death.is_some(),
            executable: self.executable,
            stdin: self.stdin,
            bounds: self.bounds,
            run: self.run,
            entry: self.entry,
            redactor: self.redactor,
            capture,
            watch: self.watch,
        })
    }

    /// Returns the kind of containment.
    fn means(&self) -> Result<Means, SpawnError> {
        let means =
            choose(self.containment, self.keeps_privileges).map_err(|source| self.refused(source))??;
        // The launchers between this program and a contained child would hide the reason of its failure. But
        // containment that was requested explicitly is kept.
        match (&means, self.containment) {
            (Means::Namespace(..) | Means::Cgroup(_), ContainmentPolicy::Auto)
                if !self.executable.is_plain() =>
            {
                Ok(Means::Search)
            }
            _ => Ok(means),
        }
    }

    fn refused(&self, source: io::Error) -> SpawnError {
        SpawnError::System { executable: self.executable.path().into(), source }
    }

    /// Returns true if the child needs a launcher that ends it with this program. A launcher would hide the failure of
    /// a program that the system cannot run, so such a program gets none.
    fn needs_parent_death(&self, containment: Containment) -> bool {
        self.ends_with_host && containment < Containment::UserNamespace && self.executable.is_plain()
    }

    /// Returns the command that starts the child, without the child's arguments, and its containment.
    fn contained(
        &self,
        means: Means,
        parent_death: Option<&ParentDeath>,
        carried: Option<&ShellVariables>,
    ) -> Result<(Command, Holding), SpawnError> {
        // The processes of a cgroup are found without a mark.
        let tag = matches!(means, Means::Subreaper | Means::Search).then(|| RunTag::of(&self.run));
        let direct = || match parent_death.map(|found| found.command(tag)) {
            Some((program, arguments)) => {
                let mut command = Command::new(program);
                command.args(arguments).arg(self.executable.path());
                command
            }
            None => Command::new(self.executable.path()),
        };
        let wrapped = |(program, arguments): (&Path, Vec<OsString>)| {
            let (mut command, inner) = (Command::new(program), direct());
            command.args(arguments).args(carried.iter().flat_map(|carried| &carried.restore));
            command.arg(inner.get_program()).args(inner.get_args());
            command
        };
        Ok(match means {
            Means::Namespace(launcher, _) => (wrapped(launcher.command()), Holding::Namespace),
            Means::Cgroup(own) => {
                let cgroup = Cgroup::make(&own, &self.run).map_err(|source| self.refused(source))?;
                if let Some(entry) = &self.entry {
                    entry.add_cgroup(cgroup.path());
                }
                (wrapped(cgroup.command()), Holding::Cgroup(cgroup))
            }
            Means::Subreaper => match Subreaper::hold() {
                Some(subreaper) => (direct(), Holding::Subreaper(subreaper)),
                None => (direct(), Holding::Search),
            },
            Means::Search => (direct(), Holding::Search),
        })
    }

    fn check_working_directory(&self) -> Result<(), SpawnError> {
        let path = || self.working_directory.clone();
        let metadata = std::fs::metadata(&self.working_directory).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => SpawnError::WorkingDirectoryMissing { path: path() },
            io::ErrorKind::NotADirectory => SpawnError::WorkingDirectoryNotADirectory { path: path() },
            _ => SpawnError::WorkingDirectoryUnusable { path: path(), source },
        })?;
        if !metadata.is_dir() {
            return Err(SpawnError::WorkingDirectoryNotADirectory { path: path() });
        }
        rustix::fs::access(&self.working_directory, rustix::fs::Access::EXEC_OK)
            .map_err(|source| SpawnError::WorkingDirectoryUnusable { path: path(), source: source.into() })
    }
}
