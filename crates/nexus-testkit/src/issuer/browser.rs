//! A browser without a screen, which plays the user in front of the pages.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::header::{CONTENT_TYPE, COOKIE, HOST, LOCATION, SET_COOKIE};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use url::Url;
use url::form_urlencoded::Serializer;

/// Maximum number of redirects before the browser gives up.
const MAX_REDIRECTS: usize = 20;
/// Maximum size of a page, in bytes.
const MAX_PAGE_BYTES: usize = 16 << 20;
/// Time limit of one visit.
const PATIENCE: Duration = Duration::from_secs(60);

/// A browser that follows redirects, keeps its cookies and fills in forms, over plain HTTP/1.1. Clones share the
/// cookies.
///
/// Every visit begins at once, on a thread of its own, and continues when the [`Visit`] is dropped. So a callback that
/// shows a page to the user can start a visit and return.
#[derive(Clone, Debug, Default)]
pub struct Browser {
    issuer: String,
    cookies: Arc<Mutex<Vec<(String, String)>>>,
}

/// Page that the browser shows in the end.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// URL of the page.
    pub url: String,
    /// Its HTTP status.
    pub status: u16,
    /// Its text.
    pub body: String,
}

impl Page {
    /// Returns the initial value of the form field `name`. Entities are not decoded.
    pub fn field(&self, name: &str) -> Option<&str> {
        let named = format!("name=\"{name}\"");
        let tag = self.body.split('<').find(|tag| tag.contains(&named))?;
        let (_, value) = tag.split('>').next()?.split_once("value=\"")?;
        value.split('"').next()
    }
}

impl Browser {
    /// Creates a browser without an issuer, for [`open`](Self::open) and [`submit`](Self::submit).
    pub fn new() -> Self {
        Self::default()
    }

    pub(super) fn at(issuer: String) -> Self {
        Self { issuer, cookies: Arc::default() }
    }

    /// Opens the consent page of an [`Issuer`](super::Issuer), gives consent, and follows the redirect.
    pub fn approve(&self, url: &str) -> Visit<Page> {
        self.decide(url, "approve")
    }

    /// Like [`approve`](Self::approve), but declines.
    pub fn decline(&self, url: &str) -> Visit<Page> {
        self.decide(url, "decline")
    }

    /// Gives consent like [`approve`](Self::approve), but returns the URL of the redirect instead of following it.
    pub fn approve_only(&self, url: &str) -> Visit<String> {
        let (browser, url) = (self.clone(), url.to_owned());
        Visit::begin(async move {
            let url = parse(&url)?;
            // The form of the page has the parameters of its URL, so the page need not be opened.
            let (path, form) = decision(&url, "approve");
            let response = browser.request(&path, Some(&form)).await?;
            Ok(location(&path, &response)
                .ok_or_else(|| io::Error::other("the page does not lead back"))?
                .into())
        })
    }

    /// Enters a device's code on the issuer's page and agrees.
    pub fn approve_device(&self, user_code: &str) -> Visit<Page> {
        self.submit(&format!("{}/device", self.issuer), &[("user_code", user_code), ("decision", "approve")])
    }

    /// Like [`approve_device`](Self::approve_device), but declines.
    pub fn decline_device(&self, user_code: &str) -> Visit<Page> {
        self.submit(&format!("{}/device", self.issuer), &[("user_code", user_code), ("decision", "decline")])
    }

    /// Opens a page.
    pub fn open(&self, url: &str) -> Visit<Page> {
        let (browser, url) = (self.clone(), url.to_owned());
        Visit::begin(async move { browser.follow(parse(&url)?, None).await })
    }

    /// Sends a form.
    pub fn submit(&self, url: &str, fields: &[(&str, &str)]) -> Visit<Page> {
        let (browser, url) = (self.clone(), url.to_owned());
        let form = Serializer::new(String::new()).extend_pairs(fields).finish();
        Visit::begin(async move { browser.follow(parse(&url)?, Some(form)).await })
    }

    fn decide(&self, url: &str, answer: &'static str) -> Visit<Page> {
        let (browser, url) = (self.clone(), url.to_owned());
        Visit::begin(async move {
            let url = parse(&url)?;
            let page = browser.follow(url.clone(), None).await?;
            // An error page, or a page after a redirect, has no form to answer.
            if page.status != 200 || page.url != url.as_str() {
                return Ok(page);
            }
            let (path, form) = decision(&url, answer);
            browser.follow(path, Some(form)).await
        })
    }

