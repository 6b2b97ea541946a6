//! Detection of model servers on this machine, and of API keys.

use std::collections::BTreeSet;

use futures::future::join_all;
use nexus_core::detection::{DetectedBackend, Detection, DetectionFuture, LocalAnswer, Machine, Payment};
use serde::Deserialize;

use crate::detect::key_in;

/// Servers of this machine on their usual ports. The last field is true if the server ignores a schema.
///
/// Source: the defaults of each program's documentation.
const LOCAL: [(&str, &str, u16, bool); 4] = [
    ("ollama", "Ollama", 11434, false),
    ("lm-studio", "LM Studio", 1234, true),
    ("llama-cpp", "llama.cpp", 8080, true),
    ("vllm", "vLLM", 8000, false),
];

/// Server that takes an API key.
struct KeyedServer {
    entry: &'static str,
    kind: &'static str,
    /// Variable of the key.
    variable: &'static str,
    base_url: &'static str,
    /// Model that the server offers. A backend needs one, and detection requests no list from another machine.
    model: &'static str,
    /// More settings of the server.
    settings: &'static [(&'static str, &'static str)],
    /// Program that takes the same key, and is used in place of the server where it exists.
    program: Option<&'static str>,
}

/// Servers that take an API key. Source: the reference of each server; no request was sent to those after the third.
const KEYED: [KeyedServer; 9] = [
    KeyedServer {
        entry: "openai-api",
        kind: "responses",
        variable: "OPENAI_API_KEY",
        base_url: "https://api.openai.com/v1",
        model: "gpt-5.5",
        settings: &[],
        program: None,
    },
    KeyedServer {
        entry: "xai-api",
        kind: "responses",
        variable: "XAI_API_KEY",
        base_url: "https://api.x.ai/v1",
        model: "grok-4.5",
        settings: &[],
        program: None,
    },
    KeyedServer {
        entry: "openrouter",
        kind: "responses",
        variable: "OPENROUTER_API_KEY",
        base_url: "https://openrouter.ai/api/v1",
        model: "openrouter/auto",
        settings: &[],
        program: None,
    },
    KeyedServer {
        entry: "anthropic-api",
        kind: "messages",
        variable: "ANTHROPIC_API_KEY",
        base_url: "https://api.anthropic.com/v1",
        model: "claude-sonnet-5",
        settings: &[],
        program: Some("claude"),
    },
    KeyedServer {
        entry: "gemini-api",
        kind: "gemini",
        variable: "GEMINI_API_KEY",
        base_url: "https://generativelanguage.googleapis.com/v1beta",
        model: "gemini-flash-latest",
        settings: &[],
        program: None,
    },
    // The name in older guides. Both variables are one server.
    KeyedServer {
        entry: "gemini-api",
        kind: "gemini",
        variable: "GOOGLE_API_KEY",
        base_url: "https://generativelanguage.googleapis.com/v1beta",
        model: "gemini-flash-latest",
        settings: &[],
        program: None,
    },
    KeyedServer {
        entry: "deepseek",
        kind: "chat",
        variable: "DEEPSEEK_API_KEY",
        base_url: "https://api.deepseek.com",
        model: "deepseek-flash",
        // The server has no schemas of answers.
        settings: &[("structured_output", "instructed")],
        program: None,
    },
    KeyedServer {
        entry: "mistral",
        kind: "chat",
        variable: "MISTRAL_API_KEY",
        base_url: "https://api.mistral.ai/v1",
        model: "mistral-large-latest",
        // The server rejects longer ids of calls.
        settings: &[("call_ids", "short")],
        program: None,
    },
    KeyedServer {
        entry: "groq",
        kind: "chat",
        variable: "GROQ_API_KEY",
        base_url: "https://api.groq.com/openai/v1",
        model: "openai/gpt-oss-120b",
        settings: &[],
        program: None,
    },
];

