//! A process that renews its login all the time is killed at random moments. The login survives, unless the provider
//! spent the old refresh token for a request of the dead, and the new one was not on disk yet: then nobody on earth has
//! a good one, and no client could have.
//!
//! What the provider had done by then is told by its own log, and what the process believed to be on disk by its own
//! output: it says so each time it is lent a credential.
//!
//! Needs `NEXUS_REAL_OIDC` (see `real/servers/README.md`), and Node:
//!
//! `real/clis/in-namespace cargo test -p nexus-turn-auth --test it login_kills -- --ignored --nocapture`

use std::{
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Stdio},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use nexus_auth::{CredentialManager, store::StoredLogin};
use nexus_core::{CredentialSource as _, Secret};
use nexus_testkit::{child_test, effort};
use serde::Deserialize;
use serde_json::{Value, json};

use super::provider::{Ahead, Provider, manager, person};

/// A refresh, by the provider's log. Times are milliseconds since the epoch.
#[derive(Clone, Debug, Deserialize)]
struct Refresh {
    /// When the answer had been handed to the system, or the client had left.
    at: f64,
    /// When the presented token was spent.
    spent_at: Option<f64>,
    /// The login.
    grant: Option<String>,
    /// Which refresh token of the login was presented: zero is the first.
    rotations: Option<u64>,
    status: u16,
    /// Whether the presented token had been spent before.
    reuse: bool,
    /// Whether the client was still there.
    delivered: bool,
}

/// How near to a refresh a kill has to come to count as such, in milliseconds.
const NEAR_MS: f64 = 5.0;
/// How long a busy machine may take over what is done at once, in milliseconds.
const AT_ONCE_MS: f64 = 30_000.0;
/// How long an access token lives, in seconds; every process believes that half of it has passed, so that it renews the
/// token each time it is asked for one.
const TOKEN_LIFE: u64 = 10;

fn impatient(url: &str, home: &Path) -> CredentialManager {
    manager(url, home).with_clock(Arc::new(Ahead(Duration::from_secs(TOKEN_LIFE / 2))))
}

/// Tells the program that it is the victim, and where.
const VICTIM: &str = "NEXUS_TEST_VICTIM";
/// What the victim prints when it was lent a credential.
const LENT: &str = "lent";

/// Not a test of its own: what is killed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn victim() {
    let Ok(told) = std::env::var(VICTIM) else { return };
    let told: Value = serde_json::from_str(&told).unwrap();
    let manager = impatient(told["url"].as_str().unwrap(), &PathBuf::from(told["home"].as_str().unwrap()));
    let mut chance = Chance(u64::from(std::process::id()));
    loop {
        manager.credential(Duration::ZERO).await.unwrap();
        println!("{LENT}");
        tokio::time::sleep(Duration::from_millis(chance.below(8))).await;
    }
}

/// The victim, as its murderer sees it.
struct Victim {
    child: Child,
    lent: Arc<AtomicUsize>,
    reader: JoinHandle<()>,
}

/// When the victim died: after the first time and before the second, in milliseconds since the epoch.
struct Death {
    before: f64,
    after: f64,
    /// How many credentials it had been lent, each of them after a renewal.
    lent: usize,
}

impl Victim {
    fn start(url: &str, home: &Path) -> Self {
        let mut child = child_test::command(victim)
            .env(VICTIM, json!({ "url": url, "home": home }).to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let lent = Arc::<AtomicUsize>::default();
        let count = Arc::clone(&lent);
        let reader = std::thread::spawn(move || {
            // The first one stands behind what the test harness says.
            lines.filter(|line| line.ends_with(LENT)).for_each(|_| {
                count.fetch_add(1, Ordering::SeqCst);
            });
        });
        Self { child, lent, reader }
    }

    fn kill(mut self) -> Death {
        assert!(self.child.try_wait().unwrap().is_none(), "the victim ended by itself: see above");
        let before = now_ms();
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        let after = now_ms();
        self.reader.join().unwrap();
        Death { before, after, lent: self.lent.load(Ordering::SeqCst) }
    }
}

/// What a kill is aimed at.
#[derive(Clone, Copy, Debug)]
enum Aim {
    /// A refresh that has come in at the provider.
    Arrival,
    /// A refresh that the provider has answered.
    Answer,
    /// Nothing, once the victim is at work.
    AtWork,
    /// Nothing, from its start.
    FromStart,
}

impl Aim {
    fn of(round: usize) -> Self {
        [Self::Arrival, Self::Answer, Self::Arrival, Self::AtWork, Self::Answer, Self::FromStart][round % 6]
    }

