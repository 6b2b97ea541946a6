//! The framer: one turn without tools, which answers by a schema.

use std::sync::Arc;

use nexus_core::{
    NoTools, NullSink, OutputSchema, ParticipantScope, Session, ToolAccess, TurnError, TurnRequest,
    TurnResult,
};
use nexus_router::WorkKind;
use nexus_work::{AgentTurn, AgentTurnPurpose, Quote};

use super::{
    FRAMER, StageRun,
    shown::{asked, quoted},
};
use crate::{
    debate::DebateLogEvent,
    debate_error::DebateError,
    frame::{Frame, FrameDraft},
    sources,
};

const SYSTEM: &str = include_str!("../../prompts/framer.md");
/// Maximum number of rejected frames.
const MOST_REFUSALS: usize = 2;

impl StageRun<'_> {
    /// Runs the framer, which composes the claims and the panel. A frame that breaks a rule is returned to it with the
    /// faults, twice at most.
    pub(super) async fn frame(&self) -> Result<Frame, DebateError> {
        let task = self.framing_task();
        let mut prompt = task.clone();
        let mut refused = 0;
        loop {
            let draft = self.framer_turn(prompt).await?;
            let reason = match Frame::accept(draft.clone(), self.data.frame_rules()) {
                Ok(frame) => return Ok(frame),
                Err(error) => error.to_string(),
            };
            self.log(vec![DebateLogEvent::FrameRefused { reason: reason.clone() }]).await;
            refused += 1;
            if refused > MOST_REFUSALS {
                let words = format!("the framer submitted {refused} invalid frames; the last one: {reason}");
                return Err(self.failed(words));
            }
            // The next turn is a new conversation, so it gets the last frame with its fault.
            let last = serde_json::to_string(&draft).unwrap_or_default();
            prompt = format!(
                "{task}\n{}\n{}",
                quoted("your last frame, which was rejected", &last),
                Quote::new("the fault that made this frame invalid", &reason)
            );
        }
    }

    /// Returns the framer's task.
    fn framing_task(&self) -> String {
        let mut text = asked(self.data);
        for source in self.data.sources.iter().flatten() {
            let said = format!("{}: {} files, {} bytes", source.name, source.files, source.bytes);
            text.push_str(&quoted("a source", &said));
        }
        for agent in &self.data.registered {
            let said =
                format!("{}: {}\ntopics: {}", agent.name, agent.description.trim(), agent.topics.join(", "));
            text.push_str(&quoted("a registered agent", &said));
        }
        for pin in &self.data.pins {
            text.push_str(&quoted(
                "the caller requires a seat for it: a registered agent, or a panelist of this name",
                pin,
            ));
        }
        text.push_str(&format!("\nName {} panelists.\n", self.data.settings.panelists));
        text
    }

    async fn framer_turn(&self, prompt: String) -> Result<FrameDraft, DebateError> {
        let schema = OutputSchema::of::<FrameDraft>().map_err(|error| self.failed(error))?;
        let request = TurnRequest::new(prompt)
            .with_system(SYSTEM.trim_end())
            .with_tool_access(ToolAccess::ScopedOnly)
            .with_limits(self.limits(1))
            .with_output(schema);
        // The framer assigns the sources by their names and sizes, and reads none of them.
        let scope: ParticipantScope =
            sources::scope(&self.debate.sources_folder(), &[], &[]).map_err(|error| self.failed(error))?;
        let session = Session::mint(FRAMER, scope, Arc::new(NoTools));
        let host = self.host().with_session(Arc::clone(&session));
        let mut recording = self
            .turns
            .begin(format!("{} {FRAMER}", self.stage), &request, &host)
            .map_err(|error| self.failed(error))?;
        let mut sink = NullSink;
        let outcome: Result<TurnResult, TurnError> = self
            .router
            .run_turn(&WorkKind::from(FRAMER), request, host, &mut recording.beside(&mut sink))
            .await;
        let recorded_as = Some(recording.id().to_owned());
        // The turn has run. If this write fails, only its record is incomplete.
        let _ = recording.end(&outcome);
        let draft = match &outcome {
            Ok(result) => result.output_as::<FrameDraft>().map_err(|error| self.failed(error)),
            Err(error) => Err(self.failed(format!("{FRAMER}: {error}"))),
        };
        let backend = match &outcome {
            Ok(result) => result.provenance.backend.clone(),
            Err(error) => error.backend().clone(),
        };
        let vendor = self.router.vendor(&backend);
        let turn =
            AgentTurn { purpose: AgentTurnPurpose::Work, backend, vendor, session, outcome, recorded_as };
        self.log_turns(FRAMER, &[turn]).await;
        // Log the turn before the interruption is reported, because the vendor charges for it.
        self.check_cancel()?;
        draft
    }
}
