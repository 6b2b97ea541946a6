use std::{os::unix::fs::PermissionsExt as _, sync::Arc};

use super::*;

struct Home {
    folder: tempfile::TempDir,
}

impl Home {
    /// A folder with the file `config`, and a program `print` beside it.
    fn new(config: &str, script: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("config"), config).unwrap();
        let program = folder.path().join("print");
        std::fs::write(&program, format!("#!/bin/sh\necho run >> runs\n{script}\n")).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
        Self { folder }
    }

    fn keys(&self, profile: &str) -> AwsKeys {
        let folder = self.folder.path();
        let host = [("PATH".into(), format!("{}:/usr/bin:/bin", folder.display()).into())];
        AwsKeys::from_profile(ProfilePlace {
            name: profile.to_owned(),
            credentials: folder.join("credentials"),
            config: folder.join("config"),
            folder: folder.to_owned(),
            environment: Environment::from_host(host).build().unwrap(),
            time_limit: Some(Duration::from_secs(20)),
        })
    }

    fn runs(&self) -> usize {
        std::fs::read_to_string(self.folder.path().join("runs")).unwrap_or_default().lines().count()
    }
}

async fn lent(keys: &AwsKeys) -> Result<(String, String, Option<String>), String> {
    let key = keys.credential(Duration::from_secs(60)).await.map_err(|error| error.to_string())?;
    assert!(!format!("{key:?} {keys:?}").contains("canary"));
    let public = key.signing.unwrap();
    Ok((public.id, key.token.expose().to_owned(), public.session.map(|session| session.expose().to_owned())))
}

fn variables(values: &[(&str, &str)]) -> AwsKeys {
    AwsKeys::from_variables(
        &values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
    )
}

#[tokio::test]
async fn variables_have_a_key_or_the_missing_one_is_named() {
    let keys = variables(&[(ID, "AKIA1"), (SECRET, "canary"), (SESSION, "canary-session")]);
    let expected = ("AKIA1".to_owned(), "canary".to_owned(), Some("canary-session".to_owned()));
    assert_eq!(lent(&keys).await.unwrap(), expected);
    assert!(keys.standing().await.is_ok());
    let refused = keys.credential(Duration::ZERO).await.unwrap();
    assert!(keys.renewed(&refused, Duration::ZERO).await.unwrap().is_none());
    for (values, missing) in [(vec![], ID), (vec![(ID, "AKIA1"), (SECRET, "")], SECRET)] {
        let error = lent(&variables(&values)).await.unwrap_err();
        assert!(error.contains(&format!("set {missing}")) && error.contains("profile: NAME"), "{error}");
    }
    let error = lent(&variables(&[(ID, "AKIA1"), (SECRET, "canary\ntwo")])).await.unwrap_err();
    assert!(error.contains("secret access key") && !error.contains("canary"), "{error}");
}

#[tokio::test]
async fn a_profile_has_a_key_that_its_owner_can_replace() {
    let home = Home::new("[profile work]\naws_access_key_id=AKIA1\naws_secret_access_key=canary\n", "exit 1");
    let keys = home.keys("work");
    assert_eq!(lent(&keys).await.unwrap(), ("AKIA1".to_owned(), "canary".to_owned(), None));
    let refused = keys.credential(Duration::ZERO).await.unwrap();
    assert!(keys.renewed(&refused, Duration::ZERO).await.unwrap().is_none());
    let replaced =
        "[work]\naws_access_key_id=AKIA2\naws_secret_access_key=canary2\naws_session_token=canary3\n";
    std::fs::write(home.folder.path().join("credentials"), replaced).unwrap();
    let renewed = keys.renewed(&refused, Duration::ZERO).await.unwrap().unwrap();
    assert_eq!(renewed.token.expose(), "canary2");
    assert_eq!(home.runs(), 0);
}

#[tokio::test]
async fn a_program_runs_once_until_its_key_ends_or_is_refused() {
    let script = r#"n=$(wc -l < runs | tr -d ' ')
echo "{\"Version\":1,\"AccessKeyId\":\"ASIA$n\",\"SecretAccessKey\":\"canary$n\",\"SessionToken\":\"canary\",\"Expiration\":\"$1\"}""#;
    let home = Home::new(
        "[profile long]\ncredential_process = print 2999-01-01T00:00:00Z\n\
         [profile past]\ncredential_process = \"print\" 2001-01-01T00:00:00Z\n\
         [default]\ncredential_process = print ''\n",
        script,
    );
    let keys = Arc::new(home.keys("long"));
    assert!(keys.standing().await.unwrap().needs_program);
    let lends = (0..6).map(|_| {
        let keys = Arc::clone(&keys);
        tokio::spawn(async move { lent(&keys).await.unwrap().0 })
    });
    for lend in lends.collect::<Vec<_>>() {
        assert_eq!(lend.await.unwrap(), "ASIA1");
    }
    let standing = keys.standing().await.unwrap();
    assert!(!standing.needs_program && standing.is_renewable && standing.expires_at.is_some());
    let refused = keys.credential(Duration::ZERO).await.unwrap();
    let renewed = keys.renewed(&refused, Duration::ZERO).await.unwrap().unwrap();
    assert_eq!((renewed.token.expose(), home.runs()), ("canary2", 2));
    // Another turn with the refused key gets the new one without a further run.
    assert_eq!(keys.renewed(&refused, Duration::ZERO).await.unwrap().unwrap().token.expose(), "canary2");
    assert_eq!(home.runs(), 2);
    let error = lent(&home.keys("past")).await.unwrap_err();
    assert!(error.contains("expired") && !error.contains("canary"), "{error}");
    assert_eq!(lent(&home.keys("default")).await.unwrap().0, "ASIA4");
}

#[tokio::test]
async fn a_profile_without_a_usable_key_has_advice_and_is_not_shown() {
    let home = Home::new(
        "[profile sso]\nsso_session=corp\n[profile old-sso]\nsso_start_url=https://x\n[profile role]\nrole_arn=a\n\
         source_profile=default\n[profile empty]\nregion=x\n[profile half]\naws_secret_access_key=canary\n\
         [profile open]\ncredential_process = \"canary\n[profile fails]\ncredential_process = print\n\
         [profile gone]\ncredential_process = no-such-program\n",
        "echo canary; echo canary >&2; exit 3",
    );
    for (profile, words) in [
        ("sso", "aws configure export-credentials --profile sso"),
        ("old-sso", "`sso_start_url`"),
        ("role", "`role_arn`"),
        ("empty", "aws configure --profile empty"),
        ("half", "aws_access_key_id"),
        ("open", "quotes"),
        ("fails", "exited with code 3"),
        ("gone", "credential_process"),
        ("absent", "`credential.aws.profile`"),
    ] {
        let error = lent(&home.keys(profile)).await.unwrap_err();
        assert!(error.contains(words) && error.contains(profile) && !error.contains("canary"), "{error}");
    }
    assert!(home.keys("gone").standing().await.is_err());
    assert!(home.keys("fails").standing().await.unwrap().needs_program);
}
