//! Status and results of debates.

use nexus_core::harness::try_blocking;
use nexus_files::IndexEntry;
use nexus_mcp::page::{MOST_BYTES, cut, cut_list, fitted, json_bytes, most_of, page, text_page};
use nexus_work::call_wait;
use tokio::time::Instant;

use super::{
    answer::{
        DebateClaimView, DebatePage, DebateResult, DebateRoundView, DebateRow, DebateView, PanelistView,
    },
    debates::Debates,
    request::{DebateListRequest, DebateResultRequest, DebateStatusRequest},
};
use crate::{
    debate::{Debate, DebateSnapshot},
    debate_error::DebateError,
    proceedings::Proceedings,
    state::DebateStatusWord,
    store::DebateDetails,
    synthesis::synthesis,
};

impl Debates {
    /// Returns the state of a debate. Waits while a stage runs.
    pub async fn status(&self, request: DebateStatusRequest) -> Result<DebateView, DebateError> {
        let deadline = Instant::now() + call_wait(request.wait_s);
        let debate = self.0.open(&request.debate_id).await?;
        self.0.jobs.progress_at(&debate, deadline).await?;
        self.view(&debate).await
    }

    /// Returns the result of a debate so far: a page of its record. Changes nothing.
    pub async fn result(&self, request: DebateResultRequest) -> Result<DebateResult, DebateError> {
        let debate = self.0.open(&request.debate_id).await?;
        self.0
            .read(&debate, move |debate| {
                let DebateSnapshot { state, data, .. } = debate.snapshot()?;
                let proceedings = debate.proceedings(&data)?;
                let text = synthesis(&data.question, &proceedings);
                let mut result = DebateResult {
                    debate_id: debate.id().to_string(),
                    status: state.word(),
                    // Before the openings no panelist has a position.
                    claims: if proceedings.openings().is_empty() {
                        Vec::new()
                    } else {
                        proceedings.outcome()
                    },
                    record: String::new(),
                    bytes: text.len() as u64,
                    next_offset: None,
                };
                // The page gets the space that the claims leave, but always some.
                let room = MOST_BYTES.saturating_sub(json_bytes(&result)).max(1_000);
                let (shown, next_offset) = text_page(&text, request.offset, room - 100);
                shown.clone_into(&mut result.record);
                result.next_offset = next_offset;
                Ok(result)
            })
            .await
    }

    /// Returns the debates, newest first.
    pub async fn list(&self, request: DebateListRequest) -> Result<DebatePage, DebateError> {
        if let Some(status) =
            request.status.as_deref().filter(|status| DebateStatusWord::of(status).is_none())
        {
            let message = format!("{:?} is not a status", cut(status, 100));
            return Err(DebateError::invalid(message, format!("name one of {}", DebateStatusWord::listed())));
        }
        let store = self.0.store.clone();
        try_blocking(move || {
            let listing = store.list_indexed()?;
            let unreadable: Vec<String> = listing.unreadable.iter().map(ToString::to_string).collect();
            let unreadable = cut_list(unreadable.iter().map(String::as_str), 300);
            // The rows share the answer with the list of unreadable debates.
            let room = MOST_BYTES - 200 - json_bytes(&unreadable);
            // The index lists the oldest debates first.
            let debates = listing.entries.iter().rev();
            let rows = debates.filter_map(|debate| Some((debate, debate.details.as_ref()?)));
            let rows = rows.filter(|(_, details)| {
                let fits = |(name, value): (&String, &String)| details.labels.get(name) == Some(value);
                request.status.as_deref().is_none_or(|status| details.status.as_str() == status)
                    && request.labels.iter().all(fits)
            });
            let (debates, next_offset) =
                page(rows.map(|(debate, details)| row(debate, details)), request.offset, room);
            Ok(DebatePage { debates, unreadable, next_offset })
        })
        .await
    }

    /// Returns the current state of a debate.
    pub(super) async fn view(&self, debate: &Debate) -> Result<DebateView, DebateError> {
        let progress = self.0.jobs.progress(debate).await?;
        self.0
            .read(debate, move |debate| {
                let snapshot = debate.snapshot()?;
                let proceedings = debate.proceedings(&snapshot.data)?;
                Ok(fitted(|most| view(debate, &snapshot, &proceedings, progress.as_deref(), most)))
            })
            .await
    }
}

