//! Sign-in, refresh and revocation: the strategy of one vendor. Third parties implement [`SignIn`] for their own.

use std::{fmt, time::Duration};

use async_trait::async_trait;

use super::Login;

/// Strategy for one way to sign in. It stores nothing: [`CredentialManager`](super::CredentialManager) owns the
/// returned login, and ensures that no refresh token is spent twice.
#[async_trait]
pub trait SignIn: fmt::Debug + Send + Sync + 'static {
    /// Returns the name of the login and of its file, such as `vendor-plan`: lower-case letters, digits and hyphens.
    fn name(&self) -> &str;

    /// Returns advice for signing in again, for errors: a command, such as "run `nexus login LOGIN`".
    fn remedy(&self) -> String;

    /// Signs a person in. Dropping the future stops all work and closes any open port.
    ///
    /// # Errors
    ///
    /// Any [`SignInError`].
    async fn sign_in(&self, screen: &mut dyn LoginScreen) -> Result<Login, SignInError>;

    /// Spends the refresh token of `login` for a new login, once. Never retries after a request was sent.
    ///
    /// Never loses a new refresh token because of a fault in the rest of the response. If the response has no usable
    /// access token, the returned login combines the new refresh token with the old access token and its times.
    ///
    /// # Errors
    ///
    /// Any [`RefreshError`]; its variants have different consequences for the login. The credential manager refuses a
    /// login with another [`account`](crate::Identity::account). A strategy that knows more about the owner than
    /// [`Identity`](crate::Identity) contains refuses another person's login itself, with [`RefreshError::of_another`].
    async fn refresh(&self, login: &Login) -> Result<Login, RefreshError>;

    /// Revokes the login at the issuer.
    ///
    /// # Errors
    ///
    /// Any [`RefreshError`].
    async fn revoke(&self, login: &Login) -> Result<Revocation, RefreshError>;
}

/// Step of a sign-in that is shown to the person.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoginStep {
    /// Open this page in a browser, which returns the answer by itself.
    OpenPage {
        /// URL of the page.
        url: String,
        /// Address on this machine to which the browser is sent back.
        returns_to: String,
    },
    /// Open this page on any device, and enter the code.
    EnterCode {
        /// URL of the page.
        url: String,
        /// URL of the page with the code already filled in, if the issuer has one.
        complete_url: Option<String>,
        /// Code that the person enters.
        user_code: String,
        /// Lifetime of the code.
        expires_in: Duration,
    },
    /// An unexpected event that does not end the sign-in: a port was in use, or a foreign redirect arrived.
    Note(String),
}

/// Display for the steps of a sign-in.
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
    /// The person or the issuer declined.
    #[error("the sign-in was declined: {reason}")]
    Declined {
        /// Code of the issuer, and its message if it sent one.
        reason: String,
    },
    /// The person did not answer in time.
    #[error("the sign-in was not finished within {}", span(*.after))]
    TimedOut {
        /// Time limit that passed.
        after: Duration,
    },
    /// The issuer could not be reached.
    #[error("the issuer could not be reached: {reason}")]
    Unreachable {
        /// Description of the failure.
        reason: String,
    },
    /// The issuer's response cannot be read.
    #[error("the issuer's answer is invalid: {reason}")]
    Malformed {
        /// Fault of the response, without any part that may be secret.
        reason: String,
    },
    /// No port for the browser's redirect could be opened.
    #[error("the answer of the browser cannot be received: {reason}")]
    NoPort {
        /// Ports that were tried, with advice.
        reason: String,
    },
    /// This sign-in is not possible with this issuer or configuration.
    #[error("{reason}")]
    Unsupported {
        /// The reason, with advice.
        reason: String,
    },
}

/// Formats a duration for a person, rounded down.
fn span(time: Duration) -> String {
    match time.as_secs() {
        0 => format!("{} ms", time.as_millis()),
        seconds @ 1..120 => format!("{seconds} s"),
        seconds => format!("{} minutes", seconds / 60),
    }
}

/// Reason why a login was not refreshed or revoked.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum RefreshError {
    /// The issuer will never accept this refresh token again. The login is over.
    #[error("the issuer refused: {reason}")]
    Refused {
        /// The issuer's code, such as `invalid_grant`.
        reason: String,
    },
    /// The issuer rejected the request for a stated reason that does not end the login. The token is not spent.
    #[error("the issuer declined: {reason}")]
    Declined {
        /// The issuer's code and words.
        reason: String,
    },
    /// No response arrived. The token may be spent.
    #[error("the issuer could not be reached: {reason}")]
    Unreachable {
        /// Description of the failure.
        reason: String,
    },
    /// The response cannot be read. The token may be spent.
    #[error("the issuer's answer is invalid: {reason}")]
    Malformed {
        /// Fault of the response, without any part that may be secret.
        reason: String,
    },
    /// No request was sent to the issuer, so the token is not spent.
    #[error("no request was sent to the issuer: {reason}")]
    Unasked {
        /// Reason why no request was sent.
        reason: String,
    },
}

impl RefreshError {
    /// Creates the error for a refresh that returned another person's login. That login is discarded, because this
    /// person did not sign in here.
    ///
    /// If the issuer rotates refresh tokens, the presented token is spent and the login is over, as after any other
    /// refusal: a person must sign in again. The login's access token is lent until it expires.
    pub fn of_another() -> Self {
        Self::Refused { reason: "its refresh returned a token of another account".to_owned() }
    }
}

/// Result of a revocation at the issuer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revocation {
    /// The issuer confirmed the revocation. No token of the login is valid any more.
    Revoked,
    /// The issuer does not support revocation. The tokens stay valid until they expire.
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
