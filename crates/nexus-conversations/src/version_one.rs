//! Conversations in version 1 of the files, which are read, forked, and converted at their next turn.

use std::path::{Path, PathBuf};

use crate::{
    conversation::ConversationTurn,
    conversation_error::ConversationError,
    name_file::NamedPlace,
    turn_file::{ConversationPoint, Node},
};

/// Turns of a conversation in version 1, newest first.
#[derive(Debug)]
pub(crate) struct TurnFileChain {
    folder: PathBuf,
    next: Option<ConversationPoint>,
    /// Numbers of turns and messages up to the next turn.
    expected: (u64, u64),
}

impl TurnFileChain {
    /// Returns the turns of a name. `folder` has the files of turns.
    pub(crate) fn of(folder: &Path, named: &NamedPlace) -> Self {
        let expected = (named.turns, named.messages);
        Self { folder: folder.to_owned(), next: named.place.clone(), expected }
    }

    fn node(&self, place: &ConversationPoint) -> Result<Node, ConversationError> {
        let node = Node::read(&self.folder, &place.node)?;
        let begins_well = node.parent.is_some() || (node.earlier_turns, node.earlier_messages) == (0, 0);
        if node.counts(place) != Some(self.expected) || !begins_well {
            let path = self.folder.join(format!("{}.json", place.node));
            return Err(ConversationError::damaged(&path, "its numbers of turns and messages are wrong"));
        }
        Ok(node)
    }

    fn step(&mut self) -> Result<Option<(ConversationPoint, Node)>, ConversationError> {
        let Some(place) = self.next.take() else { return Ok(None) };
        let node = self.node(&place)?;
        self.expected = (node.earlier_turns, node.earlier_messages);
        self.next.clone_from(&node.parent);
        Ok(Some((place, node)))
    }

    /// Returns the next earlier turn.
    pub(crate) fn turn(&mut self) -> Result<Option<ConversationTurn>, ConversationError> {
        Ok(self.step()?.map(|(place, node)| {
            let mut turn = node.turn;
            turn.messages.truncate(place.messages.unwrap_or(usize::MAX));
            turn
        }))
    }

    /// Returns the position of message `at`, with the numbers of turns and messages up to it.
    pub(crate) fn position_of(
        mut self,
        at: u64,
    ) -> Result<Option<(u64, u64, ConversationPoint)>, ConversationError> {
        while let Some((place, node)) = self.step()? {
            if at > node.earlier_messages {
                let kept = usize::try_from(at - node.earlier_messages).unwrap_or(usize::MAX);
                let messages = (kept < node.turn.messages.len()).then_some(kept);
                let point = ConversationPoint { node: place.node, messages };
                return Ok(Some((node.earlier_turns + 1, at, point)));
            }
        }
        Ok(None)
    }
}

/// Fails if the counts of turns and messages in a name's file at `path` differ from its last turn: an added turn could not be
/// read again. An unreadable last turn is reported when it is read.
pub(crate) fn check_counts(folder: &Path, path: &Path, named: &NamedPlace) -> Result<(), ConversationError> {
    let counts = (named.turns, named.messages);
    let is_right = match &named.place {
        None => counts == (0, 0),
        Some(place) => match Node::read(folder, &place.node) {
            Ok(node) => node.counts(place) == Some(counts),
            // A node that cannot be read is reported when its turns are read.
            Err(_) => true,
        },
    };
    if is_right { Ok(()) } else { Err(ConversationError::damaged(path, "its number of turns is wrong")) }
}
