use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::store::fixture::{CANARY, login};

fn text_of(value: &Value) -> Secret {
    Secret::new(format!("{value:#}\n"))
}

fn written_value() -> Value {
    serde_json::from_str(login(7).to_text().expose()).unwrap()
}

/// The login with one field replaced, or with `null` for it left out.
fn with(field: &str, value: Value) -> Secret {
    let mut all = written_value();
    match value {
        Value::Null => all.as_object_mut().unwrap().remove(field),
        value => all.as_object_mut().unwrap().insert(field.to_owned(), value),
    };
    text_of(&all)
}

/// Refused, with a reason that begins like that and shows nothing of the text.
#[track_caller]
fn assert_refused(text: &Secret, reason: &str) {
    let error = StoredLogin::from_text(text).unwrap_err();
    assert!(error.starts_with(reason), "{error}");
    assert!(!error.contains("canary"), "{error}");
    assert!(error.contains(": "), "no way out in: {error}");
}

/// The order of the keys is no part of the form: it is another where some crate has asked `serde_json` to keep theirs.
#[test]
fn a_login_is_written_in_this_form() {
    let written = |login: &StoredLogin| -> Value { serde_json::from_str(login.to_text().expose()).unwrap() };
    let expected = json!({
        "version": 1,
        "generation": 7,
        "access_token": "canary-7f3a-access-7",
        "refresh_token": "canary-7f3a-refresh-7",
        "obtained_at": 1_795_253_000,
        "expires_at": 1_795_256_600,
        "identity": { "account": "account-1", "email": "person@example.org", "plan": "plus" },
        "origin": {
            "endpoints": { "token": "https://issuer.example/token" },
            "url": "https://issuer.example",
        },
    });
    assert_eq!(written(&login(7)), expected);
    assert!(login(7).to_text().expose().ends_with("\n}\n"), "a person can read it");
    let bare = StoredLogin::new(Login::new(Secret::new("a"), UNIX_EPOCH));
    let expected = json!({
        "version": 1, "generation": 1, "access_token": "a", "obtained_at": 0, "identity": {}, "origin": {},
    });
    assert_eq!(written(&bare), expected);
}

#[test]
fn what_is_not_known_is_left_out_and_comes_back_so() {
    let bare = StoredLogin::new(Login::new(Secret::new("a"), UNIX_EPOCH));
    assert_eq!(StoredLogin::from_text(&bare.to_text()).unwrap(), bare);
    let refused = StoredLogin { refused: Some("invalid_grant".to_owned()), ..login(3) };
    assert_eq!(StoredLogin::from_text(&refused.to_text()).unwrap(), refused);
}

#[test]
fn every_text_that_was_cut_off_is_refused() {
    let whole = login(7).to_text();
    assert!(whole.expose().len() > 300);
    for length in 0..whole.expose().len() {
        let cut = Secret::new(&whole.expose()[..length]);
        assert_refused(&cut, if length == 0 { "it is empty" } else { "it ends too early" });
        assert!(!is_whole(&cut), "{length}");
    }
    assert!(is_whole(&whole));
}

#[test]
fn a_newer_nexus_is_named_as_the_way_out_whatever_it_wrote() {
    for value in [
        json!({ "version": 2, "sealed": CANARY }),
        json!({ "version": 2, "stored_in": CANARY }),
        json!({ "version": u64::MAX }),
    ] {
        let text = text_of(&value);
        assert_refused(&text, "a newer version of Nexus wrote it (format version ");
        assert!(understand(&text).unwrap_err().ends_with("this version supports 1): update Nexus"));
    }
    let error = points_to_keyring(&text_of(&json!({ "version": 2, "stored_in": CANARY }))).unwrap_err();
    assert!(error.starts_with("a newer version of Nexus wrote it"), "{error}");
}

