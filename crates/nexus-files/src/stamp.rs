//! The state of a file without its content, by which an index sees that the file changed.

use std::{
    fs::Metadata,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};

/// Age from which the stamp of a file is reliable, if its file system stores times to the nanosecond. A file that changes twice within
/// one tick of the system's clock may look unchanged. Source: the slowest tick of Linux is 10 ms.
const SETTLED: Duration = Duration::from_millis(100);
/// The same age for a file system with coarse times. Source: FAT stores times to 2 s.
const SETTLED_IF_COARSE: Duration = Duration::from_secs(2);
/// Unit of coarse times, in nanoseconds. Source: exFAT stores times to 10 ms.
const COARSE_NS: u64 = 10_000_000;

/// State of a file without its content: its size, its times and its identity in the file system. A replaced file has another identity.
/// On Unix, a program can restore the size of a changed file and the time of its last change. But the kernel also stores the time of the
/// last change of any property, which no program can set. So the stamp differs nevertheless.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileStamp {
    /// Device and number of the file. Zero on other systems than Unix.
    device: u64,
    number: u64,
    bytes: u64,
    /// Time of the last change of the content.
    modified_ns: u64,
    /// Time of the last change of the content or of a property, such as the name. Zero on other systems than Unix.
    changed_ns: u64,
}

impl FileStamp {
    /// Returns the stamp of a file. `None` if the system does not know the time of its last change.
    pub fn of(found: &Metadata) -> Option<Self> {
        let since = found.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
        #[cfg(unix)]
        let (device, number, changed_ns) = {
            use std::os::unix::fs::MetadataExt as _;
            let seconds = u64::try_from(found.ctime()).ok()?;
            let changed = Duration::new(seconds, u32::try_from(found.ctime_nsec()).ok()?);
            (found.dev(), found.ino(), u64::try_from(changed.as_nanos()).ok()?)
        };
        #[cfg(not(unix))]
        let (device, number, changed_ns) = (0, 0, 0);
        let modified_ns = u64::try_from(since.as_nanos()).ok()?;
        Some(Self { device, number, bytes: found.len(), modified_ns, changed_ns })
    }

    /// Returns true if every change of the file after `now` gives it another stamp. A time in the future is not reliable.
    pub fn is_settled(&self, now: SystemTime) -> bool {
        let settled = if self.has_fine_time() { SETTLED } else { SETTLED_IF_COARSE };
        let modified = UNIX_EPOCH + Duration::from_nanos(self.modified_ns.max(self.changed_ns));
        now.duration_since(modified).is_ok_and(|age| age >= settled)
    }

    /// Returns true if the file system stores times to less than a hundredth of a second.
    pub fn has_fine_time(&self) -> bool {
        !self.modified_ns.is_multiple_of(COARSE_NS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(modified_ns: u64, changed_ns: u64) -> FileStamp {
        FileStamp { device: 1, number: 1, bytes: 1, modified_ns, changed_ns }
    }

    #[test]
    fn a_stamp_is_reliable_once_the_clock_has_ticked() {
        let second = 1_000_000_000;
        #[rustfmt::skip]
        let cases = [
            // Time of the file, age of the file, and the expected answer, in nanoseconds.
            (5 * second + 123, 0, false),
            (5 * second + 123, second / 20, false),
            (5 * second + 123, second / 10, true),
            (5 * second, second / 10, false),
            (5 * second + 20_000_000, second, false),
            (5 * second, 2 * second, true),
        ];
        for (modified_ns, age, is_settled) in cases {
            let stamp = stamp(modified_ns, 0);
            let now = UNIX_EPOCH + Duration::from_nanos(modified_ns + age);
            assert_eq!(stamp.is_settled(now), is_settled, "{modified_ns} after {age}");
        }
        let future = stamp(5 * second + 123, 0);
        assert!(!future.is_settled(UNIX_EPOCH));
        // A program set the time of the content to an earlier one a moment ago.
        let restored = stamp(5 * second + 123, 50 * second);
        assert!(!restored.is_settled(UNIX_EPOCH + Duration::from_secs(50)));
        assert!(restored.is_settled(UNIX_EPOCH + Duration::from_secs(51)));
    }

    #[cfg(unix)]
    #[test]
    fn a_change_that_restores_size_and_time_gives_another_stamp() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let stamp = || FileStamp::of(&file.as_file().metadata().unwrap()).unwrap();
        std::fs::write(file.path(), "one").unwrap();
        let (before, modified) = (stamp(), file.as_file().metadata().unwrap().modified().unwrap());
        std::thread::sleep(SETTLED);
        assert_eq!(stamp(), before);
        std::fs::write(file.path(), "two").unwrap();
        file.as_file().set_modified(modified).unwrap();
        assert_eq!(stamp().modified_ns, before.modified_ns);
        assert_ne!(stamp(), before);
    }
}
