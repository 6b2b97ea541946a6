//! Inputs of a turn: the credential, the plan for the model, and the offered tools.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use nexus_core::{
    ConversationMode, CostReport, Effort, ErrorKind, EventSink, MessageId, ModelId, OnLost, OutputSupport,
    PromptBlock, Session, TurnEvent, TurnRequest,
    harness::{Failure, Renewal},
    turn::{MessageVoided, VoidCause},
};
use serde_json::Value;

use super::dialect::{ModelPlan, learn_credential};
use super::own_tools::OwnTools;
use super::tools::output_format;
use super::tools::wire_tool::{PreparedTools, WireTool};
use super::transcript::{Transcript, TurnConstants};
use super::turn_loop::TurnLoop;
use super::wires;
use crate::auth::Credential;
use crate::prices::Prices;

/// Assumed duration of a turn without a deadline, for the lifetime of a borrowed credential.
const USUAL_LIFETIME: Duration = Duration::from_secs(3600);

/// Setup of a turn.
#[derive(Debug)]
pub(super) struct TurnSetup {
    pub(super) borrowed: BorrowedCredential,
    pub(super) plan: ModelPlan,
    /// Base URL of the server.
    server: String,
    effort: Option<Effort>,
    /// The tools, as they are offered.
    pub(super) tools: Vec<Arc<WireTool>>,
    /// Names of the tools that the wire cannot express.
    pub(super) left_out: Vec<String>,
    /// Names of tools that the server has rejected since this list was last drained.
    pub(super) refused_tools: Vec<String>,
    pub(super) output_format: Option<Value>,
    /// Value that the server expects back.
    pub(super) sticky: Option<String>,
    pub(super) purpose: CallPurpose,
}

/// Purpose of model calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallPurpose {
    /// The calls continue the turn.
    Turn,
    /// The call is made outside of the turn, at another model, and the caller does not see it.
    Beside,
}

/// Minimum remaining lifetime of a credential for another model call. A shorter-lived one is exchanged first.
const SPARE_LIFE: Duration = Duration::from_secs(60);

/// Credential of a turn. It is borrowed again before it expires, and renewed at most once after the server rejected it.
#[derive(Debug, Default)]
pub(super) struct BorrowedCredential {
    pub(super) credential: Option<Credential>,
    renewal: Renewal,
}

impl TurnSetup {
    /// Returns the parts that all requests of the turn share.
    pub(super) fn opening<'a>(&'a self, request: &'a TurnRequest) -> TurnConstants<'a> {
        self.opening_with(request.system.as_deref())
    }

    /// Returns the parts that all requests with these system instructions share.
    pub(super) fn opening_with<'a>(&'a self, system: Option<&'a str>) -> TurnConstants<'a> {
        TurnConstants {
            plan: &self.plan,
            server: &self.server,
            system,
            effort: self.effort,
            tools: &self.tools,
            output_format: self.output_format.as_ref(),
        }
    }

    /// Returns the setup of a call without tools at another model of the server. It takes the credential, which the caller
    /// returns after the call.
    pub(super) fn beside(&mut self, plan: ModelPlan, effort: Option<Effort>) -> Self {
        Self {
            borrowed: std::mem::take(&mut self.borrowed),
            plan,
            server: self.server.clone(),
            effort,
            tools: Vec::new(),
            left_out: Vec::new(),
            refused_tools: Vec::new(),
            output_format: None,
            sticky: None,
            purpose: CallPurpose::Beside,
        }
    }

    /// Removes the flag `strict`. Returns true if it was present.
    pub(super) fn drop_strict(&mut self) -> bool {
        let format = self.output_format.as_mut().and_then(|format| format.as_object_mut()?.remove("strict"));
        let mut is_dropped = format.is_some();
        for tool in &mut self.tools {
            if let Some(without) = tool.without_strict() {
                *tool = Arc::new(without);
                is_dropped = true;
            }
        }
        is_dropped
    }
}

