//! The line editor of a chat, on a thread of its own.

use std::{borrow::Cow, io, sync::mpsc as requests, thread};

use reedline::{
    Color, ColumnarMenu, EditCommand, Emacs, ExampleHighlighter, FileBackedHistory, History as _,
    HistoryItem, KeyCode, KeyModifiers, MenuBuilder as _, Prompt, PromptEditMode, PromptHistorySearch,
    Reedline, ReedlineEvent, ReedlineMenu, Signal, default_emacs_keybindings,
};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use tokio::sync::mpsc;

use super::{completer::ChatCompleter, history};
use crate::{output::complain_line, terminal};

/// Name of the menu with completions.
const MENU: &str = "completions";

/// A line, as the editor ends it.
#[derive(Debug)]
pub(super) enum EditedLine {
    Line(String),
    /// Ctrl-C.
    Interrupted,
    /// Ctrl-D, or the end of the terminal.
    End,
    /// The terminal does not answer as an editor needs it.
    Unusable(String),
}

/// A request for a line.
struct LineRequest {
    prompt: String,
    /// Text that the line begins with.
    begun: String,
    completer: ChatCompleter,
}

/// The line editor. Its thread reads the terminal only between a request and its line.
#[derive(Debug)]
pub(super) struct LineEditor {
    requests: requests::Sender<LineRequest>,
    lines: mpsc::UnboundedReceiver<EditedLine>,
    /// Modes of the terminal without an editor.
    before: Termios,
    is_reading: bool,
}

impl LineEditor {
    /// Starts the editor with the lines of earlier chats.
    pub(super) fn start(earlier: Vec<String>) -> io::Result<Self> {
        // Read the settings before the editor switches the terminal to raw mode.
        let before = tcgetattr(io::stdin())?;
        let (request, asked) = requests::channel::<LineRequest>();
        let (answer, lines) = mpsc::unbounded_channel();
        // `read_line` blocks until a line is complete, so it runs on a thread of its own.
        let edit = move || {
            let mut editor = editor(earlier);
            while let Ok(LineRequest { prompt, begun, completer }) = asked.recv() {
                editor = editor.with_completer(Box::new(completer));
                if !begun.is_empty() {
                    editor.run_edit_commands(&[EditCommand::InsertString(begun)]);
                }
                let line = match editor.read_line(&ChatPrompt(prompt)) {
                    Ok(Signal::Success(line)) => EditedLine::Line(line),
                    Ok(Signal::CtrlC) => EditedLine::Interrupted,
                    Ok(_) => EditedLine::End,
                    Err(error) => EditedLine::Unusable(error.to_string()),
                };
                if answer.send(line).is_err() {
                    return;
                }
            }
        };
        thread::Builder::new().name("editor".into()).spawn(edit)?;
        Ok(Self { requests: request, lines, before, is_reading: false })
    }

    /// Reads a line. Cancel-safe: the next call continues to wait for the same line.
    pub(super) async fn line(
        &mut self,
        prompt: &str,
        begun: &mut String,
        completer: ChatCompleter,
    ) -> EditedLine {
        // A future that `select!` dropped has left its request with the thread, whose next line answers it.
        if !self.is_reading {
            let request = LineRequest { prompt: prompt.to_owned(), begun: std::mem::take(begun), completer };
            if self.requests.send(request).is_err() {
                return EditedLine::End;
            }
            self.is_reading = true;
        }
        let line = self.lines.recv().await.unwrap_or(EditedLine::End);
        self.is_reading = false;
        line
    }
}

impl Drop for LineEditor {
    fn drop(&mut self) {
        if self.is_reading {
            // The thread still waits for a key, so its terminal is restored here. The terminal may be gone.
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
            // Ends bracketed paste, which the editor switched on.
            complain_line("\u{1b}[?2004l");
        }
    }
}

fn editor(earlier: Vec<String>) -> Reedline {
    let mut keys = default_emacs_keybindings();
    let complete = vec![ReedlineEvent::Menu(MENU.to_owned()), ReedlineEvent::MenuNext];
    keys.add_binding(KeyModifiers::NONE, KeyCode::Tab, ReedlineEvent::UntilFound(complete));
    let line_break = ReedlineEvent::Edit(vec![EditCommand::InsertNewline]);
    keys.add_binding(KeyModifiers::ALT, KeyCode::Enter, line_break);
    // The editor's own white text cannot be read on a light terminal.
    let mut plain = ExampleHighlighter::new(Vec::new());
    plain.change_colors(Color::Default, Color::Default, Color::Default);
    let mut editor = Reedline::create()
        .with_edit_mode(Box::new(Emacs::new(keys)))
        .with_menu(ReedlineMenu::EngineCompleter(Box::new(ColumnarMenu::default().with_name(MENU))))
        .with_quick_completions(true)
        .with_partial_completions(true)
        .with_highlighter(Box::new(plain))
        .with_history_exclusion_prefix(Some(" ".to_owned()))
        .with_ansi_colors(terminal::takes_escapes(&io::stderr()))
        .use_bracketed_paste(true);
    // The file of the history is written elsewhere, where secrets are left out.
    if let Ok(mut history) = FileBackedHistory::new(history::RETAINED) {
        for line in earlier {
            // A line that the editor does not take is missing from the history, and nothing else.
            let _ = history.save(HistoryItem::from_command_line(line));
        }
        editor = editor.with_history(Box::new(history));
    }
    editor
}

/// Prompt of the editor.
struct ChatPrompt(String);

impl Prompt for ChatPrompt {
    fn render_prompt_left(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.0)
    }

    fn render_prompt_right(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_indicator(&self, _mode: PromptEditMode) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_multiline_indicator(&self) -> Cow<'_, str> {
        Cow::Borrowed("  ")
    }

    fn get_prompt_color(&self) -> Color {
        Color::Green
    }

    fn render_prompt_history_search_indicator(&self, search: PromptHistorySearch) -> Cow<'_, str> {
        Cow::Owned(format!("(search {}) ", search.term))
    }
}
