//! The models that a server offers, by its own list.

use nexus_core::{BackendId, ModelListError, ModelListing, OfferedModel, redact::Redactor};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::dialect::learn_credential;
use super::lenient::Count;
use super::model_name::is_listed_name;
use super::model_server::ModelServer;
use super::outcome::ErrorBody;
use super::probe::{KEY_LIFE, fetch, refuses_credential};

/// Maximum number of models of a list. Source: our own choice, four times the list of OpenRouter.
const MAX_MODELS: usize = 2000;

/// Requests the list with the credential of the backend. Calls no model.
pub(super) async fn offered(server: &ModelServer) -> Result<ModelListing, ModelListError> {
    let Some(path) = server.dialect.list_path() else {
        let advice = "the endpoint of a plan has no list with that form; set `model` to a name that the vendor documents";
        return Err(unsupported(&server.id, advice));
    };
    fetched(server, path)
        .await
        .map_err(|reason| ModelListError::Failed { backend: server.id.clone(), reason })
}

fn unsupported(backend: &BackendId, advice: &str) -> ModelListError {
    ModelListError::Unsupported { backend: backend.clone(), advice: Some(advice.to_owned()) }
}

async fn fetched(server: &ModelServer, path: &str) -> Result<ModelListing, String> {
    let credential = match &server.credential {
        Some(source) => Some(source.credential(KEY_LIFE).await.map_err(|error| error.to_string())?),
        None => None,
    };
    if let Some(failure) = credential.as_ref().and_then(|lent| server.dialect.accepts(lent).err()) {
        return Err(failure.message.unwrap_or_default());
    }
    let place = format!("{:?}{}", server.transport.place(), path.split('?').next().unwrap_or_default());
    let fetched =
        fetch(server, path, credential.as_ref()).await.map_err(|error| format!("{place}: {error}"))?;
    if !fetched.status.is_success() {
        // A server may repeat the key in its error, also one that a header of the configuration has.
        let redactor = Redactor::default();
        if let Some(credential) = &credential {
            learn_credential(&redactor, &*server.dialect, credential);
        }
        let words =
            crate::redact::with_key_prefixes(&redactor).redact_text(ErrorBody::read(&fetched.body).words());
        let advice = match refuses_credential(server, &fetched) {
            true => " (check `credential` of this backend in nexus.yaml)",
            false => "",
        };
        return Err(format!("{place} was answered {}: {words}{advice}", fetched.status));
    }
    read(&fetched.body).ok_or_else(|| format!("the answer of {place} is no list of models: check `base_url`"))
}

/// A member of the list. Source: the references of the servers, which name the context window differently.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OfferedMember {
    id: String,
    /// The Gemini API, which writes `models/` before the name.
    name: String,
    #[serde(rename = "inputTokenLimit")]
    input_token_limit: Count,
    /// The Gemini API, which lists models for embeddings too.
    #[serde(rename = "supportedGenerationMethods")]
    generation_methods: Option<Vec<String>>,
    /// OpenRouter, Together and Fireworks.
    context_length: Count,
    /// Groq.
    context_window: Count,
    /// vLLM and SGLang.
    max_model_len: Count,
    /// Mistral and LM Studio.
    max_context_length: Count,
    /// The Messages API.
    max_input_tokens: Count,
    /// llama.cpp, which reports the window of the model's training.
    meta: Option<ServerMeta>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ServerMeta {
    n_ctx: Count,
    n_ctx_train: Count,
}

impl OfferedMember {
    /// Returns the name with which a request names the model. A member with an id may have another name for people.
    fn request_name(&self) -> &str {
        match self.id.as_str() {
            "" => self.name.strip_prefix("models/").unwrap_or_default(),
            id => id,
        }
    }

    /// Returns true if a model can answer a prompt, as far as the list states it.
    fn can_answer(&self) -> bool {
        let methods = self.generation_methods.as_ref();
        methods.is_none_or(|methods| methods.iter().any(|method| method == "generateContent"))
    }

