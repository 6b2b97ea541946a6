//! Horizontal bars, each with its number.

use maud::{Markup, Render, html};

use super::text::Text;

/// One bar.
#[derive(Clone, Debug)]
pub struct Bar {
    /// Label of the bar.
    pub label: String,
    /// Length of the bar; a negative value and NaN count as zero.
    pub value: f64,
    /// The number with its unit, written beside the bar.
    pub shown: String,
}

/// Bars with a common zero. The longest one fills the available width.
#[derive(Clone, Debug)]
pub struct Bars {
    /// Title with the unit. Screen readers read it.
    pub title: String,
    /// Bars from top to bottom.
    pub bars: Vec<Bar>,
}

const ROW: usize = 26;
const LEFT: f64 = 220.0;
const ROOM: f64 = 560.0;
/// Maximum length of a drawn label, in characters.
const LABEL: usize = 32;

impl Render for Bars {
    fn render(&self) -> Markup {
        let length = |bar: &Bar| if bar.value.is_finite() { bar.value.max(0.0) } else { 0.0 };
        let longest = self.bars.iter().map(length).fold(0.0, f64::max);
        let scale = if longest > 0.0 { ROOM / longest } else { 0.0 };
        let height = self.bars.len() * ROW + 8;
        html! {
            svg role="img" viewBox={ "0 0 900 " (height) } aria-label=(Text(&self.title)) {
                title { (Text(&self.title)) }
                @for (row, bar) in self.bars.iter().enumerate() {
                    @let top = row * ROW + 4;
                    @let width = length(bar) * scale;
                    text x=(LEFT - 8.0) y=(top + 16) text-anchor="end" { (Text(&shortened(&bar.label, LABEL))) }
                    rect class="bar" x=(LEFT) y=(top + 3) width=(format!("{width:.1}")) height=(ROW - 8) {}
                    text class="soft" x=(format!("{:.1}", LEFT + width + 6.0)) y=(top + 16) { (Text(&bar.shown)) }
                }
            }
        }
    }
}

/// Cuts a text to at most `most` characters. A cut text ends with an ellipsis.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some(_) => text.chars().take(most.saturating_sub(1)).chain(['\u{2026}']).collect(),
    }
}
