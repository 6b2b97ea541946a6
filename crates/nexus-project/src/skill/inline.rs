//! Tags with an immediate effect: record a decision, store a lesson or a rule.

use std::path::Path;

use super::InlineAction;
use crate::{
    error::ProjectError,
    file,
    folder::ProjectFolder,
    state::IssueStatus,
    time::Time,
    tools::{PlanAction, PlanDecideRequest, PlanUpdateRequest, breaks_line, checked_text},
};

/// Result of a message tag with an immediate effect, such as `[d]` or `[rule]`, as text for the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InlineResult {
    /// The effect, and the model's next step.
    pub text: String,
}

impl ProjectFolder {
    /// Executes a tag with the text after it.
    ///
    /// # Errors
    ///
    /// [`ProjectError`]; nothing is changed then.
    pub fn inline(&self, action: &InlineAction, text: &str) -> Result<InlineResult, ProjectError> {
        if text.is_empty() && *action != InlineAction::CollectMemory {
            return Err(ProjectError::invalid("nothing follows the tag", "write the text after the tag"));
        }
        let text = match action {
            InlineAction::Decide => self.decide_inline(text)?,
            InlineAction::Remember => {
                let path = self.store("memory", None, text)?;
                format!("The lesson was stored in {path}. Do nothing more for it.")
            }
            InlineAction::Rule(name) => {
                let path = self.store("rules", name.as_deref(), text)?;
                format!("The rule was stored in {path}. Follow it from now on.")
            }
            InlineAction::CollectMemory => self.collect()?,
        };
        Ok(InlineResult { text })
    }

    /// Executes `[d] text`, `[d] 2 text` or `[d] #2: text`. Without a number, the decision is for the only pending issue. If
    /// none or several are pending, it becomes a new issue.
    fn decide_inline(&self, text: &str) -> Result<String, ProjectError> {
        let plan = self.plan()?.ok_or_else(|| {
            let message = "no plan exists for the decision";
            ProjectError::wrong_status(
                message,
                "create a plan with plan_start, then record the decision \
                with plan_decide",
            )
        })?;
        let (number, rest) = leading_number(text);
        let named = number.and_then(|number| plan.issues.iter().find(|issue| issue.id == number));
        let pending: Vec<_> = plan.pending().map(|issue| issue.id).collect();
        let (issue, decision) = match (named, pending.as_slice()) {
            (Some(issue), _) if issue.status() == IssueStatus::Decided => {
                let message = format!("issue {} is already decided", issue.id);
                let instead = "reopen it with plan_update (`reopen`), then record the decision with \
                    plan_decide";
                return Err(ProjectError::wrong_status(message, instead));
            }
            (Some(issue), _) if !rest.is_empty() => (issue.id, rest),
            (_, [only]) => (*only, text),
            _ => {
                // Check the text first, so that no issue is added for a rejected decision.
                checked_text("decision", Some(text.to_owned()))?;
                let line = text.lines().next().unwrap_or_default();
                let title = nexus_mcp::page::cut(&line.replace(breaks_line, " "), 200);
                let request = PlanUpdateRequest { action: PlanAction::Add, issue: None, title: Some(title) };
                (self.plan_update(&request)?.issue.id, text)
            }
        };
        let decided = self.plan_decide(PlanDecideRequest { issue, decision: decision.to_owned() })?;
        let left: Vec<_> = decided.pending.iter().map(u32::to_string).collect();
        let next = if left.is_empty() {
            "All issues are decided: add the tasks that follow with task_add.".to_owned()
        } else {
            format!("Still pending: {}.", left.join(", "))
        };
        Ok(format!("The decision on issue {issue}, {:?}, was recorded. {next}", decided.issue.title))
    }

    /// Stores a text in a new file, or at the end of the named file.
    fn store(&self, folder: &str, name: Option<&str>, text: &str) -> Result<String, ProjectError> {
        self.locked(|| {
            let path = self.path(folder);
            file::make_folder(&path)?;
            let name = match name {
                Some(name) => format!("{name}.md"),
                None => free_name(&path, text),
            };
            let before = file::read_text(&path.join(&name))?.unwrap_or_default();
            let gap = match before.as_str() {
                "" => "",
                before if before.ends_with('\n') => "\n",
                _ => "\n\n",
            };
            file::replace(&path.join(&name), format!("{before}{gap}{}\n", text.trim_end()).as_bytes())?;
            Ok(format!(".nexus/{folder}/{name}"))
        })
    }

    fn collect(&self) -> Result<String, ProjectError> {
        let knowledge = self.knowledge()?;
        let lessons: Vec<_> =
            knowledge.iter().filter(|file| file.path.starts_with(".nexus/memory/")).collect();
        if lessons.is_empty() {
            return Ok("There are no lessons to sort.".to_owned());
        }
        let list: Vec<_> = lessons.iter().map(|file| format!("- {}: {}", file.path, file.title)).collect();
        Ok(format!(
            "Sort the lessons. Read each of these files, merge lessons with the same content, remove lessons \
             that are no longer true, and leave the others unchanged. Then report your changes.\n{}",
            list.join("\n")
        ))
    }
}

/// Splits `2 text`, `#2: text` or `2. text` into the number and the text.
fn leading_number(text: &str) -> (Option<u32>, &str) {
    let digits = text.strip_prefix('#').unwrap_or(text);
    let end = digits.find(|character: char| !character.is_ascii_digit()).unwrap_or(digits.len());
    let (number, rest) = digits.split_at(end);
    let separated = rest.starts_with([' ', ':', '.', ')', '\n', '\t']);
    match number.parse() {
        Ok(number) if separated => (Some(number), rest.trim_start_matches([' ', ':', '.', ')', '\n', '\t'])),
        _ => (None, text),
    }
}

/// Returns an unused file name from the date and the first words.
fn free_name(folder: &Path, text: &str) -> String {
    let mut words = String::new();
    for word in text.split(|character: char| !character.is_alphanumeric()).filter(|word| !word.is_empty()) {
        if words.len() + word.len() > 48 {
            break;
        }
        if !words.is_empty() {
            words.push('-');
        }
        words.push_str(&word.to_lowercase());
    }
    let day = Time::now().to_string();
    let day = day.get(..10).unwrap_or_default();
    let base = if words.is_empty() { day.to_owned() } else { format!("{day}-{words}") };
    let mut name = format!("{base}.md");
    let mut number = 2_u32;
    while folder.join(&name).symlink_metadata().is_ok() {
        name = format!("{base}-{number}.md");
        number += 1;
    }
    name
}
