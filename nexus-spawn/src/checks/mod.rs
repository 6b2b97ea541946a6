//! The project's tests and probes, run in a sandbox over trees.
//!
//! | type | is |
//! | --- | --- |
//! | [`Baseline`] | the tests on the base of a task, before a model is asked |
//! | [`TestRun`] | the tests on a tree, and the base's tests beside them where test or build files differ |
//! | [`ProbeDraft`], [`ProbeSides`] | a program that prints observations, and the three trees that it is run on |
//! | [`ProbeRecord`] | what it printed on each of them, and which of them differ |
//! | [`CheckError`] | why something was not run |
//!
//! A program is never judged by what it prints: that it did not start, ran into a limit or gave two answers to one question is
//! found by who ran it.

mod error;
mod output;
mod probe;
mod probe_record;
mod test_run;

pub use error::CheckError;
pub use output::{CheckOutput, KeptText, ProgramExit};
pub use probe::{ProbeDraft, ProbeFile};
pub use probe_record::{
    ProbeAnswer, ProbeDifference, ProbeRecord, ProbeRun, ProbeRunEnd, ProbeSide, ProbeSides, SideOutcome,
};
pub use test_run::{Baseline, SuiteEnd, SuiteRun, TestFileChange, TestFileChangeKind, TestFileKind, TestRun};
