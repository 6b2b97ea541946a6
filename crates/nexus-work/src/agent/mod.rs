//! Types of agents, and the tiers and phases of their work.
//!
//! | type | tier | phase | work |
//! | --- | --- | --- | --- |
//! | `orchestrator` | `operations` | `orchestrate` | plans the work and assigns it |
//! | `executor` | `execution` | `implement` | does the work |
//! | `reviewer` | `operations` | `review` | checks the work |
//! | `reflector` | `operations` | `reflect` | records the lessons of the work |
//!
//! These are built in; [`AgentTypes`] accepts further tiers and types. `cartographer`, `advisory` and `field` are reserved:
//! neither a tier nor a type can have such a name. A custom tier is based on a built-in one, and only removes tools from it;
//! a type only removes tools from its tier ([`Surface`]). Each tier, and each phase of a tier, may have an
//! [`Overlay`](nexus_core::Overlay): tools and paths of its agents beyond their brief.
//!
//! [`AgentTypeRegistry`] contains the types of a home, for tasks and debates. A person registers the roles of a project's
//! catalogue there. The key `types` of `nexus.yaml` is not a second registry: it binds the name of a type, or its tier and
//! phase, to the backends and the model that run its turns.

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
