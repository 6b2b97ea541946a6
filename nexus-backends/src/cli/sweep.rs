//! Cleanup before a turn: ends processes that killed programs left behind, and removes their files.

use std::path::Path;

use nexus_process::run_registry;

/// Ends the processes of programs that used this Nexus home and were killed, and removes their files.
pub(crate) fn sweep(nexus_home: &Path) {
    let swept = run_registry::sweep(nexus_home);
    for planted in swept.iter().flat_map(|swept| &swept.repositories) {
        tracing::warn!("{planted}");
    }
    match swept {
        Ok(swept) if swept.killed > 0 => {
            tracing::warn!(
                processes = swept.killed,
                "stopped processes that a killed program had left behind"
            );
        }
        Ok(swept) => tracing::debug!(?swept, "removed leftovers of ended programs"),
        Err(error) => tracing::warn!(%error, "leftovers of a killed program cannot be searched for"),
    }
}
