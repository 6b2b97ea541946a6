//! A person at the terminal while a turn runs: answers to questions, and words that steer the turn.

use std::{collections::VecDeque, future::Future, pin::pin};

use futures::{StreamExt as _, stream::FuturesUnordered};
use nexus::{Approval, InputDelivery, NotDelivered, QuestionReply, Steering};
use tokio::sync::oneshot;

use crate::{
    approval::{
        AlwaysAllowed, ApprovalQuestion, ApprovalReply, FormQuestion, PersonQuestion, PersonQuestions,
    },
    form::{FormDialogue, FormStep},
    line_reader::{LineReader, Typed, TypedBefore},
    output::{complain_line, printable},
    screen::{self, LineKind, QUESTION_MARK, QuestionNumber},
};

/// Use of the lines that a person types outside of a question.
#[derive(Debug)]
pub(crate) enum TypedWords {
    /// The terminal is read only while a question is open.
    Unread,
    /// They go to the agent.
    Steer(Steering),
}

/// Input of a person that the turn did not take.
#[derive(Debug, Default)]
pub(crate) struct LeftInput {
    /// Lines that were entered for the turn, in order.
    pub(crate) lines: VecDeque<String>,
    /// Lines that were entered after the end of the turn, before the caller read the terminal again.
    pub(crate) later: VecDeque<String>,
    /// A line that was not entered.
    pub(crate) unfinished: String,
    /// True after Ctrl-D, or if the terminal is gone.
    pub(crate) is_end: bool,
}

/// The question that the terminal shows.
#[derive(Debug)]
struct OpenQuestion {
    subject: OpenSubject,
    number: QuestionNumber,
}

/// Subject of the question that the terminal shows.
#[derive(Debug)]
enum OpenSubject {
    Approval(ApprovalQuestion),
    Form(FormDialogue, oneshot::Sender<QuestionReply>),
}

/// Runs `turn` to its end. Meanwhile a person answers its questions, and types words for it.
pub(crate) async fn attend<T>(
    turn: impl Future<Output = T>,
    mut questions: PersonQuestions,
    always: &mut AlwaysAllowed,
    words: TypedWords,
) -> (T, LeftInput) {
    let mut turn = pin!(turn);
    let mut left = LeftInput::default();
    let mut waiting = VecDeque::new();
    let mut open: Option<OpenQuestion> = None;
    let mut sent = FuturesUnordered::new();
    let mut reader = match &words {
        TypedWords::Steer(_) => LineReader::start(TypedBefore::Keep).ok(),
        // Until a question opens, typed words stay in the terminal for the next program.
        TypedWords::Unread => None,
    };
    let done = loop {
        if open.is_none() {
            open = next_question(&mut waiting, always, &mut reader);
        }
        tokio::select! {
            done = &mut turn => break done,
            Some(question) = questions.recv() => waiting.push_back(question),
            typed = next(&mut reader) => match typed {
                Typed::Line(LineKind::Reply(number), line) => match open.take() {
                    Some(asked) if asked.number == number => open = answered(asked, &line, always),
                    // The reply belongs to a question that is no longer open. Ignore it.
                    other => open = other,
                },
                Typed::Line(LineKind::Words, line) => {
                    steer(&words, line, &mut sent, &mut left);
                }
                Typed::Erased => {}
                Typed::End => match open.take() {
                    Some(asked) => open = ended(asked, always),
                    None => {
                        left.is_end = true;
                        reader = None;
                    }
                },
            },
            Some((line, fate)) = sent.next() => undelivered(line, fate, &mut left),
            () = withdrawn(&mut open) => {
                open = None;
                screen::end_question("  the question is withdrawn\n");
            }
        }
        // No question is open, so typed words belong to the next program again.
        if open.is_none() && matches!(words, TypedWords::Unread) {
            reader = None;
        }
    };
    if open.is_some() {
        screen::end_question("");
    }
    left.unfinished = reader.map(LineReader::stop).unwrap_or_default();
    // The turn has ended, so it is known which lines reached the agent. This loop does not wait.
    while let Some((line, fate)) = sent.next().await {
        undelivered(line, fate, &mut left);
    }
    (done, left)
}

/// Shows the next question that the person has not answered yet. Starts the reader if it does not run.
fn next_question(
    waiting: &mut VecDeque<PersonQuestion>,
    always: &AlwaysAllowed,
    reader: &mut Option<LineReader>,
) -> Option<OpenQuestion> {
    while let Some(question) = waiting.pop_front() {
        if question.is_closed() {
            continue;
        }
        let question = match question {
            PersonQuestion::Approval(question) if always.covers(&question.request) => {
                complain_line("+ allowed: you chose \"always\" for it");
                // The turn may have ended.
                let _ = question.answer.send(Approval::Granted);
                continue;
            }
            question => question,
        };
        if reader.is_none() {
            // Words that were typed before the question appeared cannot answer it.
            match LineReader::start(TypedBefore::Drop) {
                Ok(started) => *reader = Some(started),
                Err(error) => {
                    question.refuse(format!("the terminal cannot be read: {error}"));
                    continue;
                }
            }
        }
        let shown = match &question {
            PersonQuestion::Approval(question) => always.question(&question.request),
            PersonQuestion::Form(form) => FormDialogue::new(form.question.clone()).begin(),
        };
        if let Some(number) = screen::ask(&shown, QUESTION_MARK) {
            let subject = match question {
                PersonQuestion::Approval(question) => OpenSubject::Approval(question),
                PersonQuestion::Form(FormQuestion { question, answer }) => {
                    OpenSubject::Form(FormDialogue::new(question), answer)
                }
            };
            return Some(OpenQuestion { subject, number });
        }
        // The user is typing a line. Ask again when the line is complete.
        waiting.push_front(question);
        return None;
    }
    None
}