    /// Waits for the moment, with the log from `mark` on.
    fn wait(self, provider: &Provider, mark: usize, chance: &mut Chance) {
        let nth = 1 + chance.below(4) as usize;
        let seen = |event: &str, nth: usize| {
            let is_seen = |lines: &[Value]| {
                let seen = lines.iter().skip(mark).filter(|line| line["event"] == event).count();
                (seen >= nth).then_some(())
            };
            provider.wait_for(is_seen).expect("the victim renews its login");
        };
        let longest = match self {
            Self::Arrival => {
                seen("arrived", nth);
                5_000
            }
            Self::Answer => {
                seen("answered", nth);
                5_000
            }
            Self::AtWork => {
                seen("arrived", 1);
                60_000
            }
            Self::FromStart => 60_000,
        };
        let end = Instant::now() + Duration::from_micros(chance.below(longest));
        while Instant::now() < end {
            std::hint::spin_loop();
        }
    }
}

/// What a kill did to the login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// It is as good as before.
    Survived,
    /// It is lost: the provider had answered, and the answer was not on disk yet.
    LostAfterTheAnswer,
    /// It is lost: the request was with the provider, which spent the old token and had nobody to answer to.
    LostDuringTheAnswer,
}

/// Judges a lost login by what lay on the disk, by the provider's log of what the victim asked, and by how the survivor
/// was refused.
fn explain(
    remains: &Remains,
    victims: &[Refresh],
    survivors: &Refresh,
    death: &Death,
) -> Result<Verdict, String> {
    if remains.hold_a_newer_login {
        return Err("the new token was on disk, whole".into());
    }
    let Some(last) = victims.last() else { return Err("the victim had asked for nothing".into()) };
    let is_its_token = survivors.grant == last.grant && survivors.rotations == last.rotations;
    if !(survivors.reuse && survivors.grant.is_some() && is_its_token) {
        return Err("what was on disk is not the token that the victim spent last".into());
    }
    let Some(spent_at) = last.spent_at else { return Err("the provider had not spent the token".into()) };
    if victims.iter().any(|asked| asked.rotations > last.rotations || asked.reuse) {
        return Err("the victim used a token that was not on disk".into());
    }
    let granted = victims.iter().filter(|asked| asked.status == 200).count();
    if death.lent >= granted {
        return Err("the victim believed that the new token was on disk".into());
    }
    match last.delivered && last.at <= death.after {
        true => Ok(Verdict::LostAfterTheAnswer),
        false if spent_at <= death.after + AT_ONCE_MS => Ok(Verdict::LostDuringTheAnswer),
        false => Err("the provider spent the token of somebody who had long been dead".into()),
    }
}

/// Whether the victim died near a moment of a refresh, by the provider's log.
fn is_near(lines: &[Value], death: &Death) -> bool {
    let moments = lines
        .iter()
        .filter(|line| line["event"] == "arrived" || line["event"] == "answered")
        .filter_map(|line| line["at"].as_f64());
    let mut distances = moments.map(|at| (death.before - at).abs().max((death.after - at).abs()));
    distances.any(|distance| distance <= NEAR_MS)
}

