//! Checks if agents could reach the ground truth.

use std::path::{Path, PathBuf};

use nexus_tasks::{SandboxKind, TaskSettings};

use crate::trap::Trap;

/// The folders of the system that every sandbox shows. Source: the documentation of `nexus_process::sandbox`.
const SHOWN: [&str; 8] = ["/usr", "/bin", "/sbin", "/lib", "/lib64", "/libexec", "/nix/store", "/gnu/store"];

/// Says what of the ground truth the agents of an arm could reach by the programs that they run, if anything: this program, which has
/// the library's traps in it, or the folder of another trap. `None` if nothing.
pub(super) fn within_reach(settings: &TaskSettings, traps: &[&Trap]) -> Option<String> {
    if settings.sandbox.kind == SandboxKind::None {
        return Some("tests and probes of agents run without a sandbox: remove `sandbox: { kind: none }` from `tasks.defaults`".to_owned());
    }
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
