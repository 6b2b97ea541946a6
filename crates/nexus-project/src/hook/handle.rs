//! Handling of each event.

use std::collections::BTreeSet;

use super::{
    agents::{AgentTracker, TrackedAgent},
    event::{HookEvent, HookInput, HookReply},
    log::ToolLogLine,
};
use crate::{
    error::{ProjectError, ProjectErrorKind},
    file::{self, Patience},
    folder::{InitReport, ProjectFolder, WorkSummary},
    harness::Harness,
    role::Role,
    skill::{Skill, Tag},
    state::{AgentFilesLine, Document},
    time::Time,
};

/// Maximum length of one rule in an answer, in bytes. Source: our own bound; the file has the rest.
const MOST_RULE: usize = 2_000;
/// Maximum length of all rules together, in bytes.
const MOST_RULES: usize = 8_000;

impl ProjectFolder {
    /// Handles an event of a program. If the program does not pass the answer on to its model, the text is stored, and sent
    /// with the answer to the next tool.
    ///
    /// Waits one second for all locks of the event together. After that, notes that need a lock are skipped and listed in
    /// [`HookReply::skipped`].
    ///
    /// # Errors
    ///
    /// [`ProjectError`], except for [`HookEvent::PreToolUse`]: its answer to an unreadable state is a rejection. After other
    /// events the program continues.
    pub fn on_hook(
        &self,
        harness: &Harness,
        event: HookEvent,
        input: &HookInput,
    ) -> Result<HookReply, ProjectError> {
        let project = self.with_patience(Patience::of_a_hook());
        let mut reply = project.handle(harness.name(), event, input)?;
        if harness.is_unheard(event) {
            if let Some(context) = reply.context.take() {
                let kept = project.keep_untold(harness.name(), &input.session, context);
                noted(&mut reply, "the text for the model", kept)?;
            }
        } else if event == HookEvent::PreToolUse && reply.refusal.is_none() {
            // Programs pass on only the beginning of a rejection, so stored texts wait for another answer.
            match project.take_untold(harness.name(), &input.session) {
                Ok(context) => reply.context = context,
                // The rules allow the call, so an unreadable file of notes must not reject it.
                Err(error) => {
                    reply.skipped.push(format!("texts of earlier events are not passed on: {error}"));
                }
            }
        }
        Ok(reply)
    }

    fn handle(&self, harness: &str, event: HookEvent, input: &HookInput) -> Result<HookReply, ProjectError> {
        match event {
            HookEvent::SessionStart => self.on_session_start(harness, input),
            HookEvent::UserMessage => self.on_message(harness, input),
            HookEvent::SubagentSpawn => self.on_spawn(harness, input),
            HookEvent::SubagentComplete => self.on_complete(harness, input),
            HookEvent::PreToolUse => Ok(self.before_tool(input)),
            HookEvent::PostToolUse => self.after_tool(harness, input),
            HookEvent::SessionEnd => {
                let mut reply = HookReply::default();
                noted(&mut reply, "the end of the session", self.leave_skill(harness, &input.session))?;
                Ok(reply)
            }
            HookEvent::ContextCompact => self.on_compact(harness, input),
        }
    }

    fn on_session_start(&self, harness: &str, input: &HookInput) -> Result<HookReply, ProjectError> {
        let mut reply = HookReply::default();
        let read = match self.init_and_read() {
            // Report the existing state even in a read-only project.
            Err(error) if error.kind == ProjectErrorKind::PermissionDenied => None,
            made => noted(&mut reply, "the missing files of the folder .nexus/", made)?,
        };
        let (report, work) = match read {
            Some(read) => read,
            None => (InitReport::default(), self.work_summary()?),
        };
        noted(&mut reply, "the session's skill", self.take_up_skill(harness, &input.session))?;
        let mut parts = vec![self.standing(&work)];
        parts.extend(left(&report));
        parts.extend(self.index()?);
        let skills: Vec<_> =
            Skill::detectable().map(|skill| format!("- [{}]: {}", skill.name, skill.description)).collect();
        parts.push(format!(
            "Skills, for a message that needs one of them without naming its tag:\n{}",
            skills.join("\n")
        ));
        Ok(with_context(reply, &parts))
    }

