//! An OpenID provider that nobody here wrote, its log, and the person who signs in there.

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

use nexus_auth::{
    Clock, CredentialManager, DeviceFlow, IdentityClaims, Issuer, LoginStep, OAuthSignIn, Redirect,
    RevocationStyle, SignInMethod, http::Network,
};
use nexus_core::BuildContext;
use nexus_testkit::issuer::Browser;
use serde_json::Value;

/// How long the provider may take to do something.
const PATIENCE: Duration = Duration::from_secs(30);

/// The provider, on a port of its own. Dropped, it is gone.
#[derive(Debug)]
pub(crate) struct Provider {
    child: Child,
    pub(crate) url: String,
    log: Arc<Log>,
    marks: AtomicUsize,
}

#[derive(Debug, Default)]
struct Log {
    lines: Mutex<Vec<Value>>,
    more: Condvar,
}

impl Provider {
    /// Starts it; its access tokens live so long.
    pub(crate) fn start(access_token_seconds: u64) -> Self {
        let script = std::env::var("NEXUS_REAL_OIDC").expect("NEXUS_REAL_OIDC names the provider");
        let mut child = Command::new("node")
            .arg(script)
            .args(["--access-token-seconds", &access_token_seconds.to_string()])
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("node runs");
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let url = lines.next().expect("the provider says where it is").unwrap();
        let log = Arc::<Log>::default();
        let writer = Arc::clone(&log);
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let line = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
                writer.lines.lock().unwrap_or_else(PoisonError::into_inner).push(line);
                writer.more.notify_all();
            }
        });
        Self { child, url, log, marks: AtomicUsize::default() }
    }

    /// Everything logged so far about the past, in order: JSON objects with an `event`. Every request that came in is
    /// done with.
    pub(crate) async fn lines(&self) -> Vec<Value> {
        let mark = self.marks.fetch_add(1, Ordering::SeqCst).to_string();
        let url = format!("{}/test/mark?mark={mark}", self.url);
        assert_eq!(Browser::new().submit(&url, &[]).await.unwrap().status, 204);
        let settled = |lines: &[Value]| {
            let count = |event: &str| lines.iter().filter(|line| line["event"] == event).count();
            let is_marked = lines.iter().any(|line| line["mark"] == mark.as_str());
            (is_marked && count("arrived") == count("answered")).then(|| lines.to_vec())
        };
        self.wait_for(settled).expect("the provider answers everything")
    }

    /// Waits, blocking the thread, until the log says something; gives what it says.
    pub(crate) fn wait_for<T>(&self, says: impl Fn(&[Value]) -> Option<T>) -> Option<T> {
        let end = Instant::now() + PATIENCE;
        let mut lines = self.log.lines.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(said) = says(&lines) {
                return Some(said);
            }
            let left = end.checked_duration_since(Instant::now())?;
            lines = self.log.more.wait_timeout(lines, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        // It is gone already, or it goes now.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sign-in at the provider: its own routes, none of them a vendor's.
pub(crate) fn sign_in(url: &str, method: SignInMethod) -> OAuthSignIn {
    let openai = "https://api.openai.com/auth";
    let issuer = Issuer::new(url, "nexus-test-client")
        .with_oauth_scopes(["openid", "email"])
        .with_authorize_endpoint("/auth")
        .with_token_endpoint("/token")
        .with_redirect(Redirect::new([0], "/auth/callback"))
        .with_device_flow(DeviceFlow::Standard {
            endpoint: "/device/auth".into(),
            parameters: Default::default(),
        })
        // What the provider says of itself is believed, and its ID tokens are verified.
        .with_discovery_endpoint("/.well-known/openid-configuration")
        .with_revocation(RevocationStyle::Discovered)
        .with_identity(
            IdentityClaims::default()
                .with_account([openai, "chatgpt_account_id"])
                .with_plan([openai, "chatgpt_plan_type"])
                .with_email(["email"]),
        );
    let nowhere = Path::new("/nonexistent");
    let context = BuildContext::in_home(nowhere).with_base_directory(nowhere);
    OAuthSignIn::new("real", "log in again", issuer, &context, &Network::default())
        .unwrap()
        .with_method(method)
}

/// The credential manager of the login in `home`.
pub(crate) fn manager(url: &str, home: &Path) -> CredentialManager {
    CredentialManager::at_home(Arc::new(sign_in(url, SignInMethod::Browser)), home)
}

/// The person: goes wherever a sign-in says, and agrees to everything.
pub(crate) fn person() -> impl FnMut(&LoginStep) + Send {
    let browser = Browser::new();
    move |step| match step {
        // The provider agrees by itself as soon as somebody comes by, and leads back.
        LoginStep::OpenPage { url, .. } => drop(browser.open(url)),
        LoginStep::EnterCode { complete_url, url, user_code, .. } => {
            let (browser, page) = (browser.clone(), complete_url.clone().unwrap_or_else(|| url.clone()));
            let (form, user_code) = (url.clone(), user_code.clone());
            std::thread::spawn(move || confirm(&browser, &page, &form, &user_code));
        }
        _ => {}
    }
}

/// What a person clicks on the provider's pages for devices: send the code, then confirm it.
fn confirm(browser: &Browser, page: &str, form: &str, user_code: &str) {
    let mut shown = browser.open(page).wait().unwrap();
    for more in [&[][..], &[("confirm", "yes")]] {
        let xsrf = shown.field("xsrf").unwrap_or_else(|| panic!("there is no form: {shown:?}")).to_owned();
        let mut fields = vec![("xsrf", xsrf.as_str()), ("user_code", user_code)];
        fields.extend(more);
        shown = browser.submit(form, &fields).wait().unwrap();
    }
    assert_eq!(shown.status, 200, "{shown:?}");
}

/// A clock that is ahead of the machine's.
#[derive(Debug)]
pub(crate) struct Ahead(pub(crate) Duration);

impl Clock for Ahead {
    fn now(&self) -> SystemTime {
        SystemTime::now() + self.0
    }
}
