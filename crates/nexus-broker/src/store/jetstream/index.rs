//! Index of the messages of the stream, without their content. Every store has one in memory, in the order of
//! the stream.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use super::records::{Hash, MessageProgress, Put, Stage, StreamRecord};
use crate::store::check;

/// Message in the index.
#[derive(Clone, Debug)]
pub(super) struct IndexedMessage {
    /// Sequence number in the stream; it determines the place in the queue.
    pub(super) number: u64,
    pub(super) queue: Arc<str>,
    pub(super) priority: u8,
    pub(super) made_at: i64,
    pub(super) expires_at: Option<i64>,
    /// Sequence number of the last progress record. 0: no record exists.
    pub(super) revision: u64,
    /// Progress. `None`: never taken.
    pub(super) state: Option<MessageProgress>,
}

impl IndexedMessage {
    pub(super) fn is_held(&self, now: i64) -> bool {
        self.state.as_ref().is_some_and(|state| {
            state.stage == Stage::Taken && !check::has_lapsed(now, state.at, state.until)
        })
    }

    /// Returns true if the message was delivered and has not ended. Its lease may have lapsed.
    pub(super) fn is_taken(&self) -> bool {
        self.state.as_ref().is_some_and(|state| state.stage == Stage::Taken)
    }

    pub(super) fn is_expired(&self, now: i64) -> bool {
        self.expires_at.is_some_and(|expires_at| expires_at <= now)
    }

    pub(super) fn deliveries(&self) -> u64 {
        self.state.as_ref().map_or(0, |state| state.deliveries)
    }
}

/// Messages of one queue that have not ended, in their order.
#[derive(Debug, Default)]
struct QueueIndex {
    waiting: [BTreeMap<u64, Hash>; 4],
    taken: BTreeMap<u64, Hash>,
}

impl QueueIndex {
    fn open(&self) -> usize {
        self.waiting.iter().map(BTreeMap::len).sum::<usize>() + self.taken.len()
    }
}

/// Content of the stream up to a number.
#[derive(Debug, Default)]
pub(super) struct Index {
    entries: HashMap<Hash, IndexedMessage>,
    queues: BTreeMap<Arc<str>, QueueIndex>,
    /// Handled messages whose outcome is not completely put.
    finishing: BTreeSet<Hash>,
    /// Messages that are not delivered because they, or their outcomes, cannot be read.
    set_aside: BTreeSet<Hash>,
    /// Messages whose headers cannot be read, with their sequence numbers.
    unreadable: BTreeMap<Hash, u64>,
    /// Ended messages that may be forgotten later, by their end time.
    over: BTreeSet<(i64, Hash)>,
    /// Deleted documents that may be forgotten later, by their deletion time and sequence number.
    deleted: BTreeSet<(i64, u64)>,
}

/// An ended message or a deleted document that may be forgotten. Its sequence numbers are in the order in which the stream
/// messages are deleted.
#[derive(Debug)]
pub(super) struct Outdated {
    pub(super) numbers: Vec<u64>,
    /// Hash of the message. `None` for a document.
    pub(super) hash: Option<Hash>,
}

impl Index {
    /// Applies the message of the stream with this sequence number to the index.
    pub(super) fn apply(&mut self, number: u64, record: StreamRecord) {
        match record {
            StreamRecord::Put(hash, put) => self.put(number, hash, put),
            StreamRecord::State(hash, state) => self.change(number, hash, state),
            StreamRecord::UnreadablePut(hash) => {
                self.remove(hash);
                self.unreadable.insert(hash, number);
            }
            StreamRecord::UnreadableState(hash, of) => {
                let Some(entry) = self.entries.get(&hash) else { return };
                let (of, deliveries) = (of.unwrap_or(entry.number), entry.deliveries());
                let receipt = String::new();
                self.change(
                    number,
                    hash,
                    MessageProgress { stage: Stage::Unknown, of, receipt, deliveries, at: 0, until: 0 },
                );
            }
            StreamRecord::Deleted(at) => drop(self.deleted.insert((at, number))),
            StreamRecord::Other => {}
        }
    }

