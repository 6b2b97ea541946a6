//! Detection of model servers on this machine, and of API keys.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use futures::future::join_all;
use nexus_core::detection::{DetectedBackend, Detection, DetectionFuture, LocalAnswer, Machine, Payment};
use serde::Deserialize;

use super::providers;
use crate::detect::key_in;
use crate::native::model_name::is_listed_name;

/// Servers of this machine on their usual ports. The last field is true if the server ignores a schema.
///
/// Source: the defaults of each program's documentation.
const LOCAL: [(&str, &str, u16, bool); 4] = [
    ("ollama", "Ollama", 11434, false),
    ("lm-studio", "LM Studio", 1234, true),
    ("llama-cpp", "llama.cpp", 8080, true),
    ("vllm", "vLLM", 8000, false),
];

/// Addresses that a server of this machine may have. The first one that answers is used.
const LOOPBACK: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];

/// Provider that takes an API key, as detection uses it.
struct KeyedServer {
    entry: &'static str,
    /// Name in the table of providers.
    provider: &'static str,
    /// Model that the server offers. A backend needs one, and detection requests no list from another machine.
    model: &'static str,
    /// Program that takes the same key, and is used in place of the server where it exists.
    program: Option<&'static str>,
    /// Variable that holds the key in older guides.
    older_variable: Option<&'static str>,
}

impl KeyedServer {
    const fn new(entry: &'static str, provider: &'static str, model: &'static str) -> Self {
        Self { entry, provider, model, program: None, older_variable: None }
    }
}

/// Providers that take an API key. Source: the reference of each server; no request was sent to those after the third.
const KEYED: [KeyedServer; 8] = [
    KeyedServer::new("openai-api", "openai", "gpt-5.5"),
    KeyedServer::new("xai-api", "xai", "grok-4.5"),
    KeyedServer::new("openrouter", "openrouter", "openrouter/auto"),
    KeyedServer {
        program: Some("claude"),
        ..KeyedServer::new("anthropic-api", "anthropic", "claude-sonnet-5")
    },
    KeyedServer {
        older_variable: Some("GOOGLE_API_KEY"),
        ..KeyedServer::new("gemini-api", "gemini", "gemini-flash-latest")
    },
    KeyedServer::new("deepseek", "deepseek", "deepseek-flash"),
    KeyedServer::new("mistral", "mistral", "mistral-large-latest"),
    KeyedServer::new("groq", "groq", "openai/gpt-oss-120b"),
];

/// Detects the backends of this kind.
pub(super) fn detect(machine: &dyn Machine) -> DetectionFuture<'_> {
    Box::pin(async move {
        let mut detection = Detection::default();
        detection.ways.push(
            "start a local model server such as `ollama serve`, or set an API key such as OPENAI_API_KEY"
                .to_owned(),
        );
        let answers = LOCAL.map(|(_, _, port, _)| {
            join_all(LOOPBACK.map(move |ip| async move {
                let address = SocketAddr::new(ip, port);
                (address, machine.local_server(address, "/v1/models").await)
            }))
        });
        for ((entry, title, _, ignores_schema), answers) in LOCAL.into_iter().zip(join_all(answers).await) {
            let mut refused = None;
            for (address, answer) in answers {
                let body = match answer {
                    LocalAnswer::Body(body) => body,
                    // A server on every address has the same answer twice.
                    LocalAnswer::Refused(reason) | LocalAnswer::Failed(reason)
                        if refused.as_ref() == Some(&reason) =>
                    {
                        continue;
                    }
                    LocalAnswer::Refused(reason) | LocalAnswer::Failed(reason) => {
                        detection.unused(format!("a server at {address}"), reason.clone());
                        refused = Some(reason);
                        continue;
                    }
                    LocalAnswer::Nothing => continue,
                };
                let subject = format!("{title} at {address}");
                match models(&body).as_deref() {
                    // Other services use the same ports.
                    None => {}
                    Some([]) => detection.unused(subject, "it has no model: load one"),
                    Some([model, ..]) => {
                        let words = format!("{subject}, with the model {model}");
                        let mut backend = DetectedBackend::new("responses", Payment::Local, words)
                            .named(entry)
                            .with("base_url", format!("http://{address}/v1"))
                            .with("model", model.as_str());
                        if ignores_schema {
                            backend = backend.with("structured_output", "instructed");
                        }
                        detection.backends.push(backend);
                    }
                }
                break;
            }
        }
        let has_program =
            |server: &KeyedServer| server.program.is_some_and(|name| machine.program(name).usable.is_some());
        for server in KEYED.iter().filter(|server| !has_program(server)) {
            let Some(row) = providers::row(server.provider) else { continue };
            let variables = [row.variable.as_deref(), server.older_variable];
            let is_set = |name: &&str| machine.variable(name).is_some();
            let Some(variable) = variables.into_iter().flatten().find(is_set) else { continue };
            let words = format!("the key in {variable}, for {}", row.base_url);
            let backend = DetectedBackend::new(&row.wire, Payment::Metered, words)
                .named(server.entry)
                .with("base_url", row.base_url.as_str())
                .with("model", server.model)
                .with("credential", key_in(variable))
                .with("billing", "metered");
            let with = |backend: DetectedBackend, (key, value): (&String, &serde_json::Value)| {
                backend.with(key, value.clone())
            };
            detection.backends.push(row.settings.iter().fold(backend, with));
        }
        detection
    })
}

/// Answer to `GET /v1/models`.
#[derive(Debug, Deserialize)]
struct LocalModels {
    data: Vec<LocalModel>,
}

#[derive(Debug, Deserialize)]
struct LocalModel {
    id: String,
}

/// Returns the models of a list that can answer a prompt. `None` if the text has another form.
fn models(body: &str) -> Option<Vec<String>> {
    let answer: LocalModels = serde_json::from_str(body).ok()?;
    let ids = answer.data.into_iter().map(|model| model.id);
    // Skip names that a configuration or a message could not contain safely, and models for embeddings, which cannot
    // answer.
    let is_usable = |id: &String| is_listed_name(id) && !id.contains("${") && !id.contains("embed");
    Some(ids.filter(is_usable).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_models_has_those_that_answer_a_prompt() {
        let body =
            r#"{"object":"list","data":[{"id":"text-embedding-nomic"},{"id":"qwen3:8b"},{"id":"a\nb"}]}"#;
        assert_eq!(models(body), Some(vec!["qwen3:8b".to_owned()]));
        assert_eq!(models(r#"{"data":[]}"#), Some(Vec::new()));
        assert_eq!(models("<html>"), None);
    }
}
