//! The line in which a fresher token is waited for.
//!
//! The tasks of one process stand behind each other, and the first of them looks at the lock often, the others seldom:
//! with 16 processes of 20 tasks, 16 look often. Whoever's turn it is looks at the store first, and most of the time
//! that is all.
//!
//! A future that waits may not be polled for long, without being dropped. So none of them ever holds the lock: that
//! is taken by a task, which is always polled, and goes on to renew the login.

use std::time::Duration;

use nexus_core::{Credential, CredentialError};
use tokio::time::{Instant, timeout};

use super::{
    chain::{Chain, LONGEST_WAIT, a_moment, named, unusable},
    judgement::{self, Wish},
    renewal::{Held, Renewal},
    under_way::UnderWay,
};
use crate::{
    lock::{LockAttempt, LockHolder},
    store::StoredLogin,
};

/// How long somebody stands in line before looking at the lock in spite of not being the first.
const PATIENCE: Duration = Duration::from_secs(1);

/// What came of one try.
enum Tried {
    /// The login was renewed, or could not be.
    Over(Result<Option<Credential>, CredentialError>),
    /// Somebody else has the lock, or has taken it away before anything was spent.
    Busy(Option<LockHolder>),
    /// Nobody could try.
    Failed(CredentialError),
}

impl Chain {
    /// Waits for whoever renews the login, or does it.
    pub(super) async fn wait_in_line(
        &self,
        wish: &Wish,
        mut at_hand: StoredLogin,
    ) -> Result<Option<Credential>, CredentialError> {
        let deadline = Instant::now() + LONGEST_WAIT;
        let mut first = self.desk.line().try_lock().ok();
        let mut others = first.is_none().then_some(None);
        loop {
            if let Some(holder) = others.take() {
                if let Some(settled) = self.settle_for_now(wish, &at_hand) {
                    return settled;
                }
                if Instant::now() >= deadline {
                    let error = self.endless(holder.as_ref());
                    return self.without_renewal(wish, &at_hand, error);
                }
                match &first {
                    Some(_) => tokio::time::sleep(a_moment()).await,
                    None => first = timeout(PATIENCE, self.desk.line().lock()).await.ok(),
                }
                at_hand = self.look().await?.ok_or_else(|| self.missing())?;
                if let Some(settled) = self.settle(wish, &at_hand) {
                    return settled;
                }
            }
            if let Some(failure) = self.desk.pause() {
                return self.without_renewal(wish, &at_hand, failure.at(self.place()));
            }
            match self.try_to_renew(wish).await {
                Tried::Over(outcome) => return outcome,
                Tried::Busy(holder) => others = Some(holder),
                Tried::Failed(error) => return self.without_renewal(wish, &at_hand, error),
            }
        }
    }

    /// Takes the lock, if it is free, and renews the login: on a task that goes on when this future does not.
    async fn try_to_renew(&self, wish: &Wish) -> Tried {
        let (chain, wish, under_way) = (self.clone(), wish.clone(), UnderWay::begin());
        let task = tokio::spawn(async move {
            let _until_it_is_over = under_way;
            let held = match chain.desk.take_unsaved() {
                Some(unsaved) => Held::Unsaved(Box::new(unsaved)),
                None => match chain.try_lock().await {
                    Ok(LockAttempt::Acquired(lock)) => Held::Lock(lock),
                    Ok(LockAttempt::Busy(holder)) => return Tried::Busy(holder),
                    Err(error) => return Tried::Failed(unusable(error)),
                },
            };
            let outcome = Renewal::new(chain, wish, held).run().await;
            outcome.map_or(Tried::Busy(None), Tried::Over)
        });
        task.await.unwrap_or_else(|stopped| {
            let why = if stopped.is_panic() { "it panicked" } else { "the runtime is shutting down" };
            let reason = format!("the renewal was stopped: {why}");
            Tried::Failed(CredentialError::Unreachable { place: self.place(), reason })
        })
    }

    /// Settles the wish with the token at hand, if it is good enough not to wait while somebody else renews it.
    fn settle_for_now(
        &self,
        wish: &Wish,
        at_hand: &StoredLogin,
    ) -> Option<Result<Option<Credential>, CredentialError>> {
        wish.will_do_for_now(&at_hand.login, self.now())
            .then(|| Ok(Some(judgement::credential(&at_hand.login))))
    }

    fn endless(&self, holder: Option<&LockHolder>) -> CredentialError {
        let reason = format!("{} has been renewing it, and does not end", named(holder));
        CredentialError::Unreachable { place: self.place(), reason }
    }
}
