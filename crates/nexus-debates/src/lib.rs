//! Debates: agents judge the claims of a question independently, then resolve their disagreements by a protocol.
//!
//! [`Debates`] creates debates, runs their stages, and shows them. [`DebateTools`] offers these calls to MCP clients, and
//! the `nexus` command to a person. Linux only.
//!
//! ```text
//! frame → opening → analyse → cross-examine ⇄ check close → converge → final → synthesise
//! ```
//!
//! | type | content |
//! | --- | --- |
//! | [`FrameDraft`], [`Frame`], [`FrameRules`] | the claims and the panel, and the rules for them |
//! | [`Opening`], [`Rebuttal`], [`Statement`] | submissions of a panelist: before it reads others, in answer to the case against it, and at the end |
//! | [`Tensions`], [`Finding`] | disagreements of panelists, in the arbiter's own words: see [`shares_words`] |
//! | [`CloseSignals`], [`decide`] | measures of a round, and the decision on another one |
//! | [`converge`], [`ClaimStanding`] | the panel's positions on each claim |
//! | [`synthesis`], [`conclusion`], [`verbatim_parts`] | the record as a text, its end alone, and the submissions read back from it |
//! | [`Proceedings`], [`StageRecord`] | the debate so far, from the records of its stages |
//! | [`DebateState`], [`DebateEvent`] | the state of a debate in its status file, and every transition of it |
//! | [`Debate`], [`DebateStore`], [`DebateData`] | the folders of debates, and their content |
//! | [`DebateSettings`], [`DebateSection`] | the section `debate` of `nexus.yaml` |
//! | [`debate_report`] | the report of a debate: one HTML page |
//!
//! Agents submit *drafts*: plain data with a JSON schema. For each type, one function checks a draft and returns the checked
//! value or all faults. Data from files goes through the same function.
//!
//! # Who can read what
//!
//! | agent | its tools | its texts |
//! | --- | --- | --- |
//! | framer | none | the question with the caller's context, names and sizes of sources, registered agents |
//! | panelist, opening | its brief, files of its own sources | the question with the caller's context, the claims, its own role |
//! | panelist, cross-examination | the same, all openings, its tension | and its own answers and positions so far, and the arbiter's case for the sides against it |
//! | panelist, final | its brief, its sources, the standings | and the panel's positions |
//! | arbiter | openings, rebuttals, the record | all of it |
//!
//! So a panelist writes its opening without the words of others, and never sees another panelist's rebuttal. No tool,
//! prompt, quotation or folder of a panelist contains one; every conversation ends with its stage; and a steelman with
//! twelve consecutive words of a rebuttal is rejected. The arbiter uses words of its own. It may quote openings, as
//! everybody reads them.
//!
//! This crate opens no socket.

mod closing_rule;
mod converge;
mod data;
mod debate;
mod debate_error;
mod frame;
mod mcp;
mod names;
mod opening;
mod position;
mod proceedings;
mod rebuttal;
mod record;
mod report;
mod service;
mod settings;
mod sources;
mod stage;
mod state;
mod statement;
mod store;
mod synthesis;
mod tension;
mod words;

pub use closing_rule::{
    CloseSignals, RoundBounds, RoundDecision, SETTLED_REVISION_RATE, SETTLED_TENSION_DENSITY, decide,
};
pub use converge::{ClaimOutcome, ClaimStanding, converge};
pub use data::{DebateData, RegisteredAgent};
pub use debate::{Debate, DebateId, DebateLogEvent, DebateSnapshot};
pub use debate_error::{DebateError, DebateErrorKind};
pub use frame::{DebateClaim, Frame, FrameDraft, FrameRules, PANELISTS, Panelist, Relevance};
pub use mcp::DebateTools;
pub use opening::{Argument, ArgumentDraft, Opening, OpeningDraft};
pub use position::{PositionDraft, Positions, Stance};
pub use proceedings::{Absence, DebateRound, Proceedings};
pub use rebuttal::{AnswerDraft, Rebuttal, RebuttalDraft};
pub use record::{JudgementDraft, PanelistRecord, StageRecord};
pub use report::debate_report;
pub use service::{
    DebateAdvanceRequest, DebateCancelRequest, DebateClaimView, DebateCreateRequest, DebateListRequest,
    DebatePage, DebateRemoveRequest, DebateRemoved, DebateResult, DebateResultRequest, DebateRoundView,
    DebateRow, DebateSpawnTaskRequest, DebateStatusRequest, DebateTask, DebateView, Debates, DebatesOptions,
    PanelistView,
};
pub use settings::{DebateSection, DebateSettings};
pub use sources::{Source, SourceDraft};
pub use state::{DebateEvent, DebateState, DebateStatusWord, WrongStage};
pub use statement::{Statement, StatementDraft};
pub use store::{DebateListing, DebateStore};
pub use synthesis::{VerbatimPart, conclusion, synthesis, verbatim_parts};
pub use tension::{AnalysisDraft, Finding, Side, Tensions};
pub use words::{COPIED_WORDS, shares_words};
