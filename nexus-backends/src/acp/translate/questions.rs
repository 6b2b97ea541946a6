//! Questions of an agent to the person.

use std::mem;

use nexus_core::{
    QuestionReply, QuestionSubject, TurnEvent,
    turn::{QuestionCompleted, Unrecognized},
};
use serde_json::{Value, json};

use super::{AcpTranslator, write};
use crate::acp::elicitation::{self, Elicitation, ElicitationFault};
use crate::cli::Step;

/// Largest number of open questions. Source: our own bound.
const MAX_OPEN: usize = 16;
/// Code of the error for a cancelled request. Source: the protocol, `RequestCancelled`.
const CANCELLED: i64 = -32800;
/// Largest number of left-out fields in a warning. Source: our own bound.
const MAX_LEFT_OUT: usize = 10;

/// Question to the person.
#[derive(Debug)]
pub(super) struct OpenElicitation {
    id: Value,
    /// The agent's id of the page. An answer to a page has no values.
    page: Option<String>,
}

impl AcpTranslator {
    /// Passes a question to the host.
    pub(super) fn elicit(&mut self, id: Value, params: Value, step: &mut Step) {
        // Some agents wait for the answer before they stop.
        if self.is_stopping {
            return reply(&id, &QuestionReply::Cancelled, false, step);
        }
        if !self.script.takes_questions {
            return decline(&id, "the host answers no questions of an agent", step);
        }
        // A question occupies memory until the person answers, and the agent can send any number of them.
        if self.elicitations.len() >= MAX_OPEN {
            return decline(&id, &format!("{MAX_OPEN} questions are open"), step);
        }
        let read = match Elicitation::read(&params) {
            Ok(read) if read.session.is_none() || read.session == self.session => read,
            Err(ElicitationFault::Unknown(reason)) => return decline(&id, &reason, step),
            _ => {
                let error = json!({ "code": -32602, "message": "the question cannot be read" });
                write(step, &json!({ "jsonrpc": "2.0", "id": id, "error": error }));
                return step
                    .event(Unrecognized::new(Some("elicitation/create".to_owned()), params).harmless());
            }
        };
        if !read.left_out.is_empty() {
            let more = if read.left_out.len() > MAX_LEFT_OUT { ", …" } else { "" };
            let names = read.left_out.iter().take(MAX_LEFT_OUT).map(String::as_str).collect::<Vec<_>>();
            let names = format!("{}{more}", names.join(", "));
            step.event(TurnEvent::warning(format!(
                "the agent's question has fields of unknown types: {names}"
            )));
        }
        self.end_message(step);
        let question = self.next_question;
        self.next_question += 1;
        let page = match &read.question.subject {
            QuestionSubject::Page { id, .. } => Some(id.clone()),
            _ => None,
        };
        self.elicitations.insert(question, OpenElicitation { id, page });
        step.question(question, read.question);
    }

    /// Passes the host's answer to the agent.
    pub(super) fn question_answered(&mut self, question: u64, answer: &QuestionReply, step: &mut Step) {
        let Some(OpenElicitation { id, page }) = self.elicitations.remove(&question) else { return };
        if let QuestionReply::Declined { reason } = answer {
            warn_of_declined(reason, step);
        }
        reply(&id, answer, page.is_none(), step);
        if let (QuestionReply::Answered { .. }, Some(page)) = (answer, page) {
            self.pages.insert(page);
        }
    }

    /// Answers the open questions, because the turn ends.
    pub(super) fn cancel_questions(&mut self, step: &mut Step) {
        for (number, open) in mem::take(&mut self.elicitations) {
            step.withdrawn.push(number);
            reply(&open.id, &QuestionReply::Cancelled, false, step);
        }
    }

    /// Withdraws a question that the agent cancels. Source: the protocol, `$/cancel_request`.
    pub(super) fn question_cancelled(&mut self, id: Option<&Value>, step: &mut Step) {
        let open = self.elicitations.iter().find(|(_, open)| Some(&open.id) == id);
        let Some(number) = open.map(|(number, _)| *number) else { return };
        let Some(open) = self.elicitations.remove(&number) else { return };
        step.withdrawn.push(number);
        let error = json!({ "code": CANCELLED, "message": "the agent cancelled the question" });
        write(step, &json!({ "jsonrpc": "2.0", "id": open.id, "error": error }));
    }

    /// Reports that the person has finished on a page to which the host agreed. A client ignores an id that it does not
    /// know. Source: the protocol, elicitation.
    pub(super) fn page_completed(&mut self, id: &str, step: &mut Step) {
        if self.pages.remove(id) {
            step.event(QuestionCompleted::new(id));
        }
    }
}

/// Answers a question of the agent.
fn reply(id: &Value, answer: &QuestionReply, has_values: bool, step: &mut Step) {
    let result = elicitation::answer(answer, has_values);
    write(step, &json!({ "jsonrpc": "2.0", "id": id, "result": result }));
}

/// Declines a question that no person sees.
fn decline(id: &Value, reason: &str, step: &mut Step) {
    warn_of_declined(reason, step);
    reply(id, &QuestionReply::declined(reason), false, step);
}

fn warn_of_declined(reason: &str, step: &mut Step) {
    step.event(TurnEvent::warning(format!("a question of the agent was declined: {reason}")));
}
