//! Items of a conversation as the loop and its wires use them.

use std::{
    hash::{DefaultHasher, Hash, Hasher as _},
    sync::Arc,
};

use nexus_core::{ToolContent, ToolResult};

pub(crate) use nexus_core::item::{Author, Item, ItemPart, Origin, Sealed};

use super::compaction::{dropped_in_note, note_text, summary_in_note, summary_text};

/// Text in place of an image that the server rejected.
pub(crate) const REFUSED_PICTURE: &str = "[a picture was here; the model's server rejected it]";

/// Text in place of the result of a call that was never answered.
pub(crate) const MISSING_RESULT: &str = "[this call has no result: it was not answered]";

/// Text before a result whose call is missing.
pub(crate) const LONE_RESULT: &str = "[the result of a call that is not in this conversation]";

/// Converts content of a tool's result; `None` if items have no such part.
fn content_part(content: &ToolContent) -> Option<ItemPart> {
    match content {
        ToolContent::Text { text } => Some(ItemPart::text(text)),
        ToolContent::Json { value } => Some(ItemPart::text(value.to_string())),
        ToolContent::Image { media_type, data } => {
            Some(ItemPart::Image { media_type: media_type.clone(), data: data.clone() })
        }
        _ => None,
    }
}

/// Returns the parts of a tool's result.
pub(crate) fn result_parts(result: &ToolResult) -> Vec<ItemPart> {
    result.content.iter().filter_map(content_part).collect()
}

/// Returns a hash of a result, which identifies repeated results.
pub(crate) fn result_hash(parts: &[ItemPart], is_error: bool) -> u64 {
    let mut hasher = DefaultHasher::new();
    (parts, is_error).hash(&mut hasher);
    hasher.finish()
}

