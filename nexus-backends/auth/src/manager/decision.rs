//! Decides if a login satisfies a request or must be refreshed first. The decision depends only on the login's times
//! and its recorded refusal; it uses no store, no network and no clock of its own.

use std::time::{Duration, SystemTime};

use nexus_core::{Credential, Secret};

use crate::{Login, store::StoredLogin};

/// Minimum remaining lifetime of a token that is lent without a refresh. Source: our own choice.
const MIN_REMAINING_LIFE: Duration = Duration::from_secs(5 * 60);

/// Minimum remaining lifetime at which callers get the current token at once while a refresh runs.
const MIN_LIFE_WITHOUT_WAITING: Duration = Duration::from_secs(60);

/// Minimum age at which a refused token is replaced. A vendor that refuses a younger token does not refuse it for its
/// age, so it would refuse a new token too.
const MIN_AGE_TO_REPLACE: Duration = Duration::from_secs(30);

/// A caller's request for a token.
#[derive(Clone, Debug)]
pub(super) struct TokenRequest {
    life: Duration,
    instead_of: Option<Secret>,
}

/// Decision about a login for one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RefreshDecision {
    /// Lend the current token.
    UseCurrent,
    /// Refresh the login first.
    Refresh,
    /// Report that the refused token is the only one: a refresh is impossible, or would not help.
    NoAlternative,
    /// Fail: the login has ended, for this reason.
    Ended(String),
}

impl TokenRequest {
    /// Creates a request for a token with this remaining lifetime.
    pub(super) fn of_life(life: Duration) -> Self {
        Self { life, instead_of: None }
    }

    /// Creates a request for a token other than `refused`, with this remaining lifetime.
    pub(super) fn instead_of(refused: Secret, life: Duration) -> Self {
        Self { life, instead_of: Some(refused) }
    }

    /// Decides what to do with `stored` at the time `now`.
    pub(super) fn decide(&self, stored: &StoredLogin, now: SystemTime) -> RefreshDecision {
        let login = &stored.login;
        let is_renewable = login.refresh_token.is_some();
        if self.refused(login) {
            return match &stored.refused {
                Some(reason) => RefreshDecision::Ended(reason.clone()),
                None if !is_renewable => RefreshDecision::NoAlternative,
                None if is_young(login, now) => RefreshDecision::NoAlternative,
                None => RefreshDecision::Refresh,
            };
        }
        let left = life_left(login, now);
        if left.is_none_or(|left| left >= self.life.max(MIN_REMAINING_LIFE) || is_mostly_ahead(login, left)) {
            return RefreshDecision::UseCurrent;
        }
        match &stored.refused {
            None if is_renewable => RefreshDecision::Refresh,
            // A login that cannot be refreshed works until its access token expires.
            _ if is_alive(login, now) => RefreshDecision::UseCurrent,
            None => RefreshDecision::Ended("it has expired and has no refresh token".to_owned()),
            Some(reason) => RefreshDecision::Ended(reason.clone()),
        }
    }

    /// Returns true if the token may be lent after a failed refresh.
    pub(super) fn is_usable(&self, login: &Login, now: SystemTime) -> bool {
        !self.refused(login) && is_alive(login, now)
    }

    /// Returns true if the current token can be lent at once while another task or process refreshes the login.
    pub(super) fn is_usable_without_waiting(&self, login: &Login, now: SystemTime) -> bool {
        let left = life_left(login, now);
        !self.refused(login) && left.is_none_or(|left| left >= self.life.max(MIN_LIFE_WITHOUT_WAITING))
    }

    /// Returns the credential of a login that was just refreshed, or `None` if its token is still the refused one.
    pub(super) fn lend(&self, login: &Login) -> Option<Credential> {
        (!self.refused(login)).then(|| credential(login))
    }

    fn refused(&self, login: &Login) -> bool {
        self.instead_of.as_ref() == Some(&login.access_token)
    }
}

/// Returns true if the access token has not expired by its recorded times.
pub(super) fn is_alive(login: &Login, now: SystemTime) -> bool {
    life_left(login, now) != Some(Duration::ZERO)
}

/// Returns the part of a login that may be lent, which excludes the refresh token.
pub(super) fn credential(login: &Login) -> Credential {
    let mut credential = Credential::new(login.access_token.clone());
    credential.expires_at = login.expires_at;
    credential.account.clone_from(&login.identity.account);
    credential
}

/// Returns the remaining lifetime of the access token. It is capped at the token's whole lifetime, in case the clock
/// was set back.
fn life_left(login: &Login, now: SystemTime) -> Option<Duration> {
    Some(login.life_left(now)?.min(whole_life(login)?))
}

fn whole_life(login: &Login) -> Option<Duration> {
    login.expires_at.map(|end| end.duration_since(login.obtained_at).unwrap_or_default())
}

/// Returns true if at least three quarters of the token's lifetime remain. A new token would hardly last longer.
fn is_mostly_ahead(login: &Login, left: Duration) -> bool {
    whole_life(login).is_some_and(|whole| !whole.is_zero() && left >= whole - whole / 4)
}

