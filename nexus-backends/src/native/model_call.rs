//! One model call: a request, its response, and repetitions after failures.

use std::time::Duration;

use http::{StatusCode, header::HeaderMap};
use nexus_core::{
    ErrorKind, EventSink, MessageId, ModelId, Phase, Retry, TurnEvent,
    harness::Failure,
    turn::{ContextUsage, MessageVoided, Retrying, VoidCause},
};

use super::call_route::StreamFraming;
use super::context_fill::ContextFill;
use super::dialect::{RequestContext, full_query};
use super::frame_splitter::StreamFault;
use super::outcome::{ErrorBody, ErrorReply, judge, refuses_field};
use super::reply::{CallEnding, ModelReply};
use super::retry::Attempts;
use super::setup::{CallPurpose, TurnSetup};
use super::stream_splitter::StreamSplitter;
use super::transcript::Transcript;
use super::transport::{Body, CallAddress, ServerAnswer};
use super::turn_context::BodyEnd;
use super::turn_loop::TurnLoop;
use super::wire_reader::WireReader;
use super::wires;

/// A request without a usable reply.
pub(super) struct Failed {
    pub(super) failure: Failure,
    /// Error response of the server, if it sent one.
    refusal: Option<(StatusCode, ErrorBody)>,
    /// Messages whose deltas were already sent to the caller.
    shown: Vec<MessageId>,
    /// True if no tool of the server has written anything.
    may_be_repeated: bool,
}

impl Failed {
    fn new(failure: Failure) -> Box<Self> {
        Box::new(Self { failure, refusal: None, shown: Vec::new(), may_be_repeated: true })
    }
}

