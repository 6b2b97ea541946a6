//! Main loop of a fake, from its first argument to its exit code.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use serde_json::json;

use super::{
    imitation::{AfterFault, Ending, Imitation, Moment, Next, Reaction, Trouble},
    install::script_path,
    misbehaviour::{self, complain},
    notes::{Given, Notes},
    replay::End,
    script::{Act, FakeScript},
    servers::Answer,
    stage::Stage,
    tool::Tool,
};
use crate::{
    model_call::{Line, ModelCall},
    sim::{Count, Fault, Finish, Odd, Part, Reply, Scenario, ToolCall, long_text},
};

/// Exit code of a fake that cannot play: `EX_SOFTWARE` of sysexits(3).
const CANNOT_PLAY: i32 = 70;

/// Pause between two checks while a fake waits for a tool.
const LOOK: Duration = Duration::from_millis(10);

/// Plays the fake that `link` leads to. Returns the exit code.
pub(super) fn perform(version_line: &str, imitation: Option<Box<dyn Imitation>>, link: &Path) -> i32 {
    let script = match FakeScript::load(&script_path(link)) {
        Ok(script) => script,
        Err(error) => {
            complain(&format!("no script beside {}: {error}", link.display()));
            return CANNOT_PLAY;
        }
    };
    let given = Given::of_this_process();
    // Answer before anything is noted: probes for the version are not calls that tests count.
    if given.arguments.get(1).is_some_and(|word| matches!(word.as_str(), "--version" | "-V" | "-v")) {
        println!("{}", script.version_line.as_deref().unwrap_or(version_line));
        return 0;
    }
    let notes = Notes::beside(link);
    // Note the call before any misbehaviour, so that a test also sees a fake that dies at once.
    let stdin_notes = match notes.invocation(&given) {
        Ok(path) => Some(path),
        Err(error) => {
            complain(&format!("nothing can be noted: {error}"));
            return CANNOT_PLAY;
        }
    };
    let mut stage = Stage::new(given, script.misbehaviour.clone(), stdin_notes);
    misbehaviour::begin(&script.misbehaviour, &mut stage);
    let end = match &script.act {
        Act::Replay(replay) => replay.play(&mut stage),
        Act::Imitate { scenario, line } => match imitation {
            Some(imitation) => {
                let play = Play { imitation, scenario, line: *line, notes, stage: &mut stage, names: 0 };
                play.run()
            }
            None => {
                complain(&format!("no imitation of {} is part of this build", link.display()));
                End::Code(CANNOT_PLAY)
            }
        },
    };
    misbehaviour::end(stage.misbehaviour());
    match end {
        // A missing last line with a good exit code is the case that a backend must not take for success.
        End::Code(_) if stage.misbehaviour().contains(&misbehaviour::Misbehaviour::NoLastLine) => 0,
        End::Code(code) => code,
        End::Signal(number) => stage.die_by(number),
    }
}

/// A turn of an imitation before a scripted model.
struct Play<'a> {
    imitation: Box<dyn Imitation>,
    scenario: &'a Scenario,
    line: Line,
    notes: Notes,
    stage: &'a mut Stage,
    names: u32,
}

/// A tool that runs.
struct Running<'a> {
    id: &'a str,
    call: &'a ToolCall,
    /// Slot for the result for the model.
    told: &'a mut Told,
    tool: Tool,
    is_denied: bool,
    is_alone: bool,
}

/// Result of a call for the model.
#[derive(Clone, Default)]
struct Told {
    text: String,
    images: usize,
}

/// Reason why a turn stops.
enum Stop {
    Ended(Ending),
    Died(i32),
}

/// Result of one reply.
enum Said {
    Answer(String),
    Calls(Vec<(String, ToolCall)>),
    AskAgain,
}

