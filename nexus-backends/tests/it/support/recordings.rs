//! A folder of recordings, `NAME.jsonl` each, with an `expected.json` that says by name what each must come to.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use serde::de::DeserializeOwned;

/// The rows of a folder, by the name of their recording.
///
/// Fails where a recording has no row or a row no recording, and where there are fewer than `at_least`. What a
/// program kept of a run itself lies beside its recording as `NAME.rollout.jsonl`, and is none.
pub(crate) fn rows<Row: DeserializeOwned>(folder: &Path, at_least: usize) -> BTreeMap<String, Row> {
    let text = fs::read_to_string(folder.join("expected.json")).unwrap();
    let rows: BTreeMap<String, Row> = serde_json::from_str(&text).unwrap();
    let names: BTreeSet<String> = rows.keys().cloned().collect();
    let recordings: BTreeSet<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter_map(|name| Some(name.strip_suffix(".jsonl")?.to_owned()))
        .filter(|name| !name.ends_with(".rollout"))
        .collect();
    assert!(recordings.len() >= at_least, "only {} recordings were found", recordings.len());
    let without_row: Vec<_> = recordings.difference(&names).collect();
    assert!(without_row.is_empty(), "recordings without a row: {without_row:?}");
    let without_recording: Vec<_> = names.difference(&recordings).collect();
    assert!(without_recording.is_empty(), "rows without a recording: {without_recording:?}");
    rows
}
