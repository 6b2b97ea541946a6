//! The simulated model's answer to one call, independent of the vendor.
//!
//! Each dialect decides how a reply looks on the wire. The [`Scenario`](super::Scenario) decides when it is given.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::fault::{Cut, Fault};
use super::rate_limit::RateLimit;
use super::tool_call::ToolCall;

/// One answer of the model: parts in order, then an end or a fault.
///
/// ```
/// use nexus_testkit::sim::{Cut, Reply, ToolCall};
///
/// let call = Reply::thinking("Look first.").and_call(ToolCall::shell("ls"));
/// let half = Reply::text("half an ans").torn(Cut::Reset);
/// assert_eq!(call.parts.len(), 2);
/// assert!(half.fault.is_some());
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Reply {
    /// The model's output and calls, in order.
    pub parts: Vec<Part>,
    /// Finish reason. With a tool call among the parts, `End` is sent as "tool use".
    pub finish: Finish,
    /// Usage that the vendor counts; `None` leaves the usage out of the answer.
    pub usage: Option<Usage>,
    /// Fault after the parts, or in place of them.
    pub fault: Option<Fault>,
    /// Size and timing of the pieces.
    pub pace: Pace,
    /// Report of the account's limit with the answer.
    pub rate_limit: Option<RateLimit>,
    /// Headers added to the answer, verbatim. A header that HTTP cannot carry breaks the connection.
    pub headers: Vec<(String, String)>,
    /// One id for all tool calls of this reply. `None` gives each call its own.
    pub call_id: Option<String>,
}

impl Reply {
    /// An answer with no parts and the usual usage: the model ends its turn without a word.
    pub fn empty() -> Self {
        Self {
            parts: Vec::new(),
            finish: Finish::default(),
            usage: Some(Usage::default()),
            fault: None,
            pace: Pace::default(),
            rate_limit: None,
            headers: Vec::new(),
            call_id: None,
        }
    }

    /// An answer of text alone.
    pub fn text(text: impl Into<String>) -> Self {
        Self::empty().and_text(text)
    }

    /// An answer that begins by thinking.
    pub fn thinking(text: impl Into<String>) -> Self {
        Self::empty().and_thinking(text)
    }

    /// A tool call alone.
    pub fn call(call: ToolCall) -> Self {
        Self::empty().and_call(call)
    }

    /// Several tool calls at once.
    pub fn calls(calls: impl IntoIterator<Item = ToolCall>) -> Self {
        calls.into_iter().fold(Self::empty(), Self::and_call)
    }

    /// An answer of exactly `bytes` bytes of text, the same on every run: see [`long_text`].
    pub fn long(bytes: usize) -> Self {
        let mut reply = Self::empty();
        reply.parts.push(Part::Long { bytes });
        // With the usual size, a mebibyte would become 65,536 events.
        reply.pace.piece_chars = 1024;
        reply
    }

    /// A JSON answer, as a structured turn expects it.
    pub fn json(value: &serde_json::Value) -> Self {
        Self::text(value.to_string())
    }

    /// Nothing but a fault.
    pub fn fault(fault: Fault) -> Self {
        Self { fault: Some(fault), ..Self::empty() }
    }

    /// A refusal by HTTP status, with the vendor's own body for it.
    pub fn status(status: u16) -> Self {
        Self::fault(Fault::status(status))
    }

    /// Adds text.
    pub fn and_text(mut self, text: impl Into<String>) -> Self {
        self.parts.push(Part::Text { text: text.into() });
        self
    }

    /// Adds thinking.
    pub fn and_thinking(mut self, text: impl Into<String>) -> Self {
        self.parts.push(Part::Thinking { text: text.into() });
        self
    }

    /// Adds a tool call.
    pub fn and_call(mut self, call: ToolCall) -> Self {
        self.parts.push(Part::Call(call));
        self
    }

    /// Adds something the vendor's own program has never heard of.
    pub fn and_odd(mut self, odd: Odd) -> Self {
        self.parts.push(Part::Odd { odd });
        self
    }

    /// Ends for `finish`.
    pub fn finish(mut self, finish: Finish) -> Self {
        self.finish = finish;
        self
    }

    /// Reports `usage`.
    pub fn usage(mut self, usage: Usage) -> Self {
        self.usage = Some(usage);
        self
    }

    /// Reports no usage at all.
    pub fn without_usage(mut self) -> Self {
        self.usage = None;
        self
    }

    /// Sends pieces of `piece_chars` characters, `every` apart.
    pub fn paced(mut self, piece_chars: usize, every: Duration) -> Self {
        self.pace.piece_chars = piece_chars.max(1);
        self.pace.gap_ms = millis(every);
        self
    }

    /// Waits before the response headers.
    pub fn after(mut self, delay: Duration) -> Self {
        self.pace.delay_ms = millis(delay);
        self
    }

    /// Breaks the connection after the parts, the last text left open.
    pub fn torn(mut self, cut: Cut) -> Self {
        self.fault = Some(Fault::Torn { cut });
        self
    }

    /// Falls silent after the parts, the last text left open.
    pub fn stalled(mut self) -> Self {
        self.fault = Some(Fault::Stall { pings: false });
        self
    }