impl TurnLoop<'_> {
    /// Calls the model, and repeats the call if the failure allows it. Before a repetition, the messages of the
    /// interrupted response are retracted; none of its tool calls was dispatched.
    pub(super) async fn ask(
        &mut self,
        setup: &mut TurnSetup,
        conversation: &mut dyn Transcript,
        events: &mut dyn EventSink,
    ) -> Result<ModelReply, Failure> {
        let mut attempts = Attempts::new(&self.backend.retry);
        let mut attempt = 1;
        let mut has_made_room = false;
        loop {
            // Before each attempt, because the waits between attempts may outlast the credential.
            self.freshen(&mut setup.borrowed, events).await?;
            self.context.log.model_asked();
            let failed = match self.request(setup, conversation, events).await? {
                Ok(reply) => return Ok(reply),
                Err(failed) => failed,
            };
            self.context.log.model_failed(failed.failure.kind);
            // The usage of the failed attempt also counts.
            self.within_limits()?;
            if failed.may_be_repeated
                && self.may_ask().is_ok()
                && self
                    .renews(&failed.failure, &failed.shown, attempt + 1, &mut setup.borrowed, events)
                    .await?
            {
                attempt += 1;
                continue;
            }
            // A changed request is a new request, not a retry: it waits for nothing and uses up no attempt.
            let mut is_changed = self.mend(&failed, setup, conversation);
            if !is_changed
                && failed.failure.kind == ErrorKind::ContextExceeded
                && failed.may_be_repeated
                && self.may_ask().is_ok()
                // Once for each call of the model: a server that rejects half of the conversation too gets no third one.
                && !std::mem::replace(&mut has_made_room, true)
            {
                is_changed = self.make_room_after_refusal(setup, conversation, events).await?;
            }
            let delay = match is_changed {
                true => Some(Duration::ZERO),
                false => attempts.next(&failed.failure).filter(|_| failed.may_be_repeated),
            };
            // If the limit leaves no call for a repetition, the failure explains more than the limit.
            let Some(delay) = delay.filter(|_| self.may_ask().is_ok()) else { return Err(failed.failure) };
            attempt += 1;
            for message in failed.shown {
                self.context.log.event(MessageVoided::new(message, VoidCause::Retry));
            }
            let reason = failed.failure.message.unwrap_or_default();
            let retrying =
                Retrying::new(attempt, reason).with_delay(Some(delay)).with_kind(Some(failed.failure.kind));
            self.context.log.event(retrying);
            self.context.pause(events, delay).await?;
        }
    }

    /// Makes one request. The outer `Err` ends the turn, because it was cancelled or ran out of time.
    async fn request(
        &mut self,
        setup: &mut TurnSetup,
        conversation: &dyn Transcript,
        events: &mut dyn EventSink,
    ) -> Result<Result<ModelReply, Box<Failed>>, Failure> {
        self.requests += 1;
        let calls_before = self.context.log.recorder.tool_calls().len();
        let request_bytes = conversation.request_bytes();
        let mut reader = wires::reader(self.requests, &self.backend.dialect, &setup.plan);
        let output_tokens = self.output_tokens_left();
        let end = match self.exchange(setup, conversation, output_tokens, &mut *reader, events).await? {
            Ok(end) => end,
            Err(failed) => return Ok(Err(failed)),
        };
        self.context.log.model_calls += 1;
        let reply = self.end(end, reader, calls_before, &setup.plan.model);
        if let Ok(ModelReply { usage: Some(usage), .. }) = &reply {
            self.context_fill = ContextFill::reported(usage, request_bytes);
            if let (Some(used), Some(window)) = (usage.total_tokens(), self.context_window(setup)) {
                self.context.log.event(ContextUsage::new(used, Some(window)));
            }
        }
        Ok(reply)
    }

    /// Sends one request, and reads the response with `reader`. The outer `Err` ends the turn, because it was cancelled or ran
    /// out of time.
    pub(super) async fn exchange(
        &mut self,
        setup: &mut TurnSetup,
        conversation: &dyn Transcript,
        output_tokens: Option<u64>,
        reader: &mut dyn WireReader,
        events: &mut dyn EventSink,
    ) -> Result<Result<BodyEnd, Box<Failed>>, Failure> {
        let backend = self.backend;
        self.context.watch.heard(Phase::FirstByte);
        let headers = backend.dialect.headers(&RequestContext {
            credential: setup.borrowed.credential.as_ref(),
            plan: &setup.plan,
            conversation: conversation.id(),
            sticky: setup.sticky.as_deref(),
        });
        let body = conversation.request(output_tokens);
        // Box this large future, which completes before the response streams in. Otherwise every open turn would
        // contain it.
        let credential = setup.borrowed.credential.as_ref();
        let route = backend.dialect.route();
        let address = CallAddress {
            path: setup.plan.path.as_deref(),
            query: full_query(&*backend.dialect, credential),
            framing: route.map(|route| route.framing).unwrap_or_default(),
            signer: credential.and_then(|credential| backend.dialect.signer(credential)),
        };
        let post = Box::pin(backend.transport.post(&setup.plan.shape, address, headers, body));
        let posted = self.context.attend(events, post).await?;
        Ok(match posted {
            Err(error) => Err(Failed::new(error.into())),
            Ok(ServerAnswer::Refused { status, headers, body }) => {
                self.head(&headers, setup);
                let reply = ErrorReply { status: Some(status), headers: &headers, body: &body };
                let failure = judge(&reply, backend.dialect.failure(&reply));
                let mut failed = Failed::new(failure);
                failed.refusal = Some((status, body));
                Err(failed)
            }
            Ok(ServerAnswer::Whole { headers, body }) => {
                self.head(&headers, setup);
                reader.answer_has(&headers);
                let mut arrived = Vec::new();
                reader.whole(&body, &mut arrived);
                arrived.into_iter().for_each(|event| self.context.log.event(event));
                Ok(BodyEnd::Over)
            }
            Ok(ServerAnswer::Stream { headers, framing, mut body }) => {
                self.head(&headers, setup);
                reader.answer_has(&headers);
                // The headers borrow the connection's first buffer, and would keep it in memory as long as the stream
                // lasts.
                drop(headers);
                Ok(self.stream(&mut body, framing, reader, events).await?)
            }
        })
    }

    async fn stream(
        &mut self,
        body: &mut Body,
        framing: StreamFraming,
        reader: &mut dyn WireReader,
        events: &mut dyn EventSink,
    ) -> Result<BodyEnd, Failure> {
        let mut splitter = StreamSplitter::new(framing, self.backend.max_event_bytes);
        let end = self.context.read(events, body, &mut splitter, reader).await?;
        if reader.is_finished() {
            self.context.close(body).await?;
        }
        Ok(end)
    }

    /// Processes the headers of a response: limits, the model, and the value to send back.
    fn head(&mut self, headers: &HeaderMap, setup: &mut TurnSetup) {
        let head = self.backend.dialect.head(headers);
        if head.sticky.is_some() {
            setup.sticky = head.sticky;
        }
        // Servers repeat the limits with every response, so report only a change.
        if head.limits != self.last_limits {
            for limit in &head.limits {
                self.context.log.event(limit.clone());
            }
            self.last_limits = head.limits;
        }
        let is_of_turn = setup.purpose == CallPurpose::Turn;
        if !is_of_turn || head.model.is_none() || head.model == self.last_model {
            return;
        }
        self.last_model.clone_from(&head.model);
        if let Some(model) = head.model.filter(|model| *model != setup.plan.model) {
            let text = format!("the request was sent to {}, but {model} answers", setup.plan.model);
            self.context.log.event(TurnEvent::warning(text));
            self.context.log.provenance.model = Some(model);
        }
    }

    /// Returns the reply or the failure of a request that got a response.
    fn end(
        &mut self,
        end: BodyEnd,
        mut reader: Box<dyn WireReader>,
        calls_before: usize,
        requested: &ModelId,
    ) -> Result<ModelReply, Box<Failed>> {
        if !matches!(end, BodyEnd::Over) {
            reader.body_broke();
        }
        let shown = reader.shown().to_vec();
        let mut arrived = Vec::new();
        let mut reply = reader.into_reply(&mut arrived);
        self.add_cost(&mut reply, requested);
        if let Some(model) = &reply.model {
            self.context.log.provenance.model = Some(model.clone());
        }
        arrived.into_iter().for_each(|event| self.context.log.event(event));
        let failure =
            match (std::mem::replace(&mut reply.ending, CallEnding::Missing { unreadable: false }), end) {
                // The server's own report of the end takes precedence over a later state of the connection.
                (CallEnding::Failed(failure), _) => failure,
                (ending @ (CallEnding::Completed { .. } | CallEnding::Incomplete { .. }), _) => {
                    reply.ending = ending;
                    return Ok(reply);
                }
                (CallEnding::Missing { .. }, BodyEnd::Broken(error)) => error.into(),
                (CallEnding::Missing { .. }, BodyEnd::Faulty(fault @ StreamFault::TooLong(_))) => {
                    Failure::of(ErrorKind::Protocol, &fault)
                }
                // The connection damaged bytes. A new connection may deliver them intact.
                (CallEnding::Missing { .. }, BodyEnd::Faulty(fault @ StreamFault::Damaged)) => {
                    Failure::of(ErrorKind::Transport, &fault).with_retry(Retry::Now)
                }
                (CallEnding::Missing { unreadable: true }, BodyEnd::Over) => {
                    Failure::new(ErrorKind::Protocol, "the answer cannot be read and is incomplete")
                }
                (CallEnding::Missing { unreadable: false }, BodyEnd::Over) => {
                    Failure::new(ErrorKind::Transport, "the answer ended before it was complete")
                        .with_retry(Retry::Now)
                }
            };
        let mut failed = Failed::new(failure);
        failed.shown = shown;
        // While the server answers, only calls of its own tools are reported.
        let told = self.context.log.recorder.tool_calls().get(calls_before..).unwrap_or_default();
        failed.may_be_repeated = told.iter().all(|call| call.effects.allow_another_try());
        Err(failed)
    }

    /// Adds the cost of a reply: the server's own report, otherwise the cost by the configured prices.
    pub(super) fn add_cost(&mut self, reply: &mut ModelReply, requested: &ModelId) {
        let prices = &self.backend.prices;
        let computed = || prices.cost(requested, reply.model.as_ref(), reply.usage.as_ref()?);
        reply.cost = reply.cost.or_else(computed);
        let total = &mut self.context.log.recorder.cost;
        if let Some(cost) = reply.cost {
            *total = Some(total.map_or(cost, |before| before.plus(&cost)));
        }
    }

    /// Removes the known cause of a rejected request: reasoning or items that this account or model cannot read,
    /// images, flags, or a single tool. Each change emits a warning. Each is made only once, because nothing is left to
    /// change afterwards.
    fn mend(&mut self, failed: &Failed, setup: &mut TurnSetup, conversation: &mut dyn Transcript) -> bool {
        let Some((status, body)) = &failed.refusal else { return false };
        let is_bad_request = matches!(*status, StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY);
        let warning = match () {
            () if is_bad_request && refuses_reasoning(body) && conversation.drop_reasoning() => {
                "the server rejects the reasoning of earlier replies; it is left out".to_owned()
            }
            () if misses_item(*status, body) && conversation.forget_items() => {
                "the server does not know items of earlier replies; their reasoning is left out".to_owned()
            }
            () if is_bad_request && body.names(INNER_PICTURES) && conversation.move_pictures() => {
                "the server rejects pictures in results; they follow the results from now on".to_owned()
            }
            () if refuses_pictures(*status, body) && conversation.drop_pictures() => {
                let words = body.message.as_deref().unwrap_or("no reason is given");
                format!("the server rejects a picture, which is left out from now on: {words}")
            }
            () if is_bad_request && refuses_flag(body) && setup.drop_strict() => {
                conversation.reopen(&setup.opening(&self.request));
                "the server does not support the flag `strict`; it is left out".to_owned()
            }
            () if is_bad_request => match self.drop_tool(body, setup, conversation) {
                Some(warning) => warning,
                None => return false,
            },
            () => return false,
        };
        self.context.log.event(TurnEvent::warning(warning));
        true
    }

    /// Removes the tool that the server rejects.
    fn drop_tool(
        &self,
        body: &ErrorBody,
        setup: &mut TurnSetup,
        conversation: &mut dyn Transcript,
    ) -> Option<String> {
        let words = body.words();
        let index = body.param.as_deref().and_then(tool_index).or_else(|| tool_index_in(words));
        let index = index.or_else(|| declaration_index(words));
        let index = index.filter(|index| *index < setup.tools.len())?;
        let tool = setup.tools.remove(index);
        let name = tool.name.as_str();
        setup.refused_tools.push(name.to_owned());
        let reason = body.message.as_deref().unwrap_or("no reason is given");
        conversation.reopen(&setup.opening(&self.request));
        Some(format!("the server rejects the tool {name:?}, which is left out: {reason}"))
    }
}

