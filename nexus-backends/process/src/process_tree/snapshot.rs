//! All processes of the machine at one moment, as `/proc` tells it. Empty where there is none.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::{LiveProcess, ProcessIdentity};

/// What `/proc/PID/stat` says of one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) pid: u32,
    pub(super) name: String,
    pub(super) state: u8,
    pub(super) parent: u32,
    pub(super) group: u32,
    pub(super) session: u32,
    pub(super) start_ticks: u64,
}

impl Row {
    pub(super) fn identity(&self) -> ProcessIdentity {
        ProcessIdentity { pid: self.pid, start_ticks: self.start_ticks }
    }

    pub(super) fn live(&self) -> LiveProcess {
        LiveProcess { identity: self.identity(), name: self.name.clone() }
    }

    pub(super) fn is_alive(&self) -> bool {
        !matches!(self.state, b'Z' | b'X' | b'x')
    }
}

#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) rows: Vec<Row>,
    pub(super) cost: Duration,
    taken: Instant,
}

impl Snapshot {
    pub(super) fn now() -> Self {
        let taken = Instant::now();
        let mut rows = Vec::new();
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let pid = entry.file_name().to_str().and_then(|name| name.parse().ok());
            rows.extend(pid.and_then(row));
        }
        Self { rows, cost: taken.elapsed(), taken }
    }

    /// A snapshot not older than `age` and not from before `begun`, shared by everybody who asks.
    pub(super) fn recent(age: Duration, begun: Instant) -> Arc<Self> {
        static LATEST: Mutex<Option<Arc<Snapshot>>> = Mutex::new(None);
        let mut latest = LATEST.lock().unwrap_or_else(PoisonError::into_inner);
        match &*latest {
            Some(snapshot) if snapshot.taken > begun && snapshot.taken.elapsed() < age => {
                Arc::clone(snapshot)
            }
            _ => {
                let snapshot = Arc::new(Self::now());
                *latest = Some(Arc::clone(&snapshot));
                snapshot
            }
        }
    }
}

/// The process that has this id now, alive or zombie.
pub(crate) fn identity_of(pid: u32) -> Option<ProcessIdentity> {
    row(pid).map(|row| row.identity())
}

/// Names this start of the machine, so that identities from before it are known to be gone.
pub(crate) fn boot_id() -> String {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().to_owned()
}

/// Says whether the environment that a process was started with holds `name=value`.
pub(super) fn carries(pid: u32, name: &str, value: &str) -> Carries {
    let Ok(environment) = fs::read(Path::new("/proc").join(pid.to_string()).join("environ")) else {
        return Carries::No;
    };
    if environment.is_empty() {
        return Carries::Nothing;
    }
    let found = environment.split(|byte| *byte == 0).any(|entry| {
        entry
            .strip_prefix(name.as_bytes())
            .and_then(|rest| rest.strip_prefix(b"="))
            .is_some_and(|found| found == value.as_bytes())
    });
    if found { Carries::Yes } else { Carries::No }
}

/// Whether a process carries a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Carries {
    Yes,
    No,
    /// It shows no environment at all.
    Nothing,
}

fn row(pid: u32) -> Option<Row> {
    let mut buffer = [0; 1024];
    let mut file = fs::File::open(format!("/proc/{pid}/stat")).ok()?;
    let length = file.read(&mut buffer).ok()?;
    parse(pid, buffer.get(..length)?)
}

/// Reads one `stat` line. The name stands in parentheses and may itself hold any character.
fn parse(pid: u32, stat: &[u8]) -> Option<Row> {
    let open = stat.iter().position(|byte| *byte == b'(')?;
    let close = stat.iter().rposition(|byte| *byte == b')')?;
    let name = String::from_utf8_lossy(stat.get(open + 1..close)?).into_owned();
    let mut fields = std::str::from_utf8(stat.get(close + 1..)?).ok()?.split_ascii_whitespace();
    let state = *fields.next()?.as_bytes().first()?;
    let mut number = || fields.next()?.parse::<i64>().ok();
    let (parent, group, session) = (number()?, number()?, number()?);
    let start_ticks = fields.nth(15)?.parse().ok()?;
    let id = |number: i64| u32::try_from(number).unwrap_or_default();
    Some(Row { pid, name, state, parent: id(parent), group: id(group), session: id(session), start_ticks })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_hold_spaces_and_parentheses() {
        let stat = b"4242 (a) R (b c) S 17 4242 4000 0 -1 4194560 1 0 0 0 5 6 0 0 20 0 1 0 987654 1 2 3\n";
        let row = parse(4242, stat).unwrap();
        assert_eq!(row.name, "a) R (b c");
        assert_eq!((row.parent, row.group, row.session, row.start_ticks), (17, 4242, 4000, 987_654));
        assert!(row.is_alive());
    }

    #[test]
    fn a_broken_line_is_no_process() {
        for stat in [&b""[..], b"1 (x", b"1 (x) S", b"1 (x) S 1 2 3", b"1 )x( S 1 2 3"] {
            assert_eq!(parse(1, stat), None);
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_is_in_the_snapshot_with_its_parent() {
        let own = std::process::id();
        let snapshot = Snapshot::now();
        let row = snapshot.rows.iter().find(|row| row.pid == own).unwrap();
        assert_eq!(row.parent, std::os::unix::process::parent_id());
        assert_eq!(identity_of(own), Some(row.identity()));
        assert!(!boot_id().is_empty());
    }
}