impl Play<'_> {
    fn run(mut self) -> End {
        // A hook of the program may remove the credential's file, so it is read first.
        let credential = self.stage.given().credential();
        let mut ask = match self.imitation.open(self.stage) {
            Ok(ask) => ask,
            Err(exit) => return End::Code(exit.code),
        };
        loop {
            ask.call.credential.clone_from(&credential);
            let ending = match self.turn(&mut ask.call, ask.conversation.as_deref()) {
                Stop::Died(signal) => return End::Signal(signal),
                Stop::Ended(ending) => ending,
            };
            match self.imitation.close(ending, self.stage) {
                Next::Exit(exit) => return End::Code(exit.code),
                Next::Turn(next) => ask = *next,
            }
        }
    }

    fn turn(&mut self, call: &mut ModelCall, conversation: Option<&str>) -> Stop {
        let mut tries = 1;
        loop {
            match self.ask(call, conversation, tries) {
                Err(stop) => return stop,
                // Only consecutive failures count. A complete message starts the count again.
                Ok(Said::AskAgain) => tries += 1,
                Ok(Said::Answer(text)) => {
                    call.assistant_texts.push(text);
                    let late = self.imitation.late_input(self.stage);
                    if !late.is_empty() {
                        call.user_texts.extend(late);
                        tries = 1;
                        continue;
                    }
                    return Stop::Ended(Ending::Answered);
                }
                Ok(Said::Calls(calls)) => {
                    tries = 1;
                    match self.run_tools(&calls) {
                        Ok(told) => {
                            call.images += told.iter().map(|told| told.images).sum::<usize>();
                            call.tool_results.extend(told.into_iter().map(|told| told.text));
                        }
                        Err(stop) => return stop,
                    }
                    call.user_texts.extend(self.imitation.input(self.stage));
                    if self.imitation.is_at_its_limit() {
                        return Stop::Ended(Ending::Failed);
                    }
                }
            }
        }
    }

    fn ask(&mut self, call: &ModelCall, conversation: Option<&str>, tries: u32) -> Result<Said, Stop> {
        self.imitation.show(&Moment::CallBegins { tries }, self.stage);
        if self.line == Line::Refused {
            return self.trouble(&Trouble::Refused, tries, None);
        }
        if self.scenario.refuses(call.credential.as_deref()) {
            return self.deliver(&Reply::status(401), tries);
        }
        let rule = self.scenario.rule_for(&call.user_texts);
        let key = match (self.scenario.count, conversation) {
            (Count::Conversation, Some(conversation)) => format!("{rule:?}-{conversation}"),
            _ => format!("{rule:?}"),
        };
        // Files count the calls, because each turn of a test may be another process.
        let place = self.notes.model_call(call).and_then(|()| self.notes.next_place(&key));
        let reply = match place {
            Ok(place) => self.scenario.reply(rule, place),
            Err(error) => {
                complain(&format!("nothing can be noted: {error}"));
                return Err(Stop::Ended(Ending::Failed));
            }
        };
        self.deliver(&reply, tries)
    }

    /// Shows a reply as it arrives.
    fn deliver(&mut self, reply: &Reply, tries: u32) -> Result<Said, Stop> {
        self.pause(Duration::from_millis(reply.pace.delay_ms))?;
        match &reply.fault {
            Some(Fault::StallBeforeHeaders) => return self.stall(),
            Some(fault) if fault.replaces_the_reply() => {
                return self.trouble(&Trouble::Fault(fault), tries, None);
            }
            _ => {}
        }
        let (mut text, mut thinking, mut calls) = (String::new(), String::new(), Vec::new());
        for part in &reply.parts {
            match part {
                Part::Text { text: words } => {
                    self.say(words, reply, &mut text, |piece| Moment::Text(piece))?;
                }
                Part::Long { bytes } => {
                    self.say(&long_text(*bytes), reply, &mut text, |piece| Moment::Text(piece))?;
                }
                Part::Thinking { text: words } | Part::RawThinking { text: words } => {
                    self.say(words, reply, &mut thinking, |piece| Moment::Thinking(piece))?;
                }
                Part::Call(call) => {
                    self.names += 1;
                    let fresh = || format!("call_{}_{}", std::process::id(), self.names);
                    let id = reply.call_id.clone().unwrap_or_else(fresh);
                    self.imitation.show(&Moment::ToolAsked { id: &id, call }, self.stage);
                    calls.push((id, call.clone()));
                }
                // A line that no vendor's protocol defines.
                Part::Odd { odd: Odd::Event | Odd::Item } => self.stage.line(&json!({
                    "type": "novelty", "method": "item/novelty", "params": { "novel": true },
                })),
                Part::Odd { .. } => {}
            }
        }
        match &reply.fault {
            Some(Fault::Stall { .. }) => return self.stall(),
            Some(fault) if !fault.spares_the_reply() => {
                return self.trouble(&Trouble::Fault(fault), tries, Some(text));
            }
            _ => {}
        }
        let ends = Moment::MessageEnds {
            text: &text,
            thinking: &thinking,
            calls: &calls,
            finish: reply.finish,
            usage: reply.usage.as_ref(),
        };
        self.imitation.show(&ends, self.stage);
        if !calls.is_empty() {
            return Ok(Said::Calls(calls));
        }
        match reply.finish {
            Finish::End | Finish::Pause if text.is_empty() => {
                self.trouble(&Trouble::Empty, tries, Some(text))
            }
            Finish::End | Finish::Pause => Ok(Said::Answer(text)),
            finish => self.trouble(&Trouble::BadEnd(finish), tries, Some(text)),
        }
    }

    fn trouble(&mut self, trouble: &Trouble<'_>, tries: u32, text: Option<String>) -> Result<Said, Stop> {
        match self.imitation.trouble(trouble, tries, self.stage) {
            AfterFault::GiveUp => Err(Stop::Ended(Ending::Failed)),
            AfterFault::Accept => Ok(Said::Answer(text.unwrap_or_default())),
            AfterFault::AskAgain(after) => {
                self.pause(after)?;
                Ok(Said::AskAgain)
            }
        }
    }

    fn say(
        &mut self,
        words: &str,
        reply: &Reply,
        whole: &mut String,
        moment: fn(&str) -> Moment<'_>,
    ) -> Result<(), Stop> {
        let mut rest = words;
        while !rest.is_empty() {
            let end = rest.char_indices().nth(reply.pace.piece_chars.max(1)).map_or(rest.len(), |(at, _)| at);
            let (piece, later) = rest.split_at(end);
            self.imitation.show(&moment(piece), self.stage);
            whole.push_str(piece);
            rest = later;
            self.pause(Duration::from_millis(reply.pace.gap_ms))?;
        }
        Ok(())
    }

    /// Runs the tools of one message: concurrently, except for calls that must run alone. Returns their results in the
    /// order of the calls.
    fn run_tools(&mut self, calls: &[(String, ToolCall)]) -> Result<Vec<Told>, Stop> {
        let mut told = vec![Told::default(); calls.len()];
        let mut waiting = calls.iter().zip(&mut told).peekable();
        let mut running: Vec<Running<'_>> = Vec::new();
        loop {
            while let Some(((_, call), _)) = waiting.peek() {
                let is_alone = self.imitation.runs_alone(call);
                // A call that runs alone waits for the others, and they wait for it.
                if !running.is_empty() && (is_alone || running.iter().any(|other| other.is_alone)) {
                    break;
                }
                let Some(((id, call), told)) = waiting.next() else { break };
                let (tool, is_denied) = self.begin_tool(id, call);
                running.push(Running { id, call, told, tool, is_denied, is_alone });
            }
            let before = running.len();
            let mut still = Vec::new();
            for mut one in running {
                match one.tool.answer() {
                    Some(answer) => *one.told = self.end_tool(&one, &answer),
                    None => still.push(one),
                }
            }
            running = still;
            if running.is_empty() && waiting.peek().is_none() {
                break;
            }
            // A finished call may let the next one begin, so look again without a pause.
            if running.len() < before {
                continue;
            }
            if let Err((stop, ends_tools)) = self.wait(LOOK) {
                if ends_tools {
                    running.iter_mut().for_each(|one| one.tool.end());
                }
                return Err(stop);
            }
        }
        drop(running);
        Ok(told)
    }

    /// Begins a call. The flag is true if the call was denied.
    fn begin_tool(&mut self, id: &str, call: &ToolCall) -> (Tool, bool) {
        if let Some(objection) = self.imitation.objection(call) {
            return (Tool::done(Err(objection)), true);
        }
        self.imitation.show(&Moment::ToolBegins { id, call }, self.stage);
        let tool = Tool::start(call).or_else(|| self.imitation.call_server(call).map(Tool::Asked));
        let tool = tool.unwrap_or_else(|| Tool::done(self.imitation.answer(call, self.stage)));
        (tool, false)
    }

    /// Shows the result of a call. Returns the result for the model.
    fn end_tool(&mut self, one: &Running<'_>, answer: &Answer) -> Told {
        let Running { id, call, is_denied, .. } = *one;
        self.imitation.show(&Moment::ToolEnds { id, call, answer, is_denied }, self.stage);
        Told { text: self.imitation.told(call, answer), images: self.imitation.pictures_shown(answer) }
    }

    fn stall(&mut self) -> Result<Said, Stop> {
        loop {
            // Each pause also hears input and signals, so a stalled turn can still be stopped.
            self.pause(Duration::from_secs(1))?;
        }
    }

    fn pause(&mut self, duration: Duration) -> Result<(), Stop> {
        self.wait(duration).map_err(|(stop, _)| stop)
    }

    /// Lets time pass, and reacts to input and signals. The flag in the error is true if running tools must be ended.
    fn wait(&mut self, duration: Duration) -> Result<(), (Stop, bool)> {
        let until = Instant::now() + duration;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if let Some(heard) = self.stage.hear(left) {
                match self.imitation.heard(&heard, self.stage) {
                    Reaction::GoOn => {}
                    Reaction::Die(number) => return Err((Stop::Died(number), false)),
                    Reaction::Interrupt { ends_tools } => {
                        return Err((Stop::Ended(Ending::Interrupted), ends_tools));
                    }
                }
            }
            if Instant::now() >= until {
                return Ok(());
            }
        }
    }
}