    /// Requests `url`, and follows all redirects. Only the first request contains the form.
    async fn follow(&self, mut url: Url, mut form: Option<String>) -> io::Result<Page> {
        for _ in 0..MAX_REDIRECTS {
            let response = self.request(&url, form.take().as_deref()).await?;
            if let Some(next) = location(&url, &response) {
                url = next;
                continue;
            }
            let status = response.status().as_u16();
            let body = String::from_utf8_lossy(response.body()).into_owned();
            return Ok(Page { url: url.into(), status, body });
        }
        Err(io::Error::other("the redirects do not end"))
    }

    async fn request(&self, url: &Url, form: Option<&str>) -> io::Result<Response<Bytes>> {
        let address = (url.host_str().unwrap_or_default(), url.port_or_known_default().unwrap_or(80));
        if url.scheme() != "http" {
            return Err(io::Error::other("only plain HTTP is spoken"));
        }
        let stream = TcpStream::connect(address).await?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
        // If the connection fails, the request below returns the error.
        tokio::spawn(connection);
        let target = url.as_str().strip_prefix(&url.origin().ascii_serialization()).unwrap_or("/");
        // A browser never sends a fragment.
        let target = target.split('#').next().unwrap_or("/");
        let authority = url.origin().ascii_serialization().replace("http://", "");
        let mut request = Request::builder()
            .method(if form.is_some() { "POST" } else { "GET" })
            .uri(target)
            .header(HOST, authority)
            .header("accept", "text/html");
        if form.is_some() {
            request = request.header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        }
        if let Some(cookies) = self.cookies_to_send() {
            request = request.header(COOKIE, cookies);
        }
        let body = Full::new(Bytes::from(form.unwrap_or_default().to_owned()));
        let request = request.body(body).map_err(io::Error::other)?;
        let response = sender.send_request(request).await.map_err(io::Error::other)?;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, MAX_PAGE_BYTES).collect().await.map_err(io::Error::other)?.to_bytes();
        let response = Response::from_parts(head, body);
        self.keep_cookies(&response);
        Ok(response)
    }

    fn cookies_to_send(&self) -> Option<String> {
        let cookies = self.cookies.lock().unwrap_or_else(PoisonError::into_inner);
        let pairs: Vec<String> = cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        (!pairs.is_empty()).then(|| pairs.join("; "))
    }

    /// Stores cookies without their origin, because a browser in a test visits one server. An empty value deletes a cookie.
    fn keep_cookies(&self, response: &Response<Bytes>) {
        let mut cookies = self.cookies.lock().unwrap_or_else(PoisonError::into_inner);
        for header in response.headers().get_all(SET_COOKIE) {
            let Ok(header) = header.to_str() else { continue };
            let pair = header.split(';').next().unwrap_or_default();
            let Some((name, value)) = pair.split_once('=') else { continue };
            cookies.retain(|(known, _)| known != name);
            if !value.is_empty() {
                cookies.push((name.to_owned(), value.to_owned()));
            }
        }
    }
}

/// Builds the form of the issuer's page: all parameters of the page's URL, and the decision.
fn decision(url: &Url, answer: &str) -> (Url, String) {
    let form = Serializer::new(String::new())
        .extend_pairs(url.query_pairs())
        .append_pair("decision", answer)
        .finish();
    let mut path = url.clone();
    // The form already has the parameters of the query.
    path.set_query(None);
    (path, form)
}

fn location(from: &Url, response: &Response<Bytes>) -> Option<Url> {
    let location = response.headers().get(LOCATION)?.to_str().ok()?;
    response.status().is_redirection().then(|| from.join(location).ok()).flatten()
}

fn parse(url: &str) -> io::Result<Url> {
    Url::parse(url).map_err(io::Error::other)
}

/// A running visit: await it, call [`wait`](Self::wait), or drop it, which does not stop it.
#[derive(Debug)]
pub struct Visit<T> {
    outcome: oneshot::Receiver<io::Result<T>>,
}

impl<T: Send + 'static> Visit<T> {
    fn begin(visit: impl Future<Output = io::Result<T>> + Send + 'static) -> Self {
        let (tell, outcome) = oneshot::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let result = runtime.and_then(|runtime| {
                runtime
                    .block_on(async { tokio::time::timeout(PATIENCE, visit).await.map_err(io::Error::from)? })
            });
            // The receiver may be gone.
            let _ = tell.send(result);
        });
        Self { outcome }
    }

    /// Blocks the calling thread until the visit is over. Do not call it on a thread that drives a runtime.
    ///
    /// # Errors
    ///
    /// The page could not be shown. A page with an HTTP error status does not count as an error.
    pub fn wait(self) -> io::Result<T> {
        self.outcome.blocking_recv().unwrap_or_else(|_| Err(gone()))
    }
}

impl<T> Future for Visit<T> {
    type Output = io::Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.outcome).poll(context).map(|outcome| outcome.unwrap_or_else(|_| Err(gone())))
    }
}

fn gone() -> io::Error {
    io::Error::other("the browser crashed")
}
