//! Checks if agents could read the ground truth.

use std::path::{Path, PathBuf};

use nexus_tasks::{SandboxKind, TaskSettings};

use crate::trap::Trap;

/// Folders of the system that are visible in every sandbox. Source: the documentation of `nexus_process::sandbox`.
const SHOWN: [&str; 8] = ["/usr", "/bin", "/sbin", "/lib", "/lib64", "/libexec", "/nix/store", "/gnu/store"];

/// Returns a description of the ground truth that programs of an arm's agents could read. It can be this executable, which
/// contains the library's traps, or the folder of another trap. `None` if they can read neither.
pub(super) fn within_reach(settings: &TaskSettings, traps: &[&Trap]) -> Option<String> {
    if settings.sandbox.kind == SandboxKind::None {
        return Some("tests and probes of agents run without a sandbox: remove `sandbox: { kind: none }` from `tasks.defaults`".to_owned());
    }
    // Resolve links, because a link outside the shown folders may lead into them.
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let mut shown: Vec<PathBuf> = SHOWN.iter().map(PathBuf::from).collect();
    let home = std::env::home_dir().unwrap_or_default();
    shown.extend(settings.sandbox.tool_chains.iter().map(|folder| match folder.strip_prefix("~") {
        Ok(below) => real(&home.join(below)),
        Err(_) => real(folder),
    }));
    let is_shown = |path: &Path| shown.iter().find(|folder| path.starts_with(folder));
    for trap in traps {
        let place = match trap.folder() {
            Some(folder) => real(folder),
            // The files of a built-in trap are bytes in this executable.
            None => std::env::current_exe().map(|path| real(&path)).unwrap_or_default(),
        };
        if let Some(folder) = is_shown(&place) {
            return Some(format!(
                "{} contains the ground truth of {}, but the sandbox shows {}: run it from another folder",
                place.display(),
                trap.name(),
                folder.display()
            ));
        }
    }
    None
}
