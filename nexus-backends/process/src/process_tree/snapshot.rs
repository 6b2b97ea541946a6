//! Snapshot of all processes of the machine, from `/proc`. Empty on systems without it.

use std::cell::Cell;
use std::fs;
use std::io::{self, Read};
use std::path::Path;

use super::{LiveProcess, ProcessIdentity};
use crate::scarcity::is_scarcity;

/// Maximum number of descendants in one snapshot. Children of further descendants appear in the next one.
const MOST_DESCENDANTS: usize = 1 << 16;
/// Maximum size of the list of a thread's children, in bytes.
const MOST_LISTED_BYTES: u64 = 64 << 20;
/// Maximum number of attempts to list children while the lists differ.
const MOST_LISTS: usize = 8;

/// Content of `/proc/PID/stat` for one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ProcessRow {
    pub(super) pid: u32,
    pub(super) name: String,
    pub(super) state: u8,
    pub(super) parent: u32,
    pub(super) group: u32,
    pub(super) session: u32,
    pub(super) start_ticks: u64,
}

impl ProcessRow {
    pub(super) fn identity(&self) -> ProcessIdentity {
        ProcessIdentity { pid: self.pid, start_ticks: self.start_ticks }
    }

    pub(super) fn live(&self) -> LiveProcess {
        LiveProcess { identity: self.identity(), name: self.name.clone() }
    }

    /// Returns true if the parent adopts orphans: the first process, this program, or a child of the first process such
    /// as a person's session manager.
    pub(super) fn is_orphan(&self) -> bool {
        self.parent <= 1
            || self.parent == std::process::id()
            || row(self.parent).is_none_or(|parent| parent.parent <= 1)
    }

    pub(super) fn is_alive(&self) -> bool {
        !matches!(self.state, b'Z' | b'X' | b'x')
    }
}

/// Some processes at one moment.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(super) rows: Vec<ProcessRow>,
    /// True if no process is missing because of a resource shortage.
    pub(super) is_whole: bool,
    /// Highest id that was listed but gone when it was examined. That process may have started another process, which
    /// is not in the list.
    pub(super) last_vanished: u32,
}

/// Completeness of a look. A process that is missing because of a resource shortage does not count as gone.
#[derive(Debug, Default)]
struct Sight {
    is_short: Cell<bool>,
}

impl Sight {
    fn of<T>(&self, result: io::Result<T>) -> Option<T> {
        if let Err(error) = &result {
            self.is_short.set(self.is_short.get() || is_scarcity(error));
        }
        result.ok()
    }
}

impl Snapshot {
    /// Takes a snapshot of all processes of the machine.
    pub(super) fn now() -> Self {
        let sight = Sight::default();
        let entries = sight.of(fs::read_dir("/proc")).into_iter().flatten();
        let pids = entries.filter_map(|entry| sight.of(entry)?.file_name().to_str()?.parse().ok());
        let mut last_vanished = 0;
        let looked_at = |pid: u32| {
            let row = row_in(pid, &sight);
            last_vanished = if row.is_none() { pid.max(last_vanished) } else { last_vanished };
            row
        };
        let rows = pids.filter_map(looked_at).collect();
        Self { rows, is_whole: !sight.is_short.get(), last_vanished }
    }

    /// Takes a snapshot of only the descendants of this program. Needs a kernel that lists children.
    pub(super) fn below_us() -> Self {
        Self::below(std::process::id())
    }

    /// Takes a snapshot of the descendants of one process.
    pub(crate) fn below(pid: u32) -> Self {
        let sight = Sight::default();
        let rows_below =
            |pid| children_in(pid, &sight).into_iter().filter_map(|pid| row_in(pid, &sight)).collect();
        let mut rows: Vec<ProcessRow> = rows_below(pid);
        let mut next = 0;
        while let Some(parent) = rows.get(next).map(|row| row.pid) {
            rows.extend(rows_below(parent));
            next += 1;
            if next > MOST_DESCENDANTS {
                break;
            }
        }
        // `children_in` lists children until nothing changes, so no process has vanished unseen.
        Self { rows, is_whole: !sight.is_short.get(), last_vanished: 0 }
    }

    /// Returns the processes that are not zombies.
    pub(crate) fn alive(&self) -> Vec<LiveProcess> {
        self.rows.iter().filter(|row| row.is_alive()).map(ProcessRow::live).collect()
    }
}

/// Returns the children of all threads of a process, including zombies.
///
/// A list may miss a child if another child ends while the list is read. A thread that ends passes its children to
/// another thread, whose list may have been read already. Two equal lists in a row miss no child. Source:
/// `proc_tid_children(5)`; `get_children_proc` of Linux.
pub(crate) fn children_of(pid: u32) -> Vec<u32> {
    children_in(pid, &Sight::default())
}

fn children_in(pid: u32, sight: &Sight) -> Vec<u32> {
    let mut all = listed_children(pid, sight);
    for _ in 0..MOST_LISTS {
        let again = listed_children(pid, sight);
        if again == all {
            break;
        }
        all = again;
    }
    all
}

