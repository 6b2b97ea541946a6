//! A list of items that several handles share.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Item;
use crate::redact::Redactor;

/// Items of a conversation, oldest first. Clones, and lists that continue each other, share their items, so a handle of
/// each turn costs no copy of the conversation.
#[derive(Clone, Debug, Default)]
pub struct ItemList(Option<Arc<[Arc<Item>]>>);

impl ItemList {
    /// Returns the items.
    pub fn items(&self) -> &[Arc<Item>] {
        self.0.as_deref().unwrap_or_default()
    }

    /// Returns true if the list has no items.
    pub fn is_empty(&self) -> bool {
        self.items().is_empty()
    }

    /// Returns the number of items at the beginning that are equal in both lists. Shared items are not compared by content.
    pub fn equal_beginning(&self, other: &Self) -> usize {
        let pairs = self.items().iter().zip(other.items());
        pairs.take_while(|(one, other)| is_equal(one, other)).count()
    }

    /// Returns the list without the secrets that `redactor` knows; `None` if it contains none. Items without secrets stay
    /// shared.
    #[must_use]
    pub fn without_secrets(&self, redactor: &Redactor) -> Option<Self> {
        self.without_secrets_from(0, redactor)
    }

    /// Like [`without_secrets`](Self::without_secrets), but searches only the items after the first `known` ones.
    #[must_use]
    pub fn without_secrets_from(&self, known: usize, redactor: &Redactor) -> Option<Self> {
        let new = self.items().iter().enumerate().skip(known);
        let mut changed = new
            .filter_map(|(index, item)| item.without_secrets(redactor).map(|clean| (index, clean)))
            .peekable();
        // Copy the list only if an item changes.
        changed.peek()?;
        let mut items = self.items().to_vec();
        for (index, clean) in changed {
            if let Some(item) = items.get_mut(index) {
                *item = Arc::new(clean);
            }
        }
        Some(items.into())
    }
}

impl From<Vec<Arc<Item>>> for ItemList {
    fn from(items: Vec<Arc<Item>>) -> Self {
        Self((!items.is_empty()).then(|| items.into()))
    }
}

impl FromIterator<Item> for ItemList {
    fn from_iter<I: IntoIterator<Item = Item>>(items: I) -> Self {
        items.into_iter().map(Arc::new).collect::<Vec<_>>().into()
    }
}

impl PartialEq for ItemList {
    fn eq(&self, other: &Self) -> bool {
        let (one, other) = (self.items(), other.items());
        // Lists of one conversation usually share their items, so pointers are compared before contents.
        one.len() == other.len()
            && (std::ptr::eq(one, other) || one.iter().zip(other).all(|(one, other)| is_equal(one, other)))
    }
}

fn is_equal(one: &Arc<Item>, other: &Arc<Item>) -> bool {
    Arc::ptr_eq(one, other) || one == other
}

impl Serialize for ItemList {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.items().iter().map(|item| &**item))
    }
}

impl<'de> Deserialize<'de> for ItemList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::<Item>::deserialize(deserializer).map(Self::from_iter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::{Author, ItemPart};

    fn said(text: &str) -> Item {
        Item::message(Author::User, vec![ItemPart::text(text)])
    }

    #[test]
    fn lists_that_continue_each_other_share_their_items() {
        let first: ItemList = [said("a"), said("b")].into_iter().collect();
        let mut longer = first.items().to_vec();
        longer.push(Arc::new(said("the swordfish")));
        let longer = ItemList::from(longer);
        assert_eq!((longer.equal_beginning(&first), first == longer), (2, false));
        let clean = longer.without_secrets(&Redactor::new(["swordfish"])).unwrap();
        assert!(Arc::ptr_eq(&clean.items()[1], &first.items()[1]));
        assert_eq!(clean.equal_beginning(&longer), 2);
        assert_eq!(longer.without_secrets_from(3, &Redactor::new(["swordfish"])), None);
        let read: ItemList = serde_json::from_str(&serde_json::to_string(&longer).unwrap()).unwrap();
        assert_eq!((read == longer, read.equal_beginning(&longer)), (true, 3));
    }
}
