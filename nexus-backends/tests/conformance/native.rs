//! The native backends, each against the simulator in its dialect.

use std::sync::Arc;

use nexus_backends::{
    codex::{ChatgptSubToken, CodexSubToken},
    generic::{ChatCompletions, GeminiApi, MessagesApi, Responses},
    grok::GrokSubToken,
};
use nexus_testkit::{
    conformance::NativeSubject,
    effort,
    sim::{Dialect, Model},
};
use serde_json::json;

use crate::Subjects;

pub(crate) fn subjects() -> Subjects {
    let generic = NativeSubject::new("responses", Arc::new(Responses), Dialect::Responses)
        .with_setting("model", json!("simulated"));
    let chat = NativeSubject::new("chat", Arc::new(ChatCompletions), Dialect::Chat)
        .with_setting("model", json!("simulated"))
        .before_a_strict_vendor();
    let messages = NativeSubject::new("messages", Arc::new(MessagesApi), Dialect::Anthropic)
        .with_setting("model", json!("simulated"))
        .before_a_strict_vendor();
    let gemini = NativeSubject::new("gemini", Arc::new(GeminiApi), Dialect::Gemini)
        .with_setting("model", json!("simulated"))
        .before_a_strict_vendor();
    let mut subjects: Subjects = vec![
        ("responses".to_owned(), Arc::new(generic)),
        ("chat".to_owned(), Arc::new(chat)),
        ("messages".to_owned(), Arc::new(messages)),
        ("gemini".to_owned(), Arc::new(gemini)),
    ];
    if !effort::is_deep() {
        return subjects;
    }
    // Each model has every step of effort that its backend declares.
    let efforts = ["low", "medium", "high", "xhigh", "max"];
    let codex = NativeSubject::new("codex-sub-token", Arc::new(CodexSubToken), Dialect::Responses)
        .with_model("gpt-5.5")
        .with_catalogue([Model::new("gpt-5.5").efforts(efforts)])
        .before_a_strict_vendor();
    let lite = NativeSubject::new("codex-sub-token, lite", Arc::new(CodexSubToken), Dialect::Responses)
        .with_model("gpt-6.1-sol")
        .with_catalogue([Model::new("gpt-6.1-sol").efforts(efforts).lite()])
        .before_a_strict_vendor();
    let chatgpt = NativeSubject::new("chatgpt-sub-token", Arc::new(ChatgptSubToken), Dialect::Responses)
        .with_model("gpt-6.1-sol")
        .with_catalogue([Model::new("gpt-6.1-sol").efforts(efforts).public_plan()])
        .before_a_strict_vendor();
    let grok = NativeSubject::new("grok-sub-token", Arc::new(GrokSubToken), Dialect::Xai)
        .with_model("grok-4.6")
        .with_catalogue([Model::new("grok-4.6")])
        .before_a_strict_vendor();
    for (module, subject) in [("codex", codex), ("codex_lite", lite), ("chatgpt", chatgpt), ("grok", grok)] {
        subjects.push((module.to_owned(), Arc::new(subject)));
    }
    subjects
}
