//! Records of a conversation's log: JSON lines that are written, checked and read together.
//!
//! A record is `{"begin":"LENGTH-CHECK"}`, its lines, and a closing line that ends in `"check":"LENGTH-HASH"}}`. Both have a
//! fixed size. The first line shows whether a record at the end of the file is incomplete, because its writer was killed, or
//! damaged. The last line lets a reader begin at the end of the file.

use sha2::{Digest as _, Sha256};

/// Size of a record's first line, in bytes.
pub(crate) const BEGIN_BYTES: usize = BEGIN.len() + LENGTH_DIGITS + 1 + BEGIN_CHECK_DIGITS + BEGIN_END.len();
/// Size of the fixed end of a record's last line, in bytes.
pub(crate) const CHECK_BYTES: usize = CHECK.len() + LENGTH_DIGITS + 1 + HASH_DIGITS + CHECK_END.len();
/// Maximum size of a record, in bytes. Every valid turn is smaller, even with every letter of its texts escaped.
pub(crate) const MAX_RECORD_BYTES: u64 = 256 << 20;

const BEGIN: &[u8] = b"{\"begin\":\"";
const BEGIN_END: &[u8] = b"\"}\n";
const CHECK: &[u8] = b"\"check\":\"";
const CHECK_END: &[u8] = b"\"}}\n";
const LENGTH_DIGITS: usize = 12;
const BEGIN_CHECK_DIGITS: usize = 8;
const HASH_DIGITS: usize = 64;

/// Returns the placeholder of a closing line's `check` until [`seal`] fills it in.
pub(crate) fn no_check() -> String {
    "0".repeat(LENGTH_DIGITS + 1 + HASH_DIGITS)
}

/// Returns the beginning of a record, to which its lines are appended.
pub(crate) fn begin() -> Vec<u8> {
    // `seal` fills this line when the length is known.
    vec![b' '; BEGIN_BYTES]
}

/// Completes a record: fills in its first line, and the check of its last line.
pub(crate) fn seal(record: &mut [u8]) {
    let length = length_text(record.len() as u64);
    let begin = [BEGIN, length.as_bytes(), b"-", begin_check(&length).as_bytes(), BEGIN_END].concat();
    let hash_at = record.len().saturating_sub(HASH_DIGITS + CHECK_END.len());
    let length_at = hash_at.saturating_sub(LENGTH_DIGITS + 1);
    put(record, 0, &begin);
    // The hash covers the length, so the length is written first.
    put(record, length_at, format!("{length}-").as_bytes());
    let hash = hash_text(record.get(..hash_at).unwrap_or_default());
    put(record, hash_at, hash.as_bytes());
}

fn put(record: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(place) = record.get_mut(at..at + bytes.len()) {
        place.copy_from_slice(bytes);
    }
}

/// Returns the length of the record that begins with these bytes. `None` if they are not a record's first line.
pub(crate) fn length_in_begin(bytes: &[u8]) -> Option<u64> {
    let text = bytes.get(..BEGIN_BYTES)?.strip_prefix(BEGIN)?.strip_suffix(BEGIN_END)?;
    let (length, check) = text.split_at_checked(LENGTH_DIGITS)?;
    let length = std::str::from_utf8(length).ok()?;
    (check.strip_prefix(b"-")? == begin_check(length).as_bytes()).then_some(())?;
    u64::from_str_radix(length, 16).ok()
}

/// Returns the length of the record that ends with these bytes. `None` if they are not the end of a record.
pub(crate) fn length_in_check(bytes: &[u8]) -> Option<u64> {
    let start = bytes.len().checked_sub(CHECK_BYTES)?;
    let text = bytes.get(start..)?.strip_prefix(CHECK)?.strip_suffix(CHECK_END)?;
    let (length, hash) = text.split_at_checked(LENGTH_DIGITS)?;
    (hash.first() == Some(&b'-')).then_some(())?;
    u64::from_str_radix(std::str::from_utf8(length).ok()?, 16).ok()
}

/// Returns true if the bytes are one whole record as it was written.
pub(crate) fn is_whole(record: &[u8]) -> bool {
    let length = record.len() as u64;
    let Some(hash_at) = record.len().checked_sub(HASH_DIGITS + CHECK_END.len()) else { return false };
    let (hashed, rest) = record.split_at(hash_at);
    let hash = rest.strip_suffix(CHECK_END).unwrap_or_default();
    length_in_begin(record) == Some(length)
        && length_in_check(record) == Some(length)
        && hash == hash_text(hashed).as_bytes()
}

/// Returns the lines of a whole record without the first one.
pub(crate) fn lines(record: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    let lines = record.get(BEGIN_BYTES..).unwrap_or_default();
    lines.strip_suffix(b"\n").unwrap_or(lines).split(|byte| *byte == b'\n')
}

fn length_text(length: u64) -> String {
    format!("{length:0width$x}", width = LENGTH_DIGITS)
}

fn begin_check(length: &str) -> String {
    let mut hash = hash_text(length.as_bytes());
    hash.truncate(BEGIN_CHECK_DIGITS);
    hash
}

fn hash_text(bytes: &[u8]) -> String {
    nexus_files::hex(Sha256::digest(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Vec<u8> {
        let mut record = begin();
        record.extend_from_slice(b"{\"message\":1}\n");
        record.extend_from_slice(
            format!("{{\"end\":{{\"turns\":1,\"check\":\"{}\"}}}}\n", no_check()).as_bytes(),
        );
        seal(&mut record);
        record
    }

    #[test]
    fn each_changed_bit_of_a_record_is_noticed() {
        let record = record();
        assert!(is_whole(&record), "{}", String::from_utf8_lossy(&record));
        assert!(lines(&record).all(|line| serde_json::from_slice::<serde_json::Value>(line).is_ok()));
        assert!(serde_json::from_slice::<serde_json::Value>(&record[..BEGIN_BYTES]).is_ok());
        for bit in 0..record.len() * 8 {
            let mut changed = record.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(!is_whole(&changed), "{bit}");
            // The first line shows its own damage: a wrong length must not look like an incomplete record.
            if bit / 8 < BEGIN_BYTES {
                assert_eq!(length_in_begin(&changed), None, "{bit}");
            }
        }
        for length in 0..record.len() {
            assert!(!is_whole(&record[..length]));
        }
    }
}
