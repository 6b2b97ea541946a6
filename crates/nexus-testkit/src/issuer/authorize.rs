//! The consent page, and the redirect back from it.

use std::time::Instant;

use url::{Host, Url};
use uuid::Uuid;

use super::fields::Fields;
use super::log::Outcome;
use super::page;
use super::reply::Reply;
use super::state::{Code, State};

/// Answers `GET` with the page, and `POST` of its form with the redirect.
pub(super) fn answer(state: &mut State, method: &str, path: &str, asked: &Fields) -> Reply {
    // A client that cannot be trusted with an answer gets no redirect: RFC 6749, 4.1.2.1.
    let client_id = asked.value("client_id").unwrap_or_default();
    if client_id.is_empty() || !state.knows_client(client_id) {
        return dead_end("invalid_client", "No client of this name is known.");
    }
    let Some(back) = asked.value("redirect_uri").filter(|uri| may_return_to(state, uri)) else {
        return dead_end("invalid_request", "There is no way back to this redirect URI.");
    };
    if asked.value("response_type") != Some("code") {
        return way_back(back, asked, &[("error", "unsupported_response_type")]);
    }
    let challenge = asked.value("code_challenge").unwrap_or_default();
    if challenge.len() != 43 || asked.value("code_challenge_method") != Some("S256") {
        let words = "PKCE with S256 is required";
        return way_back(back, asked, &[("error", "invalid_request"), ("error_description", words)]);
    }
    if let Some(words) = unregistered(state, client_id, asked) {
        return way_back(back, asked, &[("error", "invalid_request"), ("error_description", words)]);
    }
    // The checks above apply to the page and to its form, so a form cannot skip them.
    if method == "GET" {
        return Reply::html(200, page::agree(path, asked));
    }
    if asked.value("decision") != Some("approve") {
        let words = "The person said no.";
        return way_back(back, asked, &[("error", "access_denied"), ("error_description", words)]);
    }
    let code = format!("simulated-code-{}", Uuid::new_v4());
    let issued = (state.rules.registers.as_deref() == Some(client_id)).then(|| state.register());
    // A withheld scope is granted only if the client asks for consent again.
    let is_asked_again = asked.value("prompt") == Some("consent");
    let is_granted = |scope: &&str| is_asked_again || state.rules.withheld.as_deref() != Some(*scope);
    let oauth_scope: Vec<&str> =
        asked.value("scope").unwrap_or_default().split(' ').filter(is_granted).collect();
    let made = Code {
        client_id: issued.as_deref().unwrap_or(client_id).to_owned(),
        redirect_uri: back.to_owned(),
        challenge: challenge.to_owned(),
        oauth_scope: oauth_scope.join(" "),
        nonce: asked.value("nonce").map(str::to_owned),
        resource: asked.value("resource").map(str::to_owned),
        made_at: Instant::now(),
        redeemed: None,
    };
    state.codes.insert(code.clone(), made);
    match issued {
        Some(issued) => way_back(back, asked, &[("code", &code), ("client_id", &issued)]),
        None => way_back(back, asked, &[("code", &code)]),
    }
}

/// Checks the name of a client, if the issuer registers clients. Returns the error.
fn unregistered(state: &State, client_id: &str, asked: &Fields) -> Option<&'static str> {
    let first = state.rules.registers.as_deref()?;
    let is_new = client_id == first;
    let is_host = |host: &str| host.strip_prefix("urn:uuid:").is_some_and(|id| Uuid::parse_str(id).is_ok());
    match () {
        () if !is_new && !state.registered.iter().any(|known| known == client_id) => Some("no such client"),
        () if !asked.value("ext_agent_host_id").is_some_and(is_host) => Some("the host is not named"),
        () if is_new != asked.value("agent_name_hint").is_some() => Some("the name belongs to a new client"),
        () => None,
    }
}

fn dead_end(code: &str, words: &str) -> Reply {
    Reply::html(400, page::say(words)).with_outcome(Outcome::Refused(code.to_owned()))
}

/// Redirects the browser with `answer` and the state of the request.
fn way_back(redirect_uri: &str, asked: &Fields, answer: &[(&str, &str)]) -> Reply {
    let Ok(mut location) = Url::parse(redirect_uri) else {
        return dead_end("invalid_request", "The redirect URI is none.");
    };
    location.query_pairs_mut().extend_pairs(answer);
    if let Some(state) = asked.value("state") {
        location.query_pairs_mut().append_pair("state", state);
    }
    let refused = answer.iter().find(|(name, _)| *name == "error");
    let outcome = refused.map_or(Outcome::Done, |(_, code)| Outcome::Refused((*code).to_owned()));
    Reply::redirect(location).with_outcome(outcome)
}

fn may_return_to(state: &State, uri: &str) -> bool {
    if !state.rules.redirect_uris.is_empty() {
        return state.rules.redirect_uris.iter().any(|known| known == uri);
    }
    let Ok(uri) = Url::parse(uri) else { return false };
    // Any port is permitted, because a program listens on a free one: RFC 8252, 7.3.
    let loopback = match uri.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    uri.scheme() == "http" && loopback && uri.fragment().is_none()
}
