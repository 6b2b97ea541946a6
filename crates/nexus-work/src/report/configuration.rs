//! Configuration with which a piece of work began.

use maud::{Markup, html};

use super::Text;
use crate::{TypeBindings, WorkspaceEvent};

/// Returns a table of the backends that were bound to each type when the work began, and the later changes. `None` if it
/// stored none.
pub fn configuration(events: &[WorkspaceEvent]) -> Option<Markup> {
    let before = TypeBindings::at_beginning(events)?;
    let changes = TypeBindings::latest(events).map(|now| now.changes_since(&before)).unwrap_or_default();
    Some(html! {
        table { @for (kind, words) in &before.types { tr { th { (Text(kind)) } td.long { (Text(words)) } } } }
        @if !changes.is_empty() {
            p { "It went on with another configuration:" }
            ul { @for change in &changes { li { (Text(change)) } } }
        }
    })
}
