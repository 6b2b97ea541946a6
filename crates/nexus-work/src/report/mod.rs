//! Self-contained HTML reports: one file, without scripts, that loads nothing.
//!
//! A [`Page`] is a title and sections of markup, written with the macro of the crate [`maud`], which escapes every value.
//! Content from agents, models and files is inserted as [`Text`], [`Block`] or [`diff`]: escaped, with invisible characters
//! written out. Plots are SVG in the page: [`Bars`], [`Intervals`], [`TimeLine`].
//!
//! | instruction to the browser | by |
//! | --- | --- |
//! | load nothing, run no script, send no form | `Content-Security-Policy: default-src 'none'; form-action 'none'; base-uri 'none'` in the page |
//! | use only this style sheet | its hash in that policy; an attribute `style` has no effect |
//! | send no address to linked sites | `referrer: no-referrer` |
//!
//! ```
//! use maud::html;
//! use nexus_work::report::{Page, Text};
//!
//! let page = Page::new("Sums").section("Goal", html! { p { (Text("</script><img src=x onerror=alert(1)>")) } }).render();
//! assert!(page.contains("&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;"));
//! ```

mod bars;
#[cfg(feature = "service")]
mod configuration;
mod intervals;
mod page;
mod text;
mod time_line;
mod usage;

pub use bars::{Bar, Bars};
#[cfg(feature = "service")]
pub use configuration::configuration;
pub use intervals::{Estimate, Intervals};
pub use page::Page;
pub use text::{Block, Text, diff};
pub use time_line::{Span, SpanKind, TimeLine, spoken_duration};
pub use usage::{cost_in_words, vendors_in_words};
