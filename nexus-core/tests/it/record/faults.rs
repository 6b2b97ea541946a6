//! Writers that die, disks that are full, files that are something else.

use std::{
    fs::{self, Permissions},
    io::Write as _,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::Command,
};

use nexus_core::{
    RecordError, RecordFile, RecordLog, TurnEvent, TurnHost, TurnRequest,
    record::LineFault,
    turn::{MessageEnded, Warning},
};
use serde_json::{Value, json};

use super::stage::{Stage, answered, envelopes, record};
use crate::child_test;

fn some_events() -> Vec<TurnEvent> {
    vec![Warning::new("ä slow disk").into(), MessageEnded::new("m".into(), "Done.").into()]
}

#[test]
fn a_writer_that_is_killed_anywhere_loses_the_line_that_it_was_at_and_nothing_else() {
    let stage = Stage::new();
    let file = RecordFile::open(stage.path()).unwrap();
    record(&file, "first", &envelopes(some_events()), &Ok(answered("One.")));
    record(&file, "second", &envelopes(some_events()), &Ok(answered("Two.")));
    let bytes = fs::read(stage.path()).unwrap();
    for length in 0..=bytes.len() {
        let kept = &bytes[..length];
        let log = RecordLog::read_from(kept).unwrap();
        let whole = kept.iter().filter(|byte| **byte == b'\n').count();
        let rest = &kept[kept.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1)..];
        // A line that lacks nothing but its end is read.
        let is_torn = !rest.is_empty() && serde_json::from_slice::<Value>(rest).is_err();
        let read = whole + usize::from(!rest.is_empty() && !is_torn);
        let lines =
            |turn: &nexus_core::TurnRecord| 1 + turn.events.len() + usize::from(turn.outcome.is_some());
        assert_eq!(log.turns.iter().map(lines).sum::<usize>(), read, "{length}");
        match &log.unread[..] {
            [] => assert!(!is_torn, "{length}"),
            [torn] => {
                assert!(is_torn && torn.fault == LineFault::Torn, "{length}: {torn:?}");
                assert_eq!(torn.line, whole as u64 + 1);
            }
            more => panic!("{length}: {more:?}"),
        }
    }
}

#[test]
fn whoever_appends_behind_a_torn_line_begins_a_new_one() {
    for torn in [&b"{\"turn\":\"ab"[..], b"{\"turn\":\"ab\",\"type\":\"event\",\"data\":{\"x\":\"\xc3"] {
        let stage = Stage::new();
        let file = RecordFile::open(stage.path()).unwrap();
        record(&file, "before", &[], &Ok(answered("One.")));
        // Another process dies while this one has the file open.
        fs::OpenOptions::new().append(true).open(stage.path()).unwrap().write_all(torn).unwrap();
        record(&file, "after", &[], &Ok(answered("Two.")));
        let log = stage.read();
        let names: Vec<_> = log.turns.iter().map(|turn| turn.name.as_str()).collect();
        assert_eq!(names, ["before", "after"]);
        assert_eq!(log.unread.iter().map(|unread| unread.line).collect::<Vec<_>>(), [3], "{:?}", log.unread);
    }
    // A file of which nothing but the torn beginning of its first line is there.
    let stage = Stage::new();
    fs::write(stage.path(), "{\"turn\":\"ab").unwrap();
    record(&RecordFile::open(stage.path()).unwrap(), "after", &[], &Ok(answered("Two.")));
    assert_eq!((stage.read().turns.len(), stage.read().unread.len()), (1, 1));
}

#[test]
fn what_a_later_version_writes_is_named_and_passed_over() {
    let stage = Stage::new();
    let file = RecordFile::open(stage.path()).unwrap();
    record(&file, "known", &envelopes(some_events()), &Ok(answered("Done.")));
    let id = stage.read().turns[0].id.clone();
    let mut lines: Vec<Value> =
        stage.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    // Unknown fields at every depth that a reader looks at.
    for (line, place) in [
        (0, ""),
        (0, "/data"),
        (0, "/data/request"),
        (0, "/data/request/limits"),
        (0, "/data/request/limits/idle"),
        (1, "/data/event"),
        (3, "/data"),
        (3, "/data/result"),
        (3, "/data/result/provenance"),
    ] {
        let object = lines[line].pointer_mut(place).and_then(Value::as_object_mut).unwrap();
        object.insert("later".into(), json!({ "a": [1] }));
    }
    lines.insert(2, json!({ "turn": id, "type": "summary", "data": 7 }));
    let strange =
        json!({ "sequence": 9, "elapsed": { "secs": 1, "nanos": 0 }, "event": { "type": "dreamt" } });
    lines.insert(3, json!({ "turn": id, "type": "event", "data": strange }));
    lines.insert(4, json!({ "turn": "nobody", "type": "event", "data": {} }));
    lines.insert(5, json!("no line"));
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let log = RecordLog::read_from(text.as_bytes()).unwrap();
    let turn = &log.turns[0];
    assert_eq!(turn.events.len(), 2);
    assert_eq!(turn.result().unwrap().text, "Done.");
    let said: Vec<_> = log.unread.iter().map(|unread| format!("{}: {}", unread.line, unread.fault)).collect();
    assert_eq!(
        said[..3],
        [
            "3: it is of the kind \"summary\", which this version does not know",
            "4: it is of the kind \"event dreamt\", which this version does not know",
            "5: it belongs to turn \"nobody\", whose first line is missing",
        ]
    );
    assert!(said[3].starts_with("6: it is not a line of a record"), "{said:?}");

    // An end that cannot be read is an end.
    lines[7]["data"]["result"]["finish"] = json!({ "gone": true });
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let log = RecordLog::read_from(text.as_bytes()).unwrap();
    assert!(matches!(&log.turns[0].outcome, Some(nexus_core::RecordedOutcome::Unknown(_))));
    assert_eq!(log.unread.last().unwrap().line, 8);
}

