//! The debate so far: the checked records of its stages, in their order.

use std::collections::BTreeMap;

use nexus_core::VendorId;

use crate::{
    closing_rule::{CloseSignals, RoundBounds, RoundDecision, decide},
    converge::{ClaimStanding, converge},
    frame::{Frame, Panelist},
    opening::{Argument, Opening},
    position::Positions,
    rebuttal::Rebuttal,
    record::{JudgementDraft, PanelistRecord, StageRecord},
    statement::Statement,
    tension::{Finding, Tensions},
};

/// The debate so far. The engine adds no content of its own: absent panelists are listed as absent.
#[derive(Clone, Debug)]
pub struct Proceedings {
    bounds: RoundBounds,
    frame: Option<Frame>,
    openings: Vec<(String, Opening)>,
    rounds: Vec<DebateRound>,
    tensions: Option<Tensions>,
    standings: Option<Vec<ClaimStanding>>,
    statements: Vec<(String, Statement)>,
    interpretation: Option<Argument>,
    positions: BTreeMap<String, Positions>,
    history: Vec<(String, BTreeMap<String, Positions>)>,
    absences: Vec<Absence>,
}

/// One round of cross-examination.
#[derive(Clone, Debug, PartialEq)]
pub struct DebateRound {
    /// Tensions that the rebuttals answer.
    pub tensions: Tensions,
    /// Rebuttals, by panelist.
    pub rebuttals: Vec<(String, Rebuttal)>,
    /// Counts of the round.
    pub signals: CloseSignals,
    /// Judgement of the arbiter. `None` if the engine did not request it.
    pub judgement: Option<JudgementDraft>,
}

/// A panelist that submitted nothing in a stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Absence {
    /// Name of the stage: `opening`, `round 2`, `final`.
    pub stage: String,
    /// Name of the panelist.
    pub panelist: String,
    /// Vendor that was assigned to the panelist, if it is known.
    pub vendor: Option<VendorId>,
    /// Reason in words for the caller.
    pub reason: String,
}

impl Proceedings {
    /// Creates the proceedings of a debate without finished stages.
    pub fn new(bounds: RoundBounds) -> Self {
        Self {
            bounds,
            frame: None,
            openings: Vec::new(),
            rounds: Vec::new(),
            tensions: None,
            standings: None,
            statements: Vec::new(),
            interpretation: None,
            positions: BTreeMap::new(),
            history: Vec::new(),
            absences: Vec::new(),
        }
    }

    /// Adds the record of the next stage.
    ///
    /// # Errors
    ///
    /// The fault of a record that the stage cannot have written.
    pub fn add(&mut self, record: StageRecord) -> Result<(), String> {
        match record {
            StageRecord::Framing { frame } => self.frame = Some(*frame),
            StageRecord::Opening { panel } => {
                // `present` borrows the proceedings mutably, so the check needs a frame of its own.
                let frame = self.framed()?.clone();
                self.openings = self.present("opening", panel, |draft, name| {
                    Opening::accept(&draft, &frame, name).map_err(|error| error.to_string())
                })?;
                self.positions = by_name(&self.openings, Opening::positions);
                self.history.push(("opening".to_owned(), self.positions.clone()));
            }
            StageRecord::Analysing { findings } => self.tensions = Some(self.tensions_of(&findings)?),
            StageRecord::CrossExamining { panel } => {
                let round = self.rounds.len() + 1;
                let stage = format!("round {round}");
                let (frame, tensions) =
                    (self.framed()?.clone(), self.tensions.clone().ok_or("there are no findings")?);
                let number = u32::try_from(round).unwrap_or(u32::MAX);
                let rebuttals = self.present(&stage, panel, |draft, name| {
                    Rebuttal::accept(&draft, &frame, &tensions, name, number)
                        .map_err(|error| error.to_string())
                })?;
                let submitted = by_name(&rebuttals, Rebuttal::positions);
                // Compare with the positions before this round, which the next line replaces.
                let signals = CloseSignals::of(&self.positions, &submitted);
                self.positions.extend(submitted);
                self.history.push((stage, self.positions.clone()));
                self.rounds.push(DebateRound { tensions, rebuttals, signals, judgement: None });
            }
            StageRecord::CheckingClose { judgement } => {
                let Some(round) = self.rounds.last() else { return Err("no round was held".to_owned()) };
                // After the last allowed round the debate closes without the arbiter.
                if judgement.is_none() && !self.is_at_ceiling() {
                    return Err("the arbiter's judgement is missing".to_owned());
                }
                let ratifies = judgement.as_ref().is_some_and(|judgement| judgement.close);
                // Another round answers new tensions, which the arbiter's findings name.
                if self.decide(&round.signals, ratifies) == RoundDecision::Continue {
                    let findings = judgement.as_ref().map(|judgement| judgement.findings.clone());
                    self.tensions = Some(self.tensions_of(&findings.unwrap_or_default())?);
                }
                if let Some(round) = self.rounds.last_mut() {
                    round.judgement = judgement;
                }
            }
            // Computed from the positions: the standings in the record are for readers of the file.
            StageRecord::Converging { .. } => {
                self.standings = Some(converge(self.framed()?, &self.positions));
            }
            StageRecord::Final { panel } => {
                let frame = self.framed()?.clone();
                self.statements = self.present("final", panel, |draft, name| {
                    Statement::accept(&draft, &frame, name).map_err(|error| error.to_string())
                })?;
                let last = by_name(&self.statements, Statement::positions);
                self.positions.extend(last);
                self.history.push(("final".to_owned(), self.positions.clone()));
            }
            StageRecord::Synthesising { interpretation } => {
                self.interpretation = Some(Argument {
                    id: "interpretation".to_owned(),
                    about: "the question".to_owned(),
                    text: interpretation,
                });
            }
        }
        Ok(())
    }

