//! `nexus chat`: a conversation at the terminal, or over a pipe.

mod completer;
mod editor;
mod history;
mod input;
mod mention;
mod session;
mod slash;

use std::{
    collections::VecDeque,
    io::{self, IsTerminal as _},
    process::ExitCode,
};

use nexus::{BuildContext, ToolAccess};
use nexus_trees::LaterChanges;

use self::{
    completer::ChatCompleter,
    history::ChatHistory,
    input::{ChatInput, InputLine, watch_terminal},
    session::{Chat, ChatTurnEnd, chat_types, conversations},
    slash::ChatLine,
};
use crate::{
    EXIT_FAILED,
    args::{ChatArgs, ConfigArgs},
    command_error::CommandError,
    config, conversation,
    interrupt::{self, Interrupts},
    line_reader::QuietTerminal,
    output::{self, AnswerWriter, complain, complain_line, printable, printable_lines},
    undo::{self, UndoStep},
};

/// Maximum number of conversations that `/resume` lists.
const MOST_LISTED: usize = 20;

/// Returns true if a command line without a command starts a chat: a person is at a terminal.
pub(crate) fn is_default() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal() && io::stderr().is_terminal()
}

pub(crate) async fn chat(
    out: AnswerWriter,
    config: &ConfigArgs,
    args: &ChatArgs,
) -> Result<ExitCode, CommandError> {
    let interrupts = Interrupts::listen().map_err(|error| CommandError::deaf(&error))?;
    let mut chat = Chat::new(out, config::load(config)?, args)?;
    let ended = talk(&mut chat, interrupts).await;
    // The servers are child processes, so stop them after an error as well.
    chat.stop_servers().await;
    ended
}

/// Reads lines and runs them, until the chat ends.
async fn talk(chat: &mut Chat, mut interrupts: Interrupts) -> Result<ExitCode, CommandError> {
    let history = ChatHistory::in_home(&BuildContext::from_process().home);
    let earlier = if io::stdin().is_terminal() { history.lines() } else { Vec::new() };
    let mut input = ChatInput::open(earlier)
        .map_err(|error| CommandError::failed(format_args!("standard input: {error}")))?;
    let has_person = input.is_terminal();
    // A key that arrives while nothing reads would otherwise be echoed, and Ctrl-D would be lost.
    let _quiet = has_person.then(QuietTerminal::start).and_then(Result::ok);
    if has_person {
        greet(chat);
    }
    let terminal_end = watch_terminal();
    let mut state = PromptState::default();
    loop {
        let next = tokio::select! {
            // A line that is there already is not lost to a signal.
            biased;
            line = next_line(&mut state, &mut input, chat) => Some(line?),
            signal = interrupts.next() => {
                if signal.is_err() || !interrupt::was_ctrl_c() || !has_person {
                    return Err(CommandError::by_signal(signal));
                }
                Some(InputLine::Interrupted)
            }
            () = terminal_end.notified() => None,
            () = output::broken() => None,
        };
        let line = match next {
            Some(InputLine::Line(line)) => line,
            Some(InputLine::Interrupted) if !state.is_interrupted => {
                state.is_interrupted = true;
                complain_line("~ press Ctrl-C again, or Ctrl-D, to leave");
                continue;
            }
            Some(InputLine::Interrupted | InputLine::End) | None => break,
        };
        state.is_interrupted = false;
        if has_person
            && !state.is_history_lost
            && let Err(error) = history.add(&line)
        {
            state.is_history_lost = true;
            complain(format_args!("the history of this chat is not stored: {error}"));
        }
        let read = match ChatLine::read(&line) {
            Ok(read) => read,
            Err(reason) => {
                complain_line(format_args!("x {}", printable(&reason)));
                state.has_failed = true;
                continue;
            }
        };
        if read == ChatLine::Quit {
            break;
        }
        let done = match read {
            ChatLine::Prompt(prompt) => chat.turn(&prompt, &mut interrupts, has_person).await.map(Some),
            command => chat.command(command).await.map(|()| None),
        };
        match done {
            Ok(None) => {}
            Ok(Some(end)) if end.is_leaving => return Err(CommandError::cancelled()),
            Ok(Some(end)) => state.after(end),
            // The chat goes on: the next line can be right.
            Err(error) => {
                complain_line(format_args!("x {}", printable_lines(&error.to_string())));
                state.has_failed = true;
            }
        }
        if state.is_end {
            break;
        }
    }
    // A person has seen each failure. A script learns of them by the code.
    Ok(if state.has_failed && !has_person { ExitCode::from(EXIT_FAILED) } else { ExitCode::SUCCESS })
}

/// State between two lines.
#[derive(Debug, Default)]
struct PromptState {
    /// Lines that were typed during a turn and wait for their own.
    waiting: VecDeque<String>,
    /// Text that the next line begins with.
    begun: String,
    /// True after Ctrl-C at the prompt.
    is_interrupted: bool,
    has_failed: bool,
    is_history_lost: bool,
    is_end: bool,
}

impl PromptState {
    /// Takes the input that a turn left.
    fn after(&mut self, end: ChatTurnEnd) {
        let ChatTurnEnd { is_success, is_cancelled, left, .. } = end;
        self.has_failed |= !is_success;
        self.is_end |= left.is_end;
        self.begun = left.unfinished;
        match is_cancelled {
            // The person wanted to stop, so nothing starts by itself.
            true if !left.lines.is_empty() => {
                let lines: Vec<String> = left.lines.into_iter().collect();
                self.begun = format!("{}{}", lines.join("\n"), self.begun);
            }
            true => {}
            false => self.waiting.extend(left.lines),
        }
        self.waiting.extend(left.later);
    }
}

