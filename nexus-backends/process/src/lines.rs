//! Splits bytes into bounded lines.
//!
//! A [`LineSplitter`] takes bytes as they come from a pipe and yields [`Line`]s. It splits only on `\n`, because JSON
//! text may contain any other line separator unescaped. The reader interprets the lines.

use std::collections::VecDeque;
use std::mem;

use bytes::Bytes;
use memchr::memchr;

/// Space for one read, in bytes: the capacity of a Linux pipe.
const READ_BYTES: usize = 64 << 10;

/// Capacity of a new block: one read, and the beginning of a line before it.
const BLOCK_BYTES: usize = READ_BYTES + (4 << 10);

/// Maximum number of blocks that are retained for another use.
const MAX_RETAINED: usize = 16;

/// Number of bytes stored of a line above the maximum length.
const TRUNCATED_HEAD_BYTES: usize = 64 << 10;

/// One line of a child's output, without its line ending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Content of the line, without `\n` and without one `\r` before it. It may share a block of up to 64 KiB with its
    /// neighbours, so copy a short line that is stored for long.
    pub bytes: Bytes,
    /// End of the line.
    pub ending: LineEnding,
}

/// End of a [`Line`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineEnding {
    /// A newline.
    Newline,
    /// The end of the output. The last line is cut off, or lacks its newline.
    EndOfOutput,
    /// The maximum length. [`Line::bytes`] is the beginning; the rest was read and discarded.
    Truncated {
        /// Length of the whole line, in bytes.
        total_bytes: u64,
    },
}

/// Splits bytes into [`Line`]s of bounded length.
#[derive(Debug)]
pub struct LineSplitter {
    limit_bytes: usize,
    buffer: Vec<u8>,
    /// Bytes of `buffer` that are known to have no newline.
    searched: usize,
    overlong: Option<Overlong>,
    /// Blocks that were passed on, the oldest first. A block is used again once all its lines were dropped: the memory of a
    /// child's output would otherwise be returned to the system and requested again all the time.
    retained: VecDeque<Bytes>,
}

#[derive(Debug)]
struct Overlong {
    head: Bytes,
    total_bytes: u64,
}

impl LineSplitter {
    /// Creates a splitter for lines of up to `limit_bytes` bytes.
    #[must_use]
    pub fn new(limit_bytes: usize) -> Self {
        Self { limit_bytes, buffer: Vec::new(), searched: 0, overlong: None, retained: VecDeque::new() }
    }

    /// Returns the buffer for the next bytes. It has room for at least one full pipe.
    pub fn space(&mut self) -> &mut Vec<u8> {
        self.buffer.reserve(READ_BYTES);
        &mut self.buffer
    }

    /// Returns the bytes appended since the last call of [`split`](Self::split).
    #[must_use]
    pub fn unsplit(&self) -> &[u8] {
        self.buffer.get(self.searched..).unwrap_or_default()
    }

    /// Discards all bytes that are not split.
    pub(crate) fn forget(&mut self) {
        self.buffer.clear();
        self.searched = 0;
    }

    /// Moves every line that is now complete to the end of `lines`.
    pub fn split(&mut self, lines: &mut Vec<Line>) {
        let mut start = 0;
        if let Some(overlong) = &mut self.overlong {
            match memchr(b'\n', &self.buffer) {
                Some(end) => {
                    overlong.total_bytes += end as u64;
                    start = end + 1;
                    lines.extend(self.overlong.take().map(Overlong::into_line));
                }
                None => {
                    overlong.total_bytes += self.buffer.len() as u64;
                    self.buffer.clear();
                    self.searched = 0;
                    return;
                }
            }
        }
        self.searched = self.searched.max(start);
        // Search only new bytes. A long line that arrives in small pieces would otherwise cost quadratic time.
        match memchr::memrchr(b'\n', &self.buffer[self.searched..]) {
            Some(last) => self.cut(start, self.searched + last + 1, lines),
            None => {
                self.buffer.drain(..start);
                self.searched = self.buffer.len();
            }
        }
        if self.buffer.len() > self.limit_bytes {
            let buffer = mem::take(&mut self.buffer);
            self.searched = 0;
            self.overlong = Some(Overlong {
                head: Bytes::copy_from_slice(head(&buffer, self.limit_bytes)),
                total_bytes: buffer.len() as u64,
            });
        }
    }

    /// Ends the output: the remaining bytes become the last line.
    pub fn finish(&mut self, lines: &mut Vec<Line>) {
        self.split(lines);
        if let Some(overlong) = self.overlong.take() {
            lines.push(overlong.into_line());
        } else if !self.buffer.is_empty() {
            lines.push(Line {
                bytes: Bytes::from(mem::take(&mut self.buffer)),
                ending: LineEnding::EndOfOutput,
            });
        }
        self.searched = 0;
    }

    /// Splits `buffer[start..end]`, which ends with a newline, and keeps the rest.
    fn cut(&mut self, start: usize, end: usize, lines: &mut Vec<Line>) {
        // If most of a block is lines, pass the block on without copying. Copy a few lines out of a large block, so
        // that a slow consumer does not keep 64 KiB for each.
        let block = if end >= self.buffer.capacity() / 2 {
            let mut next = self.unused_block();
            next.extend_from_slice(&self.buffer[end..]);
            let mut block = mem::replace(&mut self.buffer, next);
            block.truncate(end);
            let block = Bytes::from(block);
            if block.len() <= BLOCK_BYTES {
                self.retained.push_back(block.clone());
            }
            block.slice(start..)
        } else {
            // The child writes little, so release the memory.
            self.retained.pop_front();
            let block = Bytes::copy_from_slice(&self.buffer[start..end]);
            self.buffer.drain(..end);
            block
        };
        self.searched = self.buffer.len();
        let mut from = 0;
        for newline in memchr::memchr_iter(b'\n', &block) {
            lines.push(self.line(&block, from, newline));
            from = newline + 1;
        }
    }