    fn context_tokens(&self) -> Option<u64> {
        let meta = self.meta.as_ref();
        let named = [
            self.context_length,
            self.context_window,
            self.max_model_len,
            self.max_context_length,
            self.max_input_tokens,
            self.input_token_limit,
            meta.map_or_else(Count::default, |meta| meta.n_ctx),
            meta.map_or_else(Count::default, |meta| meta.n_ctx_train),
        ];
        named.into_iter().find_map(|count| count.0).filter(|tokens| *tokens > 0)
    }
}

/// Returns true if the server has a further page. Source: the Messages API (`has_more`) and Google's APIs (`nextPageToken`).
fn has_next_page(answer: &Map<String, Value>) -> bool {
    let is_token = |token: &Value| token.as_str().is_some_and(|token| !token.is_empty());
    answer.get("has_more").and_then(Value::as_bool) == Some(true)
        || answer.get("nextPageToken").is_some_and(is_token)
}

/// Reads the list, sorted by name and cut to its first models. `None` if the answer has another form. An unreadable member does not
/// affect the others.
fn read(body: &[u8]) -> Option<ModelListing> {
    let (members, has_more) = match serde_json::from_slice(body).ok()? {
        Value::Array(members) => (members, false),
        // The Gemini API has the list under another name.
        Value::Object(mut answer) => match answer.remove("data").or_else(|| answer.remove("models"))? {
            Value::Array(members) => (members, has_next_page(&answer)),
            _ => return None,
        },
        _ => return None,
    };
    let members =
        members.into_iter().filter_map(|member| serde_json::from_value::<OfferedMember>(member).ok());
    let mut models: Vec<OfferedModel> = members
        .filter(|member| is_listed_name(member.request_name()) && member.can_answer())
        .map(|member| OfferedModel::new(member.request_name()).with_context_tokens(member.context_tokens()))
        .collect();
    models.sort_by(|one, other| one.id.as_str().cmp(other.id.as_str()));
    models.dedup_by(|one, other| one.id == other.id);
    let is_complete = !has_more && models.len() <= MAX_MODELS;
    models.truncate(MAX_MODELS);
    Some(ModelListing { models, is_complete })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_each_readable_name_once_with_its_window() {
        let body = br#"{"object":"list","data":[{"id":"b","context_length":1000},{"id":"a","context_window":"20"},
            {"id":"c","meta":{"n_ctx_train":5}},{"id":"b"},{"id":"d\n"},{"id":3},7,{"id":"e","max_model_len":null},{"name":"x"}]}"#;
        let listing = read(body).unwrap();
        assert!(listing.is_complete);
        let shown: Vec<_> =
            listing.models.iter().map(|model| (model.id.as_str(), model.context_tokens)).collect();
        assert_eq!(shown, [("a", Some(20)), ("b", Some(1000)), ("c", Some(5)), ("e", None)]);
        let gemini = br#"{"models":[{"name":"models/a","inputTokenLimit":7,"supportedGenerationMethods":["generateContent"]},
            {"name":"models/b","supportedGenerationMethods":["embedContent"]}]}"#;
        assert_eq!(read(gemini).unwrap().models, [OfferedModel::new("a").with_context_tokens(Some(7))]);
        assert_eq!(read(br#"[{"id":"a"}]"#).unwrap().models.len(), 1);
        for other in [&b"<html>"[..], b"{}", br#"{"data":{}}"#, b"3"] {
            assert!(read(other).is_none());
        }
    }

    #[test]
    fn a_list_is_bounded_and_states_if_it_is_only_a_part() {
        let many: Vec<_> =
            (0..20_002).map(|number| serde_json::json!({ "id": format!("m{number:05}") })).collect();
        let listing = read(serde_json::json!({ "data": many }).to_string().as_bytes()).unwrap();
        assert_eq!((listing.models.len(), listing.is_complete), (MAX_MODELS, false));
        assert_eq!(listing.models[0].id.as_str(), "m00000");
        for (body, is_complete) in [
            (&br#"{"data":[{"id":"a"}],"has_more":true,"last_id":"a"}"#[..], false),
            (br#"{"data":[{"id":"a"}],"nextPageToken":"x"}"#, false),
            (br#"{"data":[{"id":"a"}],"has_more":false,"nextPageToken":""}"#, true),
        ] {
            assert_eq!(read(body).unwrap().is_complete, is_complete, "{}", String::from_utf8_lossy(body));
        }
    }
}
