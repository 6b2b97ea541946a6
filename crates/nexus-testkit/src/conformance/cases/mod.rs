//! The cases, one file for each family.

use std::path::Path;

pub(super) mod caller_tools;
pub(super) mod cancel;
pub(super) mod credential;
pub(super) mod crowd;
pub(super) mod failure;
pub(super) mod forget;
pub(super) mod limits;
pub(super) mod output;
pub(super) mod own_loop;
pub(super) mod prompt;
pub(super) mod request;
pub(super) mod scope;
pub(super) mod secrets;
pub(super) mod session;
pub(super) mod steering;
pub(super) mod submission;
pub(super) mod telemetry;
pub(super) mod text;
pub(super) mod tools;
pub(super) mod usage;

/// A picture of 32 by 32 pixels, in base64: some vendors drop a picture of less than 512.
pub(super) const SMALL_PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAACAAAAAgCAIAAAD8GO2jAAAAKklEQVR42mMwTptJU8QwasGoBaMWjFowasGoBaMWjFowasGoBaMWDBULAKbkyD1cfgBVAAAAAElFTkSuQmCC";

/// Shows `visit` every file under `path`. Links are not followed; what cannot be read is passed over.
fn walk(path: &Path, visit: &mut dyn FnMut(&Path)) {
    let Ok(metadata) = path.symlink_metadata() else { return };
    if !metadata.is_dir() {
        visit(path);
        return;
    }
    for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
        walk(&entry.path(), visit);
    }
}
