//! A scripted authorization server on loopback: what a login talks to in a test.
//!
//! It speaks OAuth 2.0 as both vendors' programs do, on one port: authorization code with PKCE, the device flow of
//! RFC 8628 and that of OpenAI, refresh and revocation. It is strict where a real one is: PKCE by S256 only,
//! a redirect URI that is the same to the letter, codes and refresh tokens that are good once. A client that spends a refresh
//! token twice loses the whole family, and the log shows it. Every request is logged, never a token.
//!
//! | what | paths |
//! | --- | --- |
//! | authorize | `/oauth/authorize`, `/oauth2/authorize`, `/api/accounts/authorize` |
//! | token | `/oauth/token` and `/api/accounts/oauth/token` (OpenAI's errors), `/oauth2/token` (RFC 6749) |
//! | revoke | `/oauth/revoke`, `/oauth2/revoke` |
//! | device, RFC 8628 | `/oauth2/device/code`, polled at `/oauth2/token` |
//! | device, OpenAI | `/api/accounts/deviceauth/usercode`, `/api/accounts/deviceauth/token` |
//! | pages for a person | `/codex/device`, `/device` |
//! | discovery | `/.well-known/openid-configuration`, `/.well-known/jwks.json` |
//!
//! A [`Browser`] plays the person in front of it:
//!
//! ```
//! use nexus_testkit::issuer::{Issuer, RequestKind};
//!
//! let issuer = Issuer::start()?;
//! // Where a program under test would show this page to a person:
//! let page = format!(
//!     "{}/oauth/authorize?response_type=code&client_id=some-client&state=s1\
//!      &redirect_uri=http://127.0.0.1:1455/auth/callback\
//!      &code_challenge=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU&code_challenge_method=S256",
//!     issuer.url(),
//! );
//! let returned_to = issuer.browser().approve_only(&page).wait()?;
//! assert!(returned_to.starts_with("http://127.0.0.1:1455/auth/callback?code="));
//! assert_eq!(issuer.count(RequestKind::CodeExchange), 0);
//! # std::io::Result::Ok(())
//! ```
//!
//! It runs on its own thread, so it answers even if the caller's runtime is busy or absent; dropping it stops
//! the thread and closes every connection. Its tokens are JWTs, signed (ES256) with a key that it makes when it starts.

mod account;
mod authorize;
mod browser;
mod device;
mod fault;
mod fields;
mod jwt;
mod log;
mod page;
mod reply;
mod rules;
mod running;
mod server;
mod state;
mod token;
mod tokens;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nexus_core::Secret;

pub use account::Account;
pub use browser::{Browser, Page, Visit};
pub use fault::Fault;
pub use log::{Asked, Outcome, RequestKind};
pub use rules::IssuerBuilder;
pub use tokens::{TokenKind, TokenPlace, Tokens};

use running::Running;
use server::Core;

/// A running authorization server. Dropping it stops it.
#[derive(Debug)]
pub struct Issuer {
    core: Arc<Core>,
    running: Running,
}

impl Issuer {
    /// Serves on a free port of 127.0.0.1, by the default rules.
    ///
    /// # Errors
    ///
    /// No port or no thread is available.
    pub fn start() -> io::Result<Self> {
        Self::builder().start()
    }

    /// Sets an issuer up in more detail.
    pub fn builder() -> IssuerBuilder {
        IssuerBuilder::default()
    }

    fn serve(builder: IssuerBuilder) -> io::Result<Self> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, builder.port));
        let (listener, address) = running::bind(address)?;
        // The URL contains the port, which is known only after the bind.
        let core = Arc::new(Core::new(format!("http://{address}"), builder));
        let running = Running::start(Arc::clone(&core), listener)?;
        Ok(Self { core, running })
    }

    /// Its root, without a slash at the end. Its tokens name it as `iss`.
    pub fn url(&self) -> String {
        self.core.url.clone()
    }

    /// Stops serving now: connections are refused from here on. The log stays.
    pub fn stop(&mut self) {
        self.running.stop();
    }

    /// A person's browser, which remembers its cookies.
    pub fn browser(&self) -> Browser {
        Browser::at(self.url())
    }

    /// Issues a login as if a person had just signed in as `client_id`, without any request.
    pub fn issue(&self, client_id: &str) -> Tokens {
        self.core.state().issue(&self.core.url, client_id)
    }

    /// Returns true if a resource of this issuer would accept `access_token` now.
    pub fn accepts(&self, access_token: &str) -> bool {
        self.core.state().accepts(access_token)
    }

    /// Returns the kind, login and generation of a token. `None` if this issuer did not issue it.
    pub fn place_of(&self, token: &Secret) -> Option<TokenPlace> {
        self.core.state().place_of(token.expose())
    }

    /// Makes every access token issued so far unacceptable before its stated expiry.
    pub fn expire_access_tokens(&self) {
        self.core.state().expire_access_tokens();
    }

    /// Ends every login handed out so far, as a person does at the vendor's account page.
    pub fn revoke_everything(&self) {
        self.core.state().revoke_everything();
    }

    /// Signs another person in from now on, and refreshes every login for them, too.
    pub fn set_account(&self, account: Account) {
        self.core.state().rules.account = account;
    }

    /// The clients that sign-ins have registered here so far, in order.
    pub fn registered(&self) -> Vec<String> {
        self.core.state().registered.clone()
    }

    /// Changes the lifetime of access tokens that are issued from now on.
    pub fn set_access_token_life(&self, life: Duration) {
        self.core.state().rules.access_token_life = life;
    }

    /// Lets every request of `kind` fail this way, until [`Issuer::heal`].
    pub fn fail(&self, kind: RequestKind, fault: Fault) {
        self.core.state().plan(kind, fault, None);
    }

    /// Lets the next `times` requests of `kind` fail this way. Calls add up, in order.
    pub fn fail_times(&self, kind: RequestKind, fault: Fault, times: usize) {
        self.core.state().plan(kind, fault, Some(times));
    }

    /// Forgets all faults.
    pub fn heal(&self) {
        self.core.state().heal();
    }

    /// All requests so far, in order of arrival.
    pub fn asked(&self) -> Vec<Asked> {
        self.core.log.asked()
    }

    /// Number of requests of `kind`.
    pub fn count(&self, kind: RequestKind) -> usize {
        self.asked().iter().filter(|asked| asked.kind == kind).count()
    }

    /// Number of requests that presented a spent refresh token or code.
    pub fn reuses(&self) -> usize {
        self.asked().iter().filter(|asked| asked.reuse).count()
    }

    /// Waits until `ready` returns true, for at most `timeout`. Checks again after each request and each answer.
    /// Returns true if it did. Needs a Tokio runtime with its timer.
    pub async fn wait_until(&self, timeout: Duration, ready: impl Fn(&Self) -> bool) -> bool {
        let mut changes = self.core.log.subscribe();
        let waiting = async {
            while !ready(self) {
                // The sender lives in `self`, so this ends only with a change.
                if changes.changed().await.is_err() {
                    break;
                }
            }
        };
        // The condition may become true at the moment in which the time ends.
        tokio::time::timeout(timeout, waiting).await.is_ok() || ready(self)
    }

    /// Like [`wait_until`](Self::wait_until), but blocks the calling thread.
    pub fn wait_until_blocking(&self, timeout: Duration, ready: impl Fn(&Self) -> bool) -> bool {
        let deadline = Instant::now() + timeout;
        while !ready(self) {
            if Instant::now() >= deadline {
                return false;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        true
    }
}
