//! A login that Nexus makes: sign-in, storage, turns that use it, one renewal for concurrent turns, and logout.
//!
//!     cargo run --example login
//!     cargo run --example login -- --real codex
//!
//! The first form needs no login and no network: the issuer and the model are simulated on loopback, and this program
//! plays the person in front of the browser. The second signs you in to your ChatGPT plan (or, with `grok`, to
//! SuperGrok), asks one short question on it, and leaves you logged in: `nexus logout codex` undoes it.

mod stage;

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use nexus::{
    BuildContext, EventEnvelope, Limits, OwnLogin, Router, TurnHost, TurnRequest,
    auth::{Clock, CredentialManager, Login, LoginStep, Redirect, Revocation},
    http::Network,
    registry,
};
use nexus_testkit::{
    issuer::{Browser, Issuer, RequestKind},
    sim::{Dialect, Reply, Scenario, Sim},
};
use stage::{AnyError, show_turn};

const ABOUT: &str = "Signs in, runs turns on the login, renews it once, and signs out.\n\n\
     cargo run --example login [-- --real codex|grok]\n\n\
     Without --real, everything is simulated.";

/// Number of turns that request the login at the same time.
const TURNS: usize = 8;

#[tokio::main]
async fn main() -> Result<(), AnyError> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] => simulated().await,
        ["--real", login] => real(nexus::login(login)?).await,
        ["--help" | "-h"] => {
            println!("{ABOUT}");
            Ok(())
        }
        _ => Err(format!("`--real codex`, `--real grok`, or nothing\n\n{ABOUT}").into()),
    }
}

/// Runs all steps, with an issuer that this program serves.
async fn simulated() -> Result<(), AnyError> {
    println!("No login needed: running on the embedded simulator. `-- --real codex` uses your own plan.\n");
    let issuer = Issuer::start()?;
    let model = Sim::start(Dialect::Responses, Scenario::new([answer()]).models(["simulated"]))?;
    let scratch = tempfile::tempdir()?;
    let context = BuildContext::in_home(scratch.path().join("nexus"));
    let clock = Arc::new(OwnClock::default());

    println!("1. Sign in. This program plays the person in front of the browser.");
    // Take the login of Codex, and replace its address and its port by those of the simulated issuer.
    let sign_in = nexus::login("codex")?.sign_in(&context, &Network::default())?;
    let elsewhere =
        sign_in.issuer().clone().with_url(issuer.url()).with_redirect(Redirect::new([0], "/auth/callback"));
    let sign_in = sign_in.with_issuer(elsewhere).with_clock(clock.clone());
    let manager = CredentialManager::at_home(Arc::new(sign_in), &context.home).with_clock(clock.clone());
    let browser = issuer.browser();
    let login = manager.sign_in(&mut |step: &LoginStep| agree(&browser, step)).await?;

    println!("\n2. What is kept, in {}:", manager.place());
    describe(&login);

    println!("\n3. A turn on it.");
    let context = context.with_credential_source("manager", Arc::new(manager.clone()));
    let router = Router::builder(registry(), context).from_str(&routes("codex-sub-token", Some(&model)))?;
    show_turn(&router, "talker", question()).await?;

    println!("\n4. An hour later the token has expired, and {TURNS} turns want it at once.");
    clock.advance(Duration::from_secs(3600));
    let turns = (0..TURNS).map(|_| {
        let router = router.clone();
        tokio::spawn(async move {
            let mut ignored = |_: EventEnvelope| {};
            router.run_turn("talker", question(), TurnHost::new(), &mut ignored).await
        })
    });
    for turn in turns.collect::<Vec<_>>() {
        turn.await??;
    }
    let tokens: BTreeSet<_> =
        model.main_calls().iter().filter_map(|call| call.bearer().map(str::to_owned)).collect();
    println!(
        "   {TURNS} answers. The issuer was asked to renew it {}, and saw {} twice; the model saw {}.",
        counted(issuer.count(RequestKind::Refresh), "time"),
        counted(issuer.reuses(), "token"),
        counted(tokens.len(), "access token"),
    );

    println!("\n5. Sign out.");
    let done = manager.log_out().await?;
    match done.revocation {
        Some(Ok(Revocation::Revoked)) => println!("   The issuer was told, and the login is gone."),
        Some(Ok(Revocation::NotOffered)) | None => println!("   The login is gone from this machine."),
        Some(Err(error)) => println!("   The login is gone from this machine, but {error}."),
    }
    let mut ignored = |_: EventEnvelope| {};
    match router.run_turn("talker", question(), TurnHost::new(), &mut ignored).await {
        Ok(_) => Err("a turn ran without a login".into()),
        Err(error) => {
            let causes: String = error.report().causes.iter().map(|cause| format!(": {cause}")).collect();
            println!("   A turn now: {error}{causes}");
            Ok(())
        }
    }
}

