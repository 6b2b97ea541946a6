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
//! [`Overlay`](nexus_core::Overlay): what its agents may use and touch beyond their brief.
//!
//! [`AgentTypeRegistry`] holds the types of a home, for tasks and debates alike. The roles of a project's catalogue are types that a
//! person registers there. The key `types` of `nexus.yaml` is no second registry: it binds the name of a type, or its tier and phase, to
//! the backends and the model that run its turns.

mod agent_type;
mod error;
mod name;
mod registry;
mod surface;
mod tool_names;
mod types;

pub use agent_type::AgentType;
pub use error::{AgentNameKind, AgentTypeError};
pub use registry::AgentTypeRegistry;
pub use surface::Surface;
pub use tool_names::{CHANGING_TOOLS, CHECKING_TOOLS, READING_TOOLS};
pub use types::AgentTypes;
