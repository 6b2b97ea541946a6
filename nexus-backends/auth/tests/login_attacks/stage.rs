//! A sign-in under way, and the browsers, right and wrong, that call it back.

use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, TcpListener as StdListener},
    time::{Duration, Instant},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use nexus_auth::{
    DeviceFlow, IdentityClaims, Issuer, Login, LoginStep, OAuthSignIn, Redirect, RevocationStyle,
    SignIn as _, SignInError, SignInMethod, http::Network,
};
use nexus_core::BuildContext;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::mpsc,
    task::JoinHandle,
};

use super::wire::Reply;

/// What no error, no `Debug` and no page may hold: each secret of these tests has this word in it.
pub(crate) const CANARY: &str = "canary";

pub(crate) const CODE: &str = "canary-code";
pub(crate) const ACCESS: &str = "canary-access";
pub(crate) const REFRESH: &str = "canary-refresh";

/// How long anything may take that should take no time.
pub(crate) const SOON: Duration = Duration::from_secs(90);

/// An issuer at `url` with everything that one can have.
pub(crate) fn issuer(url: &str) -> Issuer {
    Issuer::new(url, "our-client")
        .with_oauth_scopes(["openid", "offline_access"])
        .with_authorize_endpoint("/authorize")
        .with_token_endpoint("/token")
        .with_redirect(Redirect::new([0], "/auth/callback"))
        .with_authorize_parameter("originator", "nexus")
        .with_device_flow(DeviceFlow::Standard { endpoint: "/device".into(), parameters: BTreeMap::new() })
        .with_revocation(RevocationStyle::Form { endpoint: "/revoke".into() })
        .with_refresh_claims(["principal_type", "principal_id"])
        .with_identity(
            IdentityClaims::default()
                .with_account(["https://issuer.test/auth", "account"])
                .with_plan(["plan"])
                .with_email(["email"]),
        )
}

/// A host without any environment.
pub(crate) fn context() -> BuildContext {
    BuildContext::in_home("/nowhere").with_base_directory("/nowhere")
}

pub(crate) fn sign_in(issuer: Issuer, method: SignInMethod) -> OAuthSignIn {
    OAuthSignIn::new("our-login", "log in again", issuer, &context(), &Network::default())
        .unwrap()
        .with_method(method)
        .with_patience(Duration::from_secs(60))
}

/// A token with claims, whose signature is noise.
pub(crate) fn jwt(header: &Value, claims: &Value) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    format!("{}.{}.{}", part(header), part(claims), URL_SAFE_NO_PAD.encode("canary-signature"))
}

/// The answer of a token endpoint that has nothing wrong with it.
pub(crate) fn tokens() -> Value {
    json!({ "access_token": ACCESS, "refresh_token": REFRESH, "token_type": "Bearer", "expires_in": 3600 })
}

pub(crate) fn good() -> Reply {
    Reply::json(200, &tokens())
}

/// The challenge that a verifier belongs to. Source: RFC 7636 section 4.2.
pub(crate) fn challenge(verifier: &str) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(verifier))
}

/// No secret in what a person or a log would see.
pub(crate) fn is_clean(text: &impl std::fmt::Debug) {
    let text = format!("{text:?}");
    assert!(!text.contains(CANARY), "{text}");
}

/// As [`is_clean`], and as an error is shown.
pub(crate) fn is_clean_error(error: &impl std::error::Error) {
    is_clean(error);
    let text = error.to_string();
    assert!(!text.contains(CANARY), "{text}");
    assert!(text.chars().all(|character| !character.is_control()), "{text:?}");
}

/// A sign-in under way.
pub(crate) struct Flow {
    steps: mpsc::UnboundedReceiver<LoginStep>,
    pub(crate) task: JoinHandle<Result<Login, SignInError>>,
}

impl Flow {
    pub(crate) fn start(sign_in: OAuthSignIn) -> Self {
        is_clean(&sign_in);
        let (shown, steps) = mpsc::unbounded_channel();
        let task = tokio::spawn(async move {
            let mut screen = move |step: &LoginStep| {
                let _ = shown.send(step.clone());
            };
            sign_in.sign_in(&mut screen).await
        });
        Self { steps, task }
    }

    pub(crate) async fn step(&mut self) -> LoginStep {
        tokio::time::timeout(SOON, self.steps.recv()).await.expect("a step comes soon").expect("it goes on")
    }

