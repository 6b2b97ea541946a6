//! Configuration and routing: maps the purpose of a turn to the backends that run it.
//!
//! A program states the *purpose* of a turn, a [`WorkKind`]; `nexus.yaml` binds it to backends. The [`Router`] resolves the
//! binding, tries the backends of a chain in order, and skips backends that are parked, missing or held. It uses backends only
//! through the trait of `nexus-core`, and finds kinds in the given [`Registry`](nexus_core::Registry).
//!
//! | to | see |
//! | --- | --- |
//! | load a configuration | `Router::from_file` and `Router::from_str` (feature `yaml`), [`Router::from_value`], [`ConfigError`] |
//! | run without a configuration | `Router::detect`, `DetectedConfig` (feature `yaml`) |
//! | run a turn | [`Router::run_turn`], [`Router::backend`] |
//! | run a turn on one backend, for any purpose | [`Router::run_on`] |
//! | know when another backend takes over | [`fallback`] |
//! | list suspended backends, and their ends | [`Router::holds`], [`hold`] |
//! | share holds and limits with other processes | [`RouterBuilder::hold_store`], [`hold::FileHoldStore`] |
//! | record what turns spend, within budgets | [`RouterBuilder::spending_book`], [`spending`] |
//! | see which backends would run a turn, and why | [`Router::explain`] |
//! | get answers from several vendors at once | [`Router::run_panel`], [`panel`] |
//! | run one participant of a roster of your own | [`Router::seat`], [`Router::run_seat`] |
//! | run many turns by one configuration | [`Router::snapshot`] |
//! | bring a backend of your own | [`Router::builder`] |
//! | run a backend's turns on other machines | the key `pool`, [`Pools`](nexus_core::Pools) |

mod addresses;
mod attempt;
mod binding;
mod budgeted;
mod chain;
mod config;
#[cfg(feature = "yaml")]
mod detected;
mod explain;
pub mod fallback;
mod hand_over;
pub mod hold;
pub mod panel;
mod panel_outcome;
mod payer_notices;
mod permit;
mod queue;
mod reset_wait;
mod restore;
mod routed;
mod router;
mod run;
mod seat;
pub mod spending;
mod spoken;
mod telemetry;
mod work_kind;

pub use addresses::SharedAddress;
pub use binding::Binding;
pub use config::{ConfigError, FallbackRule, Position, Problem, json_schema};
#[cfg(feature = "yaml")]
pub use config::{ConfigFile, MAX_FILE_BYTES};
#[cfg(feature = "yaml")]
pub use detected::{DetectError, DetectedConfig, DetectedEntry, NothingDetected};
pub use explain::{ExplainedChain, ExplainedEntry, ExplainedSeat, ExplainedTarget, Explanation, Verdict};
pub use hold::Hold;
pub use panel::{Panel, PanelSink, SeatEvent};
pub use panel_outcome::{PanelOutcome, Shortfall, SilentSeat};
pub use routed::RoutedBackend;
pub use router::{Router, RouterBuilder};
pub use seat::{Lens, Seat, SeatOutcome, Vote};
pub use work_kind::{KindError, UnknownKind, WorkKind};