    fn on_message(&self, harness: &str, input: &HookInput) -> Result<HookReply, ProjectError> {
        let message = input.message.as_deref().unwrap_or_default();
        let mut reply = HookReply::default();
        let Some((tag, text)) = Tag::of(message) else {
            // A skill that is not lasting ends with the next message.
            if let Some(active) = self.skill_of(harness, &input.session)?
                && Skill::of_tag(&active.skill).is_some_and(|skill| !skill.is_lasting)
            {
                noted(&mut reply, "the end of the skill", self.end_skill(harness))?;
            }
            return Ok(reply);
        };
        match tag {
            Tag::Skill { skill, variant } => {
                let instructions = skill.instructions(variant.as_deref());
                let begun = self.begin_skill(harness, &input.session, skill, variant);
                noted(&mut reply, "the skill that begins", begun)?;
                Ok(with_context(reply, &[instructions, self.standing(&self.work_summary()?)]))
            }
            Tag::Inline(action) => match self.inline(&action, text) {
                Ok(result) => Ok(with_context(reply, &[result.text])),
                // The text is in the message, so the model can do what the tag asked for.
                Err(error) => Ok(with_context(reply, &[format!("The tag was not executed: {error}.")])),
            },
        }
    }

    fn on_spawn(&self, harness: &str, input: &HookInput) -> Result<HookReply, ProjectError> {
        let mut reply = HookReply::default();
        if let Some(agent) = &input.agent {
            let tracked = self.track(harness, |tracker| {
                if !tracker.agents.iter().any(|known| known.id == *agent && known.ended_at.is_none()) {
                    tracker.add(TrackedAgent {
                        id: agent.clone(),
                        role: input.agent_type.clone(),
                        session: input.session.clone(),
                        started_at: Time::now(),
                        ended_at: None,
                        files_touched: BTreeSet::new(),
                    });
                }
            });
            noted(&mut reply, "the agent that begins", tracked)?;
        }
        let role = input.agent_type.as_deref().and_then(Role::find);
        let mut parts: Vec<_> = role.map(|role| role.body.trim_end().to_owned()).into_iter().collect();
        parts.extend(self.index()?);
        Ok(with_context(reply, &parts))
    }

    fn on_complete(&self, harness: &str, input: &HookInput) -> Result<HookReply, ProjectError> {
        let Some(agent) = &input.agent else { return Ok(HookReply::default()) };
        let mut reply = HookReply::default();
        let mut files = BTreeSet::new();
        let tracked = self.track(harness, |tracker| {
            if let Some(known) = tracker.agents.iter_mut().rev().find(|known| known.id == *agent) {
                known.ended_at = Some(Time::now());
                files = known.files_touched.clone();
            }
        });
        noted(&mut reply, "the agent that ends", tracked)?;
        let was_tracked = !files.is_empty();
        let line =
            AgentFilesLine { harness: harness.to_owned(), agent: agent.clone(), files, has_ended: true };
        let added = noted(&mut reply, "the files of the agent's task", self.note_agent_files(&line))?;
        if was_tracked && added.is_some() {
            // The log has the files of the earlier version now.
            let forgotten = self.track(harness, |tracker| {
                let own = tracker.agents.iter_mut().filter(|known| known.id == *agent);
                own.for_each(|known| known.files_touched.retain(|file| !line.files.contains(file)));
            });
            noted(&mut reply, "that the agent's task has the files", forgotten)?;
        }
        Ok(reply)
    }

    fn after_tool(&self, harness: &str, input: &HookInput) -> Result<HookReply, ProjectError> {
        let mut reply = HookReply::default();
        if let Some(tool) = &input.tool {
            // This also checks the name of the folder.
            self.harness_path(harness)?;
            let files = self.touched(tool, &input.working_directory);
            if let Some(agent) = input.agent.as_deref().filter(|_| !files.is_empty()) {
                let line = AgentFilesLine {
                    harness: harness.to_owned(),
                    agent: agent.to_owned(),
                    files: files.clone(),
                    has_ended: false,
                };
                let added = self.note_agent_files(&line);
                if !matches!(&added, Err(error) if error.kind == ProjectErrorKind::PermissionDenied) {
                    noted(&mut reply, "the files of the agent", added)?;
                }
            }
            let logged = self.log_tool(&ToolLogLine {
                at: Time::now(),
                harness: harness.to_owned(),
                session: input.session.clone(),
                agent: input.agent.clone(),
                tool: nexus_mcp::page::cut(&tool.name, 200),
                files_touched: files,
            });
            match logged {
                // Ignore this in a read-only project: every answer to a tool would repeat it.
                Err(error) if error.kind == ProjectErrorKind::PermissionDenied => {}
                logged => drop(noted(&mut reply, "the call in the log of tools", logged)?),
            }
        }
        Ok(reply)
    }