#[derive(Debug, Default)]
struct Counts {
    near: usize,
    near_and_survived: usize,
    survived: usize,
    lost_after_the_answer: usize,
    lost_during_the_answer: usize,
    /// The new token was on disk before its owner heard of it.
    saved_before_it_was_lent: usize,
    /// It was whole on disk, and not in its place yet.
    saved_by_recovery: usize,
    /// There was a file that had been made for the next token.
    unfinished_writes: usize,
    /// The longest time from an answer to the death that lost it, in milliseconds.
    longest_window_ms: f64,
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a server of somebody else's; run by .ci/deep"]
async fn a_login_survives_every_kill_that_did_not_fall_between_the_provider_and_the_disk() {
    let (provider, home) = (Provider::start(TOKEN_LIFE), tempfile::tempdir().unwrap());
    let (rounds, mut chance) = (effort::rounds(), Chance(effort::seed()));
    let began = Instant::now();
    let mut counts = Counts::default();
    impatient(&provider.url, home.path()).sign_in(&mut person()).await.unwrap();

    for round in 0..rounds {
        let mark = provider.lines().await.len();
        let victim = Victim::start(&provider.url, home.path());
        let aim = Aim::of(round);
        aim.wait(&provider, mark, &mut chance);
        let death = victim.kill();
        // What it had sent may still be on its way.
        tokio::time::sleep(Duration::from_millis(20)).await;
        let lines = provider.lines().await.split_off(mark);
        let victims: Vec<Refresh> = refreshes(&lines);
        counts.near += usize::from(is_near(&lines, &death));
        let remains = Remains::of(home.path());
        counts.unfinished_writes += usize::from(remains.are_there);

        let mark = mark + lines.len();
        let survivor = impatient(&provider.url, home.path());
        // A token that is still alive is lent even if its renewal is refused: the log knows.
        let lent = survivor.credential(Duration::ZERO).await;
        let [asked] = &refreshes(&provider.lines().await.split_off(mark))[..] else {
            panic!("round {round}: the survivor did not ask once: {lent:?}");
        };
        let stored = survivor.look().await.unwrap().expect("there is a login");
        let verdict = match asked.status {
            200 if stored.refused.is_none() && !victims.iter().any(|asked| asked.reuse) => Verdict::Survived,
            _ => explain(&remains, &victims, asked, &death).unwrap_or_else(|reason| {
                panic!("round {round}, {aim:?}: {reason}\n{victims:#?}\n{asked:#?}\n{stored:?}")
            }),
        };
        match verdict {
            Verdict::Survived => {
                let granted = victims.iter().filter(|asked| asked.status == 200).count();
                counts.saved_before_it_was_lent += usize::from(granted > death.lent);
                counts.saved_by_recovery += usize::from(remains.hold_a_newer_login);
                counts.survived += 1;
                counts.near_and_survived += usize::from(is_near(&lines, &death));
                continue;
            }
            Verdict::LostAfterTheAnswer => {
                let answered = victims.last().map_or(death.after, |asked| asked.at);
                counts.longest_window_ms = counts.longest_window_ms.max(death.after - answered);
                counts.lost_after_the_answer += 1;
            }
            Verdict::LostDuringTheAnswer => counts.lost_during_the_answer += 1,
        }
        assert!(stored.refused.is_some(), "round {round}: a lost login is marked as such");
        survivor.sign_in(&mut person()).await.unwrap();
    }

    let lost = counts.lost_after_the_answer + counts.lost_during_the_answer;
    let refreshes = refreshes(&provider.lines().await);
    println!(
        "{rounds} kills in {:.0} s, {} refreshes: {counts:?}; none of the losses unexplained",
        began.elapsed().as_secs_f64(),
        refreshes.len(),
    );
    assert_eq!(counts.survived + lost, rounds);
    let reuses = refreshes.iter().filter(|asked| asked.reuse).count();
    assert_eq!(reuses, lost, "the provider saw a token twice only where a loss is explained");
    assert!(counts.longest_window_ms < AT_ONCE_MS, "the answer was known and not written: {counts:?}");
    assert!(!Remains::of(home.path()).are_there, "what the dead left is still there");
}

fn refreshes(lines: &[Value]) -> Vec<Refresh> {
    let is_refresh = |line: &&Value| line["event"] == "answered" && line["grant_type"] == "refresh_token";
    lines.iter().filter(is_refresh).map(|line| Refresh::deserialize(line).unwrap()).collect()
}

/// Milliseconds since the epoch, as the provider counts them.
fn now_ms() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64() * 1000.0
}

/// What the dead left in the folder of the login beside the login.
struct Remains {
    are_there: bool,
    /// Whether a login is among them, whole and newer than the one in place.
    hold_a_newer_login: bool,
}

impl Remains {
    fn of(home: &Path) -> Self {
        let folder = home.join("auth");
        let generation = |path: &Path| {
            let text = std::fs::read_to_string(path).ok()?;
            StoredLogin::from_text(&Secret::new(text)).ok().map(|stored| stored.generation)
        };
        let in_place = generation(&folder.join("real.json")).expect("there is a login, and it is whole");
        let known = ["real.json", "real.lock", ".real.guard"];
        let others: Vec<PathBuf> = std::fs::read_dir(&folder)
            .unwrap()
            .flatten()
            .filter(|file| file.file_name().to_str().is_none_or(|name| !known.contains(&name)))
            .map(|file| file.path())
            .collect();
        let newest = others.iter().filter_map(|path| generation(path)).max();
        Self {
            are_there: !others.is_empty(),
            hold_a_newer_login: newest.is_some_and(|newest| newest > in_place),
        }
    }
}

/// Numbers that are as good as random for the choice of a moment: SplitMix64.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}
