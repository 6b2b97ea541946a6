//! Turns of the arbiter, which reads the proceedings and cannot change them.

use nexus_core::Submission;
use nexus_router::WorkKind;
use nexus_work::{AgentFailure, Faults};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{
    ARBITER, StageRun,
    ask::Part,
    shown::{asked_with_claims, quoted, shown_openings, shown_rebuttals, shown_standings},
};
use crate::{
    closing_rule::RoundDecision,
    debate_error::DebateError,
    names::check_text,
    opening::MOST_ARGUMENT_BYTES,
    record::JudgementDraft,
    synthesis::synthesis,
    tension::{AnalysisDraft, Finding},
};

const ANALYSIS: &str = include_str!("../../prompts/analysis.md");
const JUDGEMENT: &str = include_str!("../../prompts/judgement.md");
const INTERPRETATION: &str = include_str!("../../prompts/interpretation.md");

/// Maximum length of an interpretation, in bytes. Source: our own bound.
const MOST_INTERPRETATION_BYTES: usize = 32 << 10;

/// The arbiter's interpretation of a debate, as it submits it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct InterpretationDraft {
    /// At most 32 KiB of Markdown.
    text: String,
}

impl StageRun<'_> {
    pub(super) async fn analysis(&self) -> Result<Vec<Finding>, DebateError> {
        let proceedings = self.proceedings.clone();
        let place = Submission::new()
            .checked_by(move |draft: &AnalysisDraft| proceedings.tensions_of(&draft.findings).map(drop));
        let texts = vec![("read_openings", "What everybody said.", shown_openings(self.proceedings))];
        let submit = (
            "submit_analysis",
            "Submits the tensions between the panelists, and ends your work. If \
            the submission is invalid, the error names the fault: correct it, and submit again.",
        );
        Ok(self.arbiter(ANALYSIS, self.arbiter_brief(), texts, submit, place).await?.findings)
    }

    /// Returns the arbiter's judgement of the last round. The arbiter must name tensions unless it closes the debate.
    pub(super) async fn judgement(&self) -> Result<JudgementDraft, DebateError> {
        let proceedings = self.proceedings.clone();
        let place = Submission::new().checked_by(move |draft: &JudgementDraft| {
            let mut faults = Faults::default();
            check_text(&mut faults, "why", &draft.why, MOST_ARGUMENT_BYTES);
            faults.into_result("judgement").map_err(|error| error.to_string())?;
            let Some(round) = proceedings.rounds().last() else { return Ok(()) };
            // Only another round needs findings.
            match proceedings.decide(&round.signals, draft.close) {
                RoundDecision::Close => Ok(()),
                RoundDecision::Continue => proceedings
                    .tensions_of(&draft.findings)
                    .map(drop)
                    .map_err(|error| format!("another round is required, but {error}")),
            }
        });
        let mut brief = self.arbiter_brief();
        if let Some(round) = self.proceedings.rounds().last() {
            let signals = format!(
                "revised positions: {:.3} of all\npairs that disagree: {:.3} of all",
                round.signals.revision_rate, round.signals.tension_density
            );
            brief.push_str(&quoted("the last round in numbers", &signals));
        }
        brief.push_str(&shown_standings(self.proceedings));
        let texts = vec![
            ("read_openings", "Returns the openings of all panelists.", shown_openings(self.proceedings)),
            ("read_rebuttals", "Returns the rebuttals of all panelists.", shown_rebuttals(self.proceedings)),
        ];
        let submit = (
            "submit_judgement",
            "Submits your decision to close or to continue, and ends your \
            work. If the submission is invalid, the error names the fault: correct it, and submit again.",
        );
        self.arbiter(JUDGEMENT, brief, texts, submit, place).await
    }

    pub(super) async fn interpretation(&self) -> Result<String, DebateError> {
        let place = Submission::new().checked_by(|draft: &InterpretationDraft| {
            let mut faults = Faults::default();
            check_text(&mut faults, "text", &draft.text, MOST_INTERPRETATION_BYTES);
            faults.into_result("interpretation").map_err(|error| error.to_string())
        });
        // Leave out the reasons for absences, because they name backends.
        let record =
            quoted("the record", &synthesis(&self.data.question, &self.proceedings.without_reasons()));
        let texts =
            vec![("read_record", "Returns the complete record of the debate, word for word.", record)];
        let submit = ("submit_interpretation", "Submits your interpretation, and ends your work.");
        Ok(self.arbiter(INTERPRETATION, self.arbiter_brief(), texts, submit, place).await?.text)
    }

    fn arbiter_brief(&self) -> String {
        let mut text = asked_with_claims(self.data, self.proceedings);
        for panelist in self.proceedings.frame().map(|frame| frame.panelists()).unwrap_or_default() {
            text.push_str(&quoted(&format!("the panelist {}", panelist.name), &panelist.role));
        }
        text
    }

    async fn arbiter<T>(
        &self,
        system: &str,
        brief: String,
        texts: Vec<(&'static str, &'static str, String)>,
        submit: (&'static str, &'static str),
        place: Submission<T>,
    ) -> Result<T, DebateError>
    where
        T: DeserializeOwned + JsonSchema + Send + 'static,
    {
        self.said.send_replace(format!("{}: the arbiter works", self.stage));
        let part = Part {
            name: ARBITER,
            route: nexus_work::AgentRoute::Kind(WorkKind::from(ARBITER)),
            system: system.trim_end().to_owned(),
            brief,
            texts,
            sources: &[],
            submit,
            place,
        };
        let (_, answer): (_, Result<T, AgentFailure>) = self.ask(part, 1).await;
        // A cancellation ends the turn with an error, so report the interruption first.
        self.check_cancel()?;
        answer.map_err(|failure| self.failed(format!("{ARBITER}: {failure}")))
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn no_prompt_names_a_vendor_and_each_names_the_tool_that_hands_in() {
        let prompts = [
            (include_str!("../../prompts/framer.md"), ""),
            (include_str!("../../prompts/opening.md"), "`submit_opening`"),
            (include_str!("../../prompts/rebuttal.md"), "`submit_rebuttal`"),
            (include_str!("../../prompts/statement.md"), "`submit_statement`"),
            (super::ANALYSIS, "`submit_analysis`"),
            (super::JUDGEMENT, "`submit_judgement`"),
            (super::INTERPRETATION, "`submit_interpretation`"),
        ];
        for (text, submit) in prompts {
            assert!(text.contains(submit), "{submit}");
            let lower = text.to_lowercase();
            for vendor in ["claude", "anthropic", "codex", "openai", "gpt", "grok", "xai"] {
                assert!(!lower.contains(vendor), "{submit} names {vendor}");
            }
        }
    }
}
