//! The launcher of a sandbox: a shell that closes inherited descriptors, sets limits, and then becomes
//! bubblewrap.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nexus_core::harness::run_blocking;

use super::command::SandboxCommand;
use super::error::SandboxError;
use super::layout::Layout;
use super::limits::SandboxLimits;
use super::network::SandboxNetwork;
use super::network::relay::RelaySocket;
use super::root::{SYSTEM, Sandbox};
use super::secrets::{self, HiddenCredential};
use super::{etc, system_calls, usage};
use crate::containment::{Cgroup, limiting_cgroup, program_of_the_system};
use crate::disk_watch::DiskWatch;
use crate::executable::Executable;
use crate::private_home::PrivateHome;
use crate::run_id::RunId;

/// Script of the launcher. Exits with an error if any step fails. Its arguments: the folder of the run, a cgroup or
/// nothing, the maximum file size in blocks, the processor time in seconds, the program `rm` or nothing, and the command.
///
/// The script closes descriptors that the host leaves open over `exec`, because bubblewrap would pass them on to the inside. A
/// hard limit that cannot be set is already lower. Data passed by file appears in no argument list, which others can
/// read. The file with the variables, which may contain a secret, is removed as soon as it is open.
const STAGE: &str = r#"
fail() { echo "nexus-sandbox: $*" >&2; exit 125; }
[ -e /proc/self/fd/0 ] || fail "/proc is not there"
for fd in /proc/self/fd/*; do
    fd=${fd##*/}
    case $fd in 0|1|2) ;; *) eval "exec $fd>&-" || fail "descriptor $fd stays open" ;; esac
done
unset PWD OLDPWD SHLVL
folder=$0 cgroup=$1 blocks=$2 seconds=$3 remove=$4
shift 4
ulimit -c 0
{ ulimit -f "$blocks"; ulimit -S -t "$seconds"; ulimit -H -t "$((seconds + 1))"; } 2>/dev/null
[ -z "$cgroup" ] || echo 0 >"$cgroup/cgroup.procs" || fail "the cgroup cannot be entered"
exec 3<"$folder/arguments" 4>"$folder/status" 5<"$folder/filter" || fail "a file is missing"
[ -z "$remove" ] || "$remove" -f "$folder/arguments" 3<&- 4>&- 5<&- || fail "the arguments stay in a file"
exec "$@"
"#;
/// Script that makes `/dev` read-only. Root owns the devices of the machine, some of which a sandbox shows, and could
/// change their modes and times for all users. On a read-only mount devices can still be written to, and a nested
/// namespace cannot undo the mount.
const CLOSED_DEVICES: &str = r#"
unset PWD OLDPWD SHLVL
"$0" -o rbind /dev /dev && "$0" -o remount,bind,ro /dev || exit 125
exec "$@"
"#;
/// Arguments of `unshare` that run that script in separate namespaces, so that it affects nothing else.
const ASIDE: [&str; 5] = ["--mount", "--propagation", "slave", "/bin/sh", "-c"];
/// Script that opens the network before the rest. Its arguments: the program, the program's argument, the folder of the run, and
/// the command.
const OPENED_NETWORK: &str = r#"
unset PWD OLDPWD SHLVL
"$0" "$1" "$2" </dev/null >/dev/null || { echo "nexus-sandbox-network: $0 failed" >&2; exit 125; }
shift 2
exec "$@"
"#;
/// Prefix of the launcher's own messages.
pub(super) const STAGE_SAYS: &str = "nexus-sandbox: ";
/// Descriptors that the launcher leaves to bubblewrap, which closes them.
const DESCRIPTORS: [&str; 4] = ["--args", "3", "--json-status-fd", "4"];
/// Namespaces of a sandbox.
const NAMESPACES: [&str; 12] = [
    "--unshare-user",
    "--unshare-pid",
    "--unshare-ipc",
    "--unshare-uts",
    "--unshare-cgroup-try",
    "--disable-userns",
    "--cap-drop",
    "ALL",
    "--new-session",
    "--die-with-parent",
    "--hostname",
    etc::HOST_NAME,
];
/// Files of `/proc` that root could write to without a capability, and so change the machine, because the kernel
/// compares only owners.
const KERNEL_SETTINGS: [&str; 9] =
    ["acpi", "asound", "driver", "fs", "mtrr", "pressure", "scsi", "sys", "sysrq-trigger"];
/// Files of `/proc` that show other processes or the kernel's memory.
const KERNEL_SECRETS: [&str; 7] =
    ["kcore", "key-users", "keys", "kpagecount", "latency_stats", "sched_debug", "timer_list"];
/// Global settings below the system's folders, such as a `npmrc` with a token.
const SETTINGS: [&str; 2] = ["/usr/etc", "/usr/local/etc"];
/// Search path of programs, unless the command sets its own.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// Size of `/run`, in bytes.
const RUN_BYTES: u64 = 1 << 20;

