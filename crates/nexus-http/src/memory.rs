//! Limits the memory of request bodies: of their bytes while they arrive, and of their JSON values until the handler is
//! done.
//!
//! Each body has a small reserve of its own, so that a small request never waits for others. All connections share the
//! rest.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Memory that all bodies share, in addition to [`OWN_BYTES`] of each, in bytes. Source: our own bound.
const SHARED_BYTES: usize = 64 << 20;

/// Maximum memory for one body, in bytes. Source: our own bound: two bodies of this size fit at once.
const MAX_BODY_BYTES: usize = SHARED_BYTES / 2;

/// Memory that each body may use before it takes from the shared memory, in bytes. Source: our own bound, above the
/// size of most requests.
const OWN_BYTES: usize = 64 << 10;

/// Memory of one item besides its text, in bytes. The worst cases are a list that has just doubled its capacity and a map
/// with half-empty nodes. Source: the sizes of a JSON value (32) and of a map node (about 650, for eleven items), rounded
/// up.
const ITEM_BYTES: usize = 192;

/// Memory of a map with one field, in bytes. Source: the size of a map node, rounded up.
const MAP_BYTES: usize = 768;

/// The memory of one server's request bodies.
#[derive(Debug)]
pub struct BodyMemory(Arc<Semaphore>);

/// Memory permit of one body. Its drop returns the memory.
#[derive(Debug)]
pub struct MemoryPermit {
    memory: Arc<Semaphore>,
    bytes: usize,
    shared: Option<OwnedSemaphorePermit>,
}

/// Error for a body that needs more memory than one body may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyTooLarge;

impl Default for BodyMemory {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(SHARED_BYTES)))
    }
}

impl BodyMemory {
    /// Returns the permit for a body of which nothing has arrived yet.
    pub fn permit(&self) -> MemoryPermit {
        MemoryPermit { memory: Arc::clone(&self.0), bytes: 0, shared: None }
    }
}

impl MemoryPermit {
    /// Waits until the body may use `bytes` bytes in total.
    ///
    /// # Errors
    ///
    /// `bytes` exceeds the limit for one body.
    pub async fn grow_to(&mut self, bytes: usize) -> Result<(), BodyTooLarge> {
        if bytes > MAX_BODY_BYTES {
            return Err(BodyTooLarge);
        }
        let shared = |bytes: usize| bytes.saturating_sub(OWN_BYTES);
        let more =
            u32::try_from(shared(bytes).saturating_sub(shared(self.bytes))).map_err(|_| BodyTooLarge)?;
        if more > 0 {
            let permit = Arc::clone(&self.memory).acquire_many_owned(more).await.map_err(|_| BodyTooLarge)?;
            match &mut self.shared {
                Some(shared) => shared.merge(permit),
                shared => *shared = Some(permit),
            }
        }
        self.bytes = self.bytes.max(bytes);
        Ok(())
    }

    /// Waits until the body may be parsed as JSON.
    ///
    /// # Errors
    ///
    /// The values would exceed the limit for one body.
    pub async fn grow_to_json(&mut self, text: &[u8]) -> Result<(), BodyTooLarge> {
        self.grow_to(json_bytes(text)).await
    }
}

/// Returns an upper estimate of the memory of a parsed JSON text, in bytes.
fn json_bytes(text: &[u8]) -> usize {
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
        assert_eq!(json_bytes(br#"{"a":"[,{\"[,{"}"#), 16 + MAP_BYTES);
        assert_eq!(json_bytes(b"[0,0,0]"), 7 + 3 * ITEM_BYTES);
        assert_eq!(json_bytes(br#"["\\",1]"#), 8 + 2 * ITEM_BYTES);
    }

    #[tokio::test(start_paused = true)]
    async fn a_small_body_waits_for_no_other() {
        let memory = BodyMemory::default();
        let (mut one, mut other, mut third) = (memory.permit(), memory.permit(), memory.permit());
        one.grow_to(MAX_BODY_BYTES).await.unwrap();
        other.grow_to(MAX_BODY_BYTES).await.unwrap();
        third.grow_to(OWN_BYTES).await.unwrap();
        // Two of the largest bodies leave their own amounts to others.
        third.grow_to(3 * OWN_BYTES).await.unwrap();
        let more = tokio::time::timeout(Duration::from_secs(1), third.grow_to(4 * OWN_BYTES));
        assert!(more.await.is_err(), "more memory than there is");
        drop(one);
        third.grow_to(4 * OWN_BYTES).await.unwrap();
        drop((other, third));
        assert_eq!(memory.0.available_permits(), SHARED_BYTES);
    }

    #[tokio::test]
    async fn no_body_takes_all() {
        assert!(BodyMemory::default().permit().grow_to(MAX_BODY_BYTES + 1).await.is_err());
    }
}
