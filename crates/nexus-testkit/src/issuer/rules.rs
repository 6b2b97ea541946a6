//! Rules by which the issuer grants tokens, and its builder.

use std::io;
use std::time::Duration;

use super::{Account, Issuer};

/// Rules of the issuer.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    pub(super) account: Account,
    pub(super) client_ids: Vec<String>,
    pub(super) redirect_uris: Vec<String>,
    pub(super) access_token_life: Duration,
    pub(super) code_life: Duration,
    pub(super) device_code_life: Duration,
    pub(super) poll_interval: Duration,
    pub(super) refresh_token_mark: String,
    pub(super) clock_ahead_seconds: i64,
    pub(super) registers: Option<String>,
    pub(super) withheld: Option<String>,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            account: Account::default(),
            client_ids: Vec::new(),
            redirect_uris: Vec::new(),
            access_token_life: Duration::from_secs(3600),
            code_life: Duration::from_secs(60),
            device_code_life: Duration::from_secs(900),
            poll_interval: Duration::from_secs(1),
            refresh_token_mark: "simulated-refresh".into(),
            clock_ahead_seconds: 0,
            registers: None,
            withheld: None,
        }
    }
}

/// Settings of an issuer.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct IssuerBuilder {
    pub(super) rules: Rules,
    pub(super) port: u16,
    pub(super) log: bool,
}

impl IssuerBuilder {
    /// Listens on `port` in place of a free one.
    pub fn port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// Prints one line per request to stdout.
    pub fn log(mut self) -> Self {
        self.log = true;
        self
    }

    /// Signs this person in.
    pub fn account(mut self, account: Account) -> Self {
        self.rules.account = account;
        self
    }

    /// Adds a known client; others are rejected. Without any, every name is known. In either case, a code or a
    /// token is good only for the client that it was issued for.
    pub fn client_id(mut self, client_id: impl Into<String>) -> Self {
        self.rules.client_ids.push(client_id.into());
        self
    }

    /// Adds a permitted redirect URI; others are rejected. Without any, every loopback `http` URI is permitted. In either case,
    /// the URI that the code is redeemed with must be the same to the letter.
    pub fn redirect_uri(mut self, uri: impl Into<String>) -> Self {
        self.rules.redirect_uris.push(uri.into());
        self
    }

    /// Lifetime of an access token, in whole seconds. Default: one hour.
    pub fn access_token_life(mut self, life: Duration) -> Self {
        self.rules.access_token_life = life;
        self
    }

    /// Lifetime of an authorization code. Default: one minute.
    pub fn code_life(mut self, life: Duration) -> Self {
        self.rules.code_life = life;
        self
    }

    /// Lifetime of a device flow. Default: 15 minutes.
    pub fn device_code_life(mut self, life: Duration) -> Self {
        self.rules.device_code_life = life;
        self
    }

    /// Minimum interval between two polls of a device, in whole seconds. Zero allows every poll. Default: one second.
    pub fn poll_interval(mut self, interval: Duration) -> Self {
        self.rules.poll_interval = interval;
        self
    }

    /// Prefix of every refresh token, so that a test can search for it.
    pub fn refresh_token_mark(mut self, mark: impl Into<String>) -> Self {
        self.rules.refresh_token_mark = mark.into();
        self
    }

    /// Registers a new client for each sign-in as `client_id`, and accepts only those clients. The parameters are OpenAI's:
    /// `ext_agent_host_id` names the machine each time, `agent_name_hint` the program the first time, and the redirect from
    /// the page carries a `client_id`, which the code is bound to. Source: "Sign in with ChatGPT", for open-source programs.
    pub fn registering(mut self, client_id: impl Into<String>) -> Self {
        self.rules.registers = Some(client_id.into());
        self
    }

    /// Withholds this scope, unless the client requests consent again (`prompt=consent`).
    pub fn withholding(mut self, scope: impl Into<String>) -> Self {
        self.rules.withheld = Some(scope.into());
        self
    }

    /// Runs the clock that the tokens' claims are written by this many seconds ahead, or behind if negative. How long
    /// they are accepted is not changed by it.
    pub fn clock_ahead(mut self, seconds: i64) -> Self {
        self.rules.clock_ahead_seconds = seconds;
        self
    }

    /// Starts it.
    ///
    /// # Errors
    ///
    /// When the port is taken, or no thread can be had.
    pub fn start(self) -> io::Result<Issuer> {
        Issuer::serve(self)
    }
}
