//! State of the issuer: logins and their generations, pending codes and devices, planned faults.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use nexus_core::Secret;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::fault::Fault;
use super::jwt::{Signer, without_signature};
use super::log::RequestKind;
use super::rules::Rules;
use super::tokens::{TokenKind, TokenPlace, Tokens};

/// One login: all tokens that follow from one consent of the person.
#[derive(Debug)]
struct Family {
    client_id: String,
    oauth_scope: String,
    nonce: Option<String>,
    resource: Option<String>,
    generation: u64,
    over: bool,
}

/// A code that was sent to a browser, or to a device.
#[derive(Debug)]
pub(super) struct Code {
    pub(super) client_id: String,
    pub(super) redirect_uri: String,
    pub(super) challenge: String,
    pub(super) oauth_scope: String,
    pub(super) nonce: Option<String>,
    pub(super) resource: Option<String>,
    pub(super) made_at: Instant,
    /// The login that it became.
    pub(super) redeemed: Option<u64>,
}

/// A device that waits for its person.
#[derive(Debug)]
pub(super) struct Device {
    pub(super) device_code: String,
    pub(super) user_code: String,
    pub(super) client_id: String,
    pub(super) oauth_scope: String,
    pub(super) made_at: Instant,
    pub(super) asked_at: Option<Instant>,
    pub(super) decision: Option<Decision>,
    pub(super) redeemed: bool,
}

/// Decision of the person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    Approved,
    Declined,
}

/// Reason why a refresh token is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bad {
    /// The token is unknown, or belongs to another client.
    Unknown,
    /// The token belongs to another resource than the request names.
    Elsewhere,
    /// The token was already spent: the login ends now.
    Reused,
    /// The login had already ended.
    Over,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) rules: Rules,
    families: Vec<Family>,
    places: HashMap<String, TokenPlace>,
    alive: HashMap<String, Instant>,
    spent: HashSet<String>,
    pub(super) codes: HashMap<String, Code>,
    pub(super) devices: Vec<Device>,
    faults: HashMap<RequestKind, VecDeque<(Fault, Option<usize>)>>,
    pub(super) signer: Signer,
    /// The clients that sign-ins have registered.
    pub(super) registered: Vec<String>,
}

impl State {
    pub(super) fn new(rules: Rules) -> Self {
        Self { rules, ..Self::default() }
    }

    pub(super) fn plan(&mut self, kind: RequestKind, fault: Fault, times: Option<usize>) {
        self.faults.entry(kind).or_default().push_back((fault, times));
    }

    pub(super) fn heal(&mut self) {
        self.faults.clear();
    }

    /// Takes the planned fault for the next request of `kind`.
    pub(super) fn next_fault(&mut self, kind: RequestKind) -> Option<Fault> {
        let planned = self.faults.get_mut(&kind)?;
        // A fault that was used up by the last request is still the first.
        planned.retain(|(_, left)| *left != Some(0));
        let (fault, left) = planned.front_mut()?;
        if let Some(left) = left {
            *left -= 1;
        }
        Some(fault.clone())
    }

    pub(super) fn knows_client(&self, client_id: &str) -> bool {
        self.rules.client_ids.is_empty() || self.rules.client_ids.iter().any(|known| known == client_id)
    }

    /// Registers a client for a sign-in that the person has just approved.
    pub(super) fn register(&mut self) -> String {
        let client_id = format!("simulated_client_{}", Uuid::new_v4().simple());
        self.registered.push(client_id.clone());
        client_id
    }

    /// Begins a login.
    pub(super) fn begin(
        &mut self,
        client_id: &str,
        oauth_scope: &str,
        nonce: Option<String>,
        resource: Option<String>,
    ) -> u64 {
        self.families.push(Family {
            client_id: client_id.to_owned(),
            oauth_scope: oauth_scope.to_owned(),
            nonce,
            resource,
            generation: 0,
            over: false,
        });
        self.families.len() as u64 - 1
    }

    pub(super) fn issue(&mut self, url: &str, client_id: &str) -> Tokens {
        let family = self.begin(client_id, "openid profile email offline_access", None, None);
        self.mint(url, family, None, None)
    }

