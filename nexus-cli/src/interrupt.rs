//! Somebody wants this to end.

use std::io;

/// Waits for Ctrl-C, or for the signal by which a system ends a program.
///
/// # Errors
///
/// Signals cannot be listened to.
pub(crate) async fn interrupted() -> io::Result<()> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};

        let mut ended = signal(SignalKind::terminate())?;
        tokio::select! {
            outcome = tokio::signal::ctrl_c() => outcome,
            _ = ended.recv() => Ok(()),
        }
    }
    #[cfg(not(unix))]
    tokio::signal::ctrl_c().await
}
