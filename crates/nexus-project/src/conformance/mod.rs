//! Fixtures that test any implementation of the eleven tools over MCP, and their runner.
//!
//! A fixture has a project (`precondition`), a step (`action`), and conditions afterwards (`postcondition`). A scenario has
//! several steps. JSONPath (RFC 9535) addresses values in results and files.

mod fixture;
mod judge;
mod run;
mod server;

pub use fixture::{
    Action, Call, Expected, Fixture, FixtureError, FixtureFile, FixtureStep, Postcondition, Precondition,
};
pub use run::{FixtureFailure, Report, run};
pub use server::{ServerCommand, ServerError};

/// The fixtures of this crate, by file name.
pub const FIXTURES: [(&str, &str); 17] = [
    ("tools/plan_start.json", include_str!("../../conformance/tools/plan_start.json")),
    ("tools/plan_status.json", include_str!("../../conformance/tools/plan_status.json")),
    ("tools/plan_update.json", include_str!("../../conformance/tools/plan_update.json")),
    ("tools/plan_decide.json", include_str!("../../conformance/tools/plan_decide.json")),
    ("tools/task_add.json", include_str!("../../conformance/tools/task_add.json")),
    ("tools/task_list.json", include_str!("../../conformance/tools/task_list.json")),
    ("tools/task_update.json", include_str!("../../conformance/tools/task_update.json")),
    ("tools/task_close.json", include_str!("../../conformance/tools/task_close.json")),
    ("tools/history_search.json", include_str!("../../conformance/tools/history_search.json")),
    ("tools/context.json", include_str!("../../conformance/tools/context.json")),
    ("tools/artifact_write.json", include_str!("../../conformance/tools/artifact_write.json")),
    ("scenarios/plan_cycle.json", include_str!("../../conformance/scenarios/plan_cycle.json")),
    ("scenarios/order.json", include_str!("../../conformance/scenarios/order.json")),
    ("scenarios/crash.json", include_str!("../../conformance/scenarios/crash.json")),
    ("scenarios/two_writers.json", include_str!("../../conformance/scenarios/two_writers.json")),
    ("scenarios/reopen.json", include_str!("../../conformance/scenarios/reopen.json")),
    ("scenarios/resume.json", include_str!("../../conformance/scenarios/resume.json")),
];
