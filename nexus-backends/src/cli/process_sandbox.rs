//! Sandbox of Nexus around one process of a delegated backend.

use nexus_core::{ErrorKind, harness::Failure};
use nexus_process::sandbox::{SandboxError, SandboxSupport, WithoutRepository};
use nexus_process::spawn::Process;

use crate::host_list::TurnNetwork;

/// Sandbox around one process. Dropping it ends the network and moves repositories aside that the program created.
#[derive(Debug)]
pub(crate) struct ProcessSandbox {
    support: SandboxSupport,
    without_repository: WithoutRepository,
    network: Option<TurnNetwork>,
}

impl ProcessSandbox {
    pub(super) fn new(
        support: SandboxSupport,
        without_repository: WithoutRepository,
        network: Option<TurnNetwork>,
    ) -> Self {
        Self { support, without_repository, network }
    }

    /// Returns warnings about refused hosts, and about repositories that were moved aside. Called after the end of the process.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let refused = self.network.as_ref().map(TurnNetwork::warnings).unwrap_or_default();
        let planted = self.without_repository.set_aside();
        refused.into_iter().chain(planted.iter().map(ToString::to_string)).collect()
    }

    /// Replaces a failure whose cause is the sandbox.
    pub(crate) async fn explain(&self, found: &mut Failure, process: &Process) {
        if let Some(limit) = self.support.reached() {
            let reason = format!("the agent reached the limit of its sandbox on {limit}, and was ended");
            *found = Failure::new(ErrorKind::Crashed, reason);
            return;
        }
        let exit = process.wait().await;
        if let Some(error) = self.support.start_failure(&exit, &process.stderr_tail()) {
            *found = failure(&error);
        }
    }
}

impl Drop for ProcessSandbox {
    fn drop(&mut self) {
        // A turn that was dropped has no more warnings, but nothing may stay that git would run.
        self.without_repository.set_aside_and_log();
    }
}

/// Returns the failure of a turn whose sandbox cannot be created.
pub(super) fn failure(error: &SandboxError) -> Failure {
    let kind = match error {
        SandboxError::BubblewrapMissing
        | SandboxError::BubblewrapTooOld { .. }
        | SandboxError::ShellMissing { .. }
        | SandboxError::DidNotStart { .. } => ErrorKind::NotInstalled,
        SandboxError::NamespacesForbidden { .. }
        | SandboxError::NetworkForbidden { .. }
        | SandboxError::NoNetworkOpener => ErrorKind::Unsupported,
        SandboxError::Path { .. }
        | SandboxError::PathRefused { .. }
        | SandboxError::NoMountPoint { .. }
        | SandboxError::FolderMissing { .. } => ErrorKind::InvalidRequest,
        _ => ErrorKind::Crashed,
    };
    Failure::of(kind, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_bubblewrap_gets_the_command_that_installs_it() {
        let failure = failure(&SandboxError::BubblewrapMissing);
        assert_eq!(failure.kind, ErrorKind::NotInstalled);
        assert!(failure.message.unwrap().contains("`apt-get install bubblewrap`"));
    }
}
