//! What holds the processes of one child together, so that none outlives it: chosen at run time, the strongest first.
//!
//! | kind | who is found | a killed host | where |
//! | --- | --- | --- | --- |
//! | PID namespace | everyone: the kernel ends them with the first process of the namespace | nothing is left | root; with a user namespace any user |
//! | cgroup | everyone, by `cgroup.kill` | until the next [sweep](crate::run_registry::sweep), which finds everyone | the program's own cgroup can be written |
//! | subreaper | every descendant of this program that has the run's mark | until the next sweep | Linux |
//! | search | every process of the machine that has the run's mark | until the next sweep | Linux; elsewhere the process group |
//!
//! A child that is to [end with this program](crate::spawn::Invocation::end_with_host) is killed with it by any kind, where
//! the machine has util-linux; what the child has started waits for the sweep. So does a child whose host is killed in
//! the millisecond before the kernel is asked for that, but for one in a namespace, which does not begin without its host.
//!
//! A machine that is short of descriptors, processes or memory says nothing about what it allows: what was tried then is
//! tried again, and a child is refused rather than held by less.
//!
//! With the first three, `/proc` is read for processes of this program alone. What a fork loop without end brings into
//! being is ended by the first two only.
//!
//! **A user namespace takes something away**: programs with a set-user-id bit gain nothing in it, and files of other users
//! seem to be nobody's, which `ssh` takes amiss. So it is not used where the child
//! [keeps its privileges](crate::spawn::Invocation::keep_privileges), unless containment is required.
//!
//! **The host as subreaper.** While a child is held so, this program is the subreaper of its descendants: orphans of *any*
//! child of this program become its children. Those with a mark are reaped here; others are left alone. The setting is
//! taken back when the last such child has ended. A helper process would keep the setting away from the host, but a
//! library has no program of its own to start.

mod attempt;
mod cgroup;
pub(crate) mod core_limit;
mod hold;
mod machine;
mod namespace;
mod parent_death;
mod subreaper;
pub(crate) mod tag;

pub use nexus_core::Containment;
use schemars::JsonSchema;
use serde::Deserialize;

pub(crate) use cgroup::{Cgroup, end_cgroup};
pub(crate) use hold::{Enclosure, Holding};
pub(crate) use machine::{Means, choose, limiting_cgroup};
pub use machine::{NotContained, available, strongest};
pub(crate) use namespace::signal_in_code;
pub(crate) use parent_death::{ParentDeath, program_of_the_system};
pub(crate) use subreaper::Subreaper;
pub(crate) use tag::RunTag;

/// How much containment a child must have.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ContainmentPolicy {
    /// The strongest that takes nothing from the child.
    #[default]
    Auto,
    /// A PID namespace or a cgroup; without either, nothing is started.
    Required,
    /// None: what is left is searched for.
    Off,
    /// This kind, or nothing is started.
    #[serde(skip)]
    Exactly(Containment),
}
