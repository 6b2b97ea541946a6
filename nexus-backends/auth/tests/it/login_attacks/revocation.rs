//! A login given up at its issuer.

use nexus_auth::{Login, RefreshError, Revocation, RevocationStyle, SignIn as _, SignInMethod};
use serde_json::{Value, json};

use super::{
    renewal,
    stage::{REFRESH, is_clean_error, issuer, sign_in},
    wire::{Reply, Wire},
};

fn login(wire: &Wire, style: RevocationStyle) -> Login {
    let Ok(Value::Object(origin)) = serde_json::to_value(issuer(&wire.url()).with_revocation(style)) else {
        panic!("an issuer is an object")
    };
    renewal::login(wire, "canary-old").with_origin(origin)
}

async fn revoked(login: &Login) -> Result<Revocation, RefreshError> {
    let revoked = sign_in(issuer("https://elsewhere.invalid"), SignInMethod::Browser).revoke(login).await;
    if let Err(error) = &revoked {
        is_clean_error(error);
    }
    revoked
}

#[tokio::test]
async fn the_refresh_token_is_given_up_in_the_style_of_the_issuer() {
    let wire = Wire::answering([Reply::text(200, "text/plain", "")]);
    let login_here = login(&wire, RevocationStyle::Form { endpoint: "/revoke".into() });
    assert_eq!(revoked(&login_here).await.unwrap(), Revocation::Revoked);
    let asked = wire.only();
    assert_eq!((asked.method.as_str(), asked.path.as_str()), ("POST", "/revoke"));
    assert_eq!(asked.names(), ["token", "token_type_hint", "client_id"]);
    assert_eq!(asked.field("token"), REFRESH);
    assert_eq!(
        (asked.field("token_type_hint").as_str(), asked.field("client_id").as_str()),
        ("refresh_token", "our-client")
    );

    let wire = Wire::answering([Reply::json(200, &json!({}))]);
    let login_here = login(&wire, RevocationStyle::Json { endpoint: "/oauth/revoke".into() });
    assert_eq!(revoked(&login_here).await.unwrap(), Revocation::Revoked);
    let asked = wire.only();
    assert_eq!(
        (asked.path.as_str(), asked.header("content-type")),
        ("/oauth/revoke", Some("application/json"))
    );
    let wanted = json!({ "token": REFRESH, "token_type_hint": "refresh_token", "client_id": "our-client" });
    assert_eq!(serde_json::from_str::<Value>(&asked.body).unwrap(), wanted);
}

#[tokio::test]
async fn without_a_refresh_token_the_access_token_is_given_up() {
    let wire = Wire::answering([Reply::text(204, "text/plain", "")]);
    let login = login(&wire, RevocationStyle::Form { endpoint: "/revoke".into() }).with_refresh_token(None);
    assert_eq!(revoked(&login).await.unwrap(), Revocation::Revoked);
    assert_eq!(
        (wire.only().field("token").as_str(), wire.only().field("token_type_hint").as_str()),
        ("canary-old", "access_token")
    );
}

#[tokio::test]
async fn an_issuer_without_a_way_is_not_asked() {
    let wire = Wire::answering([Reply::text(200, "text/plain", "")]);
    assert_eq!(revoked(&login(&wire, RevocationStyle::NotOffered)).await.unwrap(), Revocation::NotOffered);
    assert!(wire.asked().is_empty());
}

#[tokio::test]
async fn what_did_not_work_is_told() {
    for (reply, is_expected) in [
        (
            Reply::json(401, &json!({ "error": "invalid_client" })),
            (|error| matches!(error, RefreshError::Refused { .. })) as fn(&RefreshError) -> bool,
        ),
        (Reply::text(503, "text/html", "canary"), |error| matches!(error, RefreshError::Unreachable { .. })),
        (Reply::Bytes(Vec::new()), |error| matches!(error, RefreshError::Unreachable { .. })),
        (Reply::json(400, &json!({ "error": "unsupported_token_type" })), |error| {
            matches!(error, RefreshError::Declined { .. })
        }),
    ] {
        let wire = Wire::answering([reply]);
        let error =
            revoked(&login(&wire, RevocationStyle::Form { endpoint: "/revoke".into() })).await.unwrap_err();
        assert!(is_expected(&error), "{error}");
        // Only one that could not be reached is told again: what was revoked already it takes as well.
        let is_told_again = matches!(error, RefreshError::Unreachable { .. });
        assert_eq!(wire.asked().len(), if is_told_again { 3 } else { 1 }, "{error}");
    }
    let wire = Wire::answering([]);
    let unsafe_place = RevocationStyle::Form { endpoint: "http://issuer.test/revoke".into() };
    assert!(matches!(revoked(&login(&wire, unsafe_place)).await, Err(RefreshError::Unasked { .. })));
    let nowhere = renewal::login(&wire, "canary-old").with_origin(serde_json::Map::new());
    assert!(matches!(revoked(&nowhere).await, Err(RefreshError::Unasked { .. })));
    assert!(wire.asked().is_empty());
}
