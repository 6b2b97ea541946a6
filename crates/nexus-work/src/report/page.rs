//! The HTML page of a report.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest as _, Sha256};

use super::text::Text;

/// The only style sheet, for light and dark, screen and paper. No information depends on colour alone.
const STYLE: &str = include_str!("style.css");

/// A report: a title, an introduction, and sections in order.
#[derive(Clone, Debug)]
pub struct Page {
    title: String,
    head: Option<Markup>,
    sections: Vec<(String, Markup)>,
}

impl Page {
    /// Creates a page with this title.
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), head: None, sections: Vec::new() }
    }

    /// Sets the content below the title.
    #[must_use]
    pub fn head(mut self, head: Markup) -> Self {
        self.head = Some(head);
        self
    }

    /// Adds a section. Its heading must be a text of Nexus.
    #[must_use]
    pub fn section(mut self, heading: impl Into<String>, content: Markup) -> Self {
        self.sections.push((heading.into(), content));
        self
    }

    /// Returns the page as HTML, in UTF-8.
    pub fn render(&self) -> String {
        // The policy allows this style sheet alone, so no text of an agent can load or restyle anything.
        let hash = BASE64_STANDARD.encode(Sha256::digest(STYLE));
        let policy =
            format!("default-src 'none'; style-src 'sha256-{hash}'; form-action 'none'; base-uri 'none'");
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta http-equiv="Content-Security-Policy" content=(policy);
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="referrer" content="no-referrer";
                    meta name="color-scheme" content="light dark";
                    title { (Text(&self.title)) }
                    style { (PreEscaped(STYLE)) }
                }
                body {
                    header { h1 { (Text(&self.title)) } @if let Some(head) = &self.head { (head) } }
                    @if self.sections.len() > 2 {
                        nav { ol { @for (number, (heading, _)) in self.sections.iter().enumerate() {
                            li { a href={ "#s" (number + 1) } { (Text(heading)) } }
                        } } }
                    }
                    main { @for (number, (heading, content)) in self.sections.iter().enumerate() {
                        section id={ "s" (number + 1) } { h2 { (Text(heading)) } (content) }
                    } }
                }
            }
        };
        page.into_string()
    }
}