    /// Returns the claims and the panel. `None` before the framing.
    pub fn frame(&self) -> Option<&Frame> {
        self.frame.as_ref()
    }

    /// Returns the openings, in the order of the panel.
    pub fn openings(&self) -> &[(String, Opening)] {
        &self.openings
    }

    /// Returns the rounds, first round first.
    pub fn rounds(&self) -> &[DebateRound] {
        &self.rounds
    }

    /// Returns the tensions that the next rebuttals answer.
    pub fn tensions(&self) -> Option<&Tensions> {
        self.tensions.as_ref()
    }

    /// Returns the panel's positions after the rounds.
    pub fn standings(&self) -> Option<&[ClaimStanding]> {
        self.standings.as_deref()
    }

    /// Returns the final statements, in the order of the panel.
    pub fn statements(&self) -> &[(String, Statement)] {
        &self.statements
    }

    /// Returns the arbiter's interpretation.
    pub fn interpretation(&self) -> Option<&Argument> {
        self.interpretation.as_ref()
    }

    /// Returns the last positions of each panelist that submitted an opening, by name.
    pub fn positions(&self) -> &BTreeMap<String, Positions> {
        &self.positions
    }

    /// Returns the positions after each stage that can revise them.
    pub fn history(&self) -> &[(String, BTreeMap<String, Positions>)] {
        &self.history
    }

    /// Returns the absences, by stage.
    pub fn absences(&self) -> &[Absence] {
        &self.absences
    }

    /// Returns the panel's current outcome, from the last positions of all panelists.
    pub fn outcome(&self) -> Vec<ClaimStanding> {
        self.frame.as_ref().map(|frame| converge(frame, &self.positions)).unwrap_or_default()
    }

    /// Returns the panelists that submitted an opening, with their indexes.
    pub fn present_panelists(&self) -> impl Iterator<Item = (usize, &Panelist)> {
        let panel = self.frame.iter().flat_map(Frame::panelists).enumerate();
        panel.filter(|(_, panelist)| self.positions.contains_key(&panelist.name))
    }

    /// Returns all submissions of panelists, in the order of the stages.
    pub fn arguments(&self) -> impl Iterator<Item = &Argument> {
        let openings = self.openings.iter().flat_map(|(_, opening)| opening.arguments());
        let statements = self.statements.iter().map(|(_, statement)| statement.text());
        openings.chain(self.rebuttal_arguments()).chain(statements)
    }

    /// Returns the proceedings for agents: without the reasons for absences, which are for the caller only.
    pub(crate) fn without_reasons(&self) -> Self {
        let mut shown = self.clone();
        for absence in &mut shown.absences {
            "submitted nothing".clone_into(&mut absence.reason);
        }
        shown
    }

    /// Returns the answers of all rounds, as submitted.
    pub(crate) fn rebuttal_arguments(&self) -> impl Iterator<Item = &Argument> {
        self.rounds.iter().flat_map(|round| &round.rebuttals).flat_map(|(_, rebuttal)| rebuttal.answers())
    }

    /// Returns true if the last round is the last allowed one.
    pub fn is_at_ceiling(&self) -> bool {
        self.rounds.len() >= self.bounds.most as usize
    }

    /// Returns the decision after the last round, for this answer of the arbiter.
    pub(crate) fn decide(&self, signals: &CloseSignals, ratifies: bool) -> RoundDecision {
        let round = u32::try_from(self.rounds.len()).unwrap_or(u32::MAX);
        decide(round, self.bounds, signals, ratifies)
    }

    /// Returns the decision after the last round, by the recorded judgement.
    pub fn last_decision(&self) -> RoundDecision {
        let Some(round) = self.rounds.last() else { return RoundDecision::Continue };
        let ratifies = round.judgement.as_ref().is_some_and(|judgement| judgement.close);
        self.decide(&round.signals, ratifies)
    }

    /// Checks findings against the submissions so far.
    pub(crate) fn tensions_of(&self, findings: &[Finding]) -> Result<Tensions, String> {
        let rebuttals = self.rebuttal_arguments().map(|argument| argument.text.as_str());
        let checked = Tensions::accept(findings, self.framed()?, &self.positions, rebuttals);
        checked.map_err(|error| error.to_string())
    }

    fn framed(&self) -> Result<&Frame, String> {
        self.frame.as_ref().ok_or_else(|| "there is no frame".to_owned())
    }

    /// Returns the submissions of a panel, and records the other panelists as absent.
    fn present<T, C>(
        &mut self,
        stage: &str,
        panel: Vec<PanelistRecord<T>>,
        check: impl Fn(T, &str) -> Result<C, String>,
    ) -> Result<Vec<(String, C)>, String> {
        let mut present: Vec<(String, C)> = Vec::new();
        for PanelistRecord { panelist, vendor, outcome } in panel {
            let is_known = self.framed()?.panelists().iter().any(|known| known.name == panelist);
            if !is_known || present.iter().any(|(name, _)| *name == panelist) {
                return Err(format!("{panelist:?} is not a panelist, or occurs twice"));
            }
            match outcome {
                Ok(draft) => {
                    let checked = check(draft, &panelist)?;
                    present.push((panelist, checked));
                }
                Err(reason) => {
                    self.absences.push(Absence { stage: stage.to_owned(), panelist, vendor, reason });
                }
            }
        }
        Ok(present)
    }
}

fn by_name<T>(of: &[(String, T)], positions: impl Fn(&T) -> &Positions) -> BTreeMap<String, Positions> {
    of.iter().map(|(name, value)| (name.clone(), positions(value).clone())).collect()
}
