//! Runs one program that sees only what it was given: no other file, process, socket, variable or descriptor of this
//! machine, and no network except the hosts of a [`SandboxNetwork`].
//!
//! ```no_run
//! # use nexus_process::sandbox::{Sandbox, SandboxCommand, SandboxError};
//! # async fn example() -> Result<(), SandboxError> {
//! let sandbox = Sandbox::new()
//!     .home("/home/me")
//!     .tool_chain("/home/me/.cargo")
//!     .writable("/var/lib/trees/7", "/home/me/project");
//! let tests = SandboxCommand::new(["cargo", "test", "--offline"]).folder("/home/me/project");
//! let outcome = sandbox.run(tests).await?;
//! println!("{:?} {:?}\n{}", outcome.end, outcome.status, outcome.stdout.text());
//! # Ok(())
//! # }
//! ```
//!
//! | resource | treatment |
//! | --- | --- |
//! | files | the root is an allow-list: `/usr` with its links, `/nix/store` and `/gnu/store` if they exist, some files of `/etc` without names of persons, and generated files for the rest of it; tool chains and trees at the paths that the caller chose; all without set-user-id and devices |
//! | writable space | an empty home, `/tmp`, `/run`, `/dev/shm` and [scratch folders](Sandbox::scratch), in memory and limited by [`SandboxLimits::scratch_bytes`]; growth of a writable tree is [limited](SandboxLimits::disk_bytes); everything else is read-only |
//! | processes | separate namespaces for users, processes, network, IPC, host name and control groups; no capability, no new privileges, no further user namespace; a session without a terminal |
//! | network | none, or the hosts of a [list](Sandbox::network) through a relay outside |
//! | variables, descriptors | the variables of [`SandboxCommand::environment`], and `HOME`, `PATH` and `PWD`; descriptors 0 to 2, which are pipes |
//! | the kernel | a system call filter rejects keyrings, `io_uring`, `bpf`, `perf_event_open`, `fallocate`, sockets other than IP, netlink and Unix, programs of another architecture, and set-user-id or set-group-id bits on files; devices such as `/dev/null` keep their modes and times, even for root |
//! | the end | with the future, with this program, or with the main process: the kernel ends all processes as a whole, as described in [`containment`](crate::containment) |
//!
//! [bubblewrap](https://github.com/containers/bubblewrap), 0.8 or newer, creates the sandbox, inside the strongest
//! containment of this machine. Before it, a shell closes descriptors and sets limits: `bash`, or another shell that
//! supports descriptors above 9.
//!
//! The sandbox does **not** prevent the following:
//!
//! - A Unix socket in a folder that the caller mounted can be reached by its path.
//! - The outside names of those folders can be read inside (`/proc/self/mountinfo`).
//! - The number of files in a tree is not limited. In a folder in memory only the kernel limits the number of empty
//!   files, to one for every 8 KiB of memory.
//! - Two concurrent runs in one writable tree must trust each other. One can replace a folder by a link while a mount
//!   below it is created for the other.
//! - Processor and kernel are shared, so timing attacks and kernel exploits are not contained.
//! - Outside root has the same user id for mounted files, but without its capabilities: files of other users that their
//!   mode closes stay closed.

mod command;
mod error;
mod etc;
mod launch;
mod launch_failure;
mod layout;
mod limits;
mod network;
mod outcome;
mod prepared;
mod root;
mod run;
mod secrets;
mod system_calls;
mod tool_chains;
mod usage;
mod workspace;

pub use crate::guarded_folder::PlantedRepository;
pub use command::SandboxCommand;
pub use error::SandboxError;
pub use layout::Layout;
pub use limits::{LimitedBy, SandboxLimit, SandboxLimits};
pub use network::{
    AllowedHost, AllowedHostError, AllowedHosts, NetworkRecord, RefusalReason, RefusedConnection,
    SandboxNetwork, open_if_asked, open_network, set_network_opener,
};
pub use outcome::{SandboxEnd, SandboxOutcome};
pub use prepared::SandboxSupport;
pub use root::Sandbox;
pub use run::SandboxRun;
pub use tool_chains::ToolChains;
pub use workspace::{WithoutRepository, WorkspaceFolders};
