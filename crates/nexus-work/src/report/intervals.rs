//! Estimates with their intervals.

use maud::{Markup, Render, html};

use super::{bars::shortened, text::Text};

/// One estimate.
#[derive(Clone, Debug)]
pub struct Estimate {
    /// Label of the estimate.
    pub label: String,
    /// The estimate. `None` without observations; then only the interval is drawn.
    pub value: Option<f64>,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// Estimate and interval as text, written beside the plot.
    pub shown: String,
}

/// Estimates on one scale, each a mark on the line of its interval.
#[derive(Clone, Debug)]
pub struct Intervals {
    /// Title with the unit and the confidence. Screen readers read it.
    pub title: String,
    /// Both ends of the scale.
    pub scale: (f64, f64),
    /// Estimates from top to bottom.
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
        // Draw values beyond the scale at its ends, and NaN at its beginning.
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
