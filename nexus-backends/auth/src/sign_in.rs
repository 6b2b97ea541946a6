//! Sign-in, refresh and revocation: the strategy of one vendor. A third party adds its own by this trait.

use std::{fmt, time::Duration};

use async_trait::async_trait;

use super::Login;

/// One way to sign in. It keeps nothing: [`CredentialManager`](super::CredentialManager) owns what it returns, and sees to it
/// that no refresh token is spent twice.
#[async_trait]
pub trait SignIn: fmt::Debug + Send + Sync + 'static {
    /// Names the login and its file, such as `vendor-plan`: lower-case letters, digits and hyphens.
    fn name(&self) -> &str;

    /// Returns advice for signing in again, for errors: a command, such as "run `nexus login LOGIN`".
    fn remedy(&self) -> String;

    /// Signs a person in. Work stops when the future is dropped: no port is left open.
    ///
    /// # Errors
    ///
    /// Any [`SignInError`].
    async fn sign_in(&self, screen: &mut dyn LoginScreen) -> Result<Login, SignInError>;

    /// Spends the refresh token of `login` for a new login, once: no retry after a request was sent.
    ///
    /// Never loses a new refresh token because of the rest of the answer: if it came without a usable access
    /// token, the returned login has the new refresh token and otherwise the old access token and its times.
    ///
    /// # Errors
    ///
    /// Any [`RefreshError`]; its kinds have different consequences for the login. A strategy that learns more
    /// about the new login's owner than [`Identity`](crate::Identity) has refuses another person's login by
    /// [`RefreshError::of_another`]; the credential manager itself refuses another
    /// [`account`](crate::Identity::account).
    async fn refresh(&self, login: &Login) -> Result<Login, RefreshError>;

    /// Tells the issuer that the login is over.
    ///
    /// # Errors
    ///
    /// Any [`RefreshError`].
    async fn revoke(&self, login: &Login) -> Result<Revocation, RefreshError>;
}

/// A step that a person has to see while signing in.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoginStep {
    /// Open this page in a browser; the answer comes back by itself.
    OpenPage {
        /// The page.
        url: String,
        /// The address on this machine that the browser is sent back to.
        returns_to: String,
    },
    /// Open this page on any device, and enter the code.
    EnterCode {
        /// The page.
        url: String,
        /// The page with the code already in it, where the issuer has one.
        complete_url: Option<String>,
        /// The code.
        user_code: String,
        /// Its life.
        expires_in: Duration,
    },
    /// Something went differently than planned, and the sign-in goes on: a port was taken, a stranger called.
    Note(String),
}

/// Screen for the steps of a sign-in.
pub trait LoginScreen: Send {
    /// Shows one step.
    fn show(&mut self, step: &LoginStep);
}

impl<F: FnMut(&LoginStep) + Send> LoginScreen for F {
    fn show(&mut self, step: &LoginStep) {
        self(step);
    }
}

/// Reason of a failed sign-in.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum SignInError {
    /// The person, or the issuer, said no.
    #[error("the sign-in was declined: {reason}")]
    Declined {
        /// The issuer's code, and its words where it has some.
        reason: String,
    },
    /// The person did not answer in time.
    #[error("the sign-in was not finished within {}", span(*.after))]
    TimedOut {
        /// Duration of the wait.
        after: Duration,
    },
    /// The issuer could not be reached.
    #[error("the issuer could not be reached: {reason}")]
    Unreachable {
        /// The failure.
        reason: String,
    },
    /// The issuer sent what cannot be read.
    #[error("the issuer's answer is invalid: {reason}")]
    Malformed {
        /// Its fault, without any part that may be secret.
        reason: String,
    },
    /// No port for the answer could be opened.
    #[error("the answer of the browser cannot be received: {reason}")]
    NoPort {
        /// The ports that were tried, with advice.
        reason: String,
    },
    /// This sign-in cannot be done here.
    #[error("{reason}")]
    Unsupported {
        /// The reason, with advice.
        reason: String,
    },
}

/// A span of time for a person, never longer than it was.
fn span(time: Duration) -> String {
    match time.as_secs() {
        0 => format!("{} ms", time.as_millis()),
        seconds @ 1..120 => format!("{seconds} s"),
        seconds => format!("{} minutes", seconds / 60),
    }
}

/// Why a login was not refreshed or revoked.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum RefreshError {
    /// The issuer will never accept this refresh token again. The login is over.
    #[error("the issuer refused: {reason}")]
    Refused {
        /// The issuer's code, such as `invalid_grant`.
        reason: String,
    },
    /// The issuer answered with an error that does not end the login, and said why. Nothing is spent.
    #[error("the issuer declined: {reason}")]
    Declined {
        /// The issuer's code and words.
        reason: String,
    },
    /// No answer came. The token may be spent or not.
    #[error("the issuer could not be reached: {reason}")]
    Unreachable {
        /// The failure.
        reason: String,
    },
    /// An answer came that cannot be read. The token may be spent or not.
    #[error("the issuer's answer is invalid: {reason}")]
    Malformed {
        /// Its fault, without any part that may be secret.
        reason: String,
    },
    /// The issuer was not asked. Nothing is spent.
    #[error("no request was sent to the issuer: {reason}")]
    Unasked {
        /// Why not.
        reason: String,
    },
}

impl RefreshError {
    /// The refresh returned another person's login, which is discarded because that person did not sign in
    /// here.
    ///
    /// If the issuer rotates refresh tokens, the presented one is spent, and the login is over, as after any
    /// other refusal: a person signs in again. Its access token is lent until it expires.
    pub fn of_another() -> Self {
        Self::Refused { reason: "its refresh returned a token of another account".to_owned() }
    }
}

/// Result of a revocation at the issuer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revocation {
    /// The issuer confirmed it, and no token of the login is valid any more.
    Revoked,
    /// The issuer has no revocation. The tokens live until they expire.
    NotOffered,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_that_was_waited_is_told_in_a_unit_that_it_fills() {
        for (after, words) in [
            (Duration::from_millis(300), "within 300 ms"),
            (Duration::from_secs(1), "within 1 s"),
            (Duration::from_millis(59_900), "within 59 s"),
            (Duration::from_secs(90), "within 90 s"),
            (Duration::from_secs(120), "within 2 minutes"),
            (Duration::from_secs(15 * 60), "within 15 minutes"),
        ] {
            let words = format!("the sign-in was not finished {words}");
            assert_eq!(SignInError::TimedOut { after }.to_string(), words);
        }
    }
}
