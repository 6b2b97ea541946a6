//! Data of a firing about the files that changed.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{
    super::{firing::hashed, schedule::FileSchedule},
    scan::{FileScan, FileStamp},
};

/// Maximum number of files that a firing names.
const MAX_NAMED: usize = 100;

/// Occurrence of a change, and its data.
pub(super) struct FileChange {
    pub(super) occurrence: String,
    pub(super) data: Value,
}

impl FileChange {
    /// Returns the firing for a change from `before` to `state`. None if nothing fires, as for a deletion that
    /// the trigger does not watch.
    pub(super) fn between(
        known: Option<&BTreeMap<String, FileStamp>>,
        scan: &FileScan,
        schedule: &FileSchedule,
        before: &str,
        state: &str,
    ) -> Option<Self> {
        let mut data = json!({ "path": schedule.path });
        let Some(known) = known else {
            if scan.files.is_empty() && !schedule.deleted {
                return None;
            }
            // Without a file every state has the same text, so name the occurrence by the change.
            let occurrence = if scan.files.is_empty() {
                hashed(format!("{before}>{state}").as_bytes())[..32].to_owned()
            } else {
                state.to_owned()
            };
            if !schedule.folder {
                // A trigger on a single file: only that file can have changed.
                data["files"] = scan.files.iter().map(|(path, stamp)| written(path, stamp)).collect();
            }
            return Some(Self { occurrence, data });
        };
        let changed = scan.files.iter().filter(|(path, stamp)| known.get(*path) != Some(stamp));
        let changed: Vec<_> = changed.collect();
        let mut deleted: Vec<_> = known.iter().filter(|(path, _)| !scan.files.contains_key(*path)).collect();
        if !schedule.deleted {
            deleted.clear();
        }
        if changed.is_empty() && deleted.is_empty() {
            return None;
        }
        let occurrence = if deleted.is_empty() {
            state.to_owned()
        } else {
            let gone: Vec<_> = deleted.iter().map(|(path, stamp)| format!("{path:?}{stamp:?}")).collect();
            hashed(format!("{state}-{}", gone.join("\n")).as_bytes())[..32].to_owned()
        };
        let count = changed.len() + deleted.len();
        let named = changed.iter().map(|(path, stamp)| written(path, stamp));
        let named = named.chain(deleted.iter().map(|(path, _)| json!({ "path": path, "change": "deleted" })));
        data["files"] = named.take(MAX_NAMED).collect();
        if count > MAX_NAMED {
            data["further_files"] = (count - MAX_NAMED).into();
        }
        Some(Self { occurrence, data })
    }
}

fn written(path: &str, stamp: &FileStamp) -> Value {
    json!({ "path": path, "change": "written", "size": stamp.len })
}
