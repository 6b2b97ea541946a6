//! A server's model list: fetched once, cached for a while, and never the reason for a failed turn, unless the server
//! rejects the credential.

use std::{fmt, sync::Arc, time::Duration};

use http::{
    StatusCode,
    header::{ETAG, HeaderMap, HeaderValue, IF_NONE_MATCH},
};
use nexus_core::{Effort, harness::Failure};
use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::Value;
use tokio::{
    sync::Mutex,
    time::{Instant, timeout},
};

use super::dialect::Dialect;
use super::outcome::{ErrorBody, ErrorReply, judge};
use super::transport::Transport;

/// Time during which a cached list is used. Source: our own choice; lists change by the day.
const BELIEVED: Duration = Duration::from_secs(3600);
/// Time during which a missing list is not requested again.
const MISSED: Duration = Duration::from_secs(60);
/// Time limit of the request for the list, for which a turn waits.
const TIME_LIMIT: Duration = Duration::from_secs(10);

/// Cache of a server's model list. Turns that need the list at the same time share one request.
#[derive(Debug)]
pub(crate) struct ModelListCache<List> {
    read: fn(&[u8]) -> Option<List>,
    believed: Duration,
    known: Mutex<Option<CachedList<List>>>,
}

/// Outcome of the last lookup.
#[derive(Debug)]
struct CachedList<List> {
    found: ListLookup<List>,
    etag: Option<HeaderValue>,
    until: Instant,
}

/// Outcome of a lookup.
pub(crate) enum ListLookup<List> {
    /// The list.
    List(Arc<List>),
    /// No list is available, for this reason.
    Nothing(String),
}

impl<List> Clone for ListLookup<List> {
    fn clone(&self) -> Self {
        match self {
            Self::List(list) => Self::List(Arc::clone(list)),
            Self::Nothing(reason) => Self::Nothing(reason.clone()),
        }
    }
}

impl<List> fmt::Debug for ListLookup<List> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::List(_) => "List",
            Self::Nothing(_) => "Nothing",
        })
    }
}

impl<List: Send + Sync + 'static> ModelListCache<List> {
    /// Creates an empty cache. `read` parses a body, and returns `None` for any other content.
    pub(crate) fn new(read: fn(&[u8]) -> Option<List>) -> Self {
        Self { read, believed: BELIEVED, known: Mutex::new(None) }
    }

    /// Returns the list from the cache or from the server.
    ///
    /// Fails if the server rejects the credential. If the list is unavailable for another reason, the result is
    /// [`ListLookup::Nothing`].
    pub(crate) async fn look(
        &self,
        transport: &Transport,
        path_and_query: &str,
        headers: HeaderMap,
        dialect: &dyn Dialect,
    ) -> Result<ListLookup<List>, Failure> {
        // Locked during the request, so that turns that need the list share it.
        let mut known = self.known.lock().await;
        if let Some(known) = known.as_ref().filter(|known| Instant::now() < known.until) {
            return Ok(known.found.clone());
        }
        let fetched = self.fetch(transport, path_and_query, headers, dialect, known.as_ref()).await?;
        let found = fetched.found.clone();
        *known = Some(fetched);
        Ok(found)
    }

    async fn fetch(
        &self,
        transport: &Transport,
        path_and_query: &str,
        mut headers: HeaderMap,
        dialect: &dyn Dialect,
        before: Option<&CachedList<List>>,
    ) -> Result<CachedList<List>, Failure> {
        let before = before.filter(|before| matches!(before.found, ListLookup::List(_)));
        if let Some(etag) = before.and_then(|before| before.etag.clone()) {
            headers.insert(IF_NONE_MATCH, etag);
        }
        let until = |life| Instant::now() + life;
        let missed = |reason: String| match before {
            // After a failed request, an old list is better than none.
            Some(before) => {
                CachedList { found: before.found.clone(), etag: before.etag.clone(), until: until(MISSED) }
            }
            None => CachedList { found: ListLookup::Nothing(reason), etag: None, until: until(MISSED) },
        };
        let answer = match timeout(TIME_LIMIT, transport.get(path_and_query, headers)).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => {
                let words = Failure::from(error).message.unwrap_or_default();
                return Ok(missed(format!("the list of models could not be fetched ({words})")));
            }
            Err(_) => return Ok(missed(format!("the list of models did not arrive within {TIME_LIMIT:?}"))),
        };
        match (answer.status, before) {
            // The turn must see this error, because its own calls would get the same answer.
            (StatusCode::UNAUTHORIZED, _) => {
                let body = ErrorBody::read(&answer.body);
                let error = ErrorReply { status: Some(answer.status), headers: &answer.headers, body: &body };
                Err(judge(&error, dialect.failure(&error)))
            }
            (StatusCode::NOT_MODIFIED, Some(before)) => Ok(CachedList {
                found: before.found.clone(),
                etag: before.etag.clone(),
                until: until(self.believed),
            }),
            (status, _) if status.is_success() => Ok(match (self.read)(&answer.body) {
                Some(list) => CachedList {
                    found: ListLookup::List(Arc::new(list)),
                    etag: answer.headers.get(ETAG).cloned(),
                    until: until(self.believed),
                },
                None => missed("the list of models cannot be read".to_owned()),
            }),
            (status, _) => Ok(missed(format!("the request for the list of models was answered {status}"))),
        }
    }
}

/// Returns the effort levels among `words` that [`Effort`] has, lowest first.
pub(crate) fn efforts<'a>(words: impl Iterator<Item = &'a str>) -> Vec<Effort> {
    let mut efforts: Vec<Effort> = words.filter_map(|word| word.parse().ok()).collect();
    efforts.sort_unstable();
    efforts.dedup();
    efforts
}

/// Deserialises the readable members of a list; `null` is an empty list. An unreadable member does not affect the
/// others.
pub(crate) fn readable<'de, Member, Source>(source: Source) -> Result<Vec<Member>, Source::Error>
where
    Member: DeserializeOwned,
    Source: Deserializer<'de>,
{
    let members: Option<Vec<Value>> = Deserialize::deserialize(source)?;
    Ok(members.into_iter().flatten().filter_map(|member| serde_json::from_value(member).ok()).collect())
}

/// Deserialises a field in which `null` means the same as a missing field.
pub(crate) fn or_default<'de, Field, Source>(source: Source) -> Result<Field, Source::Error>
where
    Field: Default + Deserialize<'de>,
    Source: Deserializer<'de>,
{
    Ok(Option::deserialize(source)?.unwrap_or_default())
}

#[cfg(test)]
mod tests;
