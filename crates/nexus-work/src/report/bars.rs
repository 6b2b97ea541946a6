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

/// Bars with a common zero. The longest one fills the width that the longest number leaves.
#[derive(Clone, Debug)]
pub struct Bars {
    /// Title with the unit. Screen readers read it.
    pub title: String,
    /// Bars from top to bottom.
    pub bars: Vec<Bar>,
}

const ROW: usize = 26;
/// Width of the plot, and the start of its bars.
const WIDTH: f64 = 900.0;
const LEFT: f64 = 220.0;
/// Space between a bar and its number.
const GAP: f64 = 6.0;
/// Width that a character of a number takes at most. Source: 12 px sans-serif, rounded up from 7.
const CHARACTER: f64 = 7.5;
/// Longest number that is drawn whole. Longer ones are cut, so that bars remain visible.
const SHOWN: usize = 60;
/// Maximum length of a drawn label, in characters.
const LABEL: usize = 32;

impl Render for Bars {
    fn render(&self) -> Markup {
        // An infinite value or NaN would spoil the scale of all bars.
        let length = |bar: &Bar| if bar.value.is_finite() { bar.value.max(0.0) } else { 0.0 };
        let longest = self.bars.iter().map(length).fold(0.0, f64::max);
        let shown: Vec<String> = self.bars.iter().map(|bar| shortened(&bar.shown, SHOWN)).collect();
        let characters = shown.iter().map(|shown| shown.chars().count()).max().unwrap_or_default();
        let room = WIDTH - LEFT - GAP - characters as f64 * CHARACTER;
        let scale = if longest > 0.0 { room / longest } else { 0.0 };
        let height = self.bars.len() * ROW + 8;
        html! {
            svg role="img" viewBox={ "0 0 900 " (height) } aria-label=(Text(&self.title)) {
                title { (Text(&self.title)) }
                @for (row, (bar, shown)) in self.bars.iter().zip(&shown).enumerate() {
                    @let top = row * ROW + 4;
                    @let width = length(bar) * scale;
                    text x=(LEFT - 8.0) y=(top + 16) text-anchor="end" { (Text(&shortened(&bar.label, LABEL))) }
                    rect class="bar" x=(LEFT) y=(top + 3) width=(format!("{width:.1}")) height=(ROW - 8) {}
                    text class="soft" x=(format!("{:.1}", LEFT + width + GAP)) y=(top + 16) { (Text(shown)) }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_the_longest_bar_fits_beside_it() {
        let bar = |value, shown: &str| Bar { label: "phase".into(), value, shown: shown.into() };
        for shown in ["1", "720 tokens, $0.0180", &"a number of very many words ".repeat(9)] {
            let bars = Bars { title: "Tokens".into(), bars: vec![bar(720.0, shown), bar(1.0, "1")] };
            let svg = bars.render().into_string();
            let number = svg.split("<text class=\"soft\" x=\"").nth(1).unwrap();
            let (x, rest) = number.split_once('"').unwrap();
            let text = rest.split_once('>').unwrap().1.split('<').next().unwrap();
            let end = x.parse::<f64>().unwrap() + text.chars().count() as f64 * CHARACTER;
            assert!(end <= WIDTH + 0.1, "{text:?} ends at {end}");
            let width = svg.split(" width=\"").nth(1).unwrap().split('"').next().unwrap();
            assert!(width.parse::<f64>().unwrap() > 100.0, "the bar of {text:?} is {width} wide");
        }
    }
}