#[test]
fn lines_that_are_no_text_or_too_long_are_told_by_their_number() {
    let stage = Stage::new();
    let file = RecordFile::open(stage.path()).unwrap();
    record(&file, "one", &[], &Ok(answered("One.")));
    let mut raw = fs::OpenOptions::new().append(true).open(stage.path()).unwrap();
    raw.write_all(b"\xff\xfe\n\n").unwrap();
    let piece = vec![b'x'; 1 << 20];
    (0..70).for_each(|_| raw.write_all(&piece).unwrap());
    raw.write_all(b"\n").unwrap();
    record(&file, "two", &[], &Ok(answered("Two.")));
    let log = stage.read();
    assert_eq!(log.turns.len(), 2);
    let faults: Vec<_> = log.unread.iter().map(|unread| (unread.line, unread.fault.clone())).collect();
    assert_eq!(faults, [(3, LineFault::NotUtf8), (5, LineFault::TooLong { bytes: 70 << 20 })]);
}

#[test]
fn a_record_is_its_owners_alone() {
    let stage = Stage::new();
    RecordFile::open(stage.path()).unwrap();
    let mode = || fs::metadata(stage.path()).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(), 0o600);
    fs::set_permissions(stage.path(), Permissions::from_mode(0o644)).unwrap();
    RecordFile::open(stage.path()).unwrap();
    assert_eq!(mode(), 0o600);
}

#[test]
fn what_is_no_record_stays_as_it_is() {
    let stage = Stage::new();
    let refused = |path: &Path| RecordFile::open(path).unwrap_err().to_string();
    for content in
        ["key: value\n", "{\"backend\":\"main\",\"state\":1}", "\u{feff}", "[]\n", "{\"turns\":1}\n"]
    {
        fs::write(stage.path(), content).unwrap();
        fs::set_permissions(stage.path(), Permissions::from_mode(0o644)).unwrap();
        let said = refused(&stage.path());
        assert!(said.contains("not a record of turns") && said.contains("name another file"), "{said}");
        assert_eq!(stage.text(), content);
        assert_eq!(fs::metadata(stage.path()).unwrap().permissions().mode() & 0o777, 0o644);
    }
    assert!(refused(stage.folder()).contains("this is a folder"));
    assert!(refused("/dev/null".as_ref()).contains("name another"));
    let pipe = stage.folder().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    assert!(refused(&pipe).contains("name another"), "and it does not wait for a reader");
    assert!(refused(&stage.folder().join("absent/turns.jsonl")).contains("absent"));
}

/// A limit on the size of files stands for a full disk: a part of the last line is written, then nothing.
#[test]
fn a_full_disk_costs_the_lines_that_do_not_fit_and_is_told() {
    let mut launcher = Command::new("sh");
    // In units of 512 or of 1,024 bytes: a few events fit in either.
    launcher.args(["-c", "trap '' XFSZ; ulimit -S -f 8; exec \"$@\"", "sh"]);
    let test = a_full_disk_costs_the_lines_that_do_not_fit_and_is_told;
    if !child_test::runs_alone_through(launcher, test) {
        return;
    }
    let stage = Stage::new();
    fill(&stage.path());
    let log = stage.read();
    let names: Vec<_> = log.turns.iter().map(|turn| turn.name.as_str()).collect();
    assert_eq!(names, ["fits", "grows", "later"]);
    assert_eq!(log.turns[0].result().unwrap().text, "Small.");
    let grown = &log.turns[1];
    assert!(!grown.events.is_empty(), "what was written before is there");
    assert_eq!(grown.result().unwrap().text, "Space again.");
    assert!(
        grown.lost_lines > 0 && grown.events.len() + grown.lost_lines as usize == 40,
        "{}",
        grown.lost_lines
    );
    assert_eq!(log.turns[2].result().unwrap().text, "Later.");
    assert!(log.unread.len() <= 1, "{:?}", log.unread);
}

/// Records three turns, the second of which does not fit until the limit is lifted.
fn fill(path: &Path) {
    let file = RecordFile::open(path).unwrap();
    record(&file, "fits", &[], &Ok(answered("Small.")));
    let mut recording = file.begin("grows", &TurnRequest::new("Grow."), &TurnHost::new()).unwrap();
    for envelope in envelopes((0..40).map(|_| Warning::new("x".repeat(300)).into())) {
        recording.event(&envelope);
    }
    // No turn begins that could not be recorded.
    let refused = file.begin("refused", &TurnRequest::new("x".repeat(3_000)), &TurnHost::new());
    assert!(matches!(refused.unwrap_err(), RecordError::Unwritten { lines: 1, .. }));
    let lifted = Command::new("prlimit")
        .args(["--pid", &std::process::id().to_string(), "--fsize=unlimited:unlimited"])
        .status()
        .unwrap();
    assert!(lifted.success());
    let error = recording.end(&Ok(answered("Space again."))).unwrap_err();
    let source = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
    assert!(error.to_string().contains("of the record cannot be written"), "{error}");
    assert!(source.to_lowercase().contains("large"), "{source}");
    record(&file, "later", &[], &Ok(answered("Later.")));
}