/// Signs in to the user's own plan, and runs one turn.
async fn real(name: OwnLogin) -> Result<(), AnyError> {
    let context = BuildContext::from_process();
    let sign_in = name.sign_in(&context, &Network::default())?;
    println!("Signing in at {} for real.\n", sign_in.issuer().url);
    let manager = CredentialManager::at_home(Arc::new(sign_in), &context.home);
    let login = manager.sign_in(&mut |step: &LoginStep| show(step)).await?;
    println!("\nKept in {}:", manager.place());
    describe(&login);

    let backend = match name.as_str() {
        "grok" => "grok-sub-token",
        "chatgpt" => "chatgpt-sub-token",
        _ => "codex-sub-token",
    };
    let router = Router::builder(registry(), context).from_str(&routes(backend, None))?;
    println!();
    show_turn(&router, "talker", question()).await?;
    println!("\nYou stay logged in. `nexus status` tells, `nexus logout {name}` undoes it.");
    Ok(())
}

/// Clock of the credential manager. The example moves it ahead, so that the token expires at once.
#[derive(Debug, Default)]
struct OwnClock {
    ahead_seconds: AtomicU64,
}

impl OwnClock {
    fn advance(&self, by: Duration) {
        self.ahead_seconds.fetch_add(by.as_secs(), Ordering::Relaxed);
    }
}

impl Clock for OwnClock {
    fn now(&self) -> SystemTime {
        SystemTime::now() + Duration::from_secs(self.ahead_seconds.load(Ordering::Relaxed))
    }
}

/// Prints a step of the sign-in.
fn show(step: &LoginStep) {
    match step {
        LoginStep::OpenPage { url, returns_to } => {
            println!("   Open {url}\n   The answer comes back to {returns_to}.");
        }
        LoginStep::EnterCode { url, user_code, expires_in, .. } => {
            println!(
                "   Open {url}\n   and enter {user_code}, within {} minutes.",
                expires_in.as_secs() / 60
            );
        }
        LoginStep::Note(text) => println!("   {text}"),
        _ => {}
    }
}

/// Prints a step of the sign-in, and gives consent in a simulated browser.
fn agree(browser: &Browser, step: &LoginStep) {
    show(step);
    if let LoginStep::OpenPage { url, .. } = step {
        // Dropping the handle does not stop the visit. The browser sends the answer to the port of the sign-in.
        drop(browser.approve(url));
    }
}

/// Prints the details of a login. Its tokens print as `[redacted]`.
fn describe(login: &Login) {
    let known = |text: &Option<String>| text.clone().unwrap_or_else(|| "not told".to_owned());
    println!("   whose          {}", known(&login.identity.email));
    println!("   account        {}", known(&login.identity.account));
    println!("   plan           {}", known(&login.identity.plan));
    let left = login
        .life_left(SystemTime::now())
        .map(|left| format!("valid for {} minutes", left.as_secs().div_ceil(60)));
    println!(
        "   access token   {:?}, {}",
        login.access_token,
        left.unwrap_or_else(|| "its end is unknown".into())
    );
    println!("   refresh token  {}", if login.refresh_token.is_some() { "kept" } else { "none" });
}

/// Formats a count, such as `2 tokens`.
fn counted(count: usize, thing: &str) -> String {
    format!("{count} {thing}{}", if count == 1 { "" } else { "s" })
}

/// Returns the configuration. The simulated backend gets its credential from the credential manager of this program. The
/// real one has no `credential`, so it uses the login of `nexus login`.
fn routes(backend: &str, model: Option<&Sim>) -> String {
    let simulated =
        |model: &Sim| format!("{{ base_url: {:?}, credential: {{ source: manager }} }}", model.base_url());
    let settings = model.map(simulated);
    format!(
        "groups: {{ plan: [{backend}] }}\n\
         backends: {{ {backend}: {} }}\n\
         types: {{ talker: {{ tier: execution, phase: talk, group: plan }} }}\n",
        settings.unwrap_or_default()
    )
}

fn question() -> TurnRequest {
    TurnRequest::new("In one sentence: why does a refresh token need one owner?")
        .with_limits(Limits::new().with_deadline(Duration::from_secs(120)))
}

/// Answer of the simulated model to every request.
fn answer() -> Reply {
    Reply::text("Because it is good for one use, and two who both use it end the login for each other.")
}
