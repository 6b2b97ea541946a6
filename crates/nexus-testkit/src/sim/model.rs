//! A model as the catalogue lists it, and the catalogue in each vendor's shape.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::server::Arrival;
use super::wire::Answer;

/// One entry of the catalogue of models. In a scenario file, a string stands for a model that has only a name.
///
/// ```
/// use nexus_testkit::sim::Model;
///
/// let models: Vec<Model> = serde_json::from_str(r#"["a", { "name": "b", "lite": true, "efforts": ["low"] }]"#)?;
/// assert_eq!(models, [Model::new("a"), Model::new("b").lite().efforts(["low"])]);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Written", into = "Written")]
pub struct Model {
    /// Name of the model in requests.
    pub name: String,
    /// True if it accepts only the lite request, where the vendor has one (OpenAI).
    pub lite: bool,
    /// True if it is called at the public API on a plan, where the vendor has that (OpenAI).
    pub public_plan: bool,
    /// Efforts that it accepts, in the vendor's spelling. If empty, it accepts no effort.
    pub efforts: Vec<String>,
}

/// Default efforts of a model.
const EFFORTS: [&str; 4] = ["low", "medium", "high", "xhigh"];

impl Model {
    /// A model that takes the classic request and the efforts `low`, `medium`, `high` and `xhigh`.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            lite: false,
            public_plan: false,
            efforts: EFFORTS.map(str::to_owned).to_vec(),
        }
    }

    /// Takes the lite request only.
    #[must_use]
    pub fn lite(mut self) -> Self {
        self.lite = true;
        self
    }

    /// Makes the model available at the public API on a plan.
    #[must_use]
    pub fn public_plan(mut self) -> Self {
        self.public_plan = true;
        self
    }

    /// Takes these efforts, which may be none.
    #[must_use]
    pub fn efforts(mut self, efforts: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.efforts = efforts.into_iter().map(Into::into).collect();
        self
    }
}

impl<T: Into<String>> From<T> for Model {
    fn from(name: T) -> Self {
        Self::new(name)
    }
}

/// Serialized form of an entry.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    Name(String),
    Entry(Entry),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    #[serde(default)]
    lite: bool,
    #[serde(default)]
    public_plan: bool,
    #[serde(default)]
    efforts: Option<Vec<String>>,
}

impl From<Written> for Model {
    fn from(written: Written) -> Self {
        match written {
            Written::Name(name) => Self::new(name),
            Written::Entry(Entry { name, lite, public_plan, efforts }) => {
                let model = Self { lite, public_plan, ..Self::new(name) };
                match efforts {
                    Some(efforts) => model.efforts(efforts),
                    None => model,
                }
            }
        }
    }
}

impl From<Model> for Written {
    fn from(model: Model) -> Self {
        // Write the short form if nothing else differs, so that a scenario file stays as its author wrote it.
        if model == Model::new(model.name.as_str()) {
            return Self::Name(model.name);
        }
        let Model { name, lite, public_plan, efforts } = model;
        Self::Entry(Entry { name, lite, public_plan, efforts: Some(efforts) })
    }
}

/// The answer to a request for the catalogue; a server without one answers 404, and 304 to a client that has it.
pub(super) fn catalogue(arrival: &Arrival<'_>, shape: fn(&[Model]) -> Value) -> Answer {
    let models = &arrival.scenario.models;
    if models.is_empty() {
        return Answer::json(404, &json!({"error": {"message": "no catalogue here"}}));
    }
    let body = shape(models);
    let mut hasher = DefaultHasher::new();
    body.to_string().hash(&mut hasher);
    // Nexus caches the catalogue of a native backend, and sends the tag of the cached one with its next request.
    let etag = format!("\"{:016x}\"", hasher.finish());
    let answer = match arrival.header("if-none-match") == Some(etag.as_str()) {
        true => Answer::whole(304, "application/json", ""),
        false => Answer::json(200, &body),
    };
    answer.header("etag", etag)
}

/// The list that every server of the Responses API has.
pub(super) fn plain(models: &[Model]) -> Value {
    let entry = |model: &Model| json!({"id": model.name, "object": "model", "owned_by": "simulator"});
    json!({"object": "list", "data": models.iter().map(entry).collect::<Vec<_>>()})
}

/// The list of the Gemini API.
pub(super) fn gemini(models: &[Model]) -> Value {
    let entry = |model: &Model| {
        json!({
            "name": format!("models/{}", model.name),
            "displayName": model.name,
            "supportedGenerationMethods": ["generateContent", "countTokens"],
        })
    };
    json!({"models": models.iter().map(entry).collect::<Vec<_>>()})
}

/// Catalogue for Codex clients, which send their version with the request, and for clients of the public API on a plan.
///
/// Source: `codex debug models --bundled` of 0.169.0.
pub(super) fn codex(models: &[Model]) -> Value {
    let entry = |(place, model): (usize, &Model)| {
        let levels = model.efforts.iter().map(|effort| json!({"effort": effort, "description": "simulated"}));
        json!({
            "slug": model.name,
            "display_name": model.name,
            "description": "A simulated model.",
            "default_reasoning_level": default_effort(model),
            "supported_reasoning_levels": levels.collect::<Vec<_>>(),
            "shell_type": "unified_exec",
            "visibility": "list",
            "supported_in_api": true,
            "priority": place + 1,
            "additional_speed_tiers": [],
            "service_tiers": [],
            "availability_nux": null,
            "upgrade": null,
            "default_reasoning_summary": "none",
            "support_verbosity": true,
            "default_verbosity": "low",
            "apply_patch_tool_type": "freeform",
            "web_search_tool_type": "text_and_image",
            "truncation_policy": {"mode": "tokens", "limit": 10_000},
            "supports_image_detail_original": true,
            "context_window": 272_000,
            "max_context_window": 272_000,
            "effective_context_window_percent": 95,
            "experimental_supported_tools": [],
            "input_modalities": ["text", "image"],
            "supports_search_tool": true,
            "use_responses_lite": model.lite,
            "tool_mode": if model.lite { "code_mode_only" } else { "direct" },
            "base_instructions": "You are simulated.",
        })
    };
    json!({"models": models.iter().enumerate().map(entry).collect::<Vec<_>>()})
}

/// Catalogue for Grok clients. A model without efforts takes no effort.
///
/// Source: the catalogue built into the public source of grok, and public clients of its endpoint.
pub(super) fn xai(models: &[Model]) -> Value {
    let entry = |model: &Model| {
        let default = default_effort(model);
        let efforts = model.efforts.iter().map(
            |effort| json!({"value": effort, "label": effort, "default": Some(effort.as_str()) == default}),
        );
        let mut entry = json!({
            "id": model.name,
            "model": model.name,
            "object": "model",
            "owned_by": "xai",
            "name": model.name,
            "description": "A simulated model.",
            "context_window": 500_000,
            "api_backend": "responses",
            "supports_backend_search": true,
            "supports_reasoning_effort": default.is_some(),
        });
        if let Some(default) = default {
            entry["reasoning_effort"] = json!(default);
            entry["reasoning_efforts"] = efforts.collect();
        }
        entry
    };
    json!({"object": "list", "data": models.iter().map(entry).collect::<Vec<_>>()})
}

fn default_effort(model: &Model) -> Option<&str> {
    let usual = model.efforts.iter().find(|effort| *effort == "medium");
    usual.or(model.efforts.first()).map(String::as_str)
}