#[test]
fn a_text_of_another_kind_is_refused() {
    for (text, reason) in [
        ("[]}\n", "it does not have the format that Nexus writes"),
        ("{\"a\": 1,}\n", "it is not valid JSON at line 1, column 9"),
        ("\"canary\" {}\n", "it does not have the format that Nexus writes"),
        ("{\"canary\": \"canary}\n", "it is not valid JSON at line 1, column "),
        ("{\"a\": {}\n", "it ends too early"),
        ("{\u{0}}\n", "it is not valid JSON at line 1, column 2"),
        ("{} {}\n", "it is not valid JSON at line 1, column 4"),
        ("{\"\\u0061ccess\": {}}\n", "it does not have the format that Nexus writes"),
        ("{}\n", "it has no `version`"),
    ] {
        assert_refused(&Secret::new(text), reason);
    }
    assert_refused(&with("version", json!(0)), "its `version` is not a version that Nexus writes");
    for version in [json!("1"), json!(1.5), json!(-1), json!(CANARY), json!({}), json!([1])] {
        assert_refused(&with("version", version), "its `version` is not a number");
    }
}

#[test]
fn each_field_is_asked_for_and_checked() {
    for field in ["access_token", "obtained_at", "identity", "origin", "generation", "version"] {
        assert_refused(&with(field, Value::Null), &format!("it has no `{field}`"));
    }
    for field in ["access_token", "refresh_token", "refused"] {
        for odd in [json!(1), json!([CANARY]), json!({ CANARY: 1 })] {
            assert_refused(&with(field, odd), &format!("its `{field}` is not a text"));
        }
    }
    for field in ["obtained_at", "expires_at"] {
        for odd in [json!(CANARY), json!(-1), json!(1.5), json!([CANARY])] {
            assert_refused(&with(field, odd), &format!("its `{field}` is not a number of seconds"));
        }
        for absurd in [u64::MAX, LATEST_SECONDS + 1] {
            assert_refused(&with(field, json!(absurd)), &format!("its `{field}` is not a valid time"));
        }
        StoredLogin::from_text(&with(field, json!(LATEST_SECONDS))).unwrap();
    }
    assert_refused(&with("generation", json!(CANARY)), "its `generation` is not a number");
    assert_refused(
        &with("identity", json!(CANARY)),
        "its `identity` does not have the format that Nexus \
        writes",
    );
    assert_refused(&with("identity", json!({ "plan": 1 })), "its `plan` is not a text");
    assert_refused(&with("origin", json!([CANARY])), "its `origin` is not an object");
}

#[test]
fn a_field_that_is_not_known_is_refused() {
    for name in ["canary", "Version", "access_token "] {
        assert_refused(
            &with(name, json!(CANARY)),
            "it contains a field that this version of Nexus does not \
            know",
        );
    }
    assert_refused(
        &with("identity", json!({ CANARY: 1 })),
        "it contains a field that this version of Nexus \
        does not know",
    );
}

#[test]
fn a_field_that_stands_there_twice_is_refused() {
    let text = login(7).to_text();
    for (once, twice) in [
        ("\"generation\": 7,", "\"generation\": 7, \"generation\": 7,"),
        ("\"version\": 1,", "\"version\": 1, \"version\": 2,"),
        ("\"access_token\":", "\"access_token\": \"canary\", \"access_token\":"),
    ] {
        let doubled = text.expose().replace(once, twice);
        assert_ne!(doubled, text.expose());
        assert_refused(&Secret::new(doubled), "it contains the same field more than once");
    }
    let doubled = text.expose().replace("\"plan\":", "\"plan\": \"canary\", \"plan\":");
    assert_refused(&Secret::new(doubled), "its `identity` does not have the format that Nexus writes");
    let doubled = text.expose().replace("\"token\":", "\"token\": \"canary\", \"token\":");
    assert_refused(&Secret::new(doubled), "its `origin` is not an object");
}

#[test]
fn a_time_that_cannot_be_written_is_moved_to_one_that_can() {
    let mut stored = login(1);
    stored.login.obtained_at = UNIX_EPOCH - Duration::from_secs(10);
    stored.login.expires_at = UNIX_EPOCH.checked_add(Duration::from_secs(1 << 62));
    assert!(stored.login.expires_at.is_some());
    let read = StoredLogin::from_text(&stored.to_text()).unwrap().login;
    assert_eq!(read.obtained_at, UNIX_EPOCH);
    assert_eq!(read.expires_at, Some(UNIX_EPOCH + Duration::from_secs(LATEST_SECONDS)));
}

