//! Cuts a response body into server-sent events. What an event means is left to the reader.
//!
//! Framing as the WHATWG HTML standard describes it (section 9.2, "Server-sent events"), with two liberties: a
//! last event that lacks its blank line is given all the same, and bytes that are not UTF-8 are passed on as
//! they are.
//!
//! An [`EventSplitter`] borrows each event out of the chunk that it lies in; only what a chunk's end cuts is
//! copied, once, and no byte is searched twice. The crate `eventsource-stream` does this job too, and the tests
//! hold the two against each other. It is not what runs because of what it costs: after every line it moves the
//! rest of its buffer into a new one, so that in chunks of 64 KiB each event allocates and copies some 94 KB,
//! measured, where the splitter allocates nothing.

use std::{fmt, mem, ops::Range, str};

use bytes::Bytes;
use memchr::memchr2;

/// Longest event accepted where nothing else is set, in bytes.
pub const DEFAULT_MAX_EVENT_BYTES: usize = 64 << 20;

/// Buffer capacity kept for the next event that spans chunks, in bytes; more is released.
const KEPT_CAPACITY_BYTES: usize = 64 << 10;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// One server-sent event that has data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// The value of its `event` line; empty without such a line, or if it is not UTF-8.
    pub name: &'a str,
    /// The values of its `data` lines, joined by newlines.
    pub data: &'a [u8],
}

/// An event outgrew the bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventTooLong {
    /// The bound, in bytes.
    pub max_event_bytes: usize,
}

impl fmt::Display for EventTooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an event of the stream is longer than `max_event_bytes` ({} bytes)", self.max_event_bytes)
    }
}

impl std::error::Error for EventTooLong {}

/// Cuts a body into server-sent events. Bytes in, borrowed events out.
///
/// ```
/// use nexus_backends::responses::sse::EventSplitter;
///
/// let mut splitter = EventSplitter::new(1024);
/// let mut seen = Vec::new();
/// for chunk in ["data: on", "e\n\nevent: e\r\nda", "ta: two"] {
///     splitter.push(chunk.into());
///     while let Some(event) = splitter.next()? {
///         seen.push(event.data.to_vec());
///     }
/// }
/// assert_eq!(splitter.finish()?.map(|event| event.name), Some("e"));
/// assert_eq!(seen, [b"one"]);
/// # Ok::<(), nexus_backends::responses::sse::EventTooLong>(())
/// ```
pub struct EventSplitter {
    max_event_bytes: usize,
    chunk: Bytes,
    /// Number of bytes of `chunk` that were read.
    position: usize,
    /// The line before ended in a carriage return: a newline right after it belongs to it.
    skip_newline: bool,
    /// The first line of the body was read: no byte order mark can follow.
    is_started: bool,
    /// The beginning of a line, which the end of a chunk cut off.
    line: Vec<u8>,
    name: Value,
    data: Value,
    /// Copies of a `name` and `data` that do not lie in `chunk` any more.
    kept_name: Vec<u8>,
    kept_data: Vec<u8>,
    /// Length of the lines that make up `name` and `data`.
    event_bytes: usize,
    /// The event was given; the next call forgets it.
    is_given: bool,
    is_too_long: bool,
}

/// Position of a field's value.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Value {
    Missing,
    InChunk(Range<usize>),
    Kept(Range<usize>),
}

/// Field of a line, with the range of its value.
#[derive(Debug, PartialEq, Eq)]
enum LineField {
    Name(Range<usize>),
    Data(Range<usize>),
    Ignored,
}

impl EventSplitter {
    /// Accepts events of up to `max_event_bytes` bytes: the length of their lines without line endings. A longer
    /// line of any other kind is refused too; comments do not count towards the event that they stand in.
    #[must_use]
    pub fn new(max_event_bytes: usize) -> Self {
        Self {
            max_event_bytes,
            chunk: Bytes::new(),
            position: 0,
            skip_newline: false,
            is_started: false,
            line: Vec::new(),
            name: Value::Missing,
            data: Value::Missing,
            kept_name: Vec::new(),
            kept_data: Vec::new(),
            event_bytes: 0,
            is_given: false,
            is_too_long: false,
        }
    }