/// Returns the texts of parts, joined by newlines.
pub(crate) fn joined_text(parts: &[ItemPart]) -> String {
    let texts = parts.iter().filter_map(|part| match part {
        ItemPart::Text { text } => Some(text.as_str()),
        ItemPart::Image { .. } => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// Stretch of a conversation: the user's messages, the model's reply, and the results of its calls.
#[derive(Debug, Default)]
pub(crate) struct Exchange<'a> {
    /// Messages of the user, and results whose call is missing.
    pub(crate) user: Vec<&'a Item>,
    /// Output of the model.
    pub(crate) model: Vec<&'a Item>,
    /// Results in the order of the calls.
    pub(crate) answers: Vec<CallAnswer<'a>>,
}

/// Result of a call, or the lack of one.
#[derive(Debug)]
pub(crate) struct CallAnswer<'a> {
    /// Id of the call.
    pub(crate) call: &'a str,
    /// Content of the result; `None` if the call was not answered.
    pub(crate) result: Option<(&'a [ItemPart], bool)>,
}

impl<'a> Exchange<'a> {
    fn is_waiting_for(&self, id: &str) -> bool {
        self.answers.iter().any(|answer| answer.call == id && answer.result.is_none())
    }

    fn has_results(&self) -> bool {
        self.answers.iter().any(|answer| answer.result.is_some())
    }

    /// Returns the exchanges of a conversation. Every call has an answer right after the reply, as wires require.
    pub(crate) fn all_of(items: &[&'a Item]) -> Vec<Self> {
        let mut done = Vec::new();
        let mut current = Self::default();
        for &item in items {
            let begins_next = match item {
                Item::Message { role: Author::User, .. } | Item::Compacted { .. } => {
                    !current.model.is_empty()
                }
                Item::Message { .. } | Item::Reasoning { .. } | Item::Call { .. } => current.has_results(),
                Item::Result { call, .. } => !current.is_waiting_for(call) && !current.model.is_empty(),
                _ => false,
            };
            if begins_next {
                done.push(std::mem::take(&mut current));
            }
            match item {
                Item::Message { role: Author::User, .. } | Item::Compacted { .. } => current.user.push(item),
                Item::Message { .. } | Item::Reasoning { .. } => current.model.push(item),
                Item::Call { id, .. } => {
                    current.model.push(item);
                    // Wires reject a call without an answer, so the call gets one even if its result is missing.
                    current.answers.push(CallAnswer { call: id, result: None });
                }
                Item::Result { call, parts, is_error, .. } => {
                    let open = |answer: &&mut CallAnswer<'_>| answer.call == call && answer.result.is_none();
                    match current.answers.iter_mut().find(open) {
                        Some(answer) => answer.result = Some((parts, *is_error)),
                        // Wires also reject a result without its call, so it becomes text of the user.
                        None => current.user.push(item),
                    }
                }
                _ => {}
            }
        }
        done.push(current);
        done
    }
}

/// Removes the form of another wire, server or model, which means nothing here. Returns false for reasoning of another
/// origin, of which nothing remains.
///
/// A message or a call of `origin` stays as it is.
pub(crate) fn adopt(item: &mut Arc<Item>, origin: &Origin) -> bool {
    match item.sealed() {
        Some(sealed) if sealed.origin != *origin => {
            if matches!(**item, Item::Reasoning { .. }) {
                return false;
            }
            // Copies the item only if another conversation shares it.
            Arc::make_mut(item).set_sealed(None);
            true
        }
        _ => true,
    }
}

/// Returns the parts of a user's item. A result without its call becomes text.
pub(crate) fn user_parts(item: &Item) -> Vec<std::borrow::Cow<'_, ItemPart>> {
    use std::borrow::Cow;
    match item {
        Item::Message { parts, .. } => parts.iter().map(Cow::Borrowed).collect(),
        Item::Result { parts, .. } => {
            let label = Cow::Owned(ItemPart::text(LONE_RESULT));
            std::iter::once(label).chain(parts.iter().map(Cow::Borrowed)).collect()
        }
        Item::Compacted { dropped, summary } => {
            note_parts(*dropped, summary.as_deref()).into_iter().map(Cow::Owned).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns the parts of a note about dropped items.
pub(crate) fn note_parts(dropped: u64, summary: Option<&str>) -> Vec<ItemPart> {
    let summary = summary.map(|summary| ItemPart::text(summary_text(summary)));
    std::iter::once(ItemPart::text(note_text(dropped))).chain(summary).collect()
}

/// Returns the note with these texts; `None` if they are no note.
pub(crate) fn note_of(texts: &[&str]) -> Option<Item> {
    let (dropped, summary) = match texts {
        [note] => (dropped_in_note(note)?, None),
        [note, summary] => (dropped_in_note(note)?, Some(summary_in_note(summary)?.to_owned())),
        _ => return None,
    };
    Some(Item::Compacted { dropped, summary })
}

/// Returns the summaries in the notes among `items`, which a later note replaces.
pub(crate) fn summaries_of(items: &[Arc<Item>]) -> Option<String> {
    let summaries = items.iter().filter_map(|item| match &**item {
        Item::Compacted { summary, .. } => summary.as_deref(),
        _ => None,
    });
    let summaries: Vec<_> = summaries.collect();
    (!summaries.is_empty()).then(|| summaries.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(text: &str) -> Item {
        Item::message(Author::User, vec![ItemPart::text(text)])
    }

    fn call(id: &str) -> Item {
        Item::call(id, "add", "{}")
    }

    fn result(id: &str) -> Item {
        Item::result(id, vec![ItemPart::text(id)], false)
    }

    #[test]
    fn every_call_is_answered_right_after_its_reply() {
        let items = [user("a"), call("1"), call("2"), result("2"), user("b"), result("9"), call("3")];
        let exchanges = Exchange::all_of(&items.iter().collect::<Vec<_>>());
        let seen: Vec<_> = exchanges
            .iter()
            .map(|exchange| {
                let answers: Vec<_> =
                    exchange.answers.iter().map(|answer| (answer.call, answer.result.is_some())).collect();
                (exchange.user.len(), exchange.model.len(), answers)
            })
            .collect();
        assert_eq!(seen, [(1, 2, vec![("1", false), ("2", true)]), (2, 1, vec![("3", false)])]);
    }
}