    /// Falls silent after the parts, apart from the vendor's keep-alive.
    pub fn stalled_with_pings(mut self) -> Self {
        self.fault = Some(Fault::Stall { pings: true });
        self
    }

    /// Lets the stream report an error after the parts, the last text left open.
    pub fn broken(mut self, code: impl Into<String>, message: impl Into<String>) -> Self {
        self.fault = Some(Fault::StreamError { code: code.into(), message: message.into() });
        self
    }

    /// Adds a report of the account's limit.
    pub fn rate_limit(mut self, report: RateLimit) -> Self {
        self.rate_limit = Some(report);
        self
    }

    /// Gives every tool call the id `id`, so that two calls of one reply have the same.
    pub fn call_id(mut self, id: impl Into<String>) -> Self {
        self.call_id = Some(id.into());
        self
    }

    /// Adds a response header.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// All the text of this reply, joined, as the model meant it.
    pub fn full_text(&self) -> String {
        self.parts
            .iter()
            .filter_map(|part| match part {
                Part::Text { text } => Some(text.clone()),
                Part::Long { bytes } => Some(long_text(*bytes)),
                _ => None,
            })
            .collect()
    }

    /// Returns true if the model calls a tool.
    pub fn calls_a_tool(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Call(_)))
    }
}

impl Default for Reply {
    /// Returns [`Reply::empty`], which supplies the fields that a scenario file leaves out.
    fn default() -> Self {
        Self::empty()
    }
}

/// One piece of a reply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "part")]
pub enum Part {
    /// Words of the answer.
    Text {
        /// The words.
        text: String,
    },
    /// Text made by [`long_text`].
    Long {
        /// Its length.
        bytes: usize,
    },
    /// Words that lead to the answer: a summary where the vendor shows only that.
    Thinking {
        /// The words.
        text: String,
    },
    /// Thinking that the vendor streams raw; where a vendor has but one kind, as [`Part::Thinking`].
    RawThinking {
        /// The words.
        text: String,
    },
    /// A request to run a tool.
    Call(ToolCall),
    /// An unexpected part.
    Odd {
        /// Kind of the oddity.
        odd: Odd,
    },
}

/// A part that no current client knows, or that no client can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Odd {
    /// A well-formed event of an unknown type.
    Event,
    /// An output item or content block of an unknown type.
    Item,
    /// An event whose data is not JSON.
    Garbage,
    /// A comment line, which every client must skip.
    Comment,
    /// A tool that the vendor itself runs: the client need not answer its item.
    HostedSearch,
    /// The vendor's report that the answer repeats itself.
    LoopCheck,
}

/// Reason why the model stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// The model finished, or it called tools.
    #[default]
    End,
    /// The model reached the limit on output.
    MaxTokens,
    /// It refused to answer.
    Refusal,
    /// A filter of the vendor's stopped it.
    ContentFilter,
    /// The model paused; the client may ask it to continue.
    Pause,
    /// The conversation filled its window.
    ContextExceeded,
}

/// Tokens, in disjoint buckets. A dialect adds up the buckets that its vendor adds up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Usage {
    /// Input that was not cached.
    pub input: u64,
    /// Input read from the cache.
    pub cached: u64,
    /// Input written to the cache.
    pub cache_write: u64,
    /// Output that was not reasoning.
    pub output: u64,
    /// Output spent on reasoning.
    pub reasoning: u64,
    /// Price of the call, in ticks of 10^-10 US dollars (`cost_in_usd_ticks`). Only xAI's dialect
    /// reports it.
    pub cost_ticks: Option<u64>,
}

impl Default for Usage {
    fn default() -> Self {
        Self { input: 100, cached: 20, cache_write: 0, output: 23, reasoning: 7, cost_ticks: None }
    }
}

/// Distribution of a reply over time and pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Pace {
    /// Characters in one delta, at least one.
    pub piece_chars: usize,
    /// Milliseconds between two deltas.
    pub gap_ms: u64,
    /// Milliseconds before the response headers.
    pub delay_ms: u64,
}

impl Default for Pace {
    fn default() -> Self {
        Self { piece_chars: 16, gap_ms: 0, delay_ms: 0 }
    }
}

/// Exactly `bytes` bytes of text, the same for the same length, no two lines alike, one line in
/// sixteen with characters beyond ASCII.
///
/// ```
/// use nexus_testkit::sim::long_text;
///
/// assert_eq!(long_text(1_000_003).len(), 1_000_003);
/// assert_eq!(long_text(70), long_text(70));
/// ```
pub fn long_text(bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + 96);
    let mut line = 0_u64;
    while text.len() < bytes {
        // The multiplier is odd, so no two lines have the same number.
        let mixed = line.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let tail = if line % 16 == 15 { " é 水 🦀" } else { "" };
        text.push_str(&format!("line {line:08} {mixed:016x}{tail}\n"));
        line += 1;
    }
    let mut end = bytes;
    // The cut may fall into a character. Dots replace the bytes that are missing then.
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text.extend(std::iter::repeat_n('.', bytes - end));
    text
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
