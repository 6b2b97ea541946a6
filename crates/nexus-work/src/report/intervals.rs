//! Estimates, each with the interval that it lies in.

use maud::{Markup, Render, html};

use super::{bars::shortened, text::Text};

/// One estimate.
#[derive(Clone, Debug)]
pub struct Estimate {
    /// Label of the interval.
    pub label: String,
    /// The estimate. `None` where nothing was seen; then the interval alone is drawn.
    pub value: Option<f64>,
    /// The lower end of its interval.
    pub low: f64,
    /// The upper end of its interval.
    pub high: f64,
    /// Both in words, as they are written beside it.
    pub shown: String,
}

/// Estimates on one scale, each a mark on the line of its interval.
#[derive(Clone, Debug)]
pub struct Intervals {
    /// Title with the unit and the confidence; a reader who does not see the plot hears it.
    pub title: String,
    /// The ends of the scale.
    pub scale: (f64, f64),
    /// In the order in which they are drawn, from the top.
    pub estimates: Vec<Estimate>,
}

const ROW: usize = 30;
const LEFT: f64 = 220.0;
const ROOM: f64 = 400.0;
const LABEL: usize = 32;
const SHOWN: usize = 40;
const TICKS: u32 = 4;

impl Render for Intervals {
    fn render(&self) -> Markup {
        let (from, to) = self.scale;
        let width = if to > from && (to - from).is_finite() { to - from } else { 1.0 };
        // NaN, and values beyond the scale, are at its end.
        let at = |value: f64| LEFT + ROOM * ((value - from) / width).clamp(0.0, 1.0).max(0.0);
        let height = self.estimates.len() * ROW + 30;
        html! {
            svg role="img" viewBox={ "0 0 900 " (height) } aria-label=(Text(&self.title)) {
                title { (Text(&self.title)) }
                @for tick in 0..=TICKS {
                    @let value = from + width * f64::from(tick) / f64::from(TICKS);
                    @let x = format!("{:.1}", at(value));
                    line class="grid" x1=(x) x2=(x) y1="4" y2=(height - 22) {}
                    text class="soft" x=(x) y=(height - 6) text-anchor="middle" { (format!("{value:.2}")) }
                }
                @for (row, estimate) in self.estimates.iter().enumerate() {
                    @let middle = row * ROW + 19;
                    @let (low, high) = (at(estimate.low), at(estimate.high));
                    text x=(LEFT - 8.0) y=(middle + 4) text-anchor="end" { (Text(&shortened(&estimate.label, LABEL))) }
                    rect class="bar" x=(format!("{low:.1}")) y=(middle - 1) width=(format!("{:.1}", (high - low).max(1.0))) height="3" {}
                    @if let Some(value) = estimate.value {
                        circle class="well" cx=(format!("{:.1}", at(value))) cy=(middle) r="6" {}
                    }
                    text class="soft" x=(LEFT + ROOM + 14.0) y=(middle + 4) { (Text(&shortened(&estimate.shown, SHOWN))) }
                }
            }
        }
    }
}
