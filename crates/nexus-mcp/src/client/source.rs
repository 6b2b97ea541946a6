//! Way to reach a server.

use std::{any::Any, fmt};

use async_trait::async_trait;
use nexus_process::spawn::Invocation;

/// Prepares the start of one server.
#[async_trait]
pub trait ServerSource: fmt::Debug + Send + Sync + 'static {
    /// Prepares one start. The server is started again after it ended, with a new preparation.
    ///
    /// # Errors
    ///
    /// Reason why the server cannot be started, for a person.
    async fn prepare(&self) -> Result<PreparedServer, String>;
}

/// Server that is ready to start.
#[non_exhaustive]
pub enum PreparedServer {
    /// A program that speaks the protocol on its standard input and output.
    Process {
        /// The program. The client opens its input.
        invocation: Box<Invocation>,
        /// Value that must live as long as the process.
        guard: Option<Box<dyn Any + Send + Sync>>,
    },
}

impl fmt::Debug for PreparedServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process { invocation, .. } => f.debug_tuple("Process").field(invocation).finish(),
        }
    }
}
