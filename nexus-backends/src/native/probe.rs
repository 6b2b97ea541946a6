//! Probe of a server: whether a turn would start, as far as a request without a model call shows it.

use std::{
    fmt::Write as _,
    time::{Duration, SystemTime},
};

use http::{
    StatusCode,
    header::{DATE, HeaderMap},
};
use nexus_core::{Availability, ErrorKind, Standing};
use serde::Deserialize;

use super::dialect::{ProbedModel, full_query};
use super::model_name::is_listed_name;
use super::model_server::ModelServer;
use super::outcome::{self, ErrorBody, ErrorReply};
use super::transport::{Fetched, TransportError, with_query};
use crate::auth::Credential;

/// Time limit of a probe for the server's response.
const REACH_PATIENCE: Duration = Duration::from_secs(5);
/// Clock difference between a server and this machine above which a probe reports it. Tokens expire by these clocks.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(120);
/// Number of models that a message names.
const MOST_NAMED: usize = 5;
/// Validity that a key needs for the request of the probe.
pub(super) const KEY_LIFE: Duration = Duration::from_secs(60);

/// Note of a probe without the credential.
const NOT_TRIED: &str =
    "the credential was not tried, because a probe does not start the program of `credential.command`";

/// Probes the server. Calls no model, renews no login, and starts no program.
pub(super) async fn probe(server: &ModelServer) -> Availability {
    let standing = match &server.credential {
        Some(source) => source.standing().await.map_err(|error| error.to_string()),
        None => {
            let remedy = server.dialect.credential_remedy();
            remedy.map_or_else(|| Ok(Standing::default()), |remedy| Err(remedy.to_owned()))
        }
    };
    let needs_program = match standing {
        Ok(standing) => standing.needs_program,
        Err(remedy) => return Availability::Unauthenticated { remedy },
    };
    match server.dialect.probed_model() {
        // The program may ask a person for a password.
        Some(probed) if !needs_program => list(server, probed).await,
        _ => match server.transport.reach(REACH_PATIENCE).await {
            Ok(date) => ready(date, needs_program.then(|| NOT_TRIED.to_owned())),
            Err(error) => unreachable(server, &error),
        },
    }
}

/// Requests the list of models as a turn would request an answer: with the credential.
async fn list(server: &ModelServer, probed: ProbedModel<'_>) -> Availability {
    let lease = match &server.credential {
        Some(source) => match source.credential(KEY_LIFE).await {
            Ok(lent) => Some(lent),
            Err(error) => return Availability::Unauthenticated { remedy: error.to_string() },
        },
        None => None,
    };
    if let Some(failure) = lease.as_ref().and_then(|lent| server.dialect.accepts(lent).err()) {
        let words = failure.message.unwrap_or_default();
        return match failure.kind {
            ErrorKind::Unauthenticated => Availability::Unauthenticated { remedy: words },
            _ => Availability::Unusable { reason: words },
        };
    }
    let fetched = match fetch(server, probed.path, lease.as_ref()).await {
        Ok(fetched) => fetched,
        Err(error) => return unreachable(server, &error),
    };
    let place = format!("{:?}{}", server.transport.place(), probed.path);
    let unauthenticated = || Availability::Unauthenticated {
        remedy: match &server.credential {
            Some(source) => format!("{place} rejects the credential: check {}", source.describe()),
            None => format!("{place} requires a credential: set `credential`"),
        },
    };
    match fetched.status {
        StatusCode::UNAUTHORIZED => unauthenticated(),
        status if status.is_server_error() => {
            Availability::Unusable { reason: format!("{place} was answered {status}") }
        }
        status if status.is_client_error() && refuses_credential(server, &fetched) => unauthenticated(),
        status if status.is_success() => {
            let found = read(&fetched.body);
            judge(server, probed, found.as_deref(), date_of(&fetched.headers))
        }
        StatusCode::NOT_FOUND if server.transport.has_no_path() && probed.path == "/models" => {
            // The commonest slip: the address of a server without the path of its API.
            let below = fetch(server, "/v1/models", lease.as_ref()).await;
            match below.is_ok_and(|below| below.status.is_success()) {
                true => Availability::Unusable {
                    reason: format!(
                        "the API is one level below: set `base_url: {:?}/v1`",
                        server.transport.place()
                    ),
                },
                false => ready(date_of(&fetched.headers), None),
            }
        }
        // A server may lack the list, or forbid it to a key that may call models.
        _ => ready(date_of(&fetched.headers), None),
    }
}

