//! Both device flows: the start, the person's page, and the poll.

use std::time::Instant;

use serde_json::json;
use uuid::Uuid;

use super::fields::Fields;
use super::log::Outcome;
use super::page;
use super::reply::{Manner, Reply};
use super::state::{Code, Decision, Device, State, challenge_of};

/// Begins a flow of RFC 8628.
pub(super) fn start(state: &mut State, url: &str, asked: &Fields) -> Reply {
    let Some((device_code, user_code)) = begin(state, asked) else {
        return Reply::refusal(Manner::Standard, "invalid_client", "no client of this name is known");
    };
    let page = format!("{url}/device");
    Reply::json(
        200,
        &json!({
            "device_code": device_code,
            "user_code": user_code,
            "verification_uri": page,
            "verification_uri_complete": format!("{page}?user_code={user_code}"),
            "expires_in": state.rules.device_code_life.as_secs(),
            "interval": state.rules.poll_interval.as_secs(),
        }),
    )
}

/// Begins OpenAI's flow. Source: observed with codex 0.169.0; the interval is a string there.
pub(super) fn start_openai(state: &mut State, asked: &Fields) -> Reply {
    let Some((device_code, user_code)) = begin(state, asked) else {
        return Reply::refusal(Manner::OpenAi, "invalid_client", "no client of this name is known");
    };
    let interval = state.rules.poll_interval.as_secs().to_string();
    Reply::json(200, &json!({ "device_auth_id": device_code, "user_code": user_code, "interval": interval }))
}

fn begin(state: &mut State, asked: &Fields) -> Option<(String, String)> {
    let client_id = asked.value("client_id").filter(|client_id| state.knows_client(client_id))?;
    let device_code = format!("simulated-device-{}", Uuid::new_v4());
    let random = Uuid::new_v4().simple().to_string().to_uppercase();
    let user_code = format!("{}-{}", random.get(0..4)?, random.get(4..9)?);
    state.devices.push(Device {
        device_code: device_code.clone(),
        user_code: user_code.clone(),
        client_id: client_id.to_owned(),
        oauth_scope: asked.value("scope").unwrap_or_default().to_owned(),
        made_at: Instant::now(),
        asked_at: None,
        decision: None,
        redeemed: false,
    });
    Some((device_code, user_code))
}

/// The page on which a person enters the code and decides.
pub(super) fn decide(state: &mut State, method: &str, path: &str, asked: &Fields) -> Reply {
    let user_code = asked.value("user_code").unwrap_or_default();
    if method == "GET" {
        return Reply::html(200, page::device(path, user_code));
    }
    let life = state.rules.device_code_life;
    // A decision is final, so a device that already has one is not found.
    let waiting = state.devices.iter_mut().find(|device| {
        device.user_code == user_code && device.decision.is_none() && device.made_at.elapsed() < life
    });
    let Some(device) = waiting else {
        let outcome = Outcome::Refused("unknown_code".into());
        return Reply::html(400, page::say("No device waits with this code.")).with_outcome(outcome);
    };
    let (decision, words) = match asked.value("decision") {
        Some("approve") => (Decision::Approved, "The device is signed in."),
        _ => (Decision::Declined, "The device was turned away."),
    };
    device.decision = Some(decision);
    Reply::html(200, page::say(words))
}

/// State of a device flow.
enum Stand {
    Unknown,
    Expired,
    TooFast,
    Pending,
    Declined,
    /// Approved for this client with this scope, and from now on redeemed.
    Approved {
        client_id: String,
        oauth_scope: String,
    },
}

