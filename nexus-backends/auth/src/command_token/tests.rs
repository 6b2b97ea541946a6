use std::{os::unix::fs::PermissionsExt as _, path::Path, sync::Arc};

use super::*;

/// A program, as the text of a shell script in a folder of its own, beside the file in which it counts its runs.
struct Printer {
    folder: tempfile::TempDir,
}

impl Printer {
    fn new(script: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("printer");
        std::fs::write(&path, format!("#!/bin/sh\necho run >> runs\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
        Self { folder }
    }

    fn token(&self) -> CommandToken {
        let host = [("PATH".into(), "/usr/bin:/bin".into()), ("SECRET".into(), "canary".into())];
        let environment = Environment::from_host(host).build().unwrap();
        CommandToken::new(self.folder.path().join("printer"), self.folder.path(), environment)
    }

    fn runs(&self) -> usize {
        runs(self.folder.path())
    }
}

fn runs(folder: &Path) -> usize {
    std::fs::read_to_string(folder.join("runs")).unwrap_or_default().lines().count()
}

async fn lent(token: &CommandToken) -> Result<String, String> {
    let lent = token.credential(Duration::from_secs(3600)).await;
    lent.map(|lent| lent.token.expose().to_owned()).map_err(|error| error.to_string())
}

#[tokio::test]
async fn the_line_that_it_prints_is_the_token_of_all_turns_of_that_time() {
    let printer = Printer::new("sleep 0.1; echo '  canary-1  '");
    let token = Arc::new(printer.token().with_account(Some("me".to_owned())));
    let lends = (0..8).map(|_| {
        let token = Arc::clone(&token);
        tokio::spawn(async move { lent(&token).await })
    });
    for lend in lends.collect::<Vec<_>>() {
        assert_eq!(lend.await.unwrap().unwrap(), "canary-1");
    }
    assert_eq!(printer.runs(), 1);
    let credential = token.credential(Duration::ZERO).await.unwrap();
    assert_eq!((credential.account.as_deref(), credential.expires_at), (Some("me"), None));
    assert!(!format!("{token:?} {credential:?} {}", token.describe()).contains("canary"));
}

#[tokio::test]
async fn a_turn_gets_at_least_half_of_a_known_lifetime() {
    let printer = Printer::new("echo canary-$(wc -l < runs | tr -d ' ')");
    let token = printer.token().with_lifetime(Some(Duration::from_secs(3000)));
    let before = SystemTime::now();
    let credential = token.credential(Duration::from_secs(3600)).await.unwrap();
    let end = credential.expires_at.unwrap();
    assert!(
        end >= before + Duration::from_secs(3000) && end <= SystemTime::now() + Duration::from_secs(3000)
    );
    for (seconds, life, runs) in [(1400, 3600, 1), (1600, 3600, 2), (1600, 60, 2), (2990, 60, 3)] {
        let at = SystemTime::now() - Duration::from_secs(seconds);
        token.known.lock().await.printed.as_mut().unwrap().at = at;
        token.credential(Duration::from_secs(life)).await.unwrap();
        assert_eq!(printer.runs(), runs, "{seconds} s old, for {life} s");
    }
}

#[tokio::test]
async fn a_refused_token_is_replaced_by_one_run_and_only_by_another_token() {
    let printer = Printer::new("echo canary-$(wc -l < runs | tr -d ' ')");
    let token = printer.token();
    let refused = token.credential(Duration::ZERO).await.unwrap();
    let renew = || token.renewed(&refused, Duration::ZERO);
    for _ in 0..2 {
        assert_eq!(renew().await.unwrap().unwrap().token.expose(), "canary-2");
    }
    assert_eq!(printer.runs(), 2);

    let same = Printer::new("echo canary");
    let token = same.token();
    let refused = token.credential(Duration::ZERO).await.unwrap();
    assert!(token.renewed(&refused, Duration::ZERO).await.unwrap().is_none());
    assert_eq!(same.runs(), 2);
    token.credential(Duration::ZERO).await.unwrap();
    assert_eq!(same.runs(), 3, "a refused token is not reused");
}

#[tokio::test]
async fn a_refused_token_that_is_printed_again_costs_one_run_for_all_that_wait() {
    let printer = Printer::new("sleep 0.2; echo canary");
    let token = printer.token();
    let refused = token.credential(Duration::ZERO).await.unwrap();
    let renewals = (0..6).map(|_| token.renewed(&refused, Duration::ZERO));
    for renewed in futures::future::join_all(renewals).await {
        assert!(renewed.unwrap().is_none());
    }
    assert_eq!(printer.runs(), 2);
}

#[tokio::test]
async fn an_output_that_is_no_token_names_the_setting_and_is_not_shown() {
    for (script, reason) in [
        (
            "exit 3",
            "the program exited with code 3: run it in a terminal to see its error output, or correct `credential.command`",
        ),
        (
            "echo canary-secret; echo 'no login for canary-secret, sk-0123456789abcdefghij' >&2; exit 1",
            "exited with code 1: run it in a terminal",
        ),
        // The shell repeats each command on standard error, with the token in it.
        ("set -x; TOKEN=ya29.a0canary0123; exit 3", "exited with code 3: run it"),
        (
            "echo '{\"access_token\":\"plaincanary\"}'; echo 'cached token plaincanary is expired' >&2; exit 1",
            "exited with code 1: run it",
        ),
        ("kill -9 $$", "was ended by signal 9"),
        (
            "true",
            "the program printed nothing on its standard output: run `credential.command` in a terminal to see its error output",
        ),
        ("echo 'log in first, canary' >&2", "printed nothing on its standard output: run"),
        (
            "echo canary; echo canary",
            "the program printed 2 lines: `credential.command` must print the token alone",
        ),
        ("echo canary two", "its output is no token: it consists of more than one word"),
        ("printf 'canary\\377'", "its output is no token: it is not text"),
        ("head -c 70000 /dev/zero", "printed more than 65536 bytes: `credential.command` must"),
    ] {
        let printer = Printer::new(script);
        let error = lent(&printer.token()).await.unwrap_err();
        assert!(error.contains(reason), "{script}: {error}");
        assert!(!error.contains("canary"), "{error}");
    }
}

#[tokio::test]
async fn a_program_that_hangs_is_ended_once_for_all_that_wait() {
    let printer = Printer::new("echo canary; sleep 1000");
    let token = Arc::new(printer.token().with_time_limit(Some(Duration::from_millis(300))));
    let lends: Vec<_> = (0..4)
        .map(|_| {
            let token = Arc::clone(&token);
            tokio::spawn(async move { lent(&token).await })
        })
        .collect();
    for lend in lends {
        let error = lend.await.unwrap().unwrap_err();
        assert!(
            error.contains("did not end within 0.3 s") && error.contains("`credential.timeout`"),
            "{error}"
        );
    }
    assert_eq!(printer.runs(), 1);
}

#[tokio::test]
async fn a_missing_program_is_named_before_a_turn_needs_it() {
    let environment = Environment::from_host([("PATH".into(), "/nowhere".into())]).build().unwrap();
    let token = CommandToken::new("no-such-tool", "/", environment);
    let error = token.standing().await.unwrap_err().to_string();
    assert_eq!(
        error,
        "the credential in the output of no-such-tool (`credential.command`) cannot be used: no executable \
         \"no-such-tool\" was found in /nowhere: install it, or correct `credential.command`"
    );
}

#[tokio::test]
async fn its_environment_is_the_given_one_alone_and_it_reads_no_input() {
    let printer = Printer::new("cat; test -z \"$SECRET\" && echo canary-alone");
    assert_eq!(lent(&printer.token()).await.unwrap(), "canary-alone");
    let standing = printer.token().standing().await.unwrap();
    assert_eq!((standing.expires_at, standing.is_renewable, standing.needs_program), (None, true, true));
    assert_eq!(printer.runs(), 1, "the standing runs nothing");
}

#[tokio::test]
async fn the_standing_waits_for_no_run_and_shows_a_known_token() {
    let printer = Printer::new("sleep 0.5; echo canary");
    let token = printer.token();
    let standing = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        tokio::time::timeout(Duration::from_millis(200), token.standing()).await
    };
    let (lent, standing) = futures::future::join(lent(&token), standing).await;
    assert_eq!(lent.unwrap(), "canary");
    assert!(standing.unwrap().unwrap().needs_program);
    assert!(!token.standing().await.unwrap().needs_program);
}

#[tokio::test]
async fn a_helper_that_the_program_starts_ends_with_it() {
    let beats = "while :; do echo beat >> beats; sleep 0.05; done";
    let printer = Printer::new(&format!("({beats}) >/dev/null 2>&1 &\nsleep 0.3; echo canary"));
    assert_eq!(lent(&printer.token()).await.unwrap(), "canary");
    let beats = || std::fs::read_to_string(printer.folder.path().join("beats")).unwrap().lines().count();
    assert!(beats() > 0);
    // The end of the last process may take a moment. Afterwards nothing writes.
    let mut last = 0;
    for _ in 0..100 {
        let now = beats();
        if now == last {
            return;
        }
        last = now;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    panic!("the helper runs on");
}
