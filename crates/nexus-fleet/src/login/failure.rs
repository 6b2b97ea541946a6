//! Errors of credentials in the form in which they are sent.

use nexus_core::CredentialError;

use crate::protocol::{LoginFailure, LoginFailureKind};

impl From<CredentialError> for LoginFailure {
    fn from(error: CredentialError) -> Self {
        let of = |kind, place: String, reason: String, remedy: String| Self { kind, place, reason, remedy };
        let none = String::new;
        match error {
            CredentialError::Missing { place, remedy } => {
                of(LoginFailureKind::Missing, place, none(), remedy)
            }
            CredentialError::Unreadable { place, reason } => {
                of(LoginFailureKind::Unreadable, place, reason, none())
            }
            CredentialError::Refused { place, reason, remedy } => {
                of(LoginFailureKind::Refused, place, reason, remedy)
            }
            CredentialError::Unreachable { place, reason } => {
                of(LoginFailureKind::Unreachable, place, reason, none())
            }
            CredentialError::Malformed { place, reason } => {
                of(LoginFailureKind::Malformed, place, reason, none())
            }
            other => of(LoginFailureKind::Unreadable, "its store".to_owned(), other.to_string(), none()),
        }
    }
}

impl LoginFailure {
    /// Rewrites the failure for a borrower of the login: its place becomes the machine of `owner`.
    pub(super) fn at(self, owner: &str) -> Self {
        let Self { kind, place, reason, remedy } = self;
        Self { kind, place: format!("{place} of {owner}"), reason, remedy: format!("there, {remedy}") }
    }

    pub(super) fn into_error(self) -> CredentialError {
        let Self { kind, place, reason, remedy } = self;
        match kind {
            LoginFailureKind::Missing => CredentialError::Missing { place, remedy },
            LoginFailureKind::Unreadable => CredentialError::Unreadable { place, reason },
            LoginFailureKind::Refused => CredentialError::Refused { place, reason, remedy },
            LoginFailureKind::Unreachable => CredentialError::Unreachable { place, reason },
            LoginFailureKind::Malformed => CredentialError::Malformed { place, reason },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_keeps_its_kind_and_says_where_it_is_mended() {
        let text = |text: &str| text.to_owned();
        let (place, reason, remedy) = (text("codex.json"), text("why"), text("run `nexus login codex`"));
        let errors = [
            CredentialError::Missing { place: place.clone(), remedy: remedy.clone() },
            CredentialError::Unreadable { place: place.clone(), reason: reason.clone() },
            CredentialError::Refused { place: place.clone(), reason: reason.clone(), remedy },
            CredentialError::Unreachable { place: place.clone(), reason: reason.clone() },
            CredentialError::Malformed { place, reason },
        ];
        for error in errors {
            let kind = std::mem::discriminant(&error);
            let back = LoginFailure::from(error).at("worker b1 of pool builders").into_error();
            assert_eq!(std::mem::discriminant(&back), kind);
            let shown = back.to_string();
            assert!(shown.contains("codex.json of worker b1 of pool builders"), "{shown}");
            assert!(shown.contains("there, run `nexus login codex`") || shown.contains("why"), "{shown}");
        }
    }
}
