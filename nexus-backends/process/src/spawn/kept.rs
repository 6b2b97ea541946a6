//! Output stored as bytes, for a program whose lines the host does not interpret.

use std::collections::VecDeque;

/// Beginning and end of a program's output. The bytes between them are counted and discarded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeptOutput {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    bound: usize,
    total_bytes: u64,
}

impl KeptOutput {
    /// Creates a buffer of at most `bound` bytes: half of them for the beginning, the rest for the end.
    pub(crate) fn new(bound: usize) -> Self {
        Self { bound, ..Self::default() }
    }

    pub(crate) fn push(&mut self, mut bytes: &[u8]) {
        self.total_bytes += bytes.len() as u64;
        let room = (self.bound / 2).saturating_sub(self.head.len()).min(bytes.len());
        let (head, rest) = bytes.split_at(room);
        self.head.extend_from_slice(head);
        bytes = rest;
        let keep = self.bound - self.bound / 2;
        bytes = &bytes[bytes.len().saturating_sub(keep)..];
        let excess = (self.tail.len() + bytes.len()).saturating_sub(keep);
        self.tail.drain(..excess);
        self.tail.extend(bytes);
    }

    /// Removes `end` from the end of the output. Returns true if it was there.
    pub(crate) fn remove_end(&mut self, end: &[u8]) -> bool {
        let bytes = self.head.iter().chain(&self.tail).rev();
        let is_there =
            bytes.take(end.len()).eq(end.iter().rev()) && self.tail.len() + self.head.len() >= end.len();
        if is_there {
            let from_tail = end.len().min(self.tail.len());
            self.tail.truncate(self.tail.len() - from_tail);
            self.head.truncate(self.head.len() - (end.len() - from_tail));
            self.total_bytes -= end.len() as u64;
        }
        is_there
    }

    /// Returns the number of bytes that were written.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// Returns the number of bytes that are missing between the beginning and the end.
    #[must_use]
    pub fn omitted_bytes(&self) -> u64 {
        self.total_bytes - (self.head.len() + self.tail.len()) as u64
    }

    /// Returns the beginning: all output, or its first part if bytes were discarded.
    #[must_use]
    pub fn head(&self) -> Vec<u8> {
        let mut head = self.head.clone();
        if self.omitted_bytes() == 0 {
            head.extend(&self.tail);
        }
        head
    }

    /// Returns the end if bytes were discarded before it; otherwise empty.
    #[must_use]
    pub fn tail(&self) -> Vec<u8> {
        if self.omitted_bytes() == 0 { Vec::new() } else { self.tail.iter().copied().collect() }
    }

    /// Returns the stored output as text, with a line for the number of missing bytes. Invalid UTF-8 becomes
    /// `�`.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::from_utf8_lossy(&self.head()).into_owned();
        if self.omitted_bytes() > 0 {
            text.push_str(&format!("\n[{} bytes left out]\n", self.omitted_bytes()));
            text.push_str(&String::from_utf8_lossy(&self.tail()));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_and_the_end_are_kept_however_it_comes() {
        let all: Vec<u8> = (0..=255).collect();
        for piece in [1, 3, 10, 64, 256] {
            let mut kept = KeptOutput::new(21);
            all.chunks(piece).for_each(|bytes| kept.push(bytes));
            assert_eq!((kept.head(), kept.tail()), (all[..10].to_vec(), all[245..].to_vec()), "{piece}");
            assert_eq!((kept.total_bytes(), kept.omitted_bytes()), (256, 235));
        }
    }

    #[test]
    fn an_end_is_taken_off_where_it_is() {
        for (bound, written, expected) in [
            (100, "said\nunshare\n", "said\n"),
            (20, "12345678unshare\n", "12345678"),
            (100, "x\n", "x\n"),
            (3, "unshare\n", ""),
        ] {
            let mut kept = KeptOutput::new(bound);
            kept.push(written.as_bytes());
            assert_eq!(kept.remove_end(b"unshare\n"), written.ends_with("unshare\n") && bound != 3);
            assert!(kept.text().starts_with(expected) || bound == 3, "{kept:?}");
            assert!(bound == 3 || !kept.text().contains("unshare"));
        }
    }

    #[test]
    fn what_fits_is_whole() {
        for bound in [0, 1, 4, 5, 6, 100] {
            let mut kept = KeptOutput::new(bound);
            kept.push(b"hel");
            kept.push(b"lo");
            let is_whole = bound >= 5;
            assert_eq!(kept.text() == "hello", is_whole, "{bound}: {kept:?}");
            assert_eq!(kept.omitted_bytes() == 0, is_whole);
        }
    }
}
