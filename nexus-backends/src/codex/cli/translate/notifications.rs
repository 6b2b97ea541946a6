//! Handlers of the program's notifications.

use std::mem;

use nexus_core::{
    CallId, ErrorKind, FinishReason, Phase, TurnEvent,
    harness::{Failure, ModelCall},
    turn::{ContextUsage, ConversationCompacted, Retrying, Unrecognized},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{AppServer, INPUT, Messages, no_answer};
use crate::cli::Step;
use crate::codex::cli::tool_calls::ItemCall;
use crate::codex::cli::wire::{
    Delta, ErrorNotification, Item, ItemNotification, RateLimitsNotification, ReroutedNotification,
    TurnNotification, UsageNotification, WarningNotification,
};
use crate::codex::cli::{failure, rate_limits};

impl AppServer {
    pub(super) fn notification(&mut self, method: &str, params: Value, step: &mut Step) {
        let known = match method {
            "item/agentMessage/delta" => self.read(params, step, Self::text_delta),
            "item/reasoning/summaryTextDelta" | "item/reasoning/textDelta" => {
                self.read(params, step, Self::thinking_delta)
            }
            "item/started" => {
                self.read(params, step, |this, notification, step| this.item(notification, false, step))
            }
            "item/completed" => {
                self.read(params, step, |this, notification, step| this.item(notification, true, step))
            }
            "thread/tokenUsage/updated" => self.read(params, step, Self::usage),
            "account/rateLimits/updated" => self.read(params, step, Self::rate_limits),
            "error" => self.read(params, step, Self::error),
            "turn/started" => self.read(params, step, Self::turn_started),
            "turn/completed" => self.read(params, step, Self::turn_completed),
            "model/rerouted" => self.read(params, step, Self::rerouted),
            "warning" | "guardianWarning" | "configWarning" | "deprecationNotice" => {
                self.read(params, step, Self::warning)
            }
            _ if rate_limits::is_housekeeping(method) => return,
            _ => Err(params),
        };
        if let Err(params) = known {
            // The program reports the agent's actions as items of a turn, so any other message is harmless.
            let is_harmless =
                !method.starts_with("item/") && !method.starts_with("turn/") && params.get("item").is_none();
            let raw = json!({ "method": method, "params": params });
            let unknown = Unrecognized::new(Some(method.to_owned()), raw);
            step.event(if is_harmless { unknown.harmless() } else { unknown });
        }
    }

    /// Parses parameters and passes them to `take`. Returns the parameters as the error if they cannot be parsed.
    fn read<T: DeserializeOwned>(
        &mut self,
        params: Value,
        step: &mut Step,
        take: impl FnOnce(&mut Self, T, &mut Step),
    ) -> Result<(), Value> {
        match T::deserialize(&params) {
            Ok(notification) => {
                take(self, notification, step);
                Ok(())
            }
            Err(_) => Err(params),
        }
    }

    fn is_own(&self, thread: Option<&str>) -> bool {
        thread.is_none() || thread == self.thread.as_deref()
    }

    /// Returns the call that started the sub-agent of `thread`; `None` for the turn's own agent.
    fn parent(&self, thread: Option<&str>) -> Option<CallId> {
        if self.is_own(thread) {
            return None;
        }
        let thread = thread.unwrap_or_default();
        // The first message of a sub-agent may precede the item that names its call.
        let unknown = || CallId::from(format!("agent-{thread}"));
        Some(self.agents.get(thread).cloned().unwrap_or_else(unknown))
    }

    fn text_delta(&mut self, delta: Delta, step: &mut Step) {
        let parent = self.parent(delta.thread_id.as_deref());
        self.answering();
        let halves = mem::take(&mut self.line_halves);
        let text = self.halves.delta(&delta.item_id, delta.delta.into(), halves).into_owned();
        if text.is_empty() {
            return;
        }
        let messages = self.messages.entry(delta.thread_id.unwrap_or_default()).or_default();
        step.events.push(messages.write(&mut self.names, parent.as_ref(), &delta.item_id, text));
    }

    fn thinking_delta(&mut self, delta: Delta, step: &mut Step) {
        let parent = self.parent(delta.thread_id.as_deref());
        self.answering();
        let halves = mem::take(&mut self.line_halves);
        let text = self.halves.delta(&delta.item_id, delta.delta.into(), halves);
        if text.is_empty() {
            return;
        }
        let messages = self.messages.entry(delta.thread_id.unwrap_or_default()).or_default();
        let names = &mut self.names;
        let part = delta.summary_index;
        step.events.push(messages.think(names, parent.as_ref(), &delta.item_id, part, &text));
    }

    /// Records that the model is answering. The phase changes only if no tool is running.
    fn answering(&mut self) {
        self.is_retrying = false;
        if self.running.is_empty() {
            self.phase = Phase::Model;
        }
    }

    fn item(&mut self, notification: ItemNotification, is_complete: bool, step: &mut Step) {
        let raw = notification.item;
        let item = match serde_json::from_value::<Item>(raw.clone()) {
            Ok(item) => item,
            Err(_) => {
                let name = raw.get("type").and_then(Value::as_str).map(|word| format!("item {word}"));
                return step.event(Unrecognized::new(name, raw));
            }
        };
        let thread = notification.thread_id;
        let parent = self.parent(thread.as_deref());
        let is_own = parent.is_none();
        match item {
            Item::AgentMessage { id, text } => {
                self.answering();
                let messages = self.messages.entry(thread.unwrap_or_default()).or_default();
                if is_complete {
                    // Only the last message of the turn's own agent is the answer.
                    self.has_answer = if is_own { !text.trim().is_empty() } else { self.has_answer };
                    step.events.push(messages.end(&mut self.names, parent.as_ref(), &id, text));
                } else {
                    messages.begin(&mut self.names, &id);
                }
            }
            Item::Reasoning { id, summary, content } => {
                self.answering();
                if is_complete {
                    let messages = self.messages.entry(thread.unwrap_or_default()).or_default();
                    let parts = if summary.is_empty() { content } else { summary };
                    let names = &mut self.names;
                    step.events.extend(messages.thought_whole(names, parent.as_ref(), &id, &parts));
                }
            }
            Item::UserMessage { client_id } => {
                let number = client_id.as_deref().and_then(|name| name.strip_prefix(INPUT)?.parse().ok());
                let Some(number) = number.filter(|_| is_own && !is_complete) else { return };
                // The input interrupted the model's text, which the program requests again.
                let messages = self.messages.entry(thread.unwrap_or_default()).or_default();
                step.events.extend(messages.void_open());
                self.has_answer = false;
                step.delivered.push(number);
            }
            Item::ContextCompaction {} if is_complete => {
                step.event(ConversationCompacted::new());
            }
            Item::CollabAgentToolCall { ref id, ref receiver_thread_ids, .. } => {
                let call = CallId::from(id.as_str());
                for agent in receiver_thread_ids {
                    self.agents.entry(agent.clone()).or_insert_with(|| call.clone());
                }
                self.tool(item, parent, is_complete, step);
            }
            item => self.tool(item, parent, is_complete, step),
        }
    }

    fn tool(&mut self, item: Item, parent: Option<CallId>, is_complete: bool, step: &mut Step) {
        let Some(call) = ItemCall::read(item, &self.setting) else { return };
        if let Some(failure) = call.beyond(self.setting.access) {
            step.failed_and_stops(failure);
        }
        self.messages.values_mut().for_each(Messages::stand);
        // Item ids repeat between model calls, so an end belongs to the first running call with its id.
        let name = self.running_call(&call.id).filter(|_| is_complete);
        let is_new = name.is_none();
        let name = name.unwrap_or_else(|| self.name_call(&call.id));
        if is_new {
            // Text before a call is only a remark. The answer follows the last call.
            if parent.is_none() {
                self.has_answer = false;
            }
            step.event(call.started(name.clone(), parent));
            step.event(call.arguments(name.clone()));
        }
        if is_complete {
            self.running.remove(&name);
            step.event(call.finished(name));
        } else {
            self.running.insert(name);
        }
        self.phase = if self.running.is_empty() { Phase::FirstByte } else { Phase::Tool };
    }

    /// Returns the first running call with this item id.
    fn running_call(&self, id: &str) -> Option<CallId> {
        self.calls.get(id)?.iter().find(|call| self.running.contains(*call)).cloned()
    }

    /// Creates a call id for a further call with this item id.
    fn name_call(&mut self, id: &str) -> CallId {
        let same = self.calls.entry(id.to_owned()).or_default();
        let name = match same.len() {
            0 => CallId::from(id),
            before => CallId::new(format!("{id}#{}", before + 1)),
        };
        same.push(name.clone());
        name
    }

    fn usage(&mut self, notification: UsageNotification, step: &mut Step) {
        let is_own = self.is_own(notification.thread_id.as_deref());
        let is_ours = notification.turn_id.as_ref().is_none_or(|turn| self.turns.contains(turn));
        if is_own && !is_ours {
            // Ignore the usage of earlier turns of a resumed conversation.
            return;
        }
        let parent = self.parent(notification.thread_id.as_deref());
        let (last, window) = (notification.token_usage.last, notification.token_usage.model_context_window);
        // A sub-agent has a context of its own.
        if parent.is_none() && window.is_some() {
            let used = last.input_tokens.saturating_add(last.output_tokens);
            step.event(ContextUsage::new(used, window));
        }
        let thread = notification.thread_id.unwrap_or_default();
        if let Some(messages) = self.messages.get_mut(&thread) {
            step.events.extend(messages.call_ended(parent.as_ref()));
        }
        if let Some(usage) = self.totals.take(thread, &notification.token_usage) {
            let call = ModelCall::new().with_parent(parent).with_usage(Some(usage));
            step.model_calls_ended.push(call);
        }
        step.usage = Some(self.totals.usage());
        step.model_calls = Some(self.totals.model_calls());
        if self.running.is_empty() {
            self.phase = Phase::FirstByte;
        }
    }

    fn rate_limits(&mut self, notification: RateLimitsNotification, step: &mut Step) {
        step.events.extend(rate_limits::events(&notification.rate_limits));
        self.limits = Some(notification.rate_limits);
    }

    fn error(&mut self, notification: ErrorNotification, step: &mut Step) {
        if !notification.will_retry {
            if self.is_own(notification.thread_id.as_deref()) {
                // `turn/completed` follows and decides the outcome, but it may lack the error.
                self.problem = Some(notification.error);
            }
            return;
        }
        if let Some(messages) = self.messages.get_mut(notification.thread_id.as_deref().unwrap_or_default()) {
            step.events.extend(messages.void());
        }
        if self.is_own(notification.thread_id.as_deref()) {
            self.has_answer = false;
        }
        self.retries += 1;
        self.is_retrying = true;
        let kind = failure::kind(&notification.error);
        let reason = match notification.error.additional_details {
            Some(details) if !details.is_empty() => details,
            _ => notification.error.message,
        };
        step.event(Retrying::new(self.retries.saturating_add(1), reason).with_kind(Some(kind)));
        if self.running.is_empty() {
            self.phase = Phase::FirstByte;
        }
    }

    fn turn_started(&mut self, notification: TurnNotification, _step: &mut Step) {
        let is_known = self.turns.contains(&notification.turn.id);
        if self.thread.is_some() && self.is_own(notification.thread_id.as_deref()) && !is_known {
            self.turns.push(notification.turn.id);
        }
    }

    fn turn_completed(&mut self, notification: TurnNotification, step: &mut Step) {
        let is_current = self.turns.last().is_none_or(|turn| *turn == notification.turn.id);
        if !self.is_own(notification.thread_id.as_deref()) || !is_current {
            return;
        }
        self.is_over = true;
        self.running.clear();
        let problem = notification.turn.error.or(self.problem.take());
        match notification.turn.status.as_str() {
            "completed" if self.has_answer => step.answered(FinishReason::Stop),
            "completed" => step.failed(no_answer()),
            "interrupted" => step.failed(Failure::new(ErrorKind::Cancelled, "the turn was interrupted")),
            "failed" => step.failed(match problem {
                Some(problem) => failure::of(&problem, self.limits.as_ref()),
                None => Failure::new(ErrorKind::VendorFailure, "the turn failed without a reason"),
            }),
            status => {
                let message = format!("the turn ended with the unknown status {status:?}");
                step.failed(Failure::new(ErrorKind::Protocol, message));
            }
        }
    }

    fn rerouted(&mut self, notification: ReroutedNotification, step: &mut Step) {
        let ReroutedNotification { from_model, to_model, reason } = notification;
        step.event(TurnEvent::warning(format!("{to_model} answers instead of {from_model}: {reason}")));
        step.model = Some(to_model.into());
    }

    fn warning(&mut self, notification: WarningNotification, step: &mut Step) {
        let text = match notification.details {
            Some(details) if !details.is_empty() => format!("{} ({details})", notification.message),
            _ => notification.message,
        };
        if rate_limits::is_worth_a_warning(&text) && self.warned.insert(text.clone()) {
            step.event(TurnEvent::warning(text));
        }
    }
}