/// Words of a server that takes pictures only outside of results. Source: the Gemini API, for models before Gemini 3
/// ("Multimodal function responses are not supported").
const INNER_PICTURES: &str = "multimodal function response";

/// Returns true if the server cannot read the reasoning that is sent back to it. Source: the public APIs of each wire.
fn refuses_reasoning(body: &ErrorBody) -> bool {
    ["encrypted_content", "reasoning_content", "reasoning_details", "signature"]
        .iter()
        .any(|word| body.names(word))
}

/// Returns true if the server does not know an item by its id. Source: the public API, for items that it does not
/// store.
fn misses_item(status: StatusCode, body: &ErrorBody) -> bool {
    matches!(status, StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND)
        && (body.names("item with id") || body.names("not persisted"))
}

/// Returns true if the server rejects an image. Source: the public API (400, "Could not process image"), vLLM (400, "is
/// not a multimodal model") and llama.cpp 0.5.0 (500, "image input is not supported").
fn refuses_pictures(status: StatusCode, body: &ErrorBody) -> bool {
    let words = ["image", "picture", "vision", "multimodal"];
    let is_client_error = status.is_client_error() && status != StatusCode::TOO_MANY_REQUESTS;
    let says = |word: &&str| body.names(word);
    (is_client_error && words.iter().any(says))
        || (status.is_server_error() && body.names("image input is not supported"))
}

