//! What has to be over before the command is: a renewal that is cut off may cost the login.

use std::time::Duration;

use crate::{interrupt::interrupted, output::complain};

/// How long a person waits without being told why.
const SILENCE: Duration = Duration::from_millis(500);

/// Waits for renewals that were begun by turns which are no more. A person may give them up.
pub(crate) async fn finish_refreshes() {
    let finished = nexus::auth::finish_refreshes();
    tokio::pin!(finished);
    tokio::select! {
        () = &mut finished => return,
        () = tokio::time::sleep(SILENCE) => {}
    }
    complain("a login is being renewed; Ctrl-C gives that up, and may cost the login");
    tokio::select! {
        () = finished => {}
        _ = interrupted() => {}
    }
}