#[test]
fn a_pointer_is_told_from_a_login() {
    let pointer: Value = serde_json::from_str(keyring_pointer().expose()).unwrap();
    assert_eq!(pointer, json!({ "stored_in": "keyring", "version": 1 }));
    assert_eq!(points_to_keyring(&keyring_pointer()), Ok(true));
    assert_eq!(points_to_keyring(&Secret::new("{\"version\":1,\"stored_in\":\"keyring\"}\n")), Ok(true));
    for text in
        [login(1).to_text(), Secret::new(""), Secret::new("{"), Secret::new("{\"stored_in\":\"keyring\"")]
    {
        assert_eq!(points_to_keyring(&text), Ok(false));
    }
    for (value, reason) in [
        (
            json!({ "version": 1, "stored_in": CANARY }),
            "it names a location of the login that this version of Nexus does not",
        ),
        (json!({ "version": 1, "stored_in": 1 }), "its `stored_in` is not a text"),
        (json!({ "stored_in": "keyring" }), "it has no `version`"),
        (
            json!({ "version": 1, "stored_in": "keyring", CANARY: 1 }),
            "it contains a field that this version of Nexus does not know",
        ),
    ] {
        let error = points_to_keyring(&text_of(&value)).unwrap_err();
        assert!(error.starts_with(reason) && !error.contains("canary"), "{error}");
    }
    let error = StoredLogin::from_text(&keyring_pointer()).unwrap_err();
    assert_eq!(error, "it contains only the location of the login");
    for (text, is_understood) in
        [(keyring_pointer(), true), (login(1).to_text(), true), (Secret::new("{}\n"), false)]
    {
        assert_eq!(understand(&text).is_ok(), is_understood);
    }
}

#[test]
fn a_token_with_characters_that_json_escapes_comes_back_whole() {
    let mut stored = login(1);
    stored.login.access_token = Secret::new("a\"b\\c\u{0}\u{7f}\u{2028}d\n");
    assert_eq!(StoredLogin::from_text(&stored.to_text()).unwrap(), stored);
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        ".*".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(".*", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

prop_compose! {
    fn any_login()(
        access_token in ".*",
        refresh_token in prop::option::of(".*"),
        obtained_at in 0..=LATEST_SECONDS,
        expires_at in prop::option::of(0..=LATEST_SECONDS),
        identity in prop::array::uniform3(prop::option::of(".*")),
        origin in prop::collection::btree_map(".*", any_value(), 0..4),
        generation in any::<u64>(),
        refused in prop::option::of(".*"),
    ) -> StoredLogin {
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        let [account, email, plan] = identity;
        let mut login = Login::new(Secret::new(access_token), at(obtained_at))
            .with_refresh_token(refresh_token.map(Secret::new))
            .with_identity(Identity { account, email, plan })
            .with_origin(origin.into_iter().collect());
        login.expires_at = expires_at.map(at);
        StoredLogin { login, generation, refused }
    }
}

proptest! {
    #[test]
    fn what_was_written_is_read(stored in any_login()) {
        prop_assert_eq!(StoredLogin::from_text(&stored.to_text()), Ok(stored));
    }

    #[test]
    fn no_text_makes_it_panic(text in ".*") {
        let text = Secret::new(text);
        let _ = (StoredLogin::from_text(&text), points_to_keyring(&text), understand(&text));
    }

    #[test]
    fn no_damage_to_a_login_makes_it_panic(
        stored in any_login(),
        cut in any::<prop::sample::Index>(),
        length in 0_usize..8,
        filling in prop::collection::vec(any::<u8>(), 0..8),
    ) {
        let mut bytes = stored.to_text().expose().as_bytes().to_vec();
        let start = cut.index(bytes.len());
        let end = bytes.len().min(start + length);
        bytes.splice(start..end, filling);
        let text = Secret::new(String::from_utf8_lossy(&bytes));
        if let Ok(read) = StoredLogin::from_text(&text) {
            prop_assert_eq!(StoredLogin::from_text(&read.to_text()), Ok(read));
        }
    }
}

#[test]
fn nothing_that_is_printed_shows_a_token() {
    let stored = login(7);
    let text = stored.to_text();
    assert!(text.expose().contains(CANARY));
    let printed = format!("{stored:?} {text:?} {:?} {stored:#?}", stored.login);
    assert!(printed.contains("person@example.org"), "{printed}");
    assert!(!printed.contains("canary"), "{printed}");
}