/// Detects the backends of this kind.
pub(super) fn detect(machine: &dyn Machine) -> DetectionFuture<'_> {
    Box::pin(async move {
        let mut detection = Detection::default();
        detection.ways.push(
            "start a local model server such as `ollama serve`, or set an API key such as OPENAI_API_KEY"
                .to_owned(),
        );
        let answers = LOCAL.map(|(_, _, port, _)| machine.local_server(port, "/v1/models"));
        for ((entry, title, port, ignores_schema), answer) in LOCAL.into_iter().zip(join_all(answers).await) {
            let subject = format!("{title} at 127.0.0.1:{port}");
            let body = match answer {
                LocalAnswer::Body(body) => body,
                LocalAnswer::Refused(reason) | LocalAnswer::Failed(reason) => {
                    detection.unused(format!("a server at 127.0.0.1:{port}"), reason);
                    continue;
                }
                LocalAnswer::Nothing => continue,
            };
            match models(&body).as_deref() {
                // Other services use the same ports.
                None => {}
                Some([]) => detection.unused(subject, "it has no model: load one"),
                Some([model, ..]) => {
                    let words = format!("{subject}, with the model {model}");
                    let mut backend = DetectedBackend::new("responses", Payment::Local, words)
                        .named(entry)
                        .with("base_url", format!("http://127.0.0.1:{port}/v1"))
                        .with("model", model.as_str());
                    if ignores_schema {
                        backend = backend.with("structured_output", "instructed");
                    }
                    detection.backends.push(backend);
                }
            }
        }
        let has_program = |name: &str| machine.program(name).usable.is_some();
        for server in keyed(|variable| machine.variable(variable).is_some(), has_program) {
            let words = format!("the key in {}, for {}", server.variable, server.base_url);
            let backend = DetectedBackend::new(server.kind, Payment::Metered, words)
                .named(server.entry)
                .with("base_url", server.base_url)
                .with("model", server.model)
                .with("credential", key_in(server.variable))
                .with("billing", "metered");
            let with = |backend: DetectedBackend, (key, value): &(&str, &str)| backend.with(*key, *value);
            detection.backends.push(server.settings.iter().fold(backend, with));
        }
        detection
    })
}

/// Returns the servers whose key is set, unless a program takes it. A server with two variables counts once.
fn keyed(
    is_set: impl Fn(&str) -> bool,
    has_program: impl Fn(&str) -> bool,
) -> impl Iterator<Item = &'static KeyedServer> {
    let mut entries = BTreeSet::new();
    KEYED.iter().filter(move |server| {
        is_set(server.variable) && !server.program.is_some_and(&has_program) && entries.insert(server.entry)
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
    let is_usable = |id: &String| {
        !id.is_empty()
            && id.len() <= 200
            && !id.chars().any(char::is_control)
            && !id.contains("${")
            && !id.contains("embed")
    };
    Some(ids.filter(is_usable).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_one_server_whichever_of_its_variables_names_it() {
        let found = |variables: &[&str]| -> Vec<(&str, &str)> {
            let servers = keyed(|variable| variables.contains(&variable), |name| name == "claude");
            servers.map(|server| (server.entry, server.variable)).collect()
        };
        assert_eq!(found(&["GEMINI_API_KEY", "GOOGLE_API_KEY"]), [("gemini-api", "GEMINI_API_KEY")]);
        assert_eq!(found(&["GOOGLE_API_KEY"]), [("gemini-api", "GOOGLE_API_KEY")]);
        assert_eq!(found(&["ANTHROPIC_API_KEY"]), [], "the program takes the key");
    }

    #[test]
    fn a_list_of_models_has_those_that_answer_a_prompt() {
        let body =
            r#"{"object":"list","data":[{"id":"text-embedding-nomic"},{"id":"qwen3:8b"},{"id":"a\nb"}]}"#;
        assert_eq!(models(body), Some(vec!["qwen3:8b".to_owned()]));
        assert_eq!(models(r#"{"data":[]}"#), Some(Vec::new()));
        assert_eq!(models("<html>"), None);
    }
}
