//! Reviews: verdicts, the union of a panel's verdicts, and the answer of a reflector.

mod panel_review;
mod reflection;
mod verdict;

pub use self::{
    panel_review::{PanelReview, ReviewVote},
    reflection::Reflection,
    verdict::{
        Concern, CriterionJudgement, Judgement, ReviewBasis, ReviewDecision, ReviewVerdict, VerdictDraft,
    },
};