/// Returns true if the server rejects the flag `strict` itself.
fn refuses_flag(body: &ErrorBody) -> bool {
    let is_named = body.param.as_deref().is_some_and(|param| param.rsplit('.').next() == Some("strict"));
    is_named || (body.param.is_none() && body.names("strict") && refuses_field(body))
}

/// Returns the index of the tool that an error's `param` names: the last `tools[N]` in it.
/// Source: the public Responses API names a bad tool as `tools[0].function.parameters` or `tools[0].parameters`.
fn tool_index(param: &str) -> Option<usize> {
    let (_, rest) = param.rsplit_once("tools[")?;
    rest.split(']').next()?.parse().ok()
}

/// Returns the index of the tool with which an error's words begin: `tools.3.custom.input_schema: …`. Source: the
/// Messages API.
fn tool_index_in(words: &str) -> Option<usize> {
    words.strip_prefix("tools.")?.split('.').next()?.parse().ok()
}

/// Returns the index of the function that an error's words name, as in
/// `GenerateContentRequest.tools[0].function_declarations[3].name: …`. Source: the Gemini API.
fn declaration_index(words: &str) -> Option<usize> {
    let (_, rest) = words.split_once("function_declarations[")?;
    rest.split(']').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tool_that_an_error_names_is_found() {
        assert_eq!(tool_index("tools[3].parameters"), Some(3));
        assert_eq!(tool_index("input[0].tools[0].tools[2]"), Some(2));
        assert_eq!(tool_index("input[0]"), None);
        assert_eq!(tool_index("tools[x]"), None);
        assert_eq!(tool_index_in("tools.3.custom.input_schema: bad"), Some(3));
        assert_eq!(tool_index_in("the tools.3 are bad"), None);
        let words = "* GenerateContentRequest.tools[0].function_declarations[3].name: Invalid function name.";
        assert_eq!(declaration_index(words), Some(3));
        assert_eq!(declaration_index("tools[0]"), None);
    }
}
