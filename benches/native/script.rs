//! What the loopback server says: the events of the Responses API, as a server sends them.

use std::fmt::{self, Write as _};
use std::str::FromStr;

/// One way to answer a request. It is the first segment of the path, so that every client that takes a base
/// URL can ask for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scenario {
    /// `deltas` pieces of text as fast as the client reads them.
    Stream { deltas: usize, framing: Framing, fields: Fields },
    /// `deltas` pieces, `interval_us` microseconds apart, each of which is the time at which it was sent.
    Paced { deltas: usize, interval_us: u64 },
    /// Eight pieces, and then nothing until the client hangs up.
    Held,
    /// One tool call per answer until `rounds` results are in the request, and then a text.
    ToolRounds { rounds: usize },
    /// The same, and the bodies of the requests are kept.
    Recorded { rounds: usize },
}

/// How events are cut into the chunks of HTTP's chunked coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// One event per chunk.
    Events,
    /// 64 KiB per chunk, wherever that cuts.
    Blocks,
}

/// What a text delta carries beside its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fields {
    /// The place in the answer and a sequence number.
    Lean,
    /// Also `logprobs` and `obfuscation`, as OpenAI's own server sends them.
    Full,
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stream { deltas, framing, fields } => {
                let framing = if *framing == Framing::Events { "events" } else { "blocks" };
                let fields = if *fields == Fields::Lean { "lean" } else { "full" };
                write!(f, "stream-{deltas}-{framing}-{fields}")
            }
            Self::Paced { deltas, interval_us } => write!(f, "paced-{deltas}-{interval_us}"),
            Self::Held => f.write_str("held"),
            Self::ToolRounds { rounds } => write!(f, "rounds-{rounds}"),
            Self::Recorded { rounds } => write!(f, "recorded-{rounds}"),
        }
    }
}

impl FromStr for Scenario {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let unknown = || format!("there is no scenario {text:?}");
        let count = |part: &str| part.parse::<usize>().map_err(|_| unknown());
        match text.split('-').collect::<Vec<_>>().as_slice() {
            ["stream", deltas, framing, fields] => Ok(Self::Stream {
                deltas: count(deltas)?,
                framing: if *framing == "events" { Framing::Events } else { Framing::Blocks },
                fields: if *fields == "lean" { Fields::Lean } else { Fields::Full },
            }),
            ["paced", deltas, interval] => {
                Ok(Self::Paced { deltas: count(deltas)?, interval_us: count(interval)? as u64 })
            }
            ["held"] => Ok(Self::Held),
            ["rounds", rounds] => Ok(Self::ToolRounds { rounds: count(rounds)? }),
            ["recorded", rounds] => Ok(Self::Recorded { rounds: count(rounds)? }),
            _ => Err(unknown()),
        }
    }
}

/// Deltas of one message; a long stream has several, as its end repeats the text.
pub(crate) const DELTAS_PER_MESSAGE: usize = 1_000;

/// Pieces of text as a tokenizer cuts them: one in eight has an escape in JSON, one in sixteen is not ASCII.
const PIECES: [&str; 16] = [
    "The", " parser", " reads", " one", " event", "\\n\\n", " at", " a", " time", ",", " naïve", " but",
    " \\\"", "correct", ".", " And",
];

/// The text of the `index`th delta, as JSON writes it inside quotes.
fn piece(index: usize) -> &'static str {
    PIECES[index % PIECES.len()]
}

/// Bytes of text in the first `deltas` deltas. It takes no time that grows with them: jobs are measured.
pub(crate) fn text_bytes(deltas: usize) -> usize {
    let lengths = PIECES.map(|piece| piece.len() - piece.matches('\\').count());
    let of = |pieces: usize| lengths.iter().take(pieces).sum::<usize>();
    deltas / PIECES.len() * of(PIECES.len()) + of(deltas % PIECES.len())
}

/// Writes events one after another, with their sequence numbers.
#[derive(Default)]
pub(crate) struct Script {
    sequence: usize,
}

impl Script {
    /// A whole stream of text.
    pub(crate) fn text(mut self, deltas: usize, fields: Fields, mut out: impl FnMut(&str)) {
        out(&self.response("created", "in_progress"));
        out(&self.response("in_progress", "in_progress"));
        let mut sent = 0;
        for message in 0.. {
            let end = deltas.min(sent + DELTAS_PER_MESSAGE);
            self.message_opens(message, &mut out);
            let mut text = String::new();
            for index in sent..end {
                text.push_str(piece(index));
                out(&self.delta(message, piece(index), fields));
            }
            self.message_closes(message, &text, &mut out);
            sent = end;
            if sent == deltas {
                break;
            }
        }
        out(&self.response("completed", "completed"));
    }

    /// The events before the first delta.
    pub(crate) fn opening(&mut self, mut out: impl FnMut(&str)) {
        out(&self.response("created", "in_progress"));
        self.message_opens(0, &mut out);
    }

    /// The events after the last delta.
    pub(crate) fn ending(mut self, text: &str, mut out: impl FnMut(&str)) {
        self.message_closes(0, text, &mut out);
        out(&self.response("completed", "completed"));
    }

