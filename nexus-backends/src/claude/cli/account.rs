//! Billing of the credential that the CLI found, which it reports before any request.
//!
//! Source: the response to `initialize`, observed with claude 2.1.197 and 2.1.329 (clouds: 2.1.332) for an API key, a bearer token, a
//! subscription token, a subscription's login, and without a credential.

use nexus_core::{ErrorKind, harness::Failure};

use super::wire::Account;
use crate::cli::settings::Billing;

/// The billing of the credential that the CLI found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Payer {
    Known(Billing),
    /// The CLI found no credential.
    Nobody,
    Unknown,
}

/// Compares the billing of the CLI's credential with the configuration, before the turn costs anything. Returns a
/// warning if the billing is unknown.
///
/// # Errors
///
/// [`ErrorKind::Unauthenticated`] without a credential, [`ErrorKind::BillingMismatch`] for a credential with another
/// billing.
pub(super) fn check(account: Option<&Account>, expected: Option<Billing>) -> Result<Option<String>, Failure> {
    match (account.map_or(Payer::Unknown, payer), expected) {
        (Payer::Nobody, _) => Err(Failure::new(
            ErrorKind::Unauthenticated,
            "run `claude auth login`, or name a credential in the configuration",
        )),
        (Payer::Known(found), Some(expected)) if found != expected => {
            let (found, expected) = (found.as_str(), expected.as_str());
            let reason = format!(
                "the credential that it would use is {found}, but the configuration \
                requires {expected}"
            );
            Err(Failure::new(ErrorKind::BillingMismatch, reason))
        }
        (Payer::Unknown, Some(expected)) => {
            let expected = expected.as_str();
            Ok(Some(format!(
                "the CLI does not report its billing, so `billing: {expected}` could not be \
                checked"
            )))
        }
        _ => Ok(None),
    }
}

fn payer(account: &Account) -> Payer {
    let named = |source: &Option<String>| {
        source.as_deref().filter(|name| !matches!(*name, "" | "none")).map(str::to_owned)
    };
    // A cloud bills each call. The CLI reports no source of its credential there.
    if matches!(account.api_provider.as_deref(), Some("bedrock" | "vertex")) {
        return Payer::Known(Billing::Metered);
    }
    // An API key takes precedence over every other credential, as in the CLI.
    if named(&account.api_key_source).is_some() {
        return Payer::Known(Billing::Metered);
    }
    if named(&account.subscription_type).is_some() {
        return Payer::Known(Billing::Plan);
    }
    match named(&account.token_source).as_deref() {
        Some("CLAUDE_CODE_OAUTH_TOKEN" | "claude.ai") => Payer::Known(Billing::Plan),
        Some(_) => Payer::Unknown,
        None if account.token_source.as_deref() == Some("none") => Payer::Nobody,
        None => Payer::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn account(value: serde_json::Value) -> Account {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn the_payer_is_read_from_the_credential() {
        let known = [
            (
                json!({ "tokenSource": "none", "apiKeySource": "ANTHROPIC_API_KEY" }),
                Payer::Known(Billing::Metered),
            ),
            (json!({ "tokenSource": "CLAUDE_CODE_OAUTH_TOKEN" }), Payer::Known(Billing::Plan)),
            (json!({ "subscriptionType": "Claude Max" }), Payer::Known(Billing::Plan)),
            (json!({ "apiProvider": "bedrock" }), Payer::Known(Billing::Metered)),
            (json!({ "apiProvider": "vertex", "subscriptionType": "x" }), Payer::Known(Billing::Metered)),
            (json!({ "tokenSource": "none", "apiProvider": "firstParty" }), Payer::Nobody),
            (json!({ "tokenSource": "ANTHROPIC_AUTH_TOKEN" }), Payer::Unknown),
            (json!({}), Payer::Unknown),
        ];
        for (value, expected) in known {
            assert_eq!(payer(&account(value.clone())), expected, "{value}");
        }
    }

    #[test]
    fn a_disagreement_is_an_error_and_a_doubt_is_a_warning() {
        let key = account(json!({ "apiKeySource": "ANTHROPIC_API_KEY" }));
        let failure = check(Some(&key), Some(Billing::Plan)).unwrap_err();
        assert_eq!(failure.kind, ErrorKind::BillingMismatch);
        assert_eq!(check(Some(&key), Some(Billing::Metered)).unwrap(), None);
        assert!(check(None, Some(Billing::Plan)).unwrap().is_some());
        assert_eq!(check(None, None).unwrap(), None);
    }
}