    /// The next piece of the body. The piece before must have been read to its end: [`next`](Self::next) said
    /// `None`. What of it was not read is lost.
    pub fn push(&mut self, chunk: Bytes) {
        self.keep_event();
        self.chunk = chunk;
        self.position = 0;
    }

    /// The next whole event that has data; `None` asks for the next piece.
    ///
    /// # Errors
    ///
    /// [`EventTooLong`], now and from now on.
    #[expect(
        clippy::should_implement_trait,
        reason = "the event borrows the splitter, which an Iterator cannot express"
    )]
    pub fn next(&mut self) -> Result<Option<Event<'_>>, EventTooLong> {
        if self.is_given {
            self.forget();
        }
        loop {
            if self.is_too_long {
                return Err(EventTooLong { max_event_bytes: self.max_event_bytes });
            }
            let rest = self.chunk.get(self.position..).unwrap_or_default();
            if self.skip_newline && !rest.is_empty() {
                self.skip_newline = false;
                if rest.first() == Some(&b'\n') {
                    self.position += 1;
                    continue;
                }
            }
            let Some(end) = memchr2(b'\n', b'\r', rest) else {
                self.is_too_long = self.exceeds(self.line.len() + rest.len());
                if self.is_too_long {
                    continue;
                }
                self.line.extend_from_slice(rest);
                self.keep_event();
                self.chunk = Bytes::new();
                self.position = 0;
                return Ok(None);
            };
            self.skip_newline = rest.get(end) == Some(&b'\r');
            let start = self.position;
            self.position += end + 1;
            self.is_too_long = self.exceeds(self.line.len() + end);
            if self.is_too_long {
                continue;
            }
            let is_blank = if self.line.is_empty() {
                self.read_line_of_chunk(start..start + end)
            } else {
                self.line.extend_from_slice(self.chunk.get(start..start + end).unwrap_or_default());
                self.read_cut_line()
            };
            if is_blank {
                if self.data == Value::Missing {
                    self.forget();
                } else {
                    self.is_given = true;
                    return Ok(Some(self.event()));
                }
            }
        }
    }

    /// The body is over: the last event, if it came without its blank line.
    ///
    /// # Errors
    ///
    /// [`EventTooLong`], as [`next`](Self::next).
    pub fn finish(&mut self) -> Result<Option<Event<'_>>, EventTooLong> {
        if self.is_given {
            self.forget();
        }
        if self.is_too_long {
            return Err(EventTooLong { max_event_bytes: self.max_event_bytes });
        }
        if !self.line.is_empty() {
            self.read_cut_line();
        }
        self.is_given = true;
        Ok(if self.data == Value::Missing { None } else { Some(self.event()) })
    }

    /// Returns true if a line of `line_bytes` bytes exceeds the bound.
    fn exceeds(&self, line_bytes: usize) -> bool {
        self.event_bytes.saturating_add(line_bytes) > self.max_event_bytes
    }

    /// Reads a line that lies whole in the chunk. Says whether it is blank.
    fn read_line_of_chunk(&mut self, mut line: Range<usize>) -> bool {
        let mut bytes = self.chunk.get(line.clone()).unwrap_or_default();
        if !self.is_started {
            self.is_started = true;
            if let Some(rest) = bytes.strip_prefix(BYTE_ORDER_MARK) {
                line.start += BYTE_ORDER_MARK.len();
                bytes = rest;
            }
        }
        let in_chunk = |value: &Range<usize>| line.start + value.start..line.start + value.end;
        match field(bytes) {
            LineField::Name(value) => {
                self.event_bytes += bytes.len();
                self.name = Value::InChunk(in_chunk(&value));
            }
            LineField::Data(value) => {
                self.event_bytes += bytes.len();
                if self.data == Value::Missing {
                    self.data = Value::InChunk(in_chunk(&value));
                } else {
                    keep(&mut self.data, &mut self.kept_data, &self.chunk);
                    self.data.add_line(&mut self.kept_data, bytes.get(value).unwrap_or_default());
                }
            }
            LineField::Ignored => return bytes.is_empty(),
        }
        false
    }

    /// Reads the line that chunks cut in pieces. Says whether it is blank.
    fn read_cut_line(&mut self) -> bool {
        let mut line = mem::take(&mut self.line);
        let mut start = 0;
        if !self.is_started {
            self.is_started = true;
            if line.starts_with(BYTE_ORDER_MARK) {
                start = BYTE_ORDER_MARK.len();
            }
        }
        let bytes = line.get(start..).unwrap_or_default();
        let is_blank = bytes.is_empty();
        match field(bytes) {
            LineField::Name(value) => {
                self.event_bytes += bytes.len();
                self.kept_name.clear();
                self.kept_name.extend_from_slice(bytes.get(value).unwrap_or_default());
                self.name = Value::Kept(0..self.kept_name.len());
            }
            LineField::Data(value) => {
                self.event_bytes += bytes.len();
                if self.data == Value::Missing {
                    self.data = Value::Kept(start + value.start..start + value.end);
                    mem::swap(&mut line, &mut self.kept_data);
                } else {
                    keep(&mut self.data, &mut self.kept_data, &self.chunk);
                    self.data.add_line(&mut self.kept_data, bytes.get(value).unwrap_or_default());
                }
            }
            LineField::Ignored => {}
        }
        line.clear();
        if line.capacity() <= KEPT_CAPACITY_BYTES {
            self.line = line;
        }
        is_blank
    }

    /// Copies what the event has so far out of the chunk.
    fn keep_event(&mut self) {
        keep(&mut self.name, &mut self.kept_name, &self.chunk);
        keep(&mut self.data, &mut self.kept_data, &self.chunk);
    }

    fn forget(&mut self) {
        self.is_given = false;
        self.event_bytes = 0;
        self.name = Value::Missing;
        self.data = Value::Missing;
        if self.kept_data.capacity() > KEPT_CAPACITY_BYTES {
            self.kept_data = Vec::new();
        }
    }

    fn event(&self) -> Event<'_> {
        let name = self.value(&self.name, &self.kept_name);
        Event {
            name: str::from_utf8(name).unwrap_or_default(),
            data: self.value(&self.data, &self.kept_data),
        }
    }

    fn value<'a>(&'a self, value: &Value, kept: &'a [u8]) -> &'a [u8] {
        match value {
            Value::Missing => None,
            Value::InChunk(range) => self.chunk.get(range.clone()),
            Value::Kept(range) => kept.get(range.clone()),
        }
        .unwrap_or_default()
    }
}