    /// An answer that calls the tool `lookup`, with arguments that no other round has.
    pub(crate) fn tool_call(mut self, round: usize, mut out: impl FnMut(&str)) {
        let (item, call) = (item_id("fc", round), format!("call_{round:024x}"));
        let pieces = ["{\\\"path\\\":", "\\\"src/part_", &format!("{round:04}.rs\\\"}}")];
        let arguments = pieces.concat();
        let stated = |status: &str, arguments: &str| {
            format!(
                r#"{{"id":"{item}","type":"function_call","status":"{status}","arguments":"{arguments}","call_id":"{call}","name":"lookup"}}"#
            )
        };
        out(&self.response("created", "in_progress"));
        out(&self.event(
            "output_item.added",
            &format!(r#""output_index":0,"item":{}"#, stated("in_progress", "")),
        ));
        for piece in pieces {
            let fields = format!(r#""item_id":"{item}","output_index":0,"delta":"{piece}""#);
            out(&self.event("function_call_arguments.delta", &fields));
        }
        let fields =
            format!(r#""item_id":"{item}","output_index":0,"arguments":"{arguments}","name":"lookup""#);
        out(&self.event("function_call_arguments.done", &fields));
        let done = stated("completed", &arguments);
        out(&self.event("output_item.done", &format!(r#""output_index":0,"item":{done}"#)));
        out(&self.response_with("completed", "completed", &done));
    }

    pub(crate) fn delta(&mut self, message: usize, text: &str, fields: Fields) -> String {
        let item = item_id("msg", message);
        let more = match fields {
            Fields::Lean => "",
            // Source: the length varies so that the size of an event does not tell that of its text.
            Fields::Full => [
                r#","logprobs":[],"obfuscation":"xNwpY9kQ2mTzLb""#,
                r#","logprobs":[],"obfuscation":"q7Rk2""#,
                r#","logprobs":[],"obfuscation":"hV0sPw3nJd9""#,
            ][self.sequence % 3],
        };
        self.event(
            "output_text.delta",
            &format!(
                r#""item_id":"{item}","output_index":{message},"content_index":0,"delta":"{text}"{more}"#
            ),
        )
    }

    fn message_opens(&mut self, message: usize, out: &mut impl FnMut(&str)) {
        let item = item_id("msg", message);
        out(&self.event(
            "output_item.added",
            &format!(
                r#""output_index":{message},"item":{{"id":"{item}","type":"message","status":"in_progress","content":[],"role":"assistant"}}"#
            ),
        ));
        out(&self.event(
            "content_part.added",
            &format!(
                r#""item_id":"{item}","output_index":{message},"content_index":0,"part":{{"type":"output_text","annotations":[],"logprobs":[],"text":""}}"#
            ),
        ));
    }

    fn message_closes(&mut self, message: usize, text: &str, out: &mut impl FnMut(&str)) {
        let item = item_id("msg", message);
        let part = format!(r#"{{"type":"output_text","annotations":[],"logprobs":[],"text":"{text}"}}"#);
        let place = format!(r#""item_id":"{item}","output_index":{message},"content_index":0"#);
        out(&self.event("output_text.done", &format!(r#"{place},"logprobs":[],"text":"{text}""#)));
        out(&self.event("content_part.done", &format!(r#"{place},"part":{part}"#)));
        out(&self.event(
            "output_item.done",
            &format!(
                r#""output_index":{message},"item":{{"id":"{item}","type":"message","status":"completed","content":[{part}],"role":"assistant"}}"#
            ),
        ));
    }

    fn response(&mut self, kind: &str, status: &str) -> String {
        self.response_with(kind, status, "")
    }

    fn response_with(&mut self, kind: &str, status: &str, output: &str) -> String {
        let usage = if status == "completed" {
            r#"{"input_tokens":120,"input_tokens_details":{"cached_tokens":40},"output_tokens":30,"output_tokens_details":{"reasoning_tokens":10},"total_tokens":150}"#
        } else {
            "null"
        };
        self.event(
            kind,
            &format!(
                concat!(
                    r#""response":{{"id":"resp_0684a1f2c3d4e5f600689f3a1b2c3d4e5f60718293a4b5c6d7","object":"response","#,
                    r#""created_at":1763700000,"status":"{}","background":false,"error":null,"incomplete_details":null,"#,
                    r#""instructions":null,"max_output_tokens":null,"max_tool_calls":null,"model":"bench-1","output":[{}],"#,
                    r#""parallel_tool_calls":true,"previous_response_id":null,"prompt_cache_key":null,"#,
                    r#""reasoning":{{"effort":null,"summary":null}},"safety_identifier":null,"service_tier":"default","#,
                    r#""store":false,"temperature":1.0,"text":{{"format":{{"type":"text"}},"verbosity":"medium"}},"#,
                    r#""tool_choice":"auto","tools":[],"top_logprobs":0,"top_p":1.0,"truncation":"disabled","#,
                    r#""usage":{},"user":null,"metadata":{{}}}}"#
                ),
                status, output, usage
            ),
        )
    }

    fn event(&mut self, kind: &str, fields: &str) -> String {
        let mut event = String::with_capacity(fields.len() + 120);
        let sequence = self.sequence;
        self.sequence += 1;
        let _ = write!(
            event,
            "event: response.{kind}\ndata: {{\"type\":\"response.{kind}\",\"sequence_number\":{sequence},{fields}}}\n\n"
        );
        event
    }
}

fn item_id(prefix: &str, index: usize) -> String {
    format!("{prefix}_0684a1f2c3d4e5f600689f3a1b{index:024x}")
}