    /// The steps that were shown and not yet looked at.
    pub(crate) fn shown(&mut self) -> Vec<LoginStep> {
        std::iter::from_fn(|| self.steps.try_recv().ok()).collect()
    }

    /// The page that the person is sent to.
    pub(crate) async fn page(&mut self) -> Asking {
        match self.step().await {
            LoginStep::OpenPage { url, returns_to } => Asking::read(&url, &returns_to),
            other => panic!("no page: {other:?}"),
        }
    }

    pub(crate) async fn ended(self) -> Result<Login, SignInError> {
        let ended = tokio::time::timeout(SOON, self.task).await.expect("it ends soon").unwrap();
        is_clean(&ended);
        if let Err(error) = &ended {
            is_clean_error(error);
        }
        ended
    }

    /// Whether it waits still.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.task.is_finished()
    }
}

/// What the issuer is asked by the page.
#[derive(Clone)]
pub(crate) struct Asking {
    pub(crate) url: String,
    pub(crate) query: BTreeMap<String, String>,
    pub(crate) state: String,
    pub(crate) challenge: String,
    pub(crate) redirect_uri: String,
    pub(crate) port: u16,
}

impl Asking {
    fn read(url: &str, returns_to: &str) -> Self {
        let parsed = url::Url::parse(url).unwrap();
        let pairs: Vec<(String, String)> = parsed.query_pairs().into_owned().collect();
        let query: BTreeMap<_, _> = pairs.iter().cloned().collect();
        assert_eq!(pairs.len(), query.len(), "each parameter once: {pairs:?}");
        assert_eq!(query["redirect_uri"], returns_to);
        let port = url::Url::parse(returns_to).unwrap().port().unwrap();
        Self {
            url: url.into(),
            state: query["state"].clone(),
            challenge: query["code_challenge"].clone(),
            redirect_uri: returns_to.into(),
            query,
            port,
        }
    }

    /// The path and query of the answer that says yes.
    pub(crate) fn yes(&self) -> String {
        format!("/auth/callback?code={CODE}&state={}", self.state)
    }

    /// What a browser shows that is sent there.
    pub(crate) async fn get(&self, path: &str) -> Shown {
        self.send(&format!("GET {path} HTTP/1.1\r\nhost: 127.0.0.1:{}\r\n\r\n", self.port)).await
    }

    /// What comes for these bytes.
    pub(crate) async fn send(&self, request: &str) -> Shown {
        let answer = async {
            let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).await.unwrap();
            // A server that has heard enough may close before it heard all.
            let _ = stream.write_all(request.as_bytes()).await;
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer).await;
            Shown::read(&answer)
        };
        tokio::time::timeout(SOON, answer).await.expect("an answer comes soon")
    }

    /// Opens a connection and says no more than this.
    pub(crate) async fn begin(&self, words: &str) -> TcpStream {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).await.unwrap();
        stream.write_all(words.as_bytes()).await.unwrap();
        stream
    }

    /// Whether somebody else could listen there now. A process that another test starts has the port for a moment: sockets are
    /// open in it until it executes its program.
    pub(crate) fn port_is_free(&self) -> bool {
        becomes_free(self.port)
    }
}

/// Whether a port becomes free while nothing of this runtime goes on.
pub(crate) fn becomes_free(port: u16) -> bool {
    let end = Instant::now() + SOON;
    while StdListener::bind((Ipv4Addr::LOCALHOST, port)).is_err() {
        if Instant::now() > end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}

/// What a browser shows.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Shown {
    fn read(answer: &[u8]) -> Self {
        let text = String::from_utf8(answer.to_vec()).unwrap();
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            return Self { status: 0, head: text, body: String::new() };
        };
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default();
        let shown = Self { status, head: head.to_ascii_lowercase(), body: body.into() };
        if !shown.body.is_empty() {
            shown.is_harmless();
        }
        shown
    }

    /// Every page that is shown, whatever it says.
    fn is_harmless(&self) {
        for line in [
            "content-type: text/html; charset=utf-8",
            "cache-control: no-store",
            "referrer-policy: no-referrer",
            "content-security-policy: default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
            "x-content-type-options: nosniff",
        ] {
            assert!(self.head.lines().any(|found| found == line), "no {line:?} in {}", self.head);
        }
        assert!(self.body.contains("close this page"), "{}", self.body);
        for word in [CANARY, "<script", "<img", "src=", "href=", "http"] {
            assert!(!self.body.contains(word), "{word} in {}", self.body);
        }
    }
}
