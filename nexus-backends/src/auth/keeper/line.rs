//! The line in which a fresher token is waited for.
//!
//! The tasks of one process stand behind each other, and only the first of them looks at the lock: with 16 processes
//! of 20 tasks, 16 look. Whoever's turn it is looks at the store first, and most of the time that is all.

use nexus_core::{Credential, CredentialError};
use tokio::{
    sync::MutexGuard,
    time::{Instant, timeout_at},
};

use super::{
    chain::{Chain, LONGEST_WAIT, Turn, a_moment, named, unusable},
    judgement::{self, Wish},
    renewal::Renewal,
};
use crate::auth::store::StoredLogin;

/// What came of waiting.
pub(super) enum Waited<'a> {
    /// There is something to lend, or nothing will come of it.
    Settled(Result<Option<Credential>, CredentialError>),
    /// It is up to us.
    OurTurn {
        renewal: Box<Renewal>,
        /// The login as it was last seen.
        at_hand: Box<StoredLogin>,
        /// Whoever comes next in this process waits until it is over.
        place_in_line: Option<MutexGuard<'a, ()>>,
    },
}

impl Chain {
    /// Waits for the lock, or for whoever has it.
    pub(super) async fn wait_in_line(&self, wish: &Wish, mut at_hand: StoredLogin) -> Waited<'_> {
        let deadline = Instant::now() + LONGEST_WAIT;
        let place_in_line = match self.desk.line().try_lock() {
            Ok(first) => Some(first),
            Err(_) => {
                if let Some(settled) = self.settle_for_now(wish, &at_hand) {
                    return Waited::Settled(settled);
                }
                // Whoever is still not the first when time is up looks at the lock once, to say who has it.
                let place = timeout_at(deadline, self.desk.line().lock()).await.ok();
                match self.look_again(wish, &mut at_hand).await {
                    Some(settled) => return Waited::Settled(settled),
                    None => place,
                }
            }
        };
        loop {
            // Nothing is awaited between here and the return.
            if let Some(unsaved) = self.desk.take_unsaved() {
                let renewal = Box::new(Renewal::of_unsaved(self.clone(), wish.clone(), unsaved));
                return Waited::OurTurn { renewal, at_hand: Box::new(at_hand), place_in_line };
            }
            if let Some(failure) = self.desk.pause() {
                return Waited::Settled(self.without_renewal(wish, &at_hand, failure.at(self.place())));
            }
            match self.try_lock().await {
                Ok(Turn::Ours(lock)) => {
                    let renewal = Box::new(Renewal::new(self.clone(), wish.clone(), *lock));
                    return Waited::OurTurn { renewal, at_hand: Box::new(at_hand), place_in_line };
                }
                Ok(Turn::Busy(holder)) => {
                    if let Some(settled) = self.look_again(wish, &mut at_hand).await {
                        return Waited::Settled(settled);
                    }
                    if let Some(settled) = self.settle_for_now(wish, &at_hand) {
                        return Waited::Settled(settled);
                    }
                    if Instant::now() >= deadline {
                        let reason =
                            format!("{} has been renewing it, and does not end", named(holder.as_ref()));
                        let error = CredentialError::Unreachable { place: self.place(), reason };
                        return Waited::Settled(self.without_renewal(wish, &at_hand, error));
                    }
                    tokio::time::sleep(a_moment()).await;
                }
                Err(error) => {
                    return Waited::Settled(self.without_renewal(wish, &at_hand, unusable(error)));
                }
            }
        }
    }

    /// Reads the login anew, and settles the wish if that does it.
    async fn look_again(
        &self,
        wish: &Wish,
        at_hand: &mut StoredLogin,
    ) -> Option<Result<Option<Credential>, CredentialError>> {
        match self.look().await {
            Ok(Some(stored)) => *at_hand = stored,
            Ok(None) => return Some(Err(self.missing())),
            Err(error) => return Some(Err(error)),
        }
        self.settle(wish, at_hand)
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
}
