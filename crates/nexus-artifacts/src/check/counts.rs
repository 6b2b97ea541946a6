//! Checks of sums and counts, and of the status that follows from them.

use super::{
    super::{
        document::Artifact,
        frontmatter::{CriterionStatus, Research, Validation, ValidationStatus, Verification},
        research::{self, ReasoningAgreement},
        rule::Rule,
        status,
    },
    CheckContext,
};

/// The line of a verification that repeats the status of the frontmatter for people.
const STATUS_LINE: &str = "**Milestone Status:**";

impl CheckContext<'_> {
    /// Returns the position of a key's value.
    fn at(&self, key: &str) -> usize {
        self.artifact.values().get(key).map_or(0, |range| range.start)
    }

    pub(super) fn verification(&mut self) {
        let document = self.artifact;
        let Ok(verification) = document.read::<Verification>() else { return };
        let Verification { sc_total, passed, failed, deferred, pending, .. } = verification;
        let sum = [passed, failed, deferred, pending].iter().try_fold(0u64, |sum, one| sum.checked_add(*one));
        if sum != Some(sc_total) {
            let message = format!(
                "sc_total is {sc_total}, but passed {passed} + failed {failed} + deferred {deferred} + pending {pending} is not"
            );
            return self.fault(self.at("sc_total"), Rule::CriterionTotal, message);
        }
        let before = self.faults.len();
        self.entry_counts();
        let criteria = status::criteria(document);
        for entry in document.entries_of("Success Criteria") {
            if let Some(field) = document.field(entry, "Status")
                && CriterionStatus::of(&field.value).is_none()
            {
                let message =
                    format!("{:?} is not a status; write Pass, Fail, Defer or Pending", field.value);
                self.fault(field.start, Rule::CriterionStatus, message);
            }
        }
        // The counts are derived from the criteria. One faulty criterion would be reported a second time.
        if self.faults.len() > before {
            return;
        }
        let counted = [
            ("passed", passed, CriterionStatus::Pass),
            ("failed", failed, CriterionStatus::Fail),
            ("deferred", deferred, CriterionStatus::Defer),
            ("pending", pending, CriterionStatus::Pending),
        ];
        for (key, said, status) in counted {
            let found = criteria.iter().filter(|criterion| criterion.status == status).count() as u64;
            if found != said {
                let message = format!("{key} is {said}, but {found} criteria have {status}");
                self.fault(self.at(key), Rule::CriterionCount, message);
            }
        }
        if self.faults.len() > before {
            return;
        }
        let follows = status::follows(&criteria);
        if verification.milestone_status != follows {
            let message = format!(
                "milestone_status is {}, but {follows} follows from the criteria",
                verification.milestone_status
            );
            self.fault(self.at("milestone_status"), Rule::MilestoneStatus, message);
        }
        self.status_line(follows.as_str());
    }

    fn status_line(&mut self, follows: &str) {
        let document = self.artifact;
        let mut lines = document.prose_in(document.body());
        let found = lines.find(|range| document.text()[range.clone()].starts_with(STATUS_LINE));
        let said = found.clone().map(|range| document.text()[range][STATUS_LINE.len()..].trim());
        if said != Some(follows) {
            let at = found.map_or(document.body().start, |range| range.start);
            self.fault(at, Rule::MilestoneStatus, format!("there is no line `{STATUS_LINE} {follows}`"));
        }
    }

    pub(super) fn validation(&mut self) {
        let Ok(validation) = self.artifact.read::<Validation>() else { return };
        let Validation { requirements_total, covered, under_sampled, uncovered, .. } = validation;
        // The numbers come from a file, so their sum may overflow.
        let sum = [covered, under_sampled, uncovered].iter().try_fold(0u64, |sum, one| sum.checked_add(*one));
        if sum != Some(requirements_total) {
            let message = format!(
                "requirements_total is {requirements_total}, but covered {covered} + under_sampled {under_sampled} + uncovered {uncovered} is not"
            );
            return self.fault(self.at("requirements_total"), Rule::RequirementTotal, message);
        }
        self.entry_counts();
        let is_compliant = under_sampled == 0 && uncovered == 0;
        // A false value here is the reason for a false status as well, so report only one of them.
        if validation.nyquist_compliant != is_compliant {
            let message = format!(
                "nyquist_compliant is {} with {under_sampled} under-sampled and {uncovered} uncovered",
                !is_compliant
            );
            self.fault(self.at("nyquist_compliant"), Rule::Nyquist, message);
        } else if validation.status == ValidationStatus::Clean && !is_compliant {
            self.fault(
                self.at("status"),
                Rule::Nyquist,
                "status is clean though not every requirement is covered",
            );
        }
    }

    /// Checks every count of entries in the frontmatter.
    pub(super) fn entry_counts(&mut self) {
        let document = self.artifact;
        let values = document.values();
        for spec in document.kind().spec().entries {
            let Some(range) = values.get(spec.count) else { continue };
            let said = document.text()[range.clone()].trim_matches(['"', '\'']);
            let found = document.entries_of(spec.section).count();
            if said.parse() != Ok(found as u64) {
                let message = format!("{} is {said}, but {} has {found} entries", spec.count, spec.section);
                self.fault(range.start, Rule::EntryCount, message);
            }
        }
    }

    pub(super) fn research(&mut self) {
        let Ok(research) = self.artifact.read::<Research>() else { return };
        if !(0.0..=1.0).contains(&research.agreement_score) {
            let message = "agreement_score is not a number from 0 to 1";
            return self.fault(self.at("agreement_score"), Rule::FrontmatterInvalid, message);
        }
        self.entry_counts();
        agreements(self);
        let unresolved = research::unresolved(self.artifact);
        let follows = research::verdict(research.agreement_score, research.contested_count, unresolved);
        if research.reconciler_verdict != follows {
            let message = format!(
                "reconciler_verdict is {}, but {follows} follows from agreement_score {}, contested_count {} and {unresolved} unresolved",
                research.reconciler_verdict, research.agreement_score, research.contested_count
            );
            self.fault(self.at("reconciler_verdict"), Rule::ResearchVerdict, message);
        }
    }
}

fn agreements(check: &mut CheckContext<'_>) {
    let document: &Artifact = check.artifact;
    for entry in document.entries_of("Final Decisions") {
        if let Some(field) = document.field(entry, "Reasoning-Trace-Agreement")
            && ReasoningAgreement::of(&field.value).is_none()
        {
            let message = format!(
                "{:?} is not valid; write identical, overlapping, orthogonal or unknown",
                field.value
            );
            check.fault(field.start, Rule::ReasoningAgreement, message);
        }
    }
}
