//! Interface of an imitation: the input and output formats of a vendor's harness.

use std::time::Duration;

use super::{
    servers::{Answer, ServerCall},
    stage::Stage,
};
use crate::{
    model_call::ModelCall,
    sim::{Fault, Finish, ToolCall, Usage},
};

/// A vendor's harness, imitated: it reads its arguments and input as the real one does, and reports events in
/// the vendor's format. It does not decide the events: the loop of model calls and tools is the same for all.
pub trait Imitation {
    /// Reads arguments, environment, files and standard input until the request of the turn is complete.
    ///
    /// # Errors
    ///
    /// The exit of the program, if no turn starts. The imitation has then written the output of the real program.
    fn open(&mut self, stage: &mut Stage) -> Result<Ask, Exit>;

    /// Returns the reason why the harness denies `call`, as the model reads it; `None` if the call is permitted.
    fn objection(&self, call: &ToolCall) -> Option<String>;

    /// Answers a call of a tool that is neither a shell, nor a file, nor a server's.
    fn answer(&mut self, call: &ToolCall, stage: &mut Stage) -> Result<String, String> {
        let _ = stage;
        Err(format!("there is no such tool: {call:?}"))
    }

    /// Begins a call of an MCP server's tool; `None` if `call` is of another kind.
    fn call_server(&mut self, call: &ToolCall) -> Option<ServerCall> {
        let _ = call;
        None
    }

    /// Returns true if `call` must run alone among the calls of its message.
    fn runs_alone(&self, call: &ToolCall) -> bool {
        let _ = call;
        false
    }

    /// Returns the text of `answer` for the model.
    fn told(&self, call: &ToolCall, answer: &Answer) -> String {
        let _ = call;
        answer.text().to_owned()
    }

    /// Number of pictures of `answer` that the model gets.
    fn pictures_shown(&self, answer: &Answer) -> usize {
        answer.images()
    }

    /// Returns the input that arrived while the calls ran. The model reads it after their results. Also writes the vendor's report
    /// that the input was taken.
    fn input(&mut self, stage: &mut Stage) -> Vec<String> {
        let _ = stage;
        Vec::new()
    }

    /// Returns the input that arrived while the model wrote an answer, if the harness calls the model again for it in the same turn.
    fn late_input(&mut self, stage: &mut Stage) -> Vec<String> {
        let _ = stage;
        Vec::new()
    }

    /// Returns true if the harness ends the turn by its own limit. Called after the tools of a message have run.
    fn is_at_its_limit(&self) -> bool {
        false
    }

    /// Writes the vendor's report of an event.
    fn show(&mut self, moment: &Moment<'_>, stage: &mut Stage);

    /// Reacts to a failure of the model, the `tries`-th in a row, from 1. Writes the vendor's report, and returns the
    /// harness's reaction.
    fn trouble(&mut self, trouble: &Trouble<'_>, tries: u32, stage: &mut Stage) -> AfterFault;

    /// Reacts to input or a signal during the turn. By default a signal kills the program, and input is ignored.
    fn heard(&mut self, heard: &Heard, stage: &mut Stage) -> Reaction {
        match heard {
            Heard::Signal(number) if !stage.ignores_signals() => Reaction::Die(*number),
            _ => Reaction::GoOn,
        }
    }

    /// Ends the turn: writes the terminal record, and returns the continuation of the program.
    fn close(&mut self, ending: Ending, stage: &mut Stage) -> Next;
}

/// Request of a turn to the model.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Ask {
    /// The first request, with the history of a resumed conversation. Tests read it as the request that reached the
    /// model.
    pub call: ModelCall,
    /// The vendor's name for the conversation, for scripts that count by conversation.
    pub conversation: Option<String>,
}

impl Ask {
    /// Asks the model this.
    pub fn new(call: ModelCall) -> Self {
        Self { call, conversation: None }
    }

    /// Names the conversation.
    #[must_use]
    pub fn in_conversation(mut self, name: impl Into<String>) -> Self {
        self.conversation = Some(name.into());
        self
    }
}

/// Something that happens in a turn.
#[derive(Debug)]
#[non_exhaustive]
pub enum Moment<'a> {
    /// A model call starts, for the `tries`-th time, from 1.
    CallBegins {
        /// Number of the try.
        tries: u32,
    },
    /// A piece of text.
    Text(&'a str),
    /// A piece of thinking.
    Thinking(&'a str),
    /// A tool call is complete.
    ToolAsked {
        /// Its id.
        id: &'a str,
        /// The call.
        call: &'a ToolCall,
    },
    /// The model has finished its message.
    MessageEnds {
        /// The whole text.
        text: &'a str,
        /// The whole thinking.
        thinking: &'a str,
        /// The calls in it, with their ids.
        calls: &'a [(String, ToolCall)],
        /// Why it stopped.
        finish: Finish,
        /// Usage of the message, if it is reported.
        usage: Option<&'a Usage>,
    },
    /// A tool begins to run.
    ToolBegins {
        /// The id of the call.
        id: &'a str,
        /// The call.
        call: &'a ToolCall,
    },
    /// A tool has answered.
    ToolEnds {
        /// The id of the call.
        id: &'a str,
        /// The call.
        call: &'a ToolCall,
        /// Result of the call, or the reason why it failed.
        answer: &'a Answer,
        /// True if the harness denied the call.
        is_denied: bool,
    },
}

/// Failure of the model.
#[derive(Debug)]
#[non_exhaustive]
pub enum Trouble<'a> {
    /// The connection is refused.
    Refused,
    /// A fault of the script.
    Fault(&'a Fault),
    /// The message ended for a reason that makes it unusable.
    BadEnd(Finish),
    /// The message had neither text nor calls.
    Empty,
}

/// Reaction of the harness to a failure of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterFault {
    /// Asks again, after this time: the next reply of the script.
    AskAgain(Duration),
    /// Gives up.
    GiveUp,
    /// Accepts the received part as the answer.
    Accept,
}

/// Input or a signal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// A line of standard input, without its end.
    Line(String),
    /// The end of standard input.
    EndOfInput,
    /// A signal.
    Signal(i32),
}

/// Reaction of the harness to input or a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaction {
    /// Continues.
    GoOn,
    /// Ends the turn in good order.
    Interrupt {
        /// True if a running tool is ended with its children; false if it keeps running.
        ends_tools: bool,
    },
    /// Ends at once by this signal. Running tools continue.
    Die(i32),
}

/// End of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The turn ended with an answer.
    Answered,
    /// The model was given up.
    Failed,
    /// The turn was interrupted.
    Interrupted,
}

/// Exit of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// The exit code.
    pub code: i32,
}

impl Exit {
    /// Creates an exit with `code`.
    pub fn code(code: i32) -> Self {
        Self { code }
    }
}

/// Continuation of the program after a turn.
#[derive(Clone, Debug)]
pub enum Next {
    /// The program ends.
    Exit(Exit),
    /// It runs another turn.
    Turn(Box<Ask>),
}
