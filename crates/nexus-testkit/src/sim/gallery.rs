//! Scenarios with a name, for a user at a terminal and for test suites.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::json;

use super::fault::{Cut, Fault, Lie, StatusFault};
use super::reply::{Finish, Odd, Reply};
use super::scenario::Scenario;
use super::tool_call::ToolCall;

/// A scenario with a name.
#[derive(Clone, Copy, Debug)]
pub struct Named {
    /// Name on the command line.
    pub name: &'static str,
    /// Short description.
    pub summary: &'static str,
    build: fn() -> Scenario,
}

impl Named {
    /// The script itself.
    pub fn scenario(&self) -> Scenario {
        (self.build)()
    }
}

/// Text before the fault. [`WHOLE`] is the text after a successful retry.
const HALF: &str = "This answer breaks off in the middle of a";
const WHOLE: &str = "This answer came whole.";

/// All scenarios with a name.
pub const GALLERY: &[Named] = &[
    named("text", "one short answer", || Scenario::text("Hello from the simulator.")),
    named("thinking", "thinking, then an answer", || {
        Reply::thinking("Let me think about it.").and_text("I have thought.").into()
    }),
    named("shell", "a shell command, then an answer", || {
        Scenario::tool_then_text(ToolCall::shell("echo from-the-shell"), "The shell answered.")
            .per_conversation()
    }),
    named("write", "a file is written, then an answer", || {
        Scenario::tool_then_text(
            ToolCall::write_file("simulated.txt", "written by the simulated model\n"),
            "The file is there.",
        )
        .per_conversation()
    }),
    named("parallel", "two shell commands at once, then an answer", || {
        Scenario::new([
            Reply::calls([ToolCall::shell("echo one"), ToolCall::shell("echo two")]),
            Reply::text("Both answered."),
        ])
        .per_conversation()
    }),
    named("json", "an answer that is a JSON object", || {
        Reply::json(&json!({"verdict": "approve", "reasons": ["it is simulated"]})).into()
    }),
    named("long", "an answer of 1 MiB", || Reply::long(1 << 20).into()),
    named("slow", "an answer of 6 s, a word now and then", || {
        Reply::text("Good things come to those who wait for them.")
            .paced(3, Duration::from_millis(400))
            .into()
    }),
    named("refusal", "the model refuses", || {
        Reply::text("I cannot help with that.").finish(Finish::Refusal).into()
    }),
    named("filtered", "the vendor's filter stops the answer", || {
        Reply::text(HALF).finish(Finish::ContentFilter).into()
    }),
    named("max-tokens", "the answer reaches the bound on output", || {
        Reply::text(HALF).finish(Finish::MaxTokens).into()
    }),
    named("context", "the conversation exceeds the window", || {
        Reply::empty().finish(Finish::ContextExceeded).into()
    }),
    named("empty", "the model says nothing", || Reply::empty().into()),
    named("odd", "an unknown event and a comment beside the answer", || {
        Reply::empty().and_odd(Odd::Comment).and_odd(Odd::Event).and_text(WHOLE).into()
    }),
    named("stall", "nothing, not even headers", || Reply::fault(Fault::StallBeforeHeaders).into()),
    named("stall-headers", "headers, then nothing", || Reply::fault(Fault::Stall { pings: false }).into()),
    named("stall-text", "half an answer, then nothing", || Reply::text(HALF).stalled().into()),
    named("stall-pings", "half an answer, then keep-alive only", || {
        Reply::text(HALF).stalled_with_pings().into()
    }),
    named("torn", "half an answer, then the connection closes; always", || {
        Reply::text(HALF).torn(Cut::Fin).into()
    }),
    named("torn-once", "half an answer, then the connection closes; whole at the second try", || {
        Scenario::new([Reply::text(HALF).torn(Cut::Fin), Reply::text(WHOLE)])
    }),
    named("torn-clean", "half an answer, then an end in good order without the last event", || {
        Reply::text(HALF).torn(Cut::CleanEnd).into()
    }),
    named("torn-reset", "half an answer, then the connection is reset", || {
        Reply::text(HALF).torn(Cut::Reset).into()
    }),
    named("reset", "the connection is reset before any header", || {
        Reply::fault(Fault::ResetBeforeHeaders).into()
    }),
    named("stream-error", "half an answer, then the stream reports an error", || {
        Reply::text(HALF).broken("server", "Simulated error in the stream.").into()
    }),
    named("stream-overloaded", "half an answer, then the stream reports overload", || {
        Reply::text(HALF).broken("overloaded", "Overloaded").into()
    }),
    named("invalid", "400", || Reply::status(400).into()),
    named("unauthorized", "401", || Reply::status(401).into()),
    named("forbidden", "403", || Reply::status(403).into()),
    named("missing", "404", || Reply::status(404).into()),
    named("too-large", "413", || Reply::status(413).into()),
    named("limited", "429 without a word about when", || Reply::status(429).into()),
    named("limited-2s", "429 with Retry-After of 2 s, once; then an answer", || {
        Scenario::new([Reply::fault(Fault::rate_limited(2)), Reply::text(WHOLE)])
    }),
    named("usage-limit", "429, the plan is used up for an hour", || {
        Reply::fault(Fault::usage_limit(in_an_hour())).into()
    }),
    named("server-error", "500", || Reply::status(500).into()),
    named("bad-gateway", "502 with a page of HTML", || Reply::fault(Fault::bad_gateway()).into()),
    named("unavailable", "503", || Reply::status(503).into()),
    named("overloaded", "the vendor's own way to say that it is overloaded", || {
        Reply::fault(Fault::overloaded()).into()
    }),
    named("html", "200 with a page of HTML", || Reply::fault(Fault::Html200).into()),
    named("garbage", "200 with events that are not JSON", || Reply::fault(Fault::Garbage).into()),
    named("edge", "403 with a page of HTML from the vendor's edge", || {
        Reply::fault(Fault::Html { status: 403 }).into()
    }),
    named("timeout", "408", || Reply::status(408).into()),
    named("limited-date", "429 with Retry-After as a date 2 s away, once; then an answer", || {
        Scenario::new([Reply::fault(Fault::rate_limited_until(2)), Reply::text(WHOLE)])
    }),
    named("no-retry", "500 with x-should-retry: false", || {
        let fault = StatusFault { should_retry: Some(false), ..StatusFault::new(500) };
        Reply::fault(Fault::Status(fault)).into()
    }),
    named("redirect", "307 to another host", || {
        // Nothing listens on port 9. A client that follows the redirect fails at once, without the real network.
        let location = "http://127.0.0.1:9/elsewhere/responses".into();
        Reply::fault(Fault::Redirect { status: 307, location }).into()
    }),
    named("gzip", "an answer compressed with gzip, wanted or not", || {
        with_fault(Reply::text(WHOLE), Fault::Gzip)
    }),
    named("json-error-200", "200 with a JSON error", || {
        let (code, message) = ("server_error".into(), "Simulated error with status 200.".into());
        Reply::fault(Fault::Error200 { code, message }).into()
    }),
    named("unstreamed", "200 with the whole answer in one JSON body", || {
        with_fault(Reply::text(WHOLE), Fault::Unstreamed)
    }),
    named("no-body", "200 with no body", || Reply::fault(Fault::Empty200).into()),
    named("torn-character", "half an answer, then the connection closes inside a character", || {
        with_fault(Reply::text(HALF), Fault::TornCharacter { cut: Cut::Fin })
    }),
    named("length-more", "an answer whose content length promises more than comes", || {
        with_fault(Reply::text(WHOLE), Fault::Length { lie: Lie::More })
    }),
    named("length-less", "an answer that goes on beyond its content length", || {
        with_fault(Reply::text(WHOLE), Fault::Length { lie: Lie::Less })
    }),
    named("huge-error", "500 with a body of 100 MB", || {
        Reply::fault(Fault::HugeBody { status: 500, bytes: 100_000_000 }).into()
    }),
    named("huge-event", "one event of 100 MB before the answer ends", || {
        with_fault(Reply::text(WHOLE), Fault::HugeEvent { bytes: 100_000_000 })
    }),
    named("flood", "text without end", || with_fault(Reply::text(HALF), Fault::Flood)),
    named("error-line", "half an answer, then an error as a bare line of the stream", || {
        let (code, message) = ("internal".into(), "Simulated error in a line.".into());
        with_fault(Reply::text(HALF), Fault::ErrorLine { code, message })
    }),
    named("search", "a search by the vendor itself, which needs no answer, then an answer", || {
        Reply::empty().and_odd(Odd::HostedSearch).and_text(WHOLE).into()
    }),
    named("loop-check", "the vendor's report that the answer goes round in a circle", || {
        Reply::text(WHOLE).and_odd(Odd::LoopCheck).into()
    }),
    named("same-id", "two shell commands under one call id, then an answer", || {
        let calls = Reply::calls([ToolCall::shell("echo one"), ToolCall::shell("echo two")]);
        Scenario::new([calls.call_id("call_twice"), Reply::text(WHOLE)]).per_conversation()
    }),
];

impl Scenario {
    /// The scenario called `name` in the [`GALLERY`].
    pub fn named(name: &str) -> Option<Self> {
        GALLERY.iter().find(|known| known.name == name).map(Named::scenario)
    }
}

fn with_fault(mut reply: Reply, fault: Fault) -> Scenario {
    reply.fault = Some(fault);
    reply.into()
}

const fn named(name: &'static str, summary: &'static str, build: fn() -> Scenario) -> Named {
    Named { name, summary, build }
}

fn in_an_hour() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs()) + 3600
}