    fn put(&mut self, number: u64, hash: Hash, put: Put) {
        // The message may have been forgotten and put again, so remove the old entry.
        self.remove(hash);
        self.unreadable.remove(&hash);
        // Share one text for each queue: an index may have many thousand messages of it.
        let queue: Arc<str> = match self.queues.get_key_value(put.queue.as_str()) {
            Some((name, _)) => Arc::clone(name),
            None => put.queue.into(),
        };
        let entry = IndexedMessage {
            number,
            queue,
            priority: put.priority,
            made_at: put.made_at,
            expires_at: put.expires_at,
            revision: 0,
            state: None,
        };
        self.entries.insert(hash, entry);
        self.place(hash);
    }

    fn change(&mut self, number: u64, hash: Hash, state: MessageProgress) {
        // Ignore progress of an earlier message with the same id, and records that a repeated read delivers again.
        if !self.entries.get(&hash).is_some_and(|entry| entry.number == state.of && entry.revision < number) {
            return;
        }
        self.displace(hash);
        if let Some(entry) = self.entries.get_mut(&hash) {
            entry.revision = number;
            entry.state = Some(state);
        }
        self.place(hash);
    }

    /// Corrects the sequence number of the last progress record of a message, if that record describes an earlier message
    /// with the same id.
    pub(super) fn correct(&mut self, hash: Hash, revision: u64) {
        if let Some(entry) = self.entries.get_mut(&hash) {
            entry.revision = revision;
        }
    }

    /// Removes a message from the index.
    pub(super) fn remove(&mut self, hash: Hash) {
        self.displace(hash);
        self.entries.remove(&hash);
    }

    /// Removes something that was deleted from the stream, unless it has been put again since.
    pub(super) fn forget(&mut self, outdated: &Outdated) {
        if let Some(hash) = outdated.hash
            && self.entries.get(&hash).is_some_and(|entry| outdated.numbers.first() == Some(&entry.number))
        {
            self.remove(hash);
        }
    }

    fn place(&mut self, hash: Hash) {
        let Some(entry) = self.entries.get(&hash) else { return };
        if let Some(state) = entry.state.as_ref().filter(|state| state.is_over()) {
            match state.stage {
                Stage::Finishing => self.finishing.insert(hash),
                Stage::SetAside | Stage::Unknown => self.set_aside.insert(hash),
                _ => self.over.insert((state.at, hash)),
            };
            return;
        }
        let is_taken = entry.state.as_ref().is_some_and(|state| state.stage == Stage::Taken);
        let queue = self.queues.entry(Arc::clone(&entry.queue)).or_default();
        let places =
            if is_taken { &mut queue.taken } else { &mut queue.waiting[usize::from(entry.priority.min(3))] };
        places.insert(entry.number, hash);
    }

    fn displace(&mut self, hash: Hash) {
        let Some(entry) = self.entries.get(&hash) else { return };
        if let Some(state) = entry.state.as_ref().filter(|state| state.is_over()) {
            self.finishing.remove(&hash);
            self.set_aside.remove(&hash);
            self.over.remove(&(state.at, hash));
            return;
        }
        let name = Arc::clone(&entry.queue);
        let Some(queue) = self.queues.get_mut(&name) else { return };
        queue.taken.remove(&entry.number);
        for waiting in &mut queue.waiting {
            waiting.remove(&entry.number);
        }
        // Remove empty queues: their names come from addresses, so they could grow without a bound.
        if queue.open() == 0 {
            self.queues.remove(&name);
        }
    }

    pub(super) fn entry(&self, hash: Hash) -> Option<&IndexedMessage> {
        self.entries.get(&hash)
    }