/// Copies a value out of the chunk.
fn keep(value: &mut Value, kept: &mut Vec<u8>, chunk: &[u8]) {
    if let Value::InChunk(range) = value {
        kept.clear();
        kept.extend_from_slice(chunk.get(range.clone()).unwrap_or_default());
        *value = Value::Kept(0..kept.len());
    }
}

impl Value {
    /// Adds a line to a value that is kept.
    fn add_line(&mut self, kept: &mut Vec<u8>, line: &[u8]) {
        kept.push(b'\n');
        kept.extend_from_slice(line);
        if let Self::Kept(range) = self {
            range.end = kept.len();
        }
    }
}

/// Shows no byte of the stream.
impl fmt::Debug for EventSplitter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventSplitter")
            .field("max_event_bytes", &self.max_event_bytes)
            .field("unread_bytes", &self.chunk.len().saturating_sub(self.position))
            .field("kept_bytes", &(self.line.len() + self.kept_data.len()))
            .finish_non_exhaustive()
    }
}

/// Reads a line. `id` and `retry` are for clients that reconnect by themselves.
fn field(line: &[u8]) -> LineField {
    if let Some(value) = line.strip_prefix(b"data").and_then(value_bytes) {
        LineField::Data(line.len() - value..line.len())
    } else if let Some(value) = line.strip_prefix(b"event").and_then(value_bytes) {
        LineField::Name(line.len() - value..line.len())
    } else {
        LineField::Ignored
    }
}

/// The length of the value, given what follows the name of a field. `None`: the name goes on.
fn value_bytes(rest: &[u8]) -> Option<usize> {
    match rest {
        [] => Some(0),
        [b':', b' ', value @ ..] | [b':', value @ ..] => Some(value.len()),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