impl PersonQuestion {
    /// Returns true if the turn no longer waits for the answer.
    fn is_closed(&self) -> bool {
        match self {
            Self::Approval(question) => question.answer.is_closed(),
            Self::Form(question) => question.answer.is_closed(),
        }
    }

    /// Answers without the person. The turn may have ended.
    fn refuse(self, reason: String) {
        match self {
            Self::Approval(question) => {
                let _ = question.answer.send(Approval::Refused { reason: Some(reason) });
            }
            Self::Form(question) => {
                let _ = question.answer.send(QuestionReply::declined(reason));
            }
        }
    }
}

/// Answers the open question by a typed line. Returns the question if the line does not end it.
fn answered(open: OpenQuestion, line: &str, always: &mut AlwaysAllowed) -> Option<OpenQuestion> {
    let OpenQuestion { subject, number } = open;
    match subject {
        OpenSubject::Approval(question) => decided(question, number, line, always),
        OpenSubject::Form(mut dialogue, answer) => match dialogue.line(line) {
            FormStep::Ask(text) => {
                let number = screen::ask(&text, QUESTION_MARK).unwrap_or(number);
                Some(OpenQuestion { subject: OpenSubject::Form(dialogue, answer), number })
            }
            FormStep::Done(reply, note) => {
                screen::end_question(note);
                let _ = answer.send(reply);
                None
            }
        },
    }
}

/// Answers the open question with no, because the terminal has no more input.
fn ended(open: OpenQuestion, always: &mut AlwaysAllowed) -> Option<OpenQuestion> {
    match open.subject {
        OpenSubject::Approval(question) => decided(question, open.number, "no", always),
        OpenSubject::Form(_, answer) => {
            if let FormStep::Done(reply, note) = FormDialogue::end() {
                screen::end_question(note);
                let _ = answer.send(reply);
            }
            None
        }
    }
}

/// Decides on a call by a typed line. Returns the question if the line is other words.
fn decided(
    question: ApprovalQuestion,
    number: QuestionNumber,
    line: &str,
    always: &mut AlwaysAllowed,
) -> Option<OpenQuestion> {
    let (approval, note) = match ApprovalReply::read(line) {
        None => {
            let number = screen::ask("  answer y, n or a\n", QUESTION_MARK).unwrap_or(number);
            return Some(OpenQuestion { subject: OpenSubject::Approval(question), number });
        }
        Some(ApprovalReply::Yes) => (Approval::Granted, "  allowed once\n"),
        Some(ApprovalReply::Always) => {
            always.add(&question.request);
            (Approval::Granted, "  allowed, and not asked again\n")
        }
        Some(ApprovalReply::No(words)) => {
            let reason = words.map_or_else(
                || "the person said no".to_owned(),
                |words| format!("the person said no: {words}"),
            );
            (Approval::Refused { reason: Some(reason) }, "  refused\n")
        }
    };
    screen::end_question(note);
    // The turn may have withdrawn the question meanwhile.
    let _ = question.answer.send(approval);
    None
}

async fn next(reader: &mut Option<LineReader>) -> Typed {
    match reader {
        Some(reader) => reader.next().await,
        // `select!` polls this future without a reader as well, so then it must never complete.
        None => std::future::pending().await,
    }
}

async fn withdrawn(open: &mut Option<OpenQuestion>) {
    match open {
        Some(OpenQuestion { subject: OpenSubject::Approval(question), .. }) => question.answer.closed().await,
        Some(OpenQuestion { subject: OpenSubject::Form(_, answer), .. }) => answer.closed().await,
        None => std::future::pending().await,
    }
}

/// A future of a line and its delivery.
type SentLine = futures::future::BoxFuture<'static, (String, InputDelivery)>;

/// Sends a line to the agent. A command of the chat, and a line after the end of the turn, wait instead.
fn steer(words: &TypedWords, line: String, sent: &mut FuturesUnordered<SentLine>, left: &mut LeftInput) {
    let TypedWords::Steer(steering) = words else { return };
    if line.trim().is_empty() {
        return;
    }
    if steering.is_over() {
        return left.later.push_back(line);
    }
    // A slash begins a command of the chat, which runs between turns and never goes to the agent.
    if line.starts_with('/') {
        complain_line(format_args!(
            "~ {} waits for the end of the turn; Ctrl-C cancels it",
            printable(&line)
        ));
        return left.lines.push_back(line);
    }
    let delivery = steering.send(line.clone());
    sent.push(Box::pin(async move { (line, delivery.await) }));
}

/// Stores a line that did not reach the agent, for the next turn.
fn undelivered(line: String, fate: InputDelivery, left: &mut LeftInput) {
    let InputDelivery::NotDelivered(reason) = fate else { return };
    let why = match reason {
        NotDelivered::Unsupported => "this backend takes no words during a turn".to_owned(),
        reason => reason.to_string(),
    };
    complain_line(printable(&format!("~ {why}: {line:?} becomes the next prompt")));
    left.lines.push_back(line);
}