    /// Returns the messages of a queue without a valid lease, in the order of delivery, including expired ones.
    pub(super) fn waiting(&self, queue: &str, now: i64) -> impl Iterator<Item = (Hash, &IndexedMessage)> {
        let found = self.queues.get(queue);
        // Lapsed leases are few. Merge them into the waiting messages, which are in order already.
        let lapsed: BTreeSet<(u8, u64, Hash)> = found
            .into_iter()
            .flat_map(|queue| queue.taken.values())
            .filter_map(|hash| {
                let entry = self.entries.get(hash).filter(|entry| !entry.is_held(now))?;
                Some((3 - entry.priority.min(3), entry.number, *hash))
            })
            .collect();
        (0..4_u8).flat_map(move |rank| {
            let waiting = found.map(|queue| &queue.waiting[usize::from(3 - rank)]);
            let mut waiting = waiting.into_iter().flatten().peekable();
            let mut lapsed: std::iter::Peekable<_> = lapsed
                .range((rank, 0, Hash::FIRST)..)
                .take_while(move |(of, _, _)| *of == rank)
                .map(|(_, number, hash)| (*number, *hash))
                .collect::<Vec<_>>()
                .into_iter()
                .peekable();
            std::iter::from_fn(move || match (waiting.peek(), lapsed.peek()) {
                (Some((number, _)), Some((other, _))) if *number > other => lapsed.next(),
                (None, _) => lapsed.next(),
                (Some(_), _) => waiting.next().map(|(number, hash)| (*number, *hash)),
            })
            .filter_map(|(_, hash)| Some((hash, self.entries.get(&hash)?)))
        })
    }

    /// Returns the number of messages of a queue that have not ended.
    pub(super) fn open(&self, queue: &str) -> usize {
        self.queues.get(queue).map_or(0, QueueIndex::open)
    }

    /// Returns every queue with messages that have not ended.
    pub(super) fn queues(&self) -> Vec<Arc<str>> {
        self.queues.keys().cloned().collect()
    }

    /// Returns the messages of a queue that were delivered and have not ended.
    pub(super) fn taken(&self, queue: &str) -> impl Iterator<Item = &IndexedMessage> {
        let taken = self.queues.get(queue).into_iter().flat_map(|queue| queue.taken.values());
        taken.filter_map(|hash| self.entries.get(hash))
    }

    /// Returns the handled messages whose outcome is not completely put.
    pub(super) fn finishing(&self) -> Vec<Hash> {
        self.finishing.iter().copied().collect()
    }

    /// Excludes a message whose outcome cannot be read, so that it is not tried again.
    pub(super) fn park(&mut self, hash: Hash) {
        if self.finishing.remove(&hash) {
            self.set_aside.insert(hash);
        }
    }

    /// Returns the messages that are not delivered because they, or their outcomes, cannot be read.
    pub(super) fn set_aside(&self) -> impl Iterator<Item = (Hash, &IndexedMessage)> {
        self.set_aside.iter().filter_map(|hash| Some((*hash, self.entries.get(hash)?)))
    }

    /// Returns the sequence numbers of messages whose headers cannot be read.
    pub(super) fn unreadable(&self) -> impl Iterator<Item = u64> {
        self.unreadable.values().copied()
    }

    /// Returns true if a message ended before this time.
    pub(super) fn is_outdated(&self, hash: Hash, before: i64) -> bool {
        self.entries.get(&hash).is_some_and(|entry| {
            entry.state.as_ref().is_some_and(|state| state.is_ended() && state.at < before)
        })
    }

    /// Returns the sequence numbers of a message, its progress record last. The record must be deleted last: without it the
    /// message would wait again.
    pub(super) fn numbers(&self, hash: Hash) -> Option<Outdated> {
        let entry = self.entries.get(&hash)?;
        Some(Outdated { numbers: vec![entry.number, entry.revision], hash: Some(hash) })
    }

    /// Removes and returns some messages and documents that ended before this time, oldest first.
    pub(super) fn outdated(&mut self, before: i64, at_most: usize) -> Vec<Outdated> {
        let mut found = Vec::new();
        while found.len() < at_most {
            match self.over.first() {
                Some((at, hash)) if *at < before => {
                    let hash = *hash;
                    found.extend(self.numbers(hash));
                    self.over.pop_first();
                }
                _ => break,
            }
        }
        while found.len() < at_most {
            match self.deleted.first() {
                Some((at, number)) if *at < before => {
                    found.push(Outdated { numbers: vec![*number], hash: None });
                    self.deleted.pop_first();
                }
                _ => break,
            }
        }
        found
    }
}