/// Returns true if the token was obtained less than [`MIN_AGE_TO_REPLACE`] ago. A token from the future does not count:
/// the clock was set back.
fn is_young(login: &Login, now: SystemTime) -> bool {
    now.duration_since(login.obtained_at).is_ok_and(|age| age < MIN_AGE_TO_REPLACE)
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);
    const MINUTE: Duration = Duration::from_secs(60);

    fn obtained() -> SystemTime {
        UNIX_EPOCH + 500_000 * HOUR
    }

    fn stored(life: Option<Duration>) -> StoredLogin {
        let login = Login::new(Secret::new("access"), obtained())
            .with_refresh_token(Some(Secret::new("refresh")))
            .with_lifetime(life);
        StoredLogin::new(login)
    }

    fn judged(stored: &StoredLogin, life: Duration, age: Duration) -> RefreshDecision {
        TokenRequest::of_life(life).decide(stored, obtained() + age)
    }

    #[test]
    fn a_token_is_renewed_five_minutes_before_it_ends_and_earlier_for_a_longer_turn() {
        let stored = stored(Some(HOUR));
        assert_eq!(judged(&stored, Duration::ZERO, 54 * MINUTE), RefreshDecision::UseCurrent);
        assert_eq!(judged(&stored, Duration::ZERO, 56 * MINUTE), RefreshDecision::Refresh);
        assert_eq!(judged(&stored, 30 * MINUTE, 29 * MINUTE), RefreshDecision::UseCurrent);
        assert_eq!(judged(&stored, 30 * MINUTE, 31 * MINUTE), RefreshDecision::Refresh);
    }

    #[test]
    fn a_token_with_three_quarters_before_it_is_never_renewed_however_long_the_turn() {
        let stored = stored(Some(HOUR));
        assert_eq!(judged(&stored, 10 * HOUR, 15 * MINUTE), RefreshDecision::UseCurrent);
        assert_eq!(judged(&stored, 10 * HOUR, 16 * MINUTE), RefreshDecision::Refresh);
    }

    #[test]
    fn a_token_that_lives_for_a_minute_is_not_renewed_at_once() {
        let stored = stored(Some(MINUTE));
        assert_eq!(judged(&stored, Duration::ZERO, Duration::from_secs(15)), RefreshDecision::UseCurrent);
        assert_eq!(judged(&stored, Duration::ZERO, Duration::from_secs(16)), RefreshDecision::Refresh);
    }

    #[test]
    fn a_token_of_unknown_life_is_lent_until_it_is_refused() {
        let stored = stored(None);
        assert_eq!(judged(&stored, HOUR, 1000 * HOUR), RefreshDecision::UseCurrent);
        let request = TokenRequest::instead_of(Secret::new("access"), HOUR);
        assert_eq!(request.decide(&stored, obtained() + HOUR), RefreshDecision::Refresh);
        assert!(!request.is_usable(&stored.login, obtained()));
    }

    #[test]
    fn wherever_the_clock_steps_a_token_lives_no_longer_than_its_life() {
        let stored = stored(Some(HOUR));
        for (at, left) in [
            (obtained() - 1000 * HOUR, HOUR),
            (obtained() - MINUTE, HOUR),
            (obtained() + 59 * MINUTE, MINUTE),
            (obtained() + 1000 * HOUR, Duration::ZERO),
        ] {
            assert_eq!(life_left(&stored.login, at), Some(left));
        }
        assert_eq!(
            TokenRequest::of_life(HOUR).decide(&stored, obtained() - 1000 * HOUR),
            RefreshDecision::UseCurrent
        );
        assert_eq!(
            TokenRequest::of_life(HOUR).decide(&stored, obtained() + 1000 * HOUR),
            RefreshDecision::Refresh
        );
    }

    #[test]
    fn a_token_that_ended_before_it_began_is_dead() {
        let mut stored = stored(None);
        stored.login.expires_at = Some(obtained() - MINUTE);
        assert!(!is_alive(&stored.login, obtained() - HOUR));
        assert_eq!(judged(&stored, Duration::ZERO, Duration::ZERO), RefreshDecision::Refresh);
    }

    #[test]
    fn a_refused_login_is_lent_while_its_token_is_alive_and_is_over_then() {
        let mut stored = stored(Some(HOUR));
        stored.refused = Some("invalid_grant".into());
        assert_eq!(judged(&stored, Duration::ZERO, 59 * MINUTE), RefreshDecision::UseCurrent);
        assert_eq!(judged(&stored, Duration::ZERO, HOUR), RefreshDecision::Ended("invalid_grant".into()));
        let request = TokenRequest::instead_of(Secret::new("access"), Duration::ZERO);
        assert_eq!(
            request.decide(&stored, obtained() + MINUTE),
            RefreshDecision::Ended("invalid_grant".into())
        );
    }

    #[test]
    fn without_a_refresh_token_a_login_is_lent_until_it_ends() {
        let mut stored = stored(Some(HOUR));
        stored.login.refresh_token = None;
        assert_eq!(judged(&stored, HOUR, 59 * MINUTE), RefreshDecision::UseCurrent);
        assert!(matches!(judged(&stored, HOUR, HOUR), RefreshDecision::Ended(_)));
        let request = TokenRequest::instead_of(Secret::new("access"), Duration::ZERO);
        assert_eq!(request.decide(&stored, obtained() + MINUTE), RefreshDecision::NoAlternative);
    }

    #[test]
    fn a_token_refused_within_half_a_minute_has_no_other_unless_the_clock_stepped() {
        let stored = stored(Some(HOUR));
        let request = TokenRequest::instead_of(Secret::new("access"), Duration::ZERO);
        assert_eq!(
            request.decide(&stored, obtained() + Duration::from_secs(29)),
            RefreshDecision::NoAlternative
        );
        assert_eq!(request.decide(&stored, obtained() + Duration::from_secs(30)), RefreshDecision::Refresh);
        assert_eq!(request.decide(&stored, obtained() - HOUR), RefreshDecision::Refresh);
        let another = TokenRequest::instead_of(Secret::new("older"), Duration::ZERO);
        assert_eq!(another.decide(&stored, obtained()), RefreshDecision::UseCurrent);
    }
}
