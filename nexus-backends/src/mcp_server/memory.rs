//! The memory that messages take: as bytes while they come, and as JSON values until their calls have ended.
//!
//! A message is a connection's own as long as it is small, so that whoever says little is never held up by others. What
//! is beyond that all connections share.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How much of messages is held at once beyond what each connection has for itself, in bytes. Source: our own bound.
const SHARED_BYTES: usize = 64 << 20;

/// Most that one message may take, in bytes. Source: our own bound: two of the largest are held at once, and the largest
/// body fits if it is mostly text.
const MAX_MESSAGE_BYTES: usize = SHARED_BYTES / 2;

/// What every connection may hold without asking, in bytes. Source: our own bound, above what most calls take.
const OWN_BYTES: usize = 64 << 10;

/// What an item takes beside its text, in bytes: in a list that has just grown to twice its size, or in a map whose nodes
/// are half empty. Source: the sizes of a JSON value (32) and of a node of a map (about 650, for eleven), rounded up.
const ITEM_BYTES: usize = 192;

/// What a map takes that has one field, in bytes. Source: the size of a node, rounded up.
const MAP_BYTES: usize = 768;

/// The memory of one server.
#[derive(Debug)]
pub(super) struct MessageMemory(Arc<Semaphore>);

/// What one message holds of it, until this is dropped.
#[derive(Debug)]
pub(super) struct MemoryPermit {
    memory: Arc<Semaphore>,
    bytes: usize,
    shared: Option<OwnedSemaphorePermit>,
}

/// There will never be that much.
#[derive(Debug)]
pub(super) struct MessageTooLarge;

impl MessageMemory {
    pub(super) fn new() -> Self {
        Self(Arc::new(Semaphore::new(SHARED_BYTES)))
    }

    /// For a message of which nothing has come yet.
    pub(super) fn hold(&self) -> MemoryPermit {
        MemoryPermit { memory: Arc::clone(&self.0), bytes: 0, shared: None }
    }
}

impl MemoryPermit {
    /// Waits until the message may take so much in all.
    pub(super) async fn grow_to(&mut self, bytes: usize) -> Result<(), MessageTooLarge> {
        if bytes > MAX_MESSAGE_BYTES {
            return Err(MessageTooLarge);
        }
        let shared = |bytes: usize| bytes.saturating_sub(OWN_BYTES);
        let more =
            u32::try_from(shared(bytes).saturating_sub(shared(self.bytes))).map_err(|_| MessageTooLarge)?;
        if more > 0 {
            let permit =
                Arc::clone(&self.memory).acquire_many_owned(more).await.map_err(|_| MessageTooLarge)?;
            match &mut self.shared {
                Some(shared) => shared.merge(permit),
                shared => *shared = Some(permit),
            }
        }
        self.bytes = self.bytes.max(bytes);
        Ok(())
    }
}

/// How much memory a text of JSON takes once it is read, in bytes: not less, as far as it can be told without reading it.
pub(super) fn read_bytes(text: &[u8]) -> usize {
    let mut bytes = text.len();
    let (mut is_string, mut is_escaped) = (false, false);
    for byte in text {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_string => is_escaped = true,
            b'"' => is_string = !is_string,
            b',' | b'[' if !is_string => bytes = bytes.saturating_add(ITEM_BYTES),
            b'{' if !is_string => bytes = bytes.saturating_add(MAP_BYTES),
            _ => {}
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn structure_weighs_and_text_does_not() {
        assert_eq!(read_bytes(br#"{"a":"[,{\"[,{"}"#), 16 + MAP_BYTES);
        assert_eq!(read_bytes(b"[0,0,0]"), 7 + 3 * ITEM_BYTES);
        assert_eq!(read_bytes(br#"["\\",1]"#), 8 + 2 * ITEM_BYTES);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_says_little_waits_for_nobody() {
        let memory = MessageMemory::new();
        let (mut one, mut other, mut third) = (memory.hold(), memory.hold(), memory.hold());
        one.grow_to(MAX_MESSAGE_BYTES).await.unwrap();
        other.grow_to(MAX_MESSAGE_BYTES).await.unwrap();
        third.grow_to(OWN_BYTES).await.unwrap();
        // Beyond what each has for itself, two messages leave as much as they have for themselves.
        third.grow_to(3 * OWN_BYTES).await.unwrap();
        let more = tokio::time::timeout(Duration::from_secs(1), third.grow_to(4 * OWN_BYTES));
        assert!(more.await.is_err(), "there is more than there is");
        drop(one);
        third.grow_to(4 * OWN_BYTES).await.unwrap();
        drop((other, third));
        assert_eq!(memory.0.available_permits(), SHARED_BYTES);
    }

    #[tokio::test]
    async fn no_message_takes_all() {
        assert!(MessageMemory::new().hold().grow_to(MAX_MESSAGE_BYTES + 1).await.is_err());
    }
}
