//! Reviews: what a verdict may be, what a panel of them comes to, and what may be answered to one.

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
