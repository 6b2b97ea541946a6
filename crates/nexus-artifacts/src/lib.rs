//! Planning artifacts: milestones, slices and tasks as Markdown files with a lint.
//!
//! ```text
//! .nubos-pilot/
//!   handoffs/                       messages outside of all milestones
//!   milestones/M001/
//!     M001-CONTEXT.md  M001-ROADMAP.md  M001-META.json  M001-RESEARCH.md  M001-PLAN-REVIEW.md  M001-VERIFICATION.md  M001-VALIDATION.md
//!     research/spawn-0.md           findings of one researcher
//!     handoffs/
//!     slices/S001/
//!       S001-ASSESSMENT.md  S001-PLAN.md  S001-RESEARCH.md  S001-UAT.md  S001-SUMMARY.md  TODO.md
//!       tasks/T0001/T0001-PLAN.md  T0001-SUMMARY.md
//! ```
//!
//! An [`Artifact`] is a text with the positions of its parts; a change leaves every other byte as it is. [`Kind`] lists the
//! requirements of each kind, [`lint()`] returns the faults of artifacts, and [`Artifacts`] reads and changes the tree. The
//! guide `docs/guide/artifacts.md` describes the formats.

mod check;
mod document;
mod frontmatter;
mod gate;
mod handoff;
mod id;
mod kind;
mod lint;
mod research;
mod review;
mod rule;
mod scaffold;
mod status;
mod task_block;
mod template;
mod todo;
mod tree;
mod yaml;

pub use document::{Artifact, Entry, Field, NONE, Section, TextPosition};
pub use frontmatter::{
    AgentHandoff, CriterionStatus, HandoffStatus, Meta, MilestoneStatus, Research, ResearchVerdict,
    ResearcherOutput, SlicePlan, SuccessCriterion, TaskPlan, TaskSummary, Todo, Validation, ValidationStatus,
    Verification, WorkStatus,
};
pub use gate::{Gate, MilestoneReport};
pub use handoff::{EVERYBODY, FoundHandoff, HandoffFilter, HandoffList, NewHandoff};
pub use id::{MilestoneId, SliceId, SliceTaskId};
pub use kind::{Kind, Place};
pub use lint::{LintOptions, LintReport, lint};
pub use research::{ReasoningAgreement, Reconciled, Reconciliation, reconcile, unresolved, verdict};
pub use review::{Appended, ReviewState, verify as verify_review};
pub use rule::{LintFinding, Rule};
pub use scaffold::{NewMilestone, NewTask, Scaffolded};
pub use status::{CriterionResult, criteria, follows};
pub use todo::{TaskLine, render as render_todo};
pub use tree::Artifacts;
