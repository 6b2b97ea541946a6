//! Subjects that the server refused to this connection.
//!
//! The server reports a refusal as an event of the connection; the publish or subscribe call itself returns `Ok`.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use tokio::sync::Notify;

/// Maximum number of stored refusals. A request looks for refusals that arrived after it was sent.
const MAX_REFUSED: usize = 64;

/// Refusals of one connection.
#[derive(Default)]
pub(crate) struct RefusedSubjects {
    seen: Mutex<SeenRefusals>,
    changed: Notify,
}

#[derive(Default)]
struct SeenRefusals {
    /// Subjects of refused messages, each with the time of the refusal.
    publish: VecDeque<(Instant, String)>,
    /// Subjects of refused subscriptions. They stay refused as long as the connection exists.
    subscribe: VecDeque<String>,
}

/// A subject that the server refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RefusedSubject {
    Publish(String),
    Subscribe(String),
}

impl RefusedSubject {
    /// Parses `Permissions Violation for Publish to "…"`, or the same for `Subscription`, ignoring case.
    pub(crate) fn of(error: &str) -> Option<Self> {
        let subject = |word: &str| {
            let from = error.to_lowercase().find(word)? + word.len();
            Some(error.get(from..)?.split_once('"')?.0.to_owned())
        };
        let publish = subject("publish to \"").map(Self::Publish);
        publish.or_else(|| subject("subscription to \"").map(Self::Subscribe))
    }
}

impl RefusedSubjects {
    fn lock(&self) -> MutexGuard<'_, SeenRefusals> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, refused: RefusedSubject) {
        let mut seen = self.lock();
        match refused {
            RefusedSubject::Publish(subject) => {
                seen.publish.truncate(MAX_REFUSED - 1);
                seen.publish.push_front((Instant::now(), subject));
            }
            RefusedSubject::Subscribe(subject) if seen.subscribe.contains(&subject) => {}
            RefusedSubject::Subscribe(subject) => {
                seen.subscribe.truncate(MAX_REFUSED - 1);
                seen.subscribe.push_front(subject);
            }
        }
        // Unlock first, because the woken tasks take the lock.
        drop(seen);
        self.changed.notify_waiters();
    }

    /// Returns true if a subscription to this subject was refused.
    pub(crate) fn has_subscription(&self, subject: &str) -> bool {
        self.lock().subscribe.iter().any(|refused| refused == subject)
    }

    /// Waits until the server has refused a message on a subject that `is_ours` accepts after `since`, or the subscription to the
    /// inbox. Returns the subject.
    pub(crate) async fn next(&self, since: Instant, is_ours: impl Fn(&str) -> bool, inbox: &str) -> String {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            // Register before the check, so that a refusal in between is not missed.
            changed.as_mut().enable();
            if let Some(subject) = self.find(since, &is_ours, inbox) {
                return subject;
            }
            changed.await;
        }
    }

    /// Returns a refused subject of our request. The refusal stays stored, because it also concerns other requests on the
    /// subject.
    fn find(&self, since: Instant, is_ours: impl Fn(&str) -> bool, inbox: &str) -> Option<String> {
        let seen = self.lock();
        let publish = seen.publish.iter().find(|(at, subject)| *at >= since && is_ours(subject));
        let inbox = || seen.subscribe.iter().find(|subject| subject.starts_with(inbox));
        publish.map(|(_, subject)| subject).or_else(inbox).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_denial_names_its_subject() {
        let text = "nats: Permissions Violation for Publish to \"nexus.queue.builders.normal.eve\"";
        assert_eq!(
            RefusedSubject::of(text),
            Some(RefusedSubject::Publish("nexus.queue.builders.normal.eve".to_owned()))
        );
        let text = "permissions violation for subscription to \"_INBOX_eve.X.*\"";
        assert_eq!(RefusedSubject::of(text), Some(RefusedSubject::Subscribe("_INBOX_eve.X.*".to_owned())));
        for other in ["Authorization Violation", "publish to \"x", ""] {
            assert_eq!(RefusedSubject::of(other), None, "{other}");
        }
    }
}