impl TurnLoop<'_> {
    /// Borrows the credential and requests the plan for the model. Emits warnings for the caller.
    pub(super) async fn set_up(
        &mut self,
        session: &Session,
        own: Option<&OwnTools>,
        events: &mut dyn EventSink,
    ) -> Result<TurnSetup, Failure> {
        let mut borrowed = self.borrow(events).await?;
        let plan = self.plan(&mut borrowed, events).await?;
        // Check before the first call, because a limit that nothing enforces must not cost anything.
        self.check_price(&plan.model)?;
        let effort = self.request.effort.and_then(|effort| effort.clamp_to(&plan.efforts));
        self.context.log.provenance.model = Some(plan.model.clone());
        self.context.log.provenance.effort = effort;
        let mut warnings = plan.warnings.clone();
        match (self.request.effort, effort) {
            (Some(requested), None) => {
                warnings.push(format!("{} does not support an effort; {requested} is left out", plan.model));
            }
            (_, Some(effort)) if effort.is_clamped() => warnings.push(format!(
                "the effort {} is not supported; {} is used",
                effort.requested, effort.applied
            )),
            _ => {}
        }
        let form = plan.shape.tool_form();
        let prepared = self.backend.tool_cache.prepared(session.shared_definitions(), form);
        // Copies only pointers: all turns with the same definitions share the prepared tools.
        let (mut tools, mut left_out) = (prepared.tools.clone(), prepared.left_out.clone());
        warnings.extend(prepared.warnings.iter().cloned());
        if let Some(own) = own {
            // The tools of the loop have other names than those of the caller.
            let own = PreparedTools::new(own.session().definitions(), form);
            tools.extend(own.tools);
            left_out.extend(own.left_out);
            warnings.extend(own.warnings);
        }
        let mut output_format = None;
        if let Some(schema) = &self.request.output
            && self.backend.dialect.capabilities().output == OutputSupport::Native
        {
            output_format = self::output_format(schema, plan.shape.strict());
            if output_format.is_none() {
                let text = "the schema of the answer is in the prompt only, because the server accepts only \
                     the schema of a plain object; the answer is still checked";
                warnings.push(text.to_owned());
            }
        }
        warnings.extend(output_format.as_mut().and_then(|format| plan.shape.restrict_format(format)));
        for warning in warnings {
            self.context.log.event(TurnEvent::warning(warning));
        }
        let effort = effort.map(|effort| effort.applied);
        Ok(TurnSetup {
            borrowed,
            plan,
            server: self.backend.transport.base_url().to_owned(),
            effort,
            tools,
            left_out,
            refused_tools: Vec::new(),
            output_format,
            sticky: None,
            purpose: CallPurpose::Turn,
        })
    }

    /// Starts the conversation, or resumes the requested one, with the new prompt.
    pub(super) fn open(&mut self, setup: &TurnSetup) -> Result<Box<dyn Transcript>, Failure> {
        let opening = setup.opening(&self.request);
        let mut conversation = match &self.request.conversation {
            ConversationMode::Resume { handle, on_lost } => match wires::resume(&opening, handle) {
                Some(resumed) => {
                    if let Some(warning) = resumed.warning() {
                        self.context.log.event(TurnEvent::warning(warning));
                    }
                    resumed.transcript
                }
                None => {
                    let lost = "the handle has no conversation of this version";
                    if *on_lost == OnLost::Fail {
                        return Err(Failure::new(ErrorKind::ConversationLost, lost));
                    }
                    self.context
                        .log
                        .event(TurnEvent::warning(format!("{lost}; a new conversation is started")));
                    wires::open(&opening)
                }
            },
            _ => wires::open(&opening),
        };
        // If the server does not get the schema of the answer, the prompt describes it to the model.
        match self.request.output.as_ref().filter(|_| setup.output_format.is_none()) {
            None => conversation.user(&self.request.prompt),
            Some(schema) => {
                let mut prompt = self.request.prompt.clone();
                prompt.push(PromptBlock::text(schema.instruction()));
                conversation.user(&prompt);
            }
        }
        Ok(conversation)
    }

    async fn borrow(&mut self, events: &mut dyn EventSink) -> Result<BorrowedCredential, Failure> {
        let backend = self.backend;
        let credential = match (&backend.credential, backend.dialect.credential_remedy()) {
            (Some(source), _) => {
                Some(self.context.attend(events, source.credential(self.lifetime())).await??)
            }
            (None, Some(remedy)) => return Err(Failure::new(ErrorKind::Unauthenticated, remedy)),
            (None, None) => None,
        };
        // Redact first, before anything can report an error about the credential.
        self.hide(credential.as_ref());
        self.accept(credential.as_ref())?;
        Ok(BorrowedCredential { credential, renewal: Renewal::default() })
    }

    /// Rejects a limit on cost for a model whose replies have no cost, because nothing would enforce it.
    pub(super) fn check_price(&self, model: &ModelId) -> Result<(), Failure> {
        let reports_cost = self.backend.dialect.capabilities().cost != CostReport::Never;
        if self.request.limits.cost.is_none() || reports_cost || self.backend.prices.has(model) {
            return Ok(());
        }
        Err(Prices::missing(model))
    }

    async fn plan(
        &mut self,
        borrowed: &mut BorrowedCredential,
        events: &mut dyn EventSink,
    ) -> Result<ModelPlan, Failure> {
        let backend = self.backend;
        let mut attempt = 1;
        loop {
            let model = self.request.model.clone();
            let planning =
                backend.dialect.model(model.as_ref(), &backend.transport, borrowed.credential.as_ref());
            let failure = match self.context.attend(events, planning).await? {
                Ok(plan) => return Ok(plan),
                Err(failure) => failure,
            };
            attempt += 1;
            // The request for the model list may be the first to reveal a revoked credential.
            if !self.renews(&failure, &[], attempt, borrowed, events).await? {
                return Err(failure);
            }
        }
    }

    /// Borrows the credential again if it would expire during another call.
    pub(super) async fn freshen(
        &mut self,
        borrowed: &mut BorrowedCredential,
        events: &mut dyn EventSink,
    ) -> Result<(), Failure> {
        let (Some(source), Some(held)) = (&self.backend.credential, &borrowed.credential) else {
            return Ok(());
        };
        if held.expires_at.is_none_or(|end| end > SystemTime::now() + SPARE_LIFE) {
            return Ok(());
        }
        let credential = self.context.attend(events, source.credential(self.lifetime())).await??;
        // A source that cannot renew returns the same credential again.
        if credential.token != held.token {
            self.hide(Some(&credential));
            self.accept(Some(&credential))?;
            borrowed.credential = Some(credential);
        }
        Ok(())
    }

    /// Gets another credential after the server rejected one with `failure`, at most once per turn. Retracts the
    /// messages in `shown` and reports the retry. Returns true if it got another credential.
    pub(super) async fn renews(
        &mut self,
        failure: &Failure,
        shown: &[MessageId],
        attempt: u32,
        borrowed: &mut BorrowedCredential,
        events: &mut dyn EventSink,
    ) -> Result<bool, Failure> {
        let (Some(source), Some(refused)) = (&self.backend.credential, &borrowed.credential) else {
            return Ok(false);
        };
        if failure.kind != ErrorKind::Unauthenticated {
            return Ok(false);
        }
        let replacing = borrowed.renewal.replace(&**source, refused, self.lifetime());
        let Some(renewed) = self.context.attend(events, replacing).await?? else { return Ok(false) };
        self.hide(Some(&renewed));
        self.accept(Some(&renewed))?;
        borrowed.credential = Some(renewed);
        // The repeated call sends its text again.
        for message in shown {
            self.context.log.event(MessageVoided::new(message.clone(), VoidCause::Retry));
        }
        let refusal = failure.message.as_deref().unwrap_or_default();
        self.context.log.renewed(attempt, &source.describe(), refusal);
        Ok(true)
    }

    /// Rejects a credential that would be billed otherwise than configured.
    fn accept(&self, credential: Option<&Credential>) -> Result<(), Failure> {
        credential.map_or(Ok(()), |credential| self.backend.dialect.accepts(credential))
    }

    /// Returns the required lifetime of a credential that is borrowed for the turn.
    fn lifetime(&self) -> Duration {
        self.request.limits.deadline.unwrap_or(USUAL_LIFETIME)
    }

    /// Redacts the credential, in addition to earlier ones, from all later output of the turn.
    fn hide(&self, credential: Option<&Credential>) {
        if let Some(credential) = credential {
            learn_credential(&self.redactor, &*self.backend.dialect, credential);
        }
    }
}
