//! Tools of the agents, by phase.

use nexus_work::{
    AgentTypeError, AgentTypes,
    agent::{CHANGING_TOOLS, CHECKING_TOOLS, READING_TOOLS},
};

const JUDGING: [&str; 2] = ["read_diff", "read_history"];

/// Phases with their own sets of tools. An agent of any other phase has the tools of its tier: those of `implement` if it changes
/// files, otherwise the reading tools and `submit_handoff`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentPhase {
    /// Makes the brief.
    Orchestrate,
    /// Does the work.
    Implement,
    /// Reads, and submits its findings.
    Survey,
    /// Judges a step.
    Review,
    /// Looks at a verdict that does not advance.
    Reflect,
    /// Draws the map of a project.
    Cartographer,
}

impl AgentPhase {
    /// Returns the phase of an agent type, by its tier and the name of its phase.
    ///
    /// # Errors
    ///
    /// [`AgentTypeError::Unknown`] if the type is not registered.
    pub fn of(agent_type: &str, types: &AgentTypes) -> Result<Self, AgentTypeError> {
        let found = types.find(agent_type)?;
        let is_execution = types.built_in_tier(&found.tier)? == "execution";
        Ok(match found.phase.as_str() {
            "orchestrate" if !is_execution => Self::Orchestrate,
            "review" if !is_execution => Self::Review,
            "reflect" if !is_execution => Self::Reflect,
            // An execution type never gets the tools of another tier, even if its phase has the name of one of theirs.
            _ if is_execution => Self::Implement,
            _ => Self::Survey,
        })
    }

    /// Its name, in a word: `review`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Orchestrate => "orchestrate",
            Self::Implement => "implement",
            Self::Survey => "survey",
            Self::Review => "review",
            Self::Reflect => "reflect",
            Self::Cartographer => "cartographer",
        }
    }

    /// The tools of the phase, in the order in which they are offered.
    pub fn tools(self) -> Vec<&'static str> {
        let of_its_own: &[&[&str]] = match self {
            Self::Orchestrate => &[&["read_context_map", "submit_brief", "request_clarification"]],
            Self::Implement => &[&CHANGING_TOOLS, &CHECKING_TOOLS, &["submit_handoff"]],
            Self::Survey => &[&["submit_handoff"]],
            Self::Review => &[&JUDGING, &CHECKING_TOOLS, &["submit_verdict"]],
            Self::Reflect => &[&JUDGING, &CHECKING_TOOLS, &["submit_reflection"]],
            Self::Cartographer => &[&["submit_context_map"]],
        };
        READING_TOOLS.iter().chain(of_its_own.iter().copied().flatten()).copied().collect()
    }

    /// Maximum number of calls that an agent may make in all, without `submit_*`: 60 if it changes files, otherwise 25.
    pub fn tool_calls(self) -> u32 {
        match self {
            Self::Implement => 60,
            Self::Orchestrate | Self::Survey | Self::Review | Self::Reflect | Self::Cartographer => 25,
        }
    }

    /// Returns the tools of an agent of this type: the tools of its phase that the surfaces of its tier and type
    /// leave.
    ///
    /// A surface cannot remove the tools that submit an answer: without them the agent could only fail.
    ///
    /// # Errors
    ///
    /// [`AgentTypeError::Unknown`] if the type is not registered.
    pub fn tools_of(agent_type: &str, types: &AgentTypes) -> Result<Vec<&'static str>, AgentTypeError> {
        let all = Self::of(agent_type, types)?.tools();
        let kept = types.tools_of(agent_type, all.iter().copied())?;
        let hands_in = |tool: &str| tool.starts_with("submit_") || tool == "request_clarification";
        Ok(all.iter().copied().filter(|tool| hands_in(tool) || kept.contains(tool)).collect())
    }
}

#[cfg(test)]
mod tests {
    use nexus_work::{AgentType, agent::Surface};

    use super::*;

    #[test]
    fn who_only_reads_has_no_tool_that_changes_anything() {
        use AgentPhase::{Cartographer, Implement, Orchestrate, Reflect, Review, Survey};
        for phase in [Orchestrate, Implement, Survey, Review, Reflect, Cartographer] {
            let tools = phase.tools();
            let changes = CHANGING_TOOLS.iter().any(|tool| tools.contains(tool));
            assert_eq!(changes, phase == Implement, "{phase:?}");
            assert!(READING_TOOLS.iter().all(|tool| tools.contains(tool)), "{phase:?}");
            let submits = tools.iter().filter(|tool| tool.starts_with("submit_")).count();
            assert_eq!(submits, 1, "{phase:?}");
        }
    }

    #[test]
    fn a_surface_takes_tools_away_but_not_the_one_that_hands_in() {
        let surface = Surface::only(["read_file".parse().unwrap(), "write_file".parse().unwrap()]);
        let narrow = AgentType::new("narrow", "operations", "survey").with_surface(surface);
        let types = AgentTypes::built_in().with_type(narrow).unwrap();
        assert_eq!(AgentPhase::tools_of("narrow", &types).unwrap(), ["read_file", "submit_handoff"]);
        assert_eq!(AgentPhase::tools_of("reviewer", &types).unwrap(), AgentPhase::Review.tools());
        assert!(AgentPhase::tools_of("nobody", &types).is_err());
        // A phase of the name of another tier's gives none of its tools.
        let posing = AgentType::new("posing", "execution", "review");
        let types = types.with_type(posing).unwrap();
        assert_eq!(AgentPhase::of("posing", &types).unwrap(), AgentPhase::Implement);
    }
}
