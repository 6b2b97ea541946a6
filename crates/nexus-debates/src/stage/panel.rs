//! Turns of the panelists: all at once and independent of each other.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::join_all;
use nexus_core::Submission;
use nexus_router::{Seat, WorkKind};
use nexus_work::{AgentFailure, AgentRoute};

use super::{
    PANELIST, StageRun,
    ask::Part,
    shown::{brief_of, shown_openings, shown_standings, shown_tension},
};
use crate::{
    debate::DebateLogEvent,
    debate_error::DebateError,
    frame::Panelist,
    opening::{Opening, OpeningDraft},
    rebuttal::{Rebuttal, RebuttalDraft},
    record::PanelistRecord,
    statement::{Statement, StatementDraft},
};

const OPENING: &str = include_str!("../../prompts/opening.md");
const REBUTTAL: &str = include_str!("../../prompts/rebuttal.md");
const STATEMENT: &str = include_str!("../../prompts/statement.md");

/// Minimum number of openings, because one panelist cannot debate. Source: our own choice.
const FEWEST_OPENINGS: usize = 2;

impl StageRun<'_> {
    /// Returns the openings of all panelists. No panelist sees another's texts.
    pub(super) async fn openings(&self) -> Result<Vec<PanelistRecord<OpeningDraft>>, DebateError> {
        let Some(frame) = self.proceedings.frame() else {
            return Err(self.failed("there is no frame"));
        };
        let asked = frame.panelists().iter().enumerate().map(|(index, panelist)| {
            let (frame, name) = (frame.clone(), panelist.name.clone());
            let place = Submission::new().checked_by(move |draft: &OpeningDraft| {
                Opening::accept(draft, &frame, &name).map(drop).map_err(|error| error.to_string())
            });
            let submit = (
                "submit_opening",
                "Submits your opening, and ends your work. Give a position on \
                each claim. If the submission is invalid, the error names the fault: correct it, and submit \
                again.",
            );
            (index, panelist, self.part(index, panelist, OPENING, Vec::new(), submit, place))
        });
        self.ask_all(asked.collect(), FEWEST_OPENINGS).await
    }

    /// Returns the rebuttals: each panelist on a side of a tension answers the case against it.
    pub(super) async fn rebuttals(
        &self,
        round: u32,
    ) -> Result<Vec<PanelistRecord<RebuttalDraft>>, DebateError> {
        let (Some(frame), Some(tensions)) = (self.proceedings.frame(), self.proceedings.tensions()) else {
            return Err(self.failed("there are no findings"));
        };
        // Only a panelist on a side of a tension has something to answer.
        let is_asked = |(_, panelist): &(usize, &Panelist)| tensions.against(&panelist.name).next().is_some();
        let asked = self.proceedings.present_panelists().filter(is_asked).map(|(index, panelist)| {
            let (frame, tensions, name) = (frame.clone(), tensions.clone(), panelist.name.clone());
            let place = Submission::new().checked_by(move |draft: &RebuttalDraft| {
                Rebuttal::accept(draft, &frame, &tensions, &name, round)
                    .map(drop)
                    .map_err(|error| error.to_string())
            });
            let texts = vec![
                ("read_openings", "Returns the openings of all panelists.", shown_openings(self.proceedings)),
                (
                    "read_my_tension",
                    "Returns the strongest case against your positions, in the arbiter's words. Call it \
                    before submit_rebuttal.",
                    shown_tension(self.proceedings, &panelist.name),
                ),
            ];
            let submit = (
                "submit_rebuttal",
                "Submits your answers, and ends your work. Answer each finding, \
                and give your present position on each claim. If the submission is invalid, the error names \
                the fault: correct it, and submit again.",
            );
            (index, panelist, self.part(index, panelist, REBUTTAL, texts, submit, place))
        });
        self.ask_all(asked.collect(), 1).await
    }

    /// Returns the final statements of all panelists that submitted an opening.
    pub(super) async fn statements(&self) -> Result<Vec<PanelistRecord<StatementDraft>>, DebateError> {
        let Some(frame) = self.proceedings.frame() else {
            return Err(self.failed("there is no frame"));
        };
        let asked = self.proceedings.present_panelists().map(|(index, panelist)| {
            let (frame, name) = (frame.clone(), panelist.name.clone());
            let place = Submission::new().checked_by(move |draft: &StatementDraft| {
                Statement::accept(draft, &frame, &name).map(drop).map_err(|error| error.to_string())
            });
            let standings = shown_standings(self.proceedings);
            let texts =
                vec![("read_standings", "Returns the positions of the panel on each claim.", standings)];
            let submit = (
                "submit_statement",
                "Submits your final statement, and ends your work. Give your \
                final position on each claim.",
            );
            (index, panelist, self.part(index, panelist, STATEMENT, texts, submit, place))
        });
        self.ask_all(asked.collect(), 1).await
    }

    fn part<'p, T>(
        &self,
        index: usize,
        panelist: &'p Panelist,
        system: &str,
        texts: Vec<(&'static str, &'static str, String)>,
        submit: (&'static str, &'static str),
        place: Submission<T>,
    ) -> Part<'p, T> {
        let own = panelist.registered.as_ref().and_then(|registered| {
            self.data.registered.iter().find(|agent| agent.name == *registered)?.prompt.as_deref()
        });
        let system = match own {
            Some(own) => format!("{}\n\n{}", system.trim_end(), own.trim_end()),
            None => system.trim_end().to_owned(),
        };
        Part {
            name: &panelist.name,
            route: self.seat(index),
            system,
            brief: brief_of(self.data, self.proceedings, panelist),
            texts,
            sources: &panelist.sources,
            submit,
            place,
        }
    }

    /// Returns the route of the panelist with this index: the seats of the roster in turn.
    fn seat(&self, index: usize) -> AgentRoute {
        let kind = WorkKind::from(PANELIST);
        match self.router.panel(kind.clone()) {
            Ok(panel) if !panel.seats.is_empty() => {
                // With fewer seats than panelists, several panelists run on the same seat.
                let seat: &Seat = &panel.seats[index % panel.seats.len()];
                AgentRoute::Seat(Box::new(seat.clone()))
            }
            _ => AgentRoute::Kind(kind),
        }
    }

    /// Runs all panelists at once. A panelist without a submission is absent. Fails if fewer than `fewest` submitted.
    async fn ask_all<T>(
        &self,
        asked: Vec<(usize, &Panelist, Part<'_, T>)>,
        fewest: usize,
    ) -> Result<Vec<PanelistRecord<T>>, DebateError>
    where
        T: serde::de::DeserializeOwned + schemars::JsonSchema + Send + 'static,
    {
        let (all, ended) = (asked.len(), &AtomicUsize::new(0));
        let say = |ended: usize| {
            self.said.send_replace(format!("{}: {ended} of {all} panelists have ended", self.stage));
        };
        say(0);
        let turns = asked.into_iter().map(|(_, panelist, part)| async move {
            let (vendor, answer) = self.ask(part, all).await;
            say(ended.fetch_add(1, Ordering::SeqCst) + 1);
            let outcome = match answer {
                Ok(draft) => Ok(draft),
                // The turn did not run, so the panelist is not absent. Fail the stage: the next attempt may find space on
                // the disk.
                Err(failure @ AgentFailure::Unrecorded { .. }) => {
                    return Err(self.failed(format!("{}: {failure}", panelist.name)));
                }
                Err(failure) => Err(failure.to_string()),
            };
            Ok(PanelistRecord { panelist: panelist.name.clone(), vendor, outcome })
        });
        let panel: Vec<Result<PanelistRecord<T>, DebateError>> = join_all(turns).await;
        self.check_cancel()?;
        let panel: Vec<PanelistRecord<T>> = panel.into_iter().collect::<Result<_, _>>()?;
        let absent = panel.iter().filter_map(|record| {
            let reason = record.outcome.as_ref().err()?.clone();
            let (stage, panelist) = (self.stage.to_owned(), record.panelist.clone());
            Some(DebateLogEvent::Absent { stage, panelist, reason })
        });
        self.log(absent.collect()).await;
        let present = panel.iter().filter(|record| record.outcome.is_ok()).count();
        // A stage without panelists to ask cannot fail for absences.
        if all > 0 && present < fewest {
            let reasons: Vec<String> = panel
                .iter()
                .filter_map(|record| Some(format!("{}: {}", record.panelist, record.outcome.as_ref().err()?)))
                .collect();
            return Err(self.failed(format!(
                "{present} of {all} panelists submitted something, fewer than {fewest} ({})",
                reasons.join("; ")
            )));
        }
        Ok(panel)
    }
}