    fn on_compact(&self, harness: &str, input: &HookInput) -> Result<HookReply, ProjectError> {
        let mut parts = vec![self.standing(&self.work_summary()?)];
        if let Some(active) = self.skill_of(harness, &input.session)? {
            parts.extend(active.instructions());
        }
        parts.extend(self.rules()?);
        parts.extend(self.index()?);
        Ok(with_context(HookReply::default(), &parts))
    }

    fn track(&self, harness: &str, change: impl FnOnce(&mut AgentTracker)) -> Result<(), ProjectError> {
        let path = self.harness_path(harness)?.join(AgentTracker::NAME);
        self.locked(|| {
            let before = AgentTracker::read(&path)?.unwrap_or_default();
            let mut tracker = before.clone();
            change(&mut tracker);
            // Skip the write if nothing changed: it flushes to the disk, and the program waits for the hook.
            if tracker == before { Ok(()) } else { tracker.write(&path) }
        })
    }

    /// Returns the state of the work in words.
    fn standing(&self, work: &WorkSummary) -> String {
        let context = self.context_of(work, None);
        let mut lines = vec!["State of the work in this project (.nexus/):".to_owned()];
        if let Some(branch) = &context.branch {
            lines.push(format!("- branch: {branch}"));
        }
        match &context.plan {
            Some(plan) => lines.push(format!("- plan: {} ({} pending)", plan.topic, plan.pending)),
            None => lines.push("- no plan".to_owned()),
        }
        for decision in &context.decisions {
            lines.push(format!("- decided: {}: {}", decision.issue, decision.decision));
        }
        match &work.tasks {
            None => lines.push("- no tasks: before you edit files, add one with task_add".to_owned()),
            Some(tasks) => {
                lines.push(format!("- tasks: {} of {} done", tasks.completed, tasks.total));
                for task in &tasks.open {
                    lines.push(format!("  - {} ({}): {}", task.id, task.status.as_str(), task.title));
                }
            }
        }
        lines.join("\n")
    }

    /// Returns the list of the project's knowledge files.
    fn index(&self) -> Result<Option<String>, ProjectError> {
        let files = self.knowledge()?;
        if files.is_empty() {
            return Ok(None);
        }
        let lines: Vec<_> = files.iter().map(|file| format!("- {}: {}", file.path, file.title)).collect();
        Ok(Some(format!(
            "Documents of this project; read the ones that your work needs:\n{}",
            lines.join("\n")
        )))
    }

    /// Returns the text of the rules. Long ones are cut.
    fn rules(&self) -> Result<Option<String>, ProjectError> {
        let mut text = String::new();
        for known in self.knowledge()?.iter().filter(|known| known.path.starts_with(".nexus/rules/")) {
            let rule = file::read_start(&self.root().join(&known.path), file::MOST_BYTES).unwrap_or_default();
            let rule = nexus_mcp::page::cut(rule.trim_end(), MOST_RULE);
            // Leave out the remaining rules. `index` still lists their files.
            if text.len() + rule.len() > MOST_RULES {
                break;
            }
            text = format!("{text}\n\n{}\n{rule}", known.path);
        }
        Ok((!text.is_empty()).then(|| format!("Rules of this project:{text}")))
    }
}

fn with_context(reply: HookReply, parts: &[String]) -> HookReply {
    HookReply { context: (!parts.is_empty()).then(|| parts.join("\n\n")), ..reply }
}

/// Handles the result of a note. If another writer owned the lock, names the note in `reply`. Returns any other failure.
fn noted<T>(
    reply: &mut HookReply,
    what: &str,
    done: Result<T, ProjectError>,
) -> Result<Option<T>, ProjectError> {
    match done {
        Err(error) if error.kind == ProjectErrorKind::InUse => {
            reply.skipped.push(format!("not noted: {what}: {}", error.message));
            Ok(None)
        }
        done => done.map(Some),
    }
}

fn left(report: &InitReport) -> Option<String> {
    let mut left = Vec::new();
    left.extend(report.plan_left.as_ref().map(|topic| format!("a plan, {topic:?}")));
    left.extend(report.tasks_left.map(|count| format!("tasks: {count}")));
    (!left.is_empty()).then(|| {
        format!(
            "An earlier session did not close {}. Continue it, or close it with task_close; if you are \
            unsure, ask the person.",
            left.join(", and ")
        )
    })
}
