//! Detection of model servers on this machine, and of API keys for servers with the Responses API.

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

/// Servers that take an API key: entry, variable of the key, address, and a model that the server offers.
///
/// A backend of this kind needs a model, and detection requests no list from another machine.
const KEYED: [(&str, &str, &str, &str); 3] = [
    ("openai-api", "OPENAI_API_KEY", "https://api.openai.com/v1", "gpt-5.5"),
    ("xai-api", "XAI_API_KEY", "https://api.x.ai/v1", "grok-4.5"),
    ("openrouter", "OPENROUTER_API_KEY", "https://openrouter.ai/api/v1", "openrouter/auto"),
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
        for (entry, variable, base_url, model) in KEYED {
            if machine.variable(variable).is_some() {
                let words = format!("the key in {variable}, for {base_url}");
                let backend = DetectedBackend::new("responses", Payment::Metered, words)
                    .named(entry)
                    .with("base_url", base_url)
                    .with("model", model)
                    .with("credential", key_in(variable))
                    .with("billing", "metered");
                detection.backends.push(backend);
            }
        }
        detection
    })
}

/// Answer to `GET /v1/models`.
#[derive(Debug, Deserialize)]
struct ModelAnswer {
    data: Vec<ListedModel>,
}

#[derive(Debug, Deserialize)]
struct ListedModel {
    id: String,
}

/// Returns the models of a list that can answer a prompt. `None` if the text has another form.
fn models(body: &str) -> Option<Vec<String>> {
    let answer: ModelAnswer = serde_json::from_str(body).ok()?;
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
    fn a_list_of_models_has_those_that_answer_a_prompt() {
        let body =
            r#"{"object":"list","data":[{"id":"text-embedding-nomic"},{"id":"qwen3:8b"},{"id":"a\nb"}]}"#;
        assert_eq!(models(body), Some(vec!["qwen3:8b".to_owned()]));
        assert_eq!(models(r#"{"data":[]}"#), Some(Vec::new()));
        assert_eq!(models("<html>"), None);
    }
}