fn stand(state: &mut State, device_code: &str, user_code: Option<&str>) -> Stand {
    let (life, interval) = (state.rules.device_code_life, state.rules.poll_interval);
    let found = state.devices.iter_mut().find(|device| {
        device.device_code == device_code && user_code.is_none_or(|code| code == device.user_code)
    });
    let Some(device) = found.filter(|device| !device.redeemed) else { return Stand::Unknown };
    if device.made_at.elapsed() >= life {
        return Stand::Expired;
    }
    // Tolerates a timer that fires slightly early.
    let tolerance = interval / 20;
    let too_fast = device.asked_at.is_some_and(|before| before.elapsed() + tolerance < interval);
    // A poll that comes too soon counts as well, so a device that never waits gets no answer.
    device.asked_at = Some(Instant::now());
    match device.decision {
        _ if too_fast => Stand::TooFast,
        None => Stand::Pending,
        Some(Decision::Declined) => Stand::Declined,
        Some(Decision::Approved) => {
            device.redeemed = true;
            Stand::Approved { client_id: device.client_id.clone(), oauth_scope: device.oauth_scope.clone() }
        }
    }
}

/// Handles a poll of RFC 8628 at the token endpoint. `Ok` is the number of the new login; `Err` is the response without one.
pub(super) fn poll(state: &mut State, manner: Manner, asked: &Fields) -> Result<u64, Box<Reply>> {
    let no = |code: &str, words: &str| Err(Box::new(Reply::refusal(manner, code, words)));
    let client_id = asked.value("client_id").unwrap_or_default();
    match stand(state, asked.value("device_code").unwrap_or_default(), None) {
        Stand::Unknown => no("invalid_grant", "no device waits with this code"),
        Stand::Expired => no("expired_token", "nobody came in time"),
        Stand::Declined => no("access_denied", "the person said no"),
        Stand::TooFast => {
            let refusal = Reply::refusal(manner, "slow_down", "ask less often");
            Err(Box::new(refusal.with_outcome(Outcome::TooFast)))
        }
        Stand::Pending => {
            let refusal = Reply::refusal(manner, "authorization_pending", "nobody has agreed yet");
            Err(Box::new(refusal.with_outcome(Outcome::Pending)))
        }
        // The code is used up all the same.
        Stand::Approved { client_id: other, .. } if other != client_id => {
            no("invalid_grant", "the code is another client's")
        }
        Stand::Approved { oauth_scope, .. } => Ok(state.begin(client_id, &oauth_scope, None, None)),
    }
}

/// Answers a poll as OpenAI does: 403 until the person has agreed, then a code with its verifier. Its answers for a person who
/// declined and for an expired code are not known; here they are 403 and 404.
pub(super) fn poll_openai(state: &mut State, url: &str, asked: &Fields) -> Reply {
    let no = |status, code: &str, words: &str, outcome| {
        Reply::refusal(Manner::OpenAi, code, words).with_status(status).with_outcome(outcome)
    };
    let device_code = asked.value("device_auth_id").unwrap_or_default();
    let user_code = asked.value("user_code").unwrap_or_default();
    match stand(state, device_code, Some(user_code)) {
        Stand::Unknown | Stand::Expired => {
            let outcome = Outcome::Refused("deviceauth_authorization_unknown".into());
            no(404, "deviceauth_authorization_unknown", "no device waits with this code", outcome)
        }
        Stand::TooFast => {
            no(403, "deviceauth_authorization_pending", "nobody has agreed yet", Outcome::TooFast)
        }
        Stand::Pending | Stand::Declined => {
            no(403, "deviceauth_authorization_pending", "nobody has agreed yet", Outcome::Pending)
        }
        Stand::Approved { client_id, oauth_scope } => {
            let verifier = format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple());
            let challenge = challenge_of(&verifier);
            let code = format!("simulated-code-{}", Uuid::new_v4());
            state.codes.insert(
                code.clone(),
                Code {
                    client_id,
                    redirect_uri: format!("{url}/deviceauth/callback"),
                    challenge: challenge.clone(),
                    oauth_scope,
                    nonce: None,
                    resource: None,
                    made_at: Instant::now(),
                    redeemed: None,
                },
            );
            Reply::json(
                200,
                &json!({ "authorization_code": code, "code_challenge": challenge, "code_verifier": verifier }),
            )
        }
    }
}