/// Calls `visit` with a process and all processes below it.
///
/// A process is visited before its children are listed, so nearly all of its children inherit the effect of the visit.
/// Processes that were orphaned before are not found, nor is a child that is not listed yet because its parent is in
/// the middle of a fork.
pub(crate) fn for_each_from(root: u32, mut visit: impl FnMut(u32)) {
    let mut found = vec![root];
    while let Some(pid) = found.pop() {
        visit(pid);
        found.extend(children_of(pid));
    }
}

/// Returns true if a process with one thread has children, including zombies. It is cheap, because it is called while a
/// child starts.
pub(crate) fn has_children(pid: u32) -> bool {
    fs::File::open(format!("/proc/{pid}/task/{pid}/children"))
        .and_then(|mut file| file.read(&mut [0; 1]))
        .is_ok_and(|count| count > 0)
}

fn listed_children(pid: u32, sight: &Sight) -> Vec<u32> {
    let mut all = Vec::new();
    let mut list = String::new();
    for thread in sight.of(fs::read_dir(format!("/proc/{pid}/task"))).into_iter().flatten().flatten() {
        list.clear();
        // A thread that has ended meanwhile has no children. The limit saves two system calls for the size of the file.
        sight.of(fs::File::open(thread.path().join("children"))
            .and_then(|file| file.take(MOST_LISTED_BYTES).read_to_string(&mut list)));
        all.extend(list.split_ascii_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
    }
    all
}

/// Returns the state of a process from its `stat`; `None` if it is gone.
pub(crate) fn state_of(pid: u32) -> Option<u8> {
    row(pid).map(|row| row.state)
}

/// Returns the process with this id, if it is alive.
pub(crate) fn live(pid: u32) -> Option<LiveProcess> {
    row(pid).filter(ProcessRow::is_alive).map(|row| row.live())
}

/// Returns the identity of the process that has this id now, alive or zombie.
pub(crate) fn identity_of(pid: u32) -> Option<ProcessIdentity> {
    row(pid).map(|row| row.identity())
}

/// Returns an id of this start of the machine, which shows that identities from an earlier start are gone. Empty on
/// systems without `/proc`.
///
/// # Errors
///
/// The machine is short of descriptors or memory.
pub(crate) fn boot_id() -> io::Result<String> {
    match fs::read_to_string("/proc/sys/kernel/random/boot_id") {
        Ok(text) => Ok(text.trim().to_owned()),
        Err(error) if is_scarcity(&error) => Err(error),
        Err(_) => Ok(String::new()),
    }
}

/// Searches for `name=value` in the environment with which a process was started; `None` if this user must not read it.
///
/// A process that has ended shows no environment: its file is empty, cannot be opened (`ESRCH`, Linux 6.18), or is gone. It belongs to
/// root then, so another user may not open it.
pub(super) fn carries(pid: u32, name: &str, value: &str) -> Option<Carries> {
    let environment = match fs::read(Path::new("/proc").join(pid.to_string()).join("environ")) {
        Ok(environment) => environment,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let has_ended = row(pid).is_none_or(|row| !row.is_alive());
            return has_ended.then_some(Carries::Nothing);
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound || has_no_memory(&error) => {
            return Some(Carries::Nothing);
        }
        Err(_) => return Some(Carries::No),
    };
    if environment.is_empty() {
        return Some(Carries::Nothing);
    }
    let found = environment.split(|byte| *byte == 0).any(|entry| {
        entry
            .strip_prefix(name.as_bytes())
            .and_then(|rest| rest.strip_prefix(b"="))
            .is_some_and(|found| found == value.as_bytes())
    });
    Some(if found { Carries::Yes } else { Carries::No })
}

/// Returns true if a process had released its memory before its file was opened or read.
fn has_no_memory(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error())
}

/// Presence of a variable in a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Carries {
    Yes,
    No,
    /// The process shows no environment at all, or has ended.
    Nothing,
}

fn row(pid: u32) -> Option<ProcessRow> {
    row_in(pid, &Sight::default())
}

fn row_in(pid: u32, sight: &Sight) -> Option<ProcessRow> {
    let mut buffer = [0; 1024];
    let mut file = sight.of(fs::File::open(format!("/proc/{pid}/stat")))?;
    let length = file.read(&mut buffer).ok()?;
    parse(pid, buffer.get(..length)?)
}

/// Parses a `stat` line. The name is in parentheses, and may contain any character.
fn parse(pid: u32, stat: &[u8]) -> Option<ProcessRow> {
    let open = stat.iter().position(|byte| *byte == b'(')?;
    let close = stat.iter().rposition(|byte| *byte == b')')?;
    let name = String::from_utf8_lossy(stat.get(open + 1..close)?).into_owned();
    let mut fields = std::str::from_utf8(stat.get(close + 1..)?).ok()?.split_ascii_whitespace();
    let state = *fields.next()?.as_bytes().first()?;
    let mut number = || fields.next()?.parse::<i64>().ok();
    let (parent, group, session) = (number()?, number()?, number()?);
    let start_ticks = fields.nth(15)?.parse().ok()?;
    let id = |number: i64| u32::try_from(number).unwrap_or_default();
    Some(ProcessRow {
        pid,
        name,
        state,
        parent: id(parent),
        group: id(group),
        session: id(session),
        start_ticks,
    })
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
        assert!(!boot_id().unwrap().is_empty());
    }
}
