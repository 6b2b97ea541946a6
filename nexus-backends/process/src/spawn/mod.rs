//! The spawn atom: exactly one process, fed, drained, and its whole tree stopped.
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
//! There is no retry, no state between two processes, and no vendor in here. One thread per process
//! does all its input and output, so both pipes are read however busy the consumer's runtime is, and
//! dropping a [`Process`] works inside a runtime, outside of one, and after it is gone.
//!
//! Standard error is always read, and its end kept. Lines of standard output are read until
//! [`Bounds::queue_bytes`] of them wait for the consumer. Then the pipe fills up and the child waits, as
//! it would for any reader: what it wrote is never dropped, except for the rest of a line above
//! [`Bounds::line_bytes`].
//!
//! What the lines mean, and when to stop, is left to the vendors' folders.

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
