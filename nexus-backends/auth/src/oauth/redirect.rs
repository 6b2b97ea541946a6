//! Validation of requests to the callback server. Host, path, method and state of a request must fit before any other
//! part of it is read. Only one redirect is accepted.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use hyper::{Method, Request, Response, Uri, body::Incoming, header::HOST};
use nexus_core::Secret;
use nexus_http::{HttpConnection, RequestHandler, response::ResponseBody};
use oauth2::url::form_urlencoded;
use tokio::sync::{mpsc, oneshot};

use super::page::BrowserPage;
use super::sanitize;

/// Event at the callback server that the sign-in handles.
pub(super) enum RedirectEvent {
    /// The issuer's redirect.
    Response(AuthorizationResponse),
    /// A redirect with another state arrived: from another sign-in, or forged. Reported once.
    Stranger,
}

/// The issuer's response, and the channel for the page that the browser waits for.
pub(super) struct AuthorizationResponse {
    /// Parsed answer of the issuer.
    pub(super) answer: AuthorizationAnswer,
    /// Connection of the browser's request.
    pub(super) connection: Arc<HttpConnection>,
    /// Sender of the page for the browser.
    pub(super) page: oneshot::Sender<BrowserPage>,
}

/// Answer of the issuer to the authorization request.
pub(super) enum AuthorizationAnswer {
    /// Consent: the code to exchange, and the registered client if the response names one.
    Code { code: Secret, client_id: Option<String> },
    /// Refusal: the code and message of the issuer, cleaned for display.
    Declined(String),
}

/// Accepts one redirect and answers every other request with an error page.
pub(super) struct RedirectValidator {
    /// Accepted values of the `Host` header.
    hosts: [String; 2],
    path: String,
    state: Secret,
    /// Channel to the waiting sign-in; `None` once the answer arrived.
    waiting: Mutex<Option<mpsc::Sender<RedirectEvent>>>,
    was_called_by_stranger: AtomicBool,
}

impl RedirectValidator {
    /// Creates a validator for the redirect with this state to this port and path.
    pub(super) fn new(port: u16, path: String, state: Secret, waiting: mpsc::Sender<RedirectEvent>) -> Self {
        Self {
            hosts: [format!("127.0.0.1:{port}"), format!("localhost:{port}")],
            path,
            state,
            waiting: Mutex::new(Some(waiting)),
            was_called_by_stranger: AtomicBool::new(false),
        }
    }

    fn judge(&self, request: &Request<Incoming>) -> Result<AuthorizationAnswer, BrowserPage> {
        // Protects against DNS rebinding: a foreign page whose host name resolves to this machine sends that name as
        // `Host`.
        let named = request.headers().get_all(HOST).iter().map(|host| host.to_str().ok());
        let named: Vec<_> = named.chain(request.uri().authority().map(|name| Some(name.as_str()))).collect();
        let is_us = |name: &Option<&str>| {
            name.is_some_and(|name| self.hosts.iter().any(|host| host.eq_ignore_ascii_case(name)))
        };
        if named.is_empty() || !named.iter().all(is_us) {
            return Err(BrowserPage::WrongHost);
        }
        if request.uri().path() != self.path {
            return Err(BrowserPage::NotFound);
        }
        if request.method() != Method::GET {
            return Err(BrowserPage::WrongMethod);
        }
        self.read(request.uri())
    }

    /// Reads the answer from the query, if its state is ours. A parameter that occurs twice is ambiguous, so it is
    /// rejected.
    fn read(&self, uri: &Uri) -> Result<AuthorizationAnswer, BrowserPage> {
        let query = uri.query().unwrap_or_default();
        let only = |wanted: &str| {
            let mut found = form_urlencoded::parse(query.as_bytes()).filter(|(name, _)| name == wanted);
            match (found.next(), found.next()) {
                (None, _) => Ok(None),
                (Some((_, value)), None) => Ok(Some(Secret::new(value.into_owned()))),
                (Some(_), Some(_)) => Err(()),
            }
        };
        // Check the state first, so that a forged redirect has no other effect.
        let state = only("state");
        if !matches!(&state, Ok(Some(state)) if is_same(state.expose(), self.state.expose())) {
            self.tell_of_stranger();
            return Err(BrowserPage::WrongState);
        }
        match (only("code"), only("error")) {
            (Ok(Some(code)), Ok(None)) if !code.expose().is_empty() => {
                let client_id = only("client_id").map_err(|()| BrowserPage::Incomplete)?;
                let client_id = client_id.map(|id| id.expose().to_owned());
                Ok(AuthorizationAnswer::Code { code, client_id })
            }
            (Ok(None), Ok(Some(error))) => {
                let said = only("error_description").ok().flatten();
                let said = said.as_ref().map(Secret::expose).unwrap_or_default();
                Ok(AuthorizationAnswer::Declined(self.reason(error.expose(), said)))
            }
            _ => Err(BrowserPage::Incomplete),
        }
    }

