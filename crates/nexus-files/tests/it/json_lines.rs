//! One rule for torn lines: whatever a writer that was stopped left, all values before and after it are read.

use std::{fs, io::ErrorKind};

use nexus_files::{JsonLinesLog, TornLine};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Event {
    number: u64,
    data: Value,
}

fn event(number: u64) -> Event {
    Event { number, data: json!({ "text": "é\n\"" }) }
}

fn numbers(log: &JsonLinesLog<Event>) -> Vec<u64> {
    log.read().unwrap().values.into_iter().map(|(_, event)| event.number).collect()
}

#[test]
fn a_writer_that_is_stopped_at_any_byte_loses_its_own_value_at_most() {
    let folder = tempfile::tempdir().unwrap();
    let whole = {
        let log = JsonLinesLog::at(folder.path().join("whole"), 1 << 20);
        for number in 1..=3 {
            log.append(&event(number)).unwrap();
        }
        fs::read(log.path()).unwrap()
    };
    let ends: Vec<usize> = (0..whole.len()).filter(|at| whole[*at] == b'\n').collect();
    for cut in 0..=whole.len() {
        let log = JsonLinesLog::at(folder.path().join(format!("cut-{cut}")), 1 << 20);
        fs::write(log.path(), &whole[..cut]).unwrap();
        // A line without its end holds a value if all of it is there.
        let before: Vec<u64> = (1..=3).filter(|number| cut >= ends[*number as usize - 1]).collect();
        assert_eq!(numbers(&log), before, "cut at {cut}");
        assert_eq!(log.last().unwrap().map(|event| event.number), before.last().copied());
        log.append(&event(9)).unwrap();
        assert_eq!(numbers(&log), [before, vec![9]].concat(), "cut at {cut}");
        assert_eq!(log.last().unwrap(), Some(event(9)));
        assert!(fs::read(log.path()).unwrap().starts_with(&whole[..cut]), "nothing is removed");
    }
}

#[test]
fn a_torn_line_is_returned_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let log = JsonLinesLog::<Event>::at(folder.path().join("log"), 1 << 20);
    fs::write(log.path(), "\n{\"number\":1,\"data\":null}\n{\"num\n{\"number\":2,\"data\":null}\n{\"n")
        .unwrap();
    let read = log.read().unwrap();
    assert_eq!(
        read.values.iter().map(|(line, event)| (*line, event.number)).collect::<Vec<_>>(),
        [(2, 1), (4, 2)]
    );
    let torn: Vec<_> = read
        .torn
        .iter()
        .map(|TornLine { line, offset, bytes, is_tail, .. }| {
            (*line, *offset, String::from_utf8_lossy(bytes).into_owned(), *is_tail)
        })
        .collect();
    assert_eq!(torn, [(3, 26, "{\"num".to_owned(), false), (5, 57, "{\"n".to_owned(), true)]);
}

#[test]
fn a_torn_tail_is_removed_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let log = JsonLinesLog::<Event>::at(folder.path().join("log"), 1 << 20);
    log.remove_torn_tail().unwrap();
    let kept = "{\"number\":1,\"data\":null}\n{\"num\n";
    for tail in ["", "{\"n", "x"] {
        fs::write(log.path(), format!("{kept}{tail}")).unwrap();
        log.remove_torn_tail().unwrap();
        assert_eq!(fs::read_to_string(log.path()).unwrap(), kept);
    }
}

#[test]
fn lines_are_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let log = JsonLinesLog::at(folder.path().join("log"), 100);
    log.append(&event(1)).unwrap();
    let large = Event { number: 2, data: json!("x".repeat(100)) };
    assert_eq!(log.append(&large).unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(numbers(&log), [1]);
    fs::write(log.path(), vec![b'x'; 200]).unwrap();
    assert_eq!(log.read().unwrap_err().kind(), ErrorKind::InvalidData);
    let mut deep = json!(null);
    for _ in 0..200 {
        deep = json!([deep]);
    }
    let log = JsonLinesLog::at(folder.path().join("deep"), 1 << 20);
    assert_eq!(log.append(&Event { number: 1, data: deep }).unwrap_err().kind(), ErrorKind::InvalidInput);
}

#[test]
fn the_last_value_is_found_behind_a_long_torn_end() {
    let folder = tempfile::tempdir().unwrap();
    let log = JsonLinesLog::at(folder.path().join("log"), 1 << 20);
    assert_eq!(log.last().unwrap(), None);
    log.append(&event(1)).unwrap();
    log.append(&event(2)).unwrap();
    let mut bytes = fs::read(log.path()).unwrap();
    bytes.extend(vec![b'{'; 100_000]);
    fs::write(log.path(), bytes).unwrap();
    assert_eq!(log.last().unwrap(), Some(event(2)));
}

#[test]
fn the_older_half_goes_at_the_end_of_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let log = JsonLinesLog::at(folder.path().join("log"), 1 << 20);
    let bytes = (1..=100).fold(0, |_, number| log.append(&event(number)).unwrap());
    log.drop_older_half_above(bytes).unwrap();
    assert_eq!(numbers(&log).len(), 100);
    log.drop_older_half_above(bytes - 1).unwrap();
    let left = numbers(&log);
    assert!((45..=55).contains(&left.len()) && left.last() == Some(&100), "{left:?}");
    assert!(log.read().unwrap().torn.is_empty());
}

#[test]
fn the_newest_values_are_read_across_every_boundary_of_a_part() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    // Lines of many lengths, one of them longer than the first part that is read, and a torn one.
    let line = |number: u64| {
        format!("{}{{\"number\":{number},\"data\":0}}\n", " ".repeat(number as usize * 37 % 901))
    };
    let mut text: String = (0..300).map(line).collect();
    text += &format!("{}{{\"number\":300,\"data\":0}}\n{{\"num\n", " ".repeat(20_000));
    text.extend((301..400).map(line));
    fs::write(&path, &text).unwrap();
    let log = JsonLinesLog::<Event>::at(&path, 1 << 20);
    for oldest in 0..400 {
        let found = log.read_back_to(|event| event.number == oldest).unwrap();
        let found: Vec<u64> = found.iter().map(|event| event.number).collect();
        assert_eq!(found, (oldest..400).collect::<Vec<_>>());
    }
    assert_eq!(log.read_back_to(|_| false).unwrap().len(), 400);
}
