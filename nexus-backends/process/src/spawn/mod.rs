//! Starts exactly one process, feeds it, reads its output, and stops its whole tree.
//!
//! ```no_run
//! # use nexus_process::{environment::Environment, executable::Executable};
//! # use nexus_process::spawn::{Invocation, Polite, StdinMode, Stop};
//! # use std::time::Duration;
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let environment = Environment::from_host(std::env::vars_os()).build()?;
//! let executable = Executable::find("agent", environment.value("PATH"))?;
//! let process = Invocation::new(executable, "/workspace")
//!     .argument("--json")
//!     .environment(environment)
//!     .stdin(StdinMode::Open)
//!     .spawn()?;
//! process.stdin().write("{\"prompt\":\"hello\"}\n").await?;
//! while let Some(line) = process.next_line().await {
//!     println!("{} bytes", line.bytes.len());
//! }
//! let exit = process.stop(Stop::new().politely(Polite::CloseStdin, Duration::from_secs(2))).await;
//! println!("{:?}", exit.status);
//! # Ok(())
//! # }
//! ```
//!
//! The module has no retry, no state between two processes, and no vendor. One thread per process does all its input and
//! output, so both pipes are read even if the consumer's runtime is busy. Dropping a [`Process`] works inside a runtime,
//! outside of one, and after the runtime is gone.
//!
//! Standard error is always read, and its end stored. Lines of standard output are read until [`Bounds::queue_bytes`] of them
//! wait for the consumer. Then the pipe fills up and the child waits, as it would for any reader: output is never dropped,
//! except for the rest of a line above [`Bounds::line_bytes`].
//!
//! The vendors' folders interpret the lines and decide when to stop.

mod bounds;
mod error;
mod exit;
mod invocation;
mod kept;
mod process;
mod pump;
mod serving;
mod shared;
mod stdin;
mod stop;
mod watch;

pub use bounds::Bounds;
pub use error::{SpawnError, StdinError};
pub use exit::{EndedBy, Exit, ExitStatus};
pub use invocation::Invocation;
pub use kept::KeptOutput;
pub use process::{Process, StdinWriter};
pub use stdin::StdinMode;
pub use stop::{Polite, Stop};
pub(crate) use watch::EndWatch;