/// Everything that one run needs. Dropping it removes its files.
#[derive(Debug)]
pub(super) struct Launch {
    pub(super) shell: Executable,
    pub(super) bubblewrap: PathBuf,
    pub(super) arguments: Vec<OsString>,
    pub(super) folder: PrivateHome,
    pub(super) run: RunId,
    pub(super) cgroup: Option<Cgroup>,
    pub(super) disk: Option<DiskWatch>,
    pub(super) relay: Option<RelaySocket>,
    pub(super) has_network: bool,
}

impl Launch {
    /// Writes the files of one run, on a thread for blocking work.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub(super) async fn prepare(
        sandbox: &Sandbox,
        command: SandboxCommand,
    ) -> Result<(SandboxCommand, Self), SandboxError> {
        let sandbox = sandbox.clone();
        let prepared = run_blocking(move || {
            let launch = Self::new(&sandbox, &command);
            (command, launch)
        });
        let Ok((command, launch)) = prepared.await else {
            let source = io::Error::other("the runtime is shutting down");
            return Err(SandboxError::Prepare { folder: std::env::temp_dir(), source });
        };
        Ok((command, launch?))
    }

    /// Writes the files of one run. Blocks.
    ///
    /// # Errors
    ///
    /// Every [`SandboxError`] that can be detected before a process is started.
    pub(super) fn new(sandbox: &Sandbox, command: &SandboxCommand) -> Result<Self, SandboxError> {
        if command.arguments.first().is_none_or(|program| program.is_empty()) {
            return Err(SandboxError::NoCommand);
        }
        // Bubblewrap parses its arguments as a list with NUL separators.
        if !command.folder.is_absolute() || command.folder.as_os_str().as_bytes().contains(&0) {
            let folder = command.folder.clone();
            return Err(SandboxError::FolderMissing {
                folder,
                said: "it is not an absolute path, as required".to_owned(),
            });
        }
        if sandbox.network.as_ref().is_some_and(|network| !network.can_open()) {
            return Err(SandboxError::NoNetworkOpener);
        }
        let bubblewrap = sandbox.bubblewrap.clone().or_else(|| program_of_the_system("bwrap"));
        let bubblewrap =
            bubblewrap.filter(|program| program.exists()).ok_or(SandboxError::BubblewrapMissing)?;
        let shell = program_of_the_system("bash").unwrap_or_else(|| "/bin/sh".into());
        let shell =
            Executable::at(&shell).map_err(|error| SandboxError::ShellMissing { said: error.to_string() })?;

        let run = command.entry.as_ref().map(|entry| entry.run().clone()).unwrap_or_default();
        let place = std::env::temp_dir();
        let folder = match &command.entry {
            Some(entry) => entry.home(),
            None => PrivateHome::below(&place, &run),
        };
        let folder = folder.map_err(|source| SandboxError::Prepare { folder: place, source })?;
        let unwritten = |source| SandboxError::Prepare { folder: folder.path().to_owned(), source };
        let layout = lay_out(sandbox, command, &folder)?;
        let arguments: Vec<u8> =
            layout.arguments().iter().flat_map(|one| one.as_bytes().iter().copied().chain([0])).collect();
        let filter = system_calls::filter().unwrap_or_default();
        for (name, content) in [("arguments", arguments), ("filter", filter)] {
            folder.write(name, content).map_err(unwritten)?;
        }
        let cgroup = cgroup(&run, &sandbox.limits).map_err(unwritten)?;
        if let (Some(entry), Some(cgroup)) = (&command.entry, &cgroup) {
            entry.add_cgroup(cgroup.path());
        }
        let trees: Vec<PathBuf> = sandbox.writable_trees().map(Path::to_owned).collect();
        let disk = match trees.is_empty() {
            true => None,
            false => Some(DiskWatch::start(trees, sandbox.limits.disk_bytes).map_err(unwritten)?),
        };
        let relay = sandbox.network.as_ref().map(|network| RelaySocket::prepare(network, &folder));
        let relay = relay.transpose().map_err(unwritten)?;
        let arguments = arguments_of_stage(&shell, &folder, cgroup.as_ref(), sandbox, &bubblewrap, command);
        let has_network = relay.is_some();
        Ok(Self { shell, bubblewrap, arguments, folder, run, cgroup, disk, relay, has_network })
    }

    /// Returns bubblewrap's own status messages.
    pub(super) fn status(&self) -> String {
        fs::read_to_string(self.folder.path().join("status")).unwrap_or_default()
    }
}

/// Returns a cgroup that enforces the limits, if one is available.
fn cgroup(run: &RunId, limits: &SandboxLimits) -> io::Result<Option<Cgroup>> {
    let Some(place) = limiting_cgroup()? else { return Ok(None) };
    let cgroup = Cgroup::make(&place, run)?;
    usage::limit(cgroup.path(), limits)?;
    Ok(Some(cgroup))
}

