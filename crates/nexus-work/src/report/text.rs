//! Text by other authors: escaped, with invisible characters made visible.

use maud::{Markup, Render, html};
use nexus_core::visible::Visible;

/// A text on one line of the page. Invisible characters and line ends are written out.
#[derive(Clone, Copy, Debug)]
pub struct Text<'t>(pub &'t str);

impl Render for Text<'_> {
    fn render(&self) -> Markup {
        html! { (Visible(self.0).to_string()) }
    }
}

/// A text of several lines, shown unchanged.
#[derive(Clone, Copy, Debug)]
pub struct Block<'t>(pub &'t str);

impl Render for Block<'_> {
    fn render(&self) -> Markup {
        html! { pre { @for line in self.0.lines() { (whole_line(line)) "\n" } } }
    }
}

/// Formats a patch in git's format, with added and removed lines marked.
pub fn diff(patch: &str) -> Markup {
    let class = |line: &str| match line.as_bytes().first() {
        // Headers are tested first, because `+++` and `---` begin like changed lines.
        _ if ["+++ ", "--- ", "diff ", "index "].iter().any(|head| line.starts_with(head)) => "soft",
        Some(b'+') => "add",
        Some(b'-') => "del",
        Some(b'@') => "hunk",
        _ => "",
    };
    html! { pre { @for line in patch.lines() {
        @match class(line) {
            "" => { (whole_line(line)) }
            class => { span class=(class) { (whole_line(line)) } }
        }
        "\n"
    } } }
}

/// Formats a line and keeps its tabs.
fn whole_line(line: &str) -> Markup {
    html! { @for (index, part) in line.split('\t').enumerate() { @if index > 0 { "\t" } (Text(part)) } }
}