pub(super) async fn fetch(
    server: &ModelServer,
    path: &str,
    credential: Option<&Credential>,
) -> Result<Fetched, TransportError> {
    let query = full_query(&*server.dialect, credential);
    let path = with_query(path, query.as_deref());
    server.transport.get_within(&path, server.dialect.list_headers(credential), REACH_PATIENCE).await
}

/// Returns true if an error is about the credential, which some servers report with another status than 401.
pub(super) fn refuses_credential(server: &ModelServer, fetched: &Fetched) -> bool {
    let body = ErrorBody::read(&fetched.body);
    let error = ErrorReply { status: Some(fetched.status), headers: &fetched.headers, body: &body };
    outcome::judge(&error, server.dialect.failure(&error)).kind == ErrorKind::Unauthenticated
}

/// Judges the server by its list of models. `None` is a list in an unknown form.
fn judge(
    server: &ModelServer,
    probed: ProbedModel<'_>,
    listed: Option<&[ListedModel]>,
    date: Option<SystemTime>,
) -> Availability {
    let (Some(model), Some(listed)) = (probed.model, listed) else { return ready(date, None) };
    if listed.iter().any(|listed| listed.answers_to(model.as_str())) {
        return ready(date, None);
    }
    let mut has = match listed {
        [] => "it lists none".to_owned(),
        [first, rest @ ..] => {
            let mut has = format!("it lists {}", first.id);
            for other in rest.iter().take(MOST_NAMED - 1) {
                let _ = write!(has, ", {}", other.id);
            }
            has
        }
    };
    if listed.len() > MOST_NAMED {
        let _ = write!(has, " and {} more", listed.len() - MOST_NAMED);
    }
    // The list of a server on this machine is complete. A distant service may leave out other names of its models.
    match server.transport.is_on_this_machine() {
        true => Availability::Unusable {
            reason: format!(
                "the server does not have the model {model}: {has}; change `model`, or load the model"
            ),
        },
        false => {
            ready(date, Some(format!("the server does not list the model {model}, but may have it; {has}")))
        }
    }
}

/// Answer to `GET {base_url}/models`: a list in `data`, or in `models` at the Gemini API.
#[derive(Debug, Deserialize)]
struct ModelAnswer {
    data: Option<Vec<ListedModel>>,
    models: Option<Vec<GeneratingModel>>,
}

#[derive(Debug, Deserialize)]
struct ListedModel {
    id: String,
    #[serde(default)]
    owned_by: Option<String>,
}

/// Model as the Gemini API lists it. Source: the API reference, `Model`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct GeneratingModel {
    /// Name with its collection, such as `models/gemini-flash-latest`.
    name: String,
    #[serde(default)]
    supported_generation_methods: Vec<String>,
}

impl GeneratingModel {
    /// Converts a model that can answer a prompt. A list without methods does not exclude any.
    fn listed(self) -> Option<ListedModel> {
        let methods = &self.supported_generation_methods;
        let answers = methods.is_empty() || methods.iter().any(|method| method == "generateContent");
        let id = self.name.strip_prefix("models/").unwrap_or(&self.name).to_owned();
        answers.then_some(ListedModel { id, owned_by: None })
    }
}

