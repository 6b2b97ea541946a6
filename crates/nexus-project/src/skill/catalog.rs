//! The catalogue of skills.

use serde::Serialize;

/// A way of working: instructions that a model gets when the skill begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Skill {
    /// Name of the skill, which is also its tag.
    pub name: &'static str,
    /// Situation in which to use it: one sentence.
    pub description: &'static str,
    /// True if only a person may begin it, by its tag.
    pub manual_only: bool,
    /// True if it stays active until another skill begins or the cycle ends. Otherwise it ends with the next message.
    pub is_lasting: bool,
    /// Instructions for a model.
    pub body: &'static str,
}

const SKILLS: [Skill; 4] = [
    Skill {
        name: "plan",
        description: "Use it for decisions before the work: a plan with issues, each decided with its reason.",
        manual_only: false,
        is_lasting: true,
        body: include_str!("../../skills/plan.md"),
    },
    Skill {
        name: "run",
        description: "Use it to work on the existing tasks, or on the tasks of a request, in their order.",
        manual_only: false,
        is_lasting: true,
        body: include_str!("../../skills/run.md"),
    },
    Skill {
        name: "sync",
        description: "Use it to bring the documents of the project up to date with the code.",
        manual_only: true,
        is_lasting: false,
        body: include_str!("../../skills/sync.md"),
    },
    Skill {
        name: "init",
        description: "Use it for a first look at a project, and to describe it.",
        manual_only: true,
        is_lasting: false,
        body: include_str!("../../skills/init.md"),
    },
];

impl Skill {
    /// Returns all skills.
    pub fn all() -> impl Iterator<Item = Self> {
        SKILLS.into_iter()
    }

    /// Returns the skills that a model may begin on its own.
    pub fn detectable() -> impl Iterator<Item = Self> {
        Self::all().filter(|skill| !skill.manual_only)
    }

    /// Returns the skill of a tag.
    pub fn of_tag(tag: &str) -> Option<Self> {
        Self::all().find(|skill| skill.name == tag)
    }

    /// Returns the instructions for a model, with the requested variant.
    pub fn instructions(&self, variant: Option<&str>) -> String {
        match variant {
            Some(variant) => format!("Variant: {variant}\n\n{}", self.body),
            None => self.body.to_owned(),
        }
    }
}
