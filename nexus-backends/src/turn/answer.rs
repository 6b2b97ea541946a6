//! The shape of an answer: checked on our side, and asked for again a bounded number of times.

use nexus_core::{
    ErrorKind, MessageId, OutputSchema,
    turn::{MessageVoided, VoidCause},
};
use serde_json::Value;

use super::{Failure, TurnLog};

/// Holds an answer against the schema, and counts how often the model may be asked again.
#[derive(Debug)]
pub(crate) struct AnswerCheck {
    schema: Option<OutputSchema>,
    repairs_left: u32,
}

/// What the check of an answer came to.
#[derive(Debug)]
pub(crate) enum Checked {
    /// It can be used; the value is there if a schema was.
    Fits(Option<Value>),
    /// It cannot: its message is taken back, and the model is to be told this.
    AskAgain(String),
    /// It cannot, and the model was asked often enough.
    Useless(Failure),
}

impl AnswerCheck {
    /// Checks answers against `schema`; without one, any answer fits.
    pub(crate) fn new(schema: Option<OutputSchema>) -> Self {
        Self { repairs_left: schema.as_ref().map_or(0, OutputSchema::repairs), schema }
    }

    /// Checks the answer: `output` if the vendor names a value apart, else the last message.
    pub(crate) fn check(&mut self, output: Option<Value>, log: &mut TurnLog) -> Checked {
        let Some(schema) = &self.schema else { return Checked::Fits(output) };
        let last = log.recorder.last_message();
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
        let voided: Option<MessageId> = last.map(|message| message.id.clone());
        if let Some(message) = voided {
            log.event(MessageVoided::new(message, VoidCause::Repair));
        }
        Checked::AskAgain(instruction)
    }
}
