//! Spans of time, on lines one above the other.

use std::time::Duration;

use maud::{Markup, Render, html};

use super::{bars::shortened, text::Text};

/// Something that took a while.
#[derive(Clone, Debug)]
pub struct Span {
    /// The line that it is drawn on; spans of one name share it.
    pub lane: String,
    /// Label, shown where the pointer rests on it.
    pub label: String,
    /// Beginning, after the beginning of the time line.
    pub began: Duration,
    /// Duration.
    pub took: Duration,
    /// End of the span.
    pub kind: SpanKind,
}

/// End of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// Well.
    Well,
    /// Badly.
    Failed,
    /// Unknown: it was interrupted, or continues.
    Open,
}

/// Spans over time. What overlaps on one line is drawn over it.
#[derive(Clone, Debug)]
pub struct TimeLine {
    /// Title; a reader who does not see the plot hears it.
    pub title: String,
    /// The spans; lanes are drawn in the order in which they come first.
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
                    text class="soft" x=(at(time)) y=(foot + 16) text-anchor=(anchor(tick)) { (spoken(time)) }
                }
                @for (row, lane) in lanes.iter().enumerate() {
                    text x=(LEFT - 8.0) y=(row * ROW + 18) text-anchor="end" { (Text(&shortened(lane, LABEL))) }
                    @for span in self.spans.iter().filter(|span| span.lane == **lane) {
                        @let width = (span.took.as_secs_f64() * scale).max(2.0);
                        rect class=(class(span.kind)) x=(at(span.began)) y=(row * ROW + 5)
                            width=(format!("{width:.1}")) height=(ROW - 8) {
                            title { (Text(&span.label)) ", " (spoken(span.took)) (ending(span.kind)) }
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

/// A time as people say it: `850 ms`, `4.2 s`, `3 min 5 s`.
fn spoken(time: Duration) -> String {
    match time.as_secs() {
        0 => format!("{} ms", time.as_millis()),
        seconds @ 1..=59 => format!("{seconds}.{} s", time.subsec_millis() / 100),
        seconds @ 60..=3_599 => format!("{} min {} s", seconds / 60, seconds % 60),
        seconds => format!("{} h {} min", seconds / 3_600, seconds / 60 % 60),
    }
}