    /// Returns an empty block, if possible one whose lines were dropped.
    fn unused_block(&mut self) -> Vec<u8> {
        match self.retained.pop_front().map(Bytes::try_into_mut) {
            Some(Ok(mut block)) => {
                block.clear();
                return block.into();
            }
            // A consumer still has lines of the oldest block, so the later blocks are most likely in use too.
            Some(Err(block)) if self.retained.len() + 1 < MAX_RETAINED => self.retained.push_front(block),
            Some(Err(_)) | None => {}
        }
        Vec::with_capacity(BLOCK_BYTES)
    }

    fn line(&self, block: &Bytes, from: usize, newline: usize) -> Line {
        let length = newline - from;
        if length > self.limit_bytes {
            return Overlong {
                head: Bytes::copy_from_slice(head(&block[from..newline], self.limit_bytes)),
                total_bytes: length as u64,
            }
            .into_line();
        }
        let end = if block[from..newline].ends_with(b"\r") { newline - 1 } else { newline };
        Line { bytes: block.slice(from..end), ending: LineEnding::Newline }
    }
}

impl Overlong {
    fn into_line(self) -> Line {
        Line { bytes: self.head, ending: LineEnding::Truncated { total_bytes: self.total_bytes } }
    }
}

fn head(bytes: &[u8], limit_bytes: usize) -> &[u8] {
    &bytes[..bytes.len().min(limit_bytes).min(TRUNCATED_HEAD_BYTES)]
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn split_in_pieces(input: &[u8], piece: usize, limit: usize) -> Vec<Line> {
        let mut splitter = LineSplitter::new(limit);
        let mut lines = Vec::new();
        for part in input.chunks(piece) {
            splitter.space().extend_from_slice(part);
            splitter.split(&mut lines);
        }
        splitter.finish(&mut lines);
        lines
    }

    fn newline(text: &[u8]) -> Line {
        Line { bytes: Bytes::copy_from_slice(text), ending: LineEnding::Newline }
    }

    #[test]
    fn every_split_of_the_input_gives_the_same_lines() {
        let input =
            "{\"a\":1}\r\n\n\u{2028}x\rmiddle\n0123456789abcdef\nlonger than the bound is\ntail".as_bytes();
        let expected = vec![
            newline(b"{\"a\":1}"),
            newline(b""),
            newline("\u{2028}x\rmiddle".as_bytes()),
            newline(b"0123456789abcdef"),
            Line {
                bytes: Bytes::from_static(b"longer than the b"),
                ending: LineEnding::Truncated { total_bytes: 24 },
            },
            Line { bytes: Bytes::from_static(b"tail"), ending: LineEnding::EndOfOutput },
        ];
        for piece in 1..=input.len() {
            assert_eq!(split_in_pieces(input, piece, 17), expected, "pieces of {piece}");
        }
    }

    #[test]
    fn blocks_that_are_mostly_lines_are_cut_like_small_ones() {
        let line = [b'x'; 999];
        let mut input = Vec::new();
        for _ in 0..1000 {
            input.extend_from_slice(&line);
            input.push(b'\n');
        }
        for piece in [100, 4096, 65_536, 1_000_000] {
            let lines = split_in_pieces(&input, piece, 1 << 20);
            assert_eq!(lines.len(), 1000, "pieces of {piece}");
            assert!(lines.iter().all(|found| found.bytes == line[..]));
        }
    }

    #[test]
    fn a_block_is_used_again_once_its_lines_were_dropped() {
        let mut splitter = LineSplitter::new(1 << 20);
        let output = b"0123456789abcde\n".repeat(READ_BYTES / 16);
        let mut block = |lines: &mut Vec<Line>| {
            splitter.space().extend_from_slice(&output);
            splitter.split(lines);
            lines.last().map(|line| line.bytes.as_ptr())
        };
        let mut lines = Vec::new();
        let mut blocks = HashSet::new();
        for _ in 0..100 {
            blocks.insert(block(&mut lines));
            lines.clear();
        }
        assert!(blocks.len() <= 3, "100 blocks of output are in {} blocks of memory", blocks.len());
        for _ in 0..100 {
            block(&mut lines);
        }
        assert_eq!(lines.len(), 100 * READ_BYTES / 16);
        assert!(
            lines.iter().all(|line| line.bytes == "0123456789abcde"),
            "no block with lines is overwritten"
        );
        assert!(splitter.retained.len() <= MAX_RETAINED);
        lines.clear();
        for _ in 0..MAX_RETAINED {
            splitter.space().extend_from_slice(b"few\n");
            splitter.split(&mut lines);
        }
        assert!(splitter.retained.is_empty(), "a child that writes little retains nothing");
    }

    #[test]
    fn an_endless_line_does_not_grow_memory() {
        let mut splitter = LineSplitter::new(1 << 20);
        let mut lines = Vec::new();
        for _ in 0..1000 {
            splitter.space().extend_from_slice(&[b'x'; 64 << 10]);
            splitter.split(&mut lines);
            assert!(splitter.buffer.capacity() <= 4 << 20);
        }
        splitter.finish(&mut lines);
        assert_eq!(lines.len(), 1);
        assert_eq!(lines[0].ending, LineEnding::Truncated { total_bytes: 1000 << 16 });
        assert_eq!(lines[0].bytes.len(), 64 << 10);
    }

    #[test]
    fn output_that_ends_in_a_newline_has_no_further_line() {
        assert_eq!(split_in_pieces(b"one\n", 2, 10), vec![newline(b"one")]);
        assert_eq!(split_in_pieces(b"", 2, 10), vec![]);
    }
}