    /// Issues the tokens of a login's current generation. `kept` is a refresh token to repeat in place of a new one.
    pub(super) fn mint(
        &mut self,
        url: &str,
        family: u64,
        kept: Option<&str>,
        fault: Option<&Fault>,
    ) -> Tokens {
        let Some(login) = self.families.get(family as usize) else {
            unreachable!("a family is minted for only after it was begun")
        };
        let (client_id, generation) = (login.client_id.clone(), login.generation);
        let (nonce, oauth_scope) = (login.nonce.clone(), login.oauth_scope.clone());
        // The answer names whole seconds, and the token must not be good for longer.
        let life = Duration::from_secs(self.rules.access_token_life.as_secs());
        let write = |claims: &Map<String, Value>| match fault {
            Some(Fault::UnsignedTokens) => without_signature(claims),
            // The signature is valid, but its key is unknown here.
            Some(Fault::ForgedTokens) => Signer::default().write(claims),
            _ => self.signer.write(claims),
        };
        let claims = self.claims(url, &client_id, life);

        let mut about_access = claims.clone();
        about_access.insert("jti".into(), Uuid::new_v4().to_string().into());
        about_access.insert("scp".into(), oauth_scope.split(' ').collect::<Vec<_>>().into());
        let mut about_person = claims;
        about_person.insert("aud".into(), json!([client_id]));
        if let Some(nonce) = nonce.filter(|_| fault != Some(&Fault::NoNonce)) {
            about_person.insert("nonce".into(), nonce.into());
        }
        let opaque = fault == Some(&Fault::OpaqueTokens);
        let access_token = match opaque {
            true => format!("simulated-access-{}", Uuid::new_v4()),
            false => write(&about_access),
        };
        let id_token = (!opaque).then(|| write(&about_person));
        let refresh_token = match (kept, fault) {
            (_, Some(Fault::NoRefreshToken)) => None,
            (Some(kept), _) => Some(kept.to_owned()),
            (None, _) => {
                let mark = &self.rules.refresh_token_mark;
                Some(format!("{mark}-{family}-{generation}-{}", Uuid::new_v4()))
            }
        };

        let mut keep = |token: &str, kind| {
            self.places.entry(token.to_owned()).or_insert(TokenPlace { kind, family, generation });
        };
        keep(&access_token, TokenKind::Access);
        id_token.iter().for_each(|token| keep(token, TokenKind::Id));
        refresh_token.iter().for_each(|token| keep(token, TokenKind::Refresh));
        self.alive.insert(access_token.clone(), Instant::now() + life);
        Tokens {
            access_token: Secret::new(access_token),
            id_token: id_token.map(Secret::new),
            refresh_token: refresh_token.map(Secret::new),
            oauth_scope,
            expires_in: (fault != Some(&Fault::NoExpiry)).then_some(life),
            family,
            generation,
        }
    }

    fn claims(&self, url: &str, client_id: &str, life: Duration) -> Map<String, Value> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let issued = i64::try_from(now).unwrap_or(i64::MAX).saturating_add(self.rules.clock_ahead_seconds);
        let expires = issued.saturating_add(i64::try_from(life.as_secs()).unwrap_or(i64::MAX));
        let mut claims = json!({ "iss": url, "client_id": client_id, "iat": issued, "exp": expires });
        let mut own = match claims.take() {
            Value::Object(claims) => claims,
            _ => Map::new(),
        };
        own.extend(self.rules.account.claims());
        own
    }

    /// Spends a refresh token, unless it is `kept`. Returns its login.
    pub(super) fn spend(
        &mut self,
        token: &str,
        client_id: &str,
        resource: Option<&str>,
        kept: bool,
    ) -> Result<u64, Bad> {
        let place = self.places.get(token).filter(|place| place.kind == TokenKind::Refresh);
        let family = place.map(|place| place.family).ok_or(Bad::Unknown)?;
        let Some(login) = self.families.get_mut(family as usize) else { return Err(Bad::Unknown) };
        if login.client_id != client_id {
            return Err(Bad::Unknown);
        }
        // A client that named a resource at the sign-in names it again. Other clients never name one.
        if login.resource.is_some() && login.resource.as_deref() != resource {
            return Err(Bad::Elsewhere);
        }
        // Checked before the end of the login, so that each further use is reported as a reuse too.
        if self.spent.contains(token) {
            login.over = true;
            return Err(Bad::Reused);
        }
        if login.over {
            return Err(Bad::Over);
        }
        if !kept {
            self.spent.insert(token.to_owned());
            login.generation += 1;
        }
        Ok(family)
    }

    /// Ends the login that `token` belongs to. Returns false if the token is unknown.
    pub(super) fn revoke(&mut self, token: &str) -> bool {
        match self.places.get(token) {
            Some(place) => {
                self.end(place.family);
                true
            }
            None => false,
        }
    }

    /// Ends a login: none of its tokens is good any more.
    pub(super) fn end(&mut self, family: u64) {
        if let Some(login) = self.families.get_mut(family as usize) {
            login.over = true;
        }
    }

    pub(super) fn revoke_everything(&mut self) {
        self.families.iter_mut().for_each(|login| login.over = true);
    }

    pub(super) fn expire_access_tokens(&mut self) {
        self.alive.clear();
    }

    pub(super) fn accepts(&self, token: &str) -> bool {
        let over =
            |place: &TokenPlace| self.families.get(place.family as usize).is_none_or(|login| login.over);
        let in_good_standing = self.places.get(token).is_some_and(|place| !over(place));
        in_good_standing && self.alive.get(token).is_some_and(|end| Instant::now() < *end)
    }

    pub(super) fn place_of(&self, token: &str) -> Option<TokenPlace> {
        self.places.get(token).copied()
    }
}

/// The challenge of RFC 7636 for `verifier`.
pub(super) fn challenge_of(verifier: &str) -> String {
    base64url(Sha256::digest(verifier.as_bytes()))
}

pub(super) fn base64url(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}