fn arguments_of_stage(
    shell: &Executable,
    folder: &PrivateHome,
    cgroup: Option<&Cgroup>,
    sandbox: &Sandbox,
    bubblewrap: &Path,
    command: &SandboxCommand,
) -> Vec<OsString> {
    // Source: `bash(1)`, `ulimit`: a block has 1024 bytes, or 512 in POSIX mode and in other shells.
    let block = if shell.file_name() == "bash" { 1024 } else { 512 };
    let blocks = sandbox.limits.file() / block;
    let seconds = sandbox.limits.cpu_seconds();
    let mut all: Vec<OsString> = vec!["-c".into(), STAGE.into(), folder.path().into()];
    all.push(cgroup.map(|cgroup| cgroup.path().into()).unwrap_or_default());
    all.extend([blocks.to_string().into(), seconds.to_string().into()]);
    all.push(program_of_the_system("rm").map(Into::into).unwrap_or_default());
    let tool = |name: &str| program_of_the_system(name).unwrap_or_else(|| Path::new("/bin").join(name));
    let is_root = rustix::process::geteuid().is_root();
    let opener = sandbox.network.as_ref().and_then(SandboxNetwork::opener);
    if is_root || opener.is_some() {
        all.extend([tool("unshare").into(), "--map-root-user".into()]);
    }
    if opener.is_some() {
        all.push("--net".into());
    }
    if is_root {
        all.extend(ASIDE.map(Into::into));
        all.extend([CLOSED_DEVICES.into(), tool("mount").into()]);
    }
    if let Some(opener) = opener {
        all.extend(["/bin/sh", "-c", OPENED_NETWORK].map(Into::into));
        all.extend([opener.program.clone().into(), opener.argument.clone(), folder.path().into()]);
    }
    all.push(bubblewrap.into());
    all.extend(DESCRIPTORS.map(Into::into));
    all.push("--".into());
    all.extend(command.arguments.iter().cloned());
    all
}

/// Returns all arguments of bubblewrap.
fn lay_out(
    sandbox: &Sandbox,
    command: &SandboxCommand,
    folder: &PrivateHome,
) -> Result<Layout, SandboxError> {
    let scratch = Some(sandbox.limits.scratch());
    let unwritten = |source| SandboxError::Prepare { folder: folder.path().to_owned(), source };
    let empty = folder.write("empty", "").map_err(unwritten)?;
    let mut layout = Layout::empty().options(NAMESPACES);
    if sandbox.network.is_none() {
        layout = layout.options(["--unshare-net"]);
    } else {
        // The network belongs to a user namespace around this one, in which the user is root.
        let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        layout = layout.options(["--uid", &user.to_string(), "--gid", &group.to_string()]);
    }
    if system_calls::filter().is_some() {
        layout = layout.options(["--seccomp", "5"]);
    }
    for system in SYSTEM {
        match fs::read_link(system) {
            Ok(target) => layout = layout.link(target, system),
            Err(_) if Path::new(system).is_dir() => layout = layout.read_only(system, system),
            Err(_) => {}
        }
    }
    for secret in SETTINGS
        .iter()
        .flat_map(|folder| secrets::in_folder(Path::new(folder)))
        .map(HiddenCredential::into_path)
        .filter(|path| path.is_file())
    {
        layout = layout.read_only(&empty, secret);
    }
    layout = layout.processes();
    for name in KERNEL_SETTINGS {
        layout = covered(layout, name, None);
    }
    for name in KERNEL_SECRETS {
        layout = covered(layout, name, Some(&empty));
    }
    layout = layout.devices().scratch("/dev/shm", scratch).closed("/dev");
    layout = layout.options(["--perms", "1777"]).scratch("/tmp", scratch).scratch("/run", Some(RUN_BYTES));
    for folder in ["/etc", "/var"] {
        layout = layout.options(["--perms", "0755", "--dir", folder]);
    }
    layout = layout.link("../tmp", "/var/tmp").link("../run", "/var/run");
    let host_lines = sandbox.network.as_ref().map(SandboxNetwork::host_lines).unwrap_or_default();
    layout = etc::lay_out(layout, folder, &sandbox.home, &host_lines).map_err(unwritten)?;
    layout = sandbox.lay_out(layout, &empty, folder)?.closed("/");

    layout = layout.options(["--clearenv"]);
    let defaults = [("HOME", sandbox.home.as_os_str()), ("PATH", PATH.as_ref())];
    let added = defaults.into_iter().filter(|(name, _)| command.environment.value(name).is_none());
    let given = command.environment.iter();
    for (name, value) in given.chain(added.map(|(name, value)| (name.as_ref(), value))) {
        layout = layout.with(["--setenv".into(), name.into(), value.into()]);
    }
    for (name, value) in sandbox.network.iter().flat_map(|_| SandboxNetwork::variables()) {
        // Replace the caller's proxy: it cannot be reached from inside the sandbox.
        layout = layout.options(["--setenv", name, &value]);
    }
    Ok(layout.with(["--chdir".into(), command.folder.clone().into()]))
}

/// Makes a file or folder of `/proc` read-only, or covers it with `by`, if it exists.
fn covered(layout: Layout, name: &str, by: Option<&PathBuf>) -> Layout {
    let path = Path::new("/proc").join(name);
    match path.exists() {
        true => layout.read_only(by.unwrap_or(&path), &path),
        false => layout,
    }
}