/// Returns the next line: a waiting one, else a line from the input.
async fn next_line(
    state: &mut PromptState,
    input: &mut ChatInput,
    chat: &Chat,
) -> Result<InputLine, CommandError> {
    if let Some(line) = state.waiting.pop_front() {
        complain_line(format_args!("{}> {}", chat.kind, printable(&line)));
        return Ok(InputLine::Line(line));
    }
    let completer = || {
        let names = conversation::store().list().map(|list| list.conversations).unwrap_or_default();
        ChatCompleter {
            folder: chat.folder.clone(),
            types: chat_types(&chat.router),
            conversations: names.into_iter().map(|summary| summary.name.to_string()).collect(),
        }
    };
    let next = input.next(&format!("{}> ", printable(&chat.kind)), &mut state.begun, completer).await;
    next.map_err(|error| {
        CommandError::usage(format_args!("standard input: {error}"))
            .with_advice("write one prompt per line, in UTF-8")
    })
}

fn greet(chat: &Chat) {
    let folder = printable(&chat.folder.display().to_string());
    complain_line(format_args!(
        "~ {} · {} in {folder} · conversation {} · /help lists the commands",
        chat.kind,
        chat.access.as_str(),
        chat.conversation
    ));
}

impl Chat {
    /// Runs a command of the chat.
    async fn command(&mut self, command: ChatLine) -> Result<(), CommandError> {
        match command {
            ChatLine::Help => complain_line(slash::help()),
            ChatLine::Type(Some(kind)) => {
                self.check_type(&kind)?;
                self.kind = kind;
                complain_line(format_args!("~ the next turns run on {}", self.kind));
            }
            ChatLine::Type(None) => {
                for kind in chat_types(&self.router) {
                    let mark = if kind == self.kind { "*" } else { " " };
                    complain_line(format_args!("{mark} {}", printable(&kind)));
                }
            }
            ChatLine::Model(Some(model)) => {
                // `default` drops the choice, and the configuration or the vendor chooses again.
                self.model = Some(model).filter(|model| model != "default");
                complain_line(format_args!("~ model: {}", self.shown_model()));
            }
            ChatLine::Model(None) => complain_line(format_args!("~ model: {}", self.shown_model())),
            ChatLine::Access(Some(level)) => {
                let known = ToolAccess::ALL.into_iter().find(|known| known.as_str() == level);
                let names = ToolAccess::ALL.map(ToolAccess::as_str).join(", ");
                self.access =
                    known.ok_or_else(|| CommandError::usage(format_args!("{level:?} is none of {names}")))?;
                complain_line(format_args!("~ access: {}", self.access.as_str()));
            }
            ChatLine::Access(None) => complain_line(format_args!("~ access: {}", self.access.as_str())),
            ChatLine::Diff(turn) => {
                let (shown, patch) = undo::changes(self.folder.clone(), turn).await?;
                match patch.is_empty() {
                    true => complain_line(format_args!(
                        "~ no file differs from its state before turn {}",
                        shown.number
                    )),
                    false => complain_line(undo::diff_text(&patch).trim_end()),
                }
            }
            ChatLine::Undo { is_forced } => {
                let later = if is_forced { LaterChanges::Overwrite } else { LaterChanges::Refuse };
                self.restore(UndoStep::Undo(later)).await?;
            }
            ChatLine::Redo => self.restore(UndoStep::Redo).await?,
            ChatLine::Cost => complain_line(format_args!("~ {}", self.spent)),
            ChatLine::Resume(name) => self.resume(name).await?,
            ChatLine::New => {
                self.begin_conversation()?;
                complain_line(format_args!("~ conversation {}", self.conversation));
            }
            ChatLine::Empty | ChatLine::Prompt(_) | ChatLine::Quit => {}
        }
        Ok(())
    }

    fn shown_model(&self) -> String {
        match &self.model {
            Some(model) => printable(model),
            None => match self.router.binding(self.kind.as_str()).ok().and_then(|binding| binding.model) {
                Some(model) => format!("{model}, by the configuration"),
                None => "the vendor's own choice".to_owned(),
            },
        }
    }

    async fn restore(&self, step: UndoStep) -> Result<(), CommandError> {
        let restored = undo::restore(self.folder.clone(), step).await?;
        complain_line(format_args!("~ {}", undo::restored_text(&restored, step)));
        Ok(())
    }

    /// Lists the conversations, or continues one by its name or its number in the list.
    async fn resume(&mut self, name: Option<String>) -> Result<(), CommandError> {
        let found = conversations().await?;
        let Some(name) = name else {
            if found.is_empty() {
                complain_line("~ no conversations yet; the first turn starts one");
            }
            for (index, summary) in found.iter().take(MOST_LISTED).enumerate() {
                let mark = if summary.name == self.conversation { "*" } else { " " };
                complain_line(format_args!(
                    "{mark} {:>2}  {}",
                    index + 1,
                    printable(&conversation::described(summary))
                ));
            }
            return Ok(());
        };
        let by_number = name.parse::<usize>().ok().and_then(|number| found.get(number.checked_sub(1)?));
        let by_name = found.iter().find(|summary| summary.name.as_str().eq_ignore_ascii_case(&name));
        // A name wins over a number, because a conversation may have the name `3`.
        let Some(summary) = by_name.or(by_number) else {
            let message = format!("no conversation {name:?}");
            return Err(CommandError::usage(message).with_advice("/resume lists them"));
        };
        self.conversation = summary.name.clone();
        let (_, loaded) = conversation::load(self.conversation.clone()).await?;
        complain_line(format_args!("~ {}", printable(&conversation::described(summary))));
        if let Some(last) = conversation::last_words(&loaded) {
            complain_line(printable_lines(&last));
        }
        Ok(())
    }
}
