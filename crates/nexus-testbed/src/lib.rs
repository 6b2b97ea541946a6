//! Plants confident wrong answers, and measures which reviewers catch them.
//!
//! A [`Trap`] is a small project with an answer that looks right and is wrong: its tests pass, every claim of its handoff is
//! true, and no test covers the mistake. [`Trap::built_in`] returns the traps of this library; `docs/reference/traps.md`
//! describes how to write one. [`Trap::prove`] shows that a trap works. [`Outcome`] is the result of a run, and
//! [`statistics`] computes the significance of a difference between two reviewers.
//!
//! [`ReviewAlone`] presents an answer to the reviewers of an [`Arm`], a configuration, with a complete handoff. [`Script`]s
//! replace models in a run without any. They are used through [`ScriptedKind`], or by any code that passes them tools and
//! answers. The anchored scripts accept every planted answer, the probing scripts accept none, and neither refuses the right
//! answer. That shows that the instrument measures.
//!
//! An [`Experiment`] runs every arm with every answer of every trap, a given number of times, in turns, and continues an
//! interrupted experiment. [`experiment_html`] and [`experiment_markdown`] report it, each verdict with its probes.
//! [`WholeTask`] runs a trap's goal through all of a task.
//!
//! | secret from agents | location |
//! | --- | --- |
//! | the ground truth of a trap | in this program, or in the trap's folder; its program is copied into the final files, in a folder that is created after the agents' work and removed with it: [`GroundTruth`] |
//! | its expected output | in no file of a tree, no argument, no variable, and no process but this one |
//! | the existence and name of the trap | in no text for an agent: the path of the project does not contain it |
//!
//! Linux only.

mod arm;
mod discriminator;
mod error;
mod experiment;
mod laid_trap;
mod proof;
mod proof_folder;
mod report;
mod run_record;
mod scorer;
mod script;
mod spent;
pub mod statistics;
mod summary;
pub mod tool_answers;
mod trap;
mod trap_error;
mod truth;
mod whole_task;

pub use arm::{Arm, ArmContext};
pub use discriminator::{OlderTrees, ReviewAlone};
pub use error::TestbedError;
pub use experiment::{
    Experiment, ExperimentDescription, ExperimentPlan, ExperimentResults, Named, NamedTrap, RunMode,
    TurnBounds,
};
pub use laid_trap::LaidTrap;
pub use proof::{ProofCheck, TrapProof};
pub use proof_folder::ProofFolder;
pub use report::{experiment_html, experiment_markdown};
pub use run_record::{RunKey, RunRecord, RunResult};
pub use scorer::{Ending, Outcome};
pub use script::{Script, ScriptedCall, ScriptedKind};
pub use spent::Spent;
pub use summary::{ArmSummary, Comparison, ExperimentSummary};
pub use trap::{Answer, Trap, TrapClaim};
pub use trap_error::TrapError;
pub use truth::GroundTruth;
pub use whole_task::WholeTask;