impl ListedModel {
    /// Returns true if a request may name the listed model so.
    fn answers_to(&self, model: &str) -> bool {
        // Source: Ollama completes a name without a tag; the server of llama.cpp ignores the name; LiteLLM lists patterns.
        self.id == model
            || Some(self.id.as_str()) == model.strip_prefix("models/")
            || self.id.strip_suffix(":latest") == Some(model)
            || self.owned_by.as_deref() == Some("llamacpp")
            || self.id.contains('*')
    }
}

/// Reads the list. Names that a message cannot show are left out.
fn read(body: &[u8]) -> Option<Vec<ListedModel>> {
    let answer: ModelAnswer = serde_json::from_slice(body).ok()?;
    let listed = match (answer.data, answer.models) {
        (Some(data), _) => data,
        (None, Some(models)) => models.into_iter().filter_map(GeneratingModel::listed).collect(),
        (None, None) => return None,
    };
    Some(listed.into_iter().filter(|model| is_listed_name(&model.id)).collect())
}

fn ready(date: Option<SystemTime>, note: Option<String>) -> Availability {
    let skew = date.and_then(|date| clock_note(date, SystemTime::now()));
    Availability::Ready { version: None, notes: skew.into_iter().chain(note).collect() }
}

fn unreachable(server: &ModelServer, error: &TransportError) -> Availability {
    Availability::Unusable { reason: format!("{:?}: {error}", server.transport.place()) }
}

fn date_of(headers: &HeaderMap) -> Option<SystemTime> {
    httpdate::parse_http_date(headers.get(DATE)?.to_str().ok()?).ok()
}

/// Returns a note if the server's clock differs much from this machine's.
fn clock_note(server: SystemTime, now: SystemTime) -> Option<String> {
    let (apart, which) = match now.duration_since(server) {
        Ok(ahead) => (ahead, "ahead of"),
        Err(behind) => (behind.duration(), "behind"),
    };
    (apart > CLOCK_TOLERANCE).then(|| {
        format!("the clock of this machine is {} minutes {which} the server's", apart.as_secs() / 60)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_that_are_far_apart_are_reported() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let note = |server| clock_note(server, now);
        assert_eq!(note(now - Duration::from_secs(120)), None);
        let ahead = "the clock of this machine is 10 minutes ahead of the server's";
        assert_eq!(note(now - Duration::from_secs(600)).as_deref(), Some(ahead));
        let behind = "the clock of this machine is 10 minutes behind the server's";
        assert_eq!(note(now + Duration::from_secs(600)).as_deref(), Some(behind));
    }

    #[test]
    fn a_listed_model_answers_to_the_names_that_its_server_accepts() {
        let listed = |id: &str, owned_by: Option<&str>| ListedModel {
            id: id.to_owned(),
            owned_by: owned_by.map(str::to_owned),
        };
        assert!(listed("qwen3:latest", None).answers_to("qwen3"));
        assert!(!listed("qwen3:8b", None).answers_to("qwen3"));
        assert!(listed("/models/any.gguf", Some("llamacpp")).answers_to("local"));
        assert!(listed("openai/*", None).answers_to("openai/gpt"));
        assert!(!listed("gpt-5", Some("library")).answers_to("gpt"));
    }

    #[test]
    fn a_list_in_another_form_is_no_list() {
        assert!(read(b"<html>").is_none());
        assert!(read(b"{}").is_none());
        let gemini = br#"{"models":[{"name":"models/a","supportedGenerationMethods":["generateContent"]},
            {"name":"models/embed","supportedGenerationMethods":["embedContent"]},{"name":"tunedModels/b"}]}"#;
        let listed = read(gemini).unwrap();
        assert_eq!(listed.iter().map(|model| model.id.as_str()).collect::<Vec<_>>(), ["a", "tunedModels/b"]);
        assert!(listed[0].answers_to("models/a") && listed[0].answers_to("a"));
        assert_eq!(read(br#"{"data":[{"id":"a\nb"},{"id":"ok"}]}"#).unwrap().len(), 1);
    }
}
