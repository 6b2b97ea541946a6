//! Which agents there are: their types, and the tiers and phases of the work that they do.
//!
//! | type | tier | phase | does |
//! | --- | --- | --- | --- |
//! | `orchestrator` | `operations` | `orchestrate` | plans the work and hands it out |
//! | `executor` | `execution` | `implement` | does it |
//! | `reviewer` | `operations` | `review` | checks what was done |
//! | `reflector` | `operations` | `reflect` | says what is to be learnt from it |
//!
//! These are built in; [`AgentTypes`] takes more of both. `cartographer`, `advisory` and `field` are reserved: neither a
//! tier nor a type can have such a name. A custom tier is like one that is built in, and only takes tools away from it; a
//! type only takes tools away from its tier ([`Surface`]). Each tier, and each phase of a tier, may have an
//! [`Overlay`](nexus_core::Overlay): what its agents may use and touch beyond their brief. Who runs an agent, and on which
//! model, is left to the router.

mod agent_type;
mod error;
mod name;
mod surface;
mod types;

pub use agent_type::AgentType;
pub use error::{AgentNameKind, AgentTypeError};
pub use surface::Surface;
pub use types::AgentTypes;
