//! Spans of time, drawn on parallel lanes.

use std::time::Duration;

use maud::{Markup, Render, html};

use super::{bars::shortened, text::Text};

/// A span of time.
#[derive(Clone, Debug)]
pub struct Span {
    /// Lane of the span. Spans with the same name share a lane.
    pub lane: String,
    /// Label, shown while the pointer is on the span.
    pub label: String,
    /// Time from the beginning of the time line to the beginning of the span.
    pub began: Duration,
    /// Duration.
    pub took: Duration,
    /// Kind of its end.
    pub kind: SpanKind,
}

/// Kind of a span's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// The work succeeded.
    Well,
    /// The work failed.
    Failed,
    /// Unknown: the work was interrupted, or continues.
    Open,
}

/// Spans over time. On one lane, a later span is drawn over an earlier one.
#[derive(Clone, Debug)]
pub struct TimeLine {
    /// Title. Screen readers read it.
    pub title: String,
    /// The spans. Lanes are drawn in the order of their first spans.
    pub spans: Vec<Span>,
}

const ROW: usize = 26;
const LEFT: f64 = 220.0;
const ROOM: f64 = 660.0;
const LABEL: usize = 32;
const TICKS: u32 = 4;

impl Render for TimeLine {
    fn render(&self) -> Markup {
        let mut lanes: Vec<&str> = Vec::new();
        for span in &self.spans {
            if !lanes.contains(&&*span.lane) {
                lanes.push(&span.lane);
            }
        }
        let end =
            self.spans.iter().map(|span| span.began.saturating_add(span.took)).max().unwrap_or_default();
        let scale = if end.is_zero() { 0.0 } else { ROOM / end.as_secs_f64() };
        let at = |time: Duration| format!("{:.1}", LEFT + time.as_secs_f64() * scale);
        let foot = lanes.len() * ROW + 4;
        html! {
            svg role="img" viewBox={ "0 0 900 " (foot + 22) } aria-label=(Text(&self.title)) {
                title { (Text(&self.title)) }
                @for tick in 0..=TICKS {
                    @let part = end.as_secs_f64() * f64::from(tick) / f64::from(TICKS);
                    @let time = Duration::try_from_secs_f64(part).unwrap_or(end);
                    line class="grid" x1=(at(time)) x2=(at(time)) y1="0" y2=(foot) {}
                    text class="soft" x=(at(time)) y=(foot + 16) text-anchor=(anchor(tick)) { (spoken_duration(time)) }
                }
                @for (row, lane) in lanes.iter().enumerate() {
                    text x=(LEFT - 8.0) y=(row * ROW + 18) text-anchor="end" { (Text(&shortened(lane, LABEL))) }
                    @for span in self.spans.iter().filter(|span| span.lane == **lane) {
                        @let width = (span.took.as_secs_f64() * scale).max(2.0);
                        rect class=(class(span.kind)) x=(at(span.began)) y=(row * ROW + 5)
                            width=(format!("{width:.1}")) height=(ROW - 8) {
                            title { (Text(&span.label)) ", " (spoken_duration(span.took)) (ending(span.kind)) }
                        }
                    }
                }
            }
        }
    }
}

fn anchor(tick: u32) -> &'static str {
    match tick {
        0 => "start",
        TICKS => "end",
        _ => "middle",
    }
}

fn class(kind: SpanKind) -> &'static str {
    match kind {
        SpanKind::Well => "well",
        SpanKind::Failed => "failed",
        SpanKind::Open => "open",
    }
}

fn ending(kind: SpanKind) -> &'static str {
    match kind {
        SpanKind::Well => "",
        SpanKind::Failed => ", failed",
        SpanKind::Open => ", end not known",
    }
}

/// Formats a duration for people: `850 ms`, `4.2 s`, `3 min 5 s`.
pub fn spoken_duration(time: Duration) -> String {
    match time.as_secs() {
        0 => format!("{} ms", time.as_millis()),
        seconds @ 1..=59 => format!("{seconds}.{} s", time.subsec_millis() / 100),
        seconds @ 60..=3_599 => format!("{} min {} s", seconds / 60, seconds % 60),
        seconds => format!("{} h {} min", seconds / 3_600, seconds / 60 % 60),
    }
}