fn view(
    debate: &Debate,
    snapshot: &DebateSnapshot,
    proceedings: &Proceedings,
    progress: Option<&str>,
    most: usize,
) -> DebateView {
    let DebateSnapshot { state, data, labels, parent, links, .. } = snapshot;
    let frame = proceedings.frame();
    let outcomes = proceedings.outcome();
    let has_opened = !proceedings.openings().is_empty();
    let outcome = |id: &str| {
        outcomes.iter().find(|standing| standing.claim == id && has_opened).map(|standing| standing.outcome)
    };
    let absent = |name: &str| -> Vec<String> {
        let theirs = proceedings.absences().iter().filter(|absence| absence.panelist == name);
        let shown =
            theirs.map(|absence| cut(&format!("{}: {}", absence.stage, absence.reason), most.max(24)));
        shown.take(most_of(16, most).min(16)).collect()
    };
    let panelists = frame.map(|frame| frame.panelists()).unwrap_or_default();
    let warnings = match &data.sources {
        None => vec!["its creation was interrupted: cancel it, and create another debate".to_owned()],
        Some(sources) => sources
            .iter()
            .filter_map(|source| match (source.files, source.left_out) {
                (0, _) => Some(format!(
                    "the source {} has no readable file: names that are not Unicode, links and .git are left \
                    out",
                    source.name
                )),
                (_, 0) => None,
                (_, left_out) => Some(format!(
                    "of the source {} {left_out} entries were left out: links, pipes, .git",
                    source.name
                )),
            })
            .collect(),
    };
    let next = match progress {
        Some(_) => "call debate_advance again, which waits for the running stage",
        None => state.next_call(),
    };
    DebateView {
        debate_id: debate.id().to_string(),
        status: state.word(),
        round: state.round(),
        running: progress.is_some(),
        progress: progress.map(|line| cut(line, 300)),
        next: next.to_owned(),
        question: cut(&data.question, most.min(1_000)),
        claims: frame
            .map(|frame| frame.claims())
            .unwrap_or_default()
            .iter()
            .map(|claim| DebateClaimView {
                id: claim.id.clone(),
                text: cut(&claim.text, most.min(400)),
                outcome: outcome(&claim.id),
            })
            .collect(),
        panelists: panelists
            .iter()
            .map(|panelist| PanelistView {
                name: panelist.name.clone(),
                registered: panelist.registered.clone(),
                sources: cut_list(panelist.sources.iter().map(String::as_str), most.max(40)),
                absent: absent(&panelist.name),
            })
            .collect(),
        unassigned_sources: frame
            .map(|frame| cut_list(frame.unassigned_sources(), most.max(40)))
            .unwrap_or_default(),
        rounds: proceedings
            .rounds()
            .iter()
            .map(|round| DebateRoundView {
                findings: round.tensions.findings().len(),
                revision_rate: round.signals.revision_rate,
                tension_density: round.signals.tension_density,
                arbiter_closes: round.judgement.as_ref().map(|judgement| judgement.close),
            })
            .collect(),
        warnings: cut_list(warnings.iter().map(String::as_str), most.max(60)),
        labels: labels
            .iter()
            .take(most_of(labels.len(), most))
            .map(|(name, value)| (cut(name, 128), cut(value, most.max(12))))
            .collect(),
        parent_workspace_id: parent.as_ref().map(ToString::to_string),
        linked_workspace_ids: cut_list(links.iter().map(|id| id.as_str()), most.max(64)),
    }
}

fn row(debate: &IndexEntry<DebateDetails>, details: &DebateDetails) -> DebateRow {
    let time = nexus_files::rfc3339::seconds;
    DebateRow {
        debate_id: debate.id.clone(),
        status: details.status,
        question: debate.title.clone(),
        created_at: time(debate.created_at.unwrap_or(debate.updated_at)),
        updated_at: time(debate.updated_at),
        labels: details.labels.iter().map(|(name, value)| (cut(name, 64), cut(value, 100))).collect(),
    }
}
