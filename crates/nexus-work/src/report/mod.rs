//! Self-contained HTML reports: one file, without script, that loads nothing.
//!
//! A [`Page`] is a title and sections of markup, made by the macro of the crate [`maud`], which escapes every value. What comes from agents, models and files is put in as [`Text`],
//! [`Block`] or [`diff`]: escaped, with what a reader would not see written out. Plots are SVG in the page: [`Bars`],
//! [`Intervals`], [`TimeLine`].
//!
//! | what a browser is told | by |
//! | --- | --- |
//! | nothing is loaded, no script runs, no form is sent | `Content-Security-Policy: default-src 'none'; form-action 'none'; base-uri 'none'` in the page |
//! | this style sheet and no other | its hash in that policy; an attribute `style` has no effect |
//! | no address is told to whoever is linked | `referrer: no-referrer` |
//!
//! ```
//! use maud::html;
//! use nexus_work::report::{Page, Text};
//!
//! let page = Page::new("Sums").section("Goal", html! { p { (Text("</script><img src=x onerror=alert(1)>")) } }).render();
//! assert!(page.contains("&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;"));
//! ```

mod bars;
mod intervals;
mod page;
mod text;
mod time_line;

pub use bars::{Bar, Bars};
pub use intervals::{Estimate, Intervals};
pub use page::Page;
pub use text::{Block, Text, diff};
pub use time_line::{Span, SpanKind, TimeLine};
