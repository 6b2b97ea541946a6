//! `parrot` keeps every promise that it makes.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use nexus_core::{ErrorKind, ModelId, Retry, Usage};
use nexus_testkit::{
    conformance::{ModelCall, ScriptedModel, Setting, Stage, StageError, Subject, Timing},
    sim::{Fault, Finish, Odd, Part, Reply, ToolCall as ScriptedCall, long_text},
};
use parrot::{Asked, End, Parrot, Piece, Utterance, Voice, Wanted};

mod parrot_keeps_its_word {
    nexus_testkit::conformance_tests!(super::ParrotSubject);
}

#[derive(Debug)]
struct ParrotSubject;

#[async_trait]
impl Subject for ParrotSubject {
    fn name(&self) -> &str {
        "parrot"
    }

    async fn stage(&self, setting: Setting) -> Result<Stage, StageError> {
        let model = Arc::new(ScriptedModel::new(&setting));
        let voice = Script { model: Arc::clone(&model), names: AtomicU32::new(0) };
        Ok(Stage::new(Arc::new(Parrot::new(Arc::new(voice))), model))
    }

    fn model(&self) -> Option<ModelId> {
        Some("grey".into())
    }

    fn is_lent_credential(&self) -> bool {
        false
    }

    fn timing(&self) -> Timing {
        Timing { short: Duration::from_secs(1), bound: Duration::from_secs(60) }
    }
}

/// The suite's script, as a voice.
#[derive(Debug)]
struct Script {
    model: Arc<ScriptedModel>,
    names: AtomicU32,
}

impl Voice for Script {
    fn answer(&self, asked: Asked) -> Option<Utterance> {
        let call = ModelCall {
            model: asked.model,
            user_texts: vec![asked.prompt],
            tool_results: asked.answers,
            tools: asked.tools,
            ..ModelCall::default()
        };
        self.model.answer(call).map(|reply| self.utterance(&reply))
    }
}

impl Script {
    fn wanted(&self, name: &str, arguments: String) -> Piece {
        let id = format!("call-{}", self.names.fetch_add(1, Ordering::Relaxed));
        Piece::Call(Wanted { id, name: name.to_owned(), arguments })
    }

    fn utterance(&self, reply: &Reply) -> Utterance {
        let pieces = reply.parts.iter().flat_map(|part| match part {
            Part::Text { text } => words(text, reply),
            Part::Long { bytes } => words(&long_text(*bytes), reply),
            Part::Thinking { text } | Part::RawThinking { text } => vec![Piece::Thought(text.clone())],
            Part::Call(ScriptedCall::Function { name, arguments, .. }) => {
                vec![self.wanted(name, arguments.to_string())]
            }
            Part::Call(ScriptedCall::RawFunction { name, arguments }) => {
                vec![self.wanted(name, arguments.clone())]
            }
            Part::Odd { odd: odd @ (Odd::Event | Odd::Item) } => vec![Piece::Noise(format!("{odd:?}"))],
            _ => Vec::new(),
        });
        Utterance {
            delay: Duration::from_millis(reply.pace.delay_ms),
            gap: Duration::from_millis(reply.pace.gap_ms),
            pieces: pieces.collect(),
            end: end(reply),
            usage: reply.usage.map(|counted| {
                let mut usage = Usage::new();
                usage.input_tokens = Some(counted.input);
                usage.cache_read_tokens = Some(counted.cached);
                usage.output_tokens = Some(counted.output);
                usage.reasoning_tokens = Some(counted.reasoning);
                usage
            }),
        }
    }
}

fn words(text: &str, reply: &Reply) -> Vec<Piece> {
    let letters: Vec<char> = text.chars().collect();
    letters.chunks(reply.pace.piece_chars.max(1)).map(|piece| Piece::Word(piece.iter().collect())).collect()
}

fn end(reply: &Reply) -> End {
    let failed = |kind| End::Failed { kind, named: None };
    match (&reply.fault, reply.finish) {
        (None, Finish::End | Finish::Pause) => End::Done,
        (None, Finish::MaxTokens) => failed(ErrorKind::Incomplete),
        (None, Finish::Refusal | Finish::ContentFilter) => failed(ErrorKind::Refused),
        (None, Finish::ContextExceeded) => failed(ErrorKind::ContextExceeded),
        (Some(Fault::StallBeforeHeaders | Fault::Stall { .. }), _) => End::Silence,
        (Some(Fault::Torn { .. } | Fault::NoEnd | Fault::ResetBeforeHeaders), _) => End::Torn,
        (Some(Fault::Status(status)), _) => match (status.overloaded, &status.limit, status.status) {
            (true, ..) => failed(ErrorKind::Overloaded),
            (_, Some(limit), _) => {
                let reset = SystemTime::UNIX_EPOCH + Duration::from_secs(limit.resets_at);
                End::Failed { kind: ErrorKind::UsageLimit, named: Some(Retry::At(reset)) }
            }
            (.., 401) => failed(ErrorKind::Unauthenticated),
            (.., 403) => failed(ErrorKind::Forbidden),
            (.., 404) => failed(ErrorKind::ModelUnavailable),
            (.., 429) => {
                let named = status.retry_after.map(|seconds| Retry::After(Duration::from_secs(seconds)));
                End::Failed { kind: ErrorKind::RateLimited, named }
            }
            (.., 400..=499) => failed(ErrorKind::InvalidRequest),
            _ => failed(ErrorKind::VendorFailure),
        },
        (Some(Fault::StreamError { .. }), _) => failed(ErrorKind::VendorFailure),
        (Some(Fault::Html200), _) => failed(ErrorKind::Transport),
        (Some(_), _) => failed(ErrorKind::Protocol),
    }
}