    fn reason(&self, error: &str, said: &str) -> String {
        let sent = [self.state.expose()];
        let code = sanitize::code(error, &sent).unwrap_or_else(|| "an error without a code".into());
        match sanitize::shown(said, &sent) {
            said if said.is_empty() => code,
            said => format!("{code}: {said}"),
        }
    }

    async fn hand_over(&self, answer: AuthorizationAnswer, connection: Arc<HttpConnection>) -> BrowserPage {
        // Only the first answer counts.
        let Some(waiting) = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            return BrowserPage::AlreadyAnswered;
        };
        let (page, told) = oneshot::channel();
        if waiting
            .send(RedirectEvent::Response(AuthorizationResponse { answer, connection, page }))
            .await
            .is_err()
        {
            return BrowserPage::AlreadyAnswered;
        }
        told.await.unwrap_or_else(|_| BrowserPage::Failed("the sign-in was cancelled by the caller".into()))
    }

    fn tell_of_stranger(&self) {
        if self.was_called_by_stranger.swap(true, Ordering::Relaxed) {
            return;
        }
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(waiting) = &*waiting {
            // The channel has room for this event. It does not matter if the sign-in no longer waits.
            let _ = waiting.try_send(RedirectEvent::Stranger);
        }
    }
}

impl RequestHandler for RedirectValidator {
    /// Responds to a request. The response to the accepted redirect waits until the sign-in has used it.
    async fn respond(
        &self,
        request: Request<Incoming>,
        connection: &Arc<HttpConnection>,
    ) -> Response<ResponseBody> {
        let page = match self.judge(&request) {
            Err(page) => page,
            Ok(answer) => {
                drop(request);
                self.hand_over(answer, Arc::clone(connection)).await
            }
        };
        page.response()
    }
}

/// Compares two texts of equal length in a time that does not depend on the position of a difference.
fn is_same(one: &str, other: &str) -> bool {
    one.len() == other.len()
        && one.bytes().zip(other.bytes()).fold(0, |difference, (one, other)| difference | (one ^ other)) == 0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const STATE: &str = "the-state";

    fn validator() -> RedirectValidator {
        RedirectValidator::new(1, "/callback".into(), Secret::new(STATE), mpsc::channel(2).0)
    }

    fn read(query: &str) -> Option<Result<AuthorizationAnswer, BrowserPage>> {
        let uri: Uri = format!("/callback?{query}").parse().ok()?;
        Some(validator().read(&uri))
    }

    #[test]
    fn an_encoded_answer_is_the_same_answer() {
        let answer = read("%63ode=a%2Bb+c&stat%65=the%2Dstate&scope=x&iss=https://issuer.test").unwrap();
        assert!(
            matches!(answer, Ok(AuthorizationAnswer::Code { code, client_id: None }) if code.expose() == "a+b c")
        );
    }

    proptest! {
        #[test]
        fn without_the_state_nothing_passes(
            query in "([a-z%&=+;#?/\\x21-\\x7e]{0,40}|(code|state|error|STATE|state%00)=[a-z-]{0,12}(&|;)?){0,6}",
        ) {
            let state_is_there =
                form_urlencoded::parse(query.split('#').next().unwrap().as_bytes()).any(|(_, value)| value == STATE);
            if let Some(answer) = read(&query) {
                prop_assert!(state_is_there || answer.is_err(), "{query}");
            }
        }

        #[test]
        fn one_state_and_one_code_pass_wherever_they_stand(
            code in "[!-~]{1,40}",
            others in proptest::collection::vec("[a-b]{1,4}=[c-z]{0,4}", 0..4),
            place in 0..5_usize,
        ) {
            let encoded: String = form_urlencoded::byte_serialize(code.as_bytes()).collect();
            let mut pairs = others;
            pairs.insert(place.min(pairs.len()), format!("code={encoded}"));
            pairs.push(format!("state={STATE}"));
            let passed = matches!(read(&pairs.join("&")), Some(Ok(AuthorizationAnswer::Code { code: found, .. })) if found.expose() == code);
            prop_assert!(passed);
        }
    }
}
