//! What a vendor's imitation supplies: how its harness is spoken to, and how it speaks.

use std::time::Duration;

use super::{
    servers::{Answer, ServerCall},
    stage::Stage,
};
use crate::{
    model_call::ModelCall,
    sim::{Fault, Finish, ToolCall, Usage},
};

/// A vendor's harness, imitated: it reads its arguments and input as the real one does, and says what happens in
/// the vendor's words. What happens is not its affair: the loop of model calls and tools is the same for all.
pub trait Imitation {
    /// Reads arguments, environment, files and standard input until it is known what the turn asks.
    ///
    /// # Errors
    ///
    /// How the program ends, if there is no turn: after what the real one would have written.
    fn open(&mut self, stage: &mut Stage) -> Result<Ask, Exit>;

    /// Why the harness does not let `call` run, in the words that the model reads; `None` if it does.
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

    /// Whether nothing else of the same message runs beside `call`.
    fn runs_alone(&self, call: &ToolCall) -> bool {
        let _ = call;
        false
    }

    /// What the model is told of what `call` came to.
    fn told(&self, call: &ToolCall, answer: &Answer) -> String {
        let _ = call;
        answer.text().to_owned()
    }

    /// How many pictures of `answer` the model is shown.
    fn pictures_shown(&self, answer: &Answer) -> usize {
        answer.images()
    }

    /// What was said to the agent while its calls ran, for the model to read after their answers. Says in the vendor's words that it
    /// was taken.
    fn input(&mut self, stage: &mut Stage) -> Vec<String> {
        let _ = stage;
        Vec::new()
    }

    /// What was said to the agent while its model wrote an answer, if the harness asks the model again for it in the same turn.
    fn late_input(&mut self, stage: &mut Stage) -> Vec<String> {
        let _ = stage;
        Vec::new()
    }

    /// Whether the harness ends the turn by a limit of its own, asked after the tools of a message have run.
    fn is_at_its_limit(&self) -> bool {
        false
    }

    /// Says in the vendor's words that something happened.
    fn show(&mut self, moment: &Moment<'_>, stage: &mut Stage);

    /// Something went wrong with the model, for the `tries`-th time in a row, from 1. Says it in the vendor's
    /// words, and what the harness does about it.
    fn trouble(&mut self, trouble: &Trouble<'_>, tries: u32, stage: &mut Stage) -> AfterFault;

    /// Something was heard in mid-turn. By default signals kill, and input is ignored.
    fn heard(&mut self, heard: &Heard, stage: &mut Stage) -> Reaction {
        match heard {
            Heard::Signal(number) if !stage.ignores_signals() => Reaction::Die(*number),
            _ => Reaction::GoOn,
        }
    }

    /// The turn is over: writes the terminal record, and says how the program goes on.
    fn close(&mut self, ending: Ending, stage: &mut Stage) -> Next;
}

/// What a turn asks of the model.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Ask {
    /// The first request, with the history if a conversation is taken up: what a test sees as having reached
    /// the model.
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
    /// The model is asked, for the `tries`-th time, from 1.
    CallBegins {
        /// Which try it is.
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
        /// What it used, if that is reported.
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
        /// What it answered, or why it failed.
        answer: &'a Answer,
        /// Whether the harness did not let it run.
        is_denied: bool,
    },
}

/// What went wrong with the model.
#[derive(Debug)]
#[non_exhaustive]
pub enum Trouble<'a> {
    /// Nobody takes the connection.
    Refused,
    /// A fault of the script.
    Fault(&'a Fault),
    /// The message ended for a reason that is no good end.
    BadEnd(Finish),
    /// The message had neither text nor calls.
    Empty,
}

/// What the harness does about trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterFault {
    /// Asks again, after this time: the next reply of the script.
    AskAgain(Duration),
    /// Gives up.
    GiveUp,
    /// Takes what came as the answer.
    Accept,
}

/// Something heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// A line of standard input, without its end.
    Line(String),
    /// The end of standard input.
    EndOfInput,
    /// A signal.
    Signal(i32),
}

/// What the harness does about what it heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaction {
    /// Nothing.
    GoOn,
    /// Ends the turn in good order.
    Interrupt {
        /// Whether a tool that runs is ended with its children; else it is left to itself.
        ends_tools: bool,
    },
    /// Dies of this signal at once. Tools that run live on.
    Die(i32),
}

/// How a turn was over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// With an answer.
    Answered,
    /// The model was given up.
    Failed,
    /// Somebody interrupted.
    Interrupted,
}

/// How the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// The exit code.
    pub code: i32,
}

impl Exit {
    /// With `code`.
    pub fn code(code: i32) -> Self {
        Self { code }
    }
}

/// How the program goes on after a turn.
#[derive(Clone, Debug)]
pub enum Next {
    /// It ends.
    Exit(Exit),
    /// It was asked again.
    Turn(Box<Ask>),
}
