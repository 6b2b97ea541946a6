//! Debates: agents judge the claims of a question apart from one another, then resolve what they disagree on by a protocol.
//!
//! [`Debates`] has the calls: it creates debates, runs their stages, and shows them. [`DebateTools`] offers them to MCP clients, the
//! `nexus` command to a person. Linux only.
//!
//! ```text
//! frame → opening → analyse → cross-examine ⇄ check close → converge → final → synthesise
//! ```
//!
//! | type | is |
//! | --- | --- |
//! | [`FrameDraft`], [`Frame`], [`FrameRules`] | the claims and the panel, and what they are held to |
//! | [`Opening`], [`Rebuttal`], [`Statement`] | what a panelist submits: before it has heard anybody, to the case against it, and in the end |
//! | [`Tensions`], [`Finding`] | where panelists disagree, in the arbiter's own words: see [`shares_words`] |
//! | [`CloseSignals`], [`decide`] | what a round comes to in numbers, and whether another follows |
//! | [`converge`], [`ClaimStanding`] | where the panel stands on each claim |
//! | [`synthesis`], [`conclusion`], [`verbatim_parts`] | the record as a text, its end alone, and its texts read back |
//! | [`Proceedings`], [`StageRecord`] | what a debate has come to so far, from the records of its stages |
//! | [`DebateState`], [`DebateEvent`] | what a status file holds of a debate, and every transition of it |
//! | [`Debate`], [`DebateStore`], [`DebateData`] | the folders of debates, and what is in one |
//! | [`DebateSettings`], [`DebateSection`] | the section `debate` of `nexus.yaml` |
//! | [`debate_report`] | the report of a debate: one HTML page |
//!
//! What an agent writes arrives as a *draft*: plain data with a JSON schema. One function a type makes the checked value from it, or tells
//! all that is wrong; what is read from a file goes through the same function.
//!
//! # Who can read what
//!
//! | agent | its tools | its texts |
//! | --- | --- | --- |
//! | framer | none | the question and what the caller knows, names and sizes of sources, registered agents |
//! | panelist, opening | its brief, files of its own sources | the question and what the caller knows, the claims, its own role |
//! | panelist, cross-examination | the same, all openings, its tension | and its own answers and positions so far, and the arbiter's case for the sides against it |
//! | panelist, final | its brief, its sources, the standings | and where the panel stands |
//! | arbiter | openings, rebuttals, the record | all of it |
//!
//! So no panelist's opening has another's words before it, and no way leads from one panelist's rebuttal to another: no tool, prompt,
//! quotation or folder of a panelist holds one, every conversation ends with its stage, and a steelman with twelve consecutive words of a
//! rebuttal is refused. What the arbiter says in words of its own, it says; openings may be quoted, as everybody reads them.
//!
//! Nothing here opens a socket.

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
    DebatePage, DebateResult, DebateResultRequest, DebateRoundView, DebateRow, DebateSpawnTaskRequest,
    DebateStatusRequest, DebateTask, DebateView, Debates, DebatesOptions, PanelistView,
};
pub use settings::{DebateSection, DebateSettings};
pub use sources::{Source, SourceDraft};
pub use state::{DebateEvent, DebateState, DebateStatusWord, WrongStage};
pub use statement::{Statement, StatementDraft};
pub use store::{DebateListing, DebateStore};
pub use synthesis::{VerbatimPart, conclusion, synthesis, verbatim_parts};
pub use tension::{AnalysisDraft, Finding, Side, Tensions};
pub use words::{COPIED_WORDS, shares_words};
