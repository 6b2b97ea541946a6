//! Checks an answer against the output schema of the request, and limits the repairs.

use crate::{
    ErrorKind, MessageId, OutputSchema,
    turn::{MessageVoided, VoidCause},
};
use serde_json::Value;

use super::{Failure, TurnLog};

/// Checks answers against the output schema. Counts the remaining repairs: a turn has at most [`OutputSchema::repairs`].
#[derive(Debug)]
pub struct AnswerCheck {
    schema: Option<OutputSchema>,
    repairs_left: u32,
}

/// Outcome of [`AnswerCheck::check`].
#[derive(Debug)]
pub enum Checked {
    /// The answer is valid. It has a value if the request has a schema or the vendor sent a value.
    Fits(Option<Value>),
    /// The answer does not fit the schema. Its message is voided, and the backend sends this instruction to the model.
    AskAgain(String),
    /// The turn has no usable answer. Either the answer does not fit and no repair is left
    /// ([`ErrorKind::OutputInvalid`]), or it is missing or blank without a schema ([`ErrorKind::Incomplete`]).
    Useless(Failure),
}

impl AnswerCheck {
    /// Creates a check against `schema`. Without a schema, any answer that is not blank fits.
    pub fn new(schema: Option<OutputSchema>) -> Self {
        Self { repairs_left: schema.as_ref().map_or(0, OutputSchema::repairs), schema }
    }

    /// Checks the answer: `output` if the vendor sends a value in addition to the text, else the text of the last message
    /// recorded in `log`. Voids the message of an answer that the model has to repair.
    pub fn check(&mut self, output: Option<Value>, log: &mut TurnLog) -> Checked {
        // `last_message` skips the messages of sub-agents, which may come last.
        let last = log.recorder.last_message();
        let Some(schema) = &self.schema else {
            return match last.is_some_and(|message| !message.text.trim().is_empty()) || output.is_some() {
                true => Checked::Fits(output),
                false => Checked::Useless(Failure::new(ErrorKind::Incomplete, "the answer is empty")),
            };
        };
        let read = match output {
            Some(value) => schema.check(&value).map(|()| value),
            None => schema.read(last.map_or("", |message| &message.text)),
        };
        let problem = match read {
            Ok(value) => return Checked::Fits(Some(value)),
            Err(problem) => problem,
        };
        if self.repairs_left == 0 {
            return Checked::Useless(Failure::new(ErrorKind::OutputInvalid, problem.to_string()));
        }
        self.repairs_left -= 1;
        let instruction = schema.repair_instruction(&problem);
        // Void the rejected answer, because the repaired one replaces it in the record.
        let voided: Option<MessageId> = last.map(|message| message.id.clone());
        if let Some(message) = voided {
            log.event(MessageVoided::new(message, VoidCause::Repair));
        }
        Checked::AskAgain(instruction)
    }
}
