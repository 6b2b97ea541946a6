//! Runs one program where it sees what it was given and nothing else: no other file, process, socket, variable or descriptor
//! of this machine, and no network.
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
//! | what | how |
//! | --- | --- |
//! | files | a root that is an allow-list: `/usr` with its links, `/nix/store` and `/gnu/store` where they are, some files of `/etc` that name no person, a generated rest of it; tool chains and trees at the paths that the caller chose; all of it without set-user-id and devices |
//! | room of its own | empty home, `/tmp`, `/run`, `/dev/shm` and [scratch folders](Sandbox::scratch), in memory and bounded by [`SandboxLimits::scratch_bytes`]; what may be added to a tree that can be written is [bounded](SandboxLimits::disk_bytes); everything else cannot be written |
//! | processes | namespaces of its own for users, processes, network, IPC, host name and control groups; no capability, no new privileges, no further user namespace; a session without a terminal |
//! | variables, descriptors | what [`SandboxCommand::environment`] lists, and `HOME`, `PATH` and `PWD`; descriptors 0 to 2, which are pipes |
//! | the kernel | keyrings, `io_uring`, `bpf`, `perf_event_open`, `fallocate`, sockets other than IP, netlink and Unix, and programs of another architecture are refused by a filter of system calls, and so is a set-user-id or set-group-id bit on any file; devices (`/dev/null` and its like) keep their modes and times, even of root |
//! | its end | with the future, with this program, or with its main process: by the kernel as a whole, as [`containment`](crate::containment) says |
//!
//! It is made by [bubblewrap](https://github.com/containers/bubblewrap), 0.8 or newer, inside of the strongest containment of
//! this machine, and by a shell before it that closes descriptors and sets limits: `bash`, or another that can name a descriptor
//! above 9.
//!
//! What is **not** kept: a Unix socket that lies in a folder that the caller put in can be reached by its path. The names of
//! those folders outside can be read inside (`/proc/self/mountinfo`). How many files a tree may come to hold
//! is not limited; neither is the number of empty files in a folder in memory, but by the kernel (one for every 8 KiB of memory). Two runs at once
//! in one writable tree trust each other: the one can swap a folder for a link while something is being mounted below it for the other. The processor and the kernel are shared, so what is measured by
//! time or breaks the kernel is not held. Root outside is the same root in the eyes of the files that were put in, without its
//! capabilities: files of other users that their mode closes stay closed.

mod command;
mod error;
mod etc;
mod launch;
mod layout;
mod limits;
mod outcome;
mod root;
mod run;
mod secrets;
mod system_calls;
mod usage;

pub use command::SandboxCommand;
pub use error::SandboxError;
pub use layout::Layout;
pub use limits::{LimitedBy, SandboxLimit, SandboxLimits};
pub use outcome::{SandboxEnd, SandboxOutcome};
pub use root::Sandbox;
