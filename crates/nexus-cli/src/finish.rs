//! Waits for work that must end before the command does: a login may be lost if its renewal is cut off.

use std::time::Duration;

use crate::{interrupt::interrupted, output::complain};

/// Longest silent wait: after it, the command prints the reason.
const SILENCE: Duration = Duration::from_millis(500);

/// Waits for renewals that ended turns have started. Ctrl-C stops the wait.
pub(crate) async fn finish_refreshes() {
    let finished = nexus::auth::finish_refreshes();
    tokio::pin!(finished);
    tokio::select! {
        () = &mut finished => return,
        () = tokio::time::sleep(SILENCE) => {}
    }
    complain("a login is being renewed; Ctrl-C cancels that, and the login may be lost");
    tokio::select! {
        () = finished => {}
        _ = interrupted() => {}
    }
}
