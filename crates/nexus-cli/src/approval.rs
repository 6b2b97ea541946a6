//! Approvals at the terminal: the person sees the whole call, and says yes, no, or always.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    time::Duration,
};

use nexus::{AgentQuestion, Approval, ApprovalAction, ApprovalRequest, Approver, QuestionReply};
use nexus_core::visible::Visible;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use crate::screen::QUESTION_MARK;

/// Longest wait for an answer. A person may be away for a while, and the turn's own limits apply meanwhile.
const WITHIN: Duration = Duration::from_secs(60 * 60);

/// Maximum number of characters of arguments that a question shows. A command is always shown whole.
const MAX_SHOWN: usize = 4000;

/// A call that waits for the person.
#[derive(Debug)]
pub(crate) struct ApprovalQuestion {
    pub(crate) request: ApprovalRequest,
    pub(crate) answer: oneshot::Sender<Approval>,
}

/// A question of an agent that waits for the person.
#[derive(Debug)]
pub(crate) struct FormQuestion {
    pub(crate) question: AgentQuestion,
    pub(crate) answer: oneshot::Sender<QuestionReply>,
}

/// A question that waits for the person.
#[derive(Debug)]
pub(crate) enum PersonQuestion {
    Approval(ApprovalQuestion),
    Form(FormQuestion),
}

/// Questions of a turn.
pub(crate) type PersonQuestions = mpsc::UnboundedReceiver<PersonQuestion>;

/// Creates the approver of a turn, and the questions that it asks.
pub(crate) fn approver() -> (Approver, PersonQuestions) {
    let (sender, questions) = mpsc::unbounded_channel();
    let forms = sender.clone();
    let approver = Approver::new(move |request| {
        let (answer, answered) = oneshot::channel();
        // If the terminal is gone, `answered` fails, too.
        let _ = sender.send(PersonQuestion::Approval(ApprovalQuestion { request, answer }));
        async move {
            let gone = || Approval::Refused { reason: Some("no person is at the terminal".into()) };
            answered.await.unwrap_or_else(|_| gone())
        }
    });
    let approver = approver.with_questions(move |question| {
        let (answer, answered) = oneshot::channel();
        let _ = forms.send(PersonQuestion::Form(FormQuestion { question, answer }));
        async move {
            let gone = || QuestionReply::declined("no person is at the terminal");
            answered.await.unwrap_or_else(|_| gone())
        }
    });
    (approver.with_time_limit(WITHIN), questions)
}

/// Calls that the person allows without a further question: each exactly as it was shown.
#[derive(Debug)]
pub(crate) struct AlwaysAllowed {
    calls: BTreeSet<String>,
    /// Words for the time that an answer `always` covers.
    until: &'static str,
}

impl AlwaysAllowed {
    /// Creates an empty list of allowed calls. `until` completes the choice "always for exactly this call in this folder, …".
    pub(crate) fn new(until: &'static str) -> Self {
        Self { calls: BTreeSet::new(), until }
    }

    pub(crate) fn covers(&self, request: &ApprovalRequest) -> bool {
        self.calls.contains(&identity(request))
    }

    pub(crate) fn add(&mut self, request: &ApprovalRequest) {
        self.calls.insert(identity(request));
    }

    /// Returns the question for a person.
    pub(crate) fn question(&self, request: &ApprovalRequest) -> String {
        let wants = match request.action {
            ApprovalAction::Read => "wants to read",
            ApprovalAction::Write => "wants to change files",
            ApprovalAction::Execute => "wants to run a command",
            ApprovalAction::Fetch => "wants to load something from the network",
            ApprovalAction::Tool => "wants to call a tool",
            _ => "asks for permission",
        };
        let what = if command(request).is_some() { "command" } else { "call" };
        format!(
            "{QUESTION_MARK}the agent {wants}: {}\n{}  y  yes, this once\n  n  no (words after it go to the agent)\n  \
             a  always for exactly this {what} in this folder, {}\n",
            Visible(&request.tool),
            details(request),
            self.until
        )
    }
}

/// A person's answer to a question.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ApprovalReply {
    Yes,
    Always,
    /// No, with words for the agent.
    No(Option<String>),
}

impl ApprovalReply {
    /// Parses a typed line. `None` for other words.
    pub(crate) fn read(line: &str) -> Option<Self> {
        let line = line.trim();
        // Any sign may separate the answer from its words, as in `n: use make`.
        let (word, rest) = line.split_once(|between: char| !between.is_alphanumeric()).unwrap_or((line, ""));
        let rest = rest.trim_start_matches(|between: char| !between.is_alphanumeric()).trim();
        match (word.to_lowercase().as_str(), rest) {
            // A yes with further words is ambiguous, so the caller repeats the question.
            ("y" | "yes", "") => Some(Self::Yes),
            ("a" | "always", "") => Some(Self::Always),
            ("n" | "no", "") => Some(Self::No(None)),
            ("n" | "no", words) => Some(Self::No(Some(words.to_owned()))),
            _ => None,
        }
    }
}

/// Returns the command line of a call, if the call runs one.
fn command(request: &ApprovalRequest) -> Option<&str> {
    let runs = matches!(request.action, ApprovalAction::Execute);
    request.arguments.get("command").filter(|_| runs)?.as_str()
}

/// Returns the arguments of a command without its text. The agent's description of it changes nothing.
fn beside_command(request: &ApprovalRequest) -> BTreeMap<&str, &Value> {
    let all = request.arguments.as_object().into_iter().flatten();
    let is_effective =
        |(key, value): &(&String, &Value)| *key != "command" && !(*key == "description" && value.is_string());
    all.filter(is_effective).map(|(key, value)| (key.as_str(), value)).collect()
}

/// Identifies a call. The same command with another description is the same call.
fn identity(request: &ApprovalRequest) -> String {
    let what = match command(request) {
        Some(command) => serde_json::json!([command, beside_command(request)]),
        None => serde_json::json!([request.arguments, request.title, request.paths]),
    };
    serde_json::json!([request.tool, request.action, what]).to_string()
}

/// Formats a call, each line indented.
fn details(request: &ApprovalRequest) -> String {
    let mut text = String::new();
    let mut lines = |shown: &str| {
        for line in shown.lines() {
            // Writing into a string does not fail.
            let _ = writeln!(text, "    {}", Visible(line));
        }
    };
    if let Some(title) = request.title.as_deref().filter(|title| Some(*title) != command(request)) {
        lines(title);
    }
    for path in &request.paths {
        lines(&path.to_string_lossy());
    }
    match command(request) {
        Some(command) => {
            lines(command);
            // A folder, an input or a variable decides what a command does, so each is shown whole.
            for (key, value) in beside_command(request) {
                let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                lines(&format!("{key}: {value}"));
            }
        }
        None if request.arguments.as_object().is_some_and(|arguments| !arguments.is_empty()) => {
            let all = serde_json::to_string_pretty(&request.arguments).unwrap_or_default();
            let shown: String = all.chars().take(MAX_SHOWN).collect();
            lines(&shown);
            let more = all.chars().count().saturating_sub(MAX_SHOWN);
            if more > 0 {
                lines(&format!("\u{2026} and {more} more characters"));
            }
        }
        None => {}
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn run(command: &str) -> ApprovalRequest {
        ApprovalRequest::of_harness(
            "Bash",
            ApprovalAction::Execute,
            json!({ "command": command, "description": "x" }),
        )
    }

    #[test]
    fn always_covers_exactly_the_call_that_was_shown() {
        let mut always = AlwaysAllowed::new("until the chat ends");
        always.add(&run("cargo test"));
        assert!(always.covers(&run("cargo test")));
        for other in ["cargo test ", "cargo test; rm -rf /", "cargo"] {
            assert!(!always.covers(&run(other)), "{other}");
        }
        let elsewhere = json!({ "command": "cargo test", "cwd": "/" });
        assert!(!always.covers(&ApprovalRequest::of_harness("Bash", ApprovalAction::Execute, elsewhere)));
        let write =
            |text: &str| ApprovalRequest::of_harness("Write", ApprovalAction::Write, json!({ "text": text }));
        always.add(&write("a"));
        assert!(always.covers(&write("a")) && !always.covers(&write("b")));
    }

    #[test]
    fn a_question_shows_every_character_of_a_command() {
        let always = AlwaysAllowed::new("until the chat ends");
        let question = always.question(&run("echo safe\u{202e}\u{1b}[2K\nrm -rf ~"));
        assert!(question.contains("    echo safe\\u{202e}\\u{1b}[2K\n    rm -rf ~\n"), "{question}");
        let long = "x".repeat(10_000);
        assert!(always.question(&run(&long)).contains(&long));
        let large = ApprovalRequest::of_harness("Write", ApprovalAction::Write, json!({ "text": long }));
        assert!(always.question(&large).contains("more characters"), "a long argument is cut without a note");
    }

    #[test]
    fn arguments_beside_a_command_are_shown_and_covered() {
        let call = |action, stdin: &str| {
            let arguments = json!({ "command": "sh", "cwd": "/etc", "env": { "A": "b" }, "stdin": stdin, "description": "x" });
            ApprovalRequest::of_harness("Bash", action, arguments)
        };
        let mut always = AlwaysAllowed::new("until the chat ends");
        let request = call(ApprovalAction::Execute, "rm -rf ~");
        let question = always.question(&request);
        let shown = "    sh\n    cwd: /etc\n    env: {\"A\":\"b\"}\n    stdin: rm -rf ~\n";
        assert!(question.contains(shown), "{question}");
        always.add(&request);
        assert!(always.covers(&request) && !always.covers(&call(ApprovalAction::Execute, "ls")));
        // Only a tool that runs commands has a command.
        let question = always.question(&call(ApprovalAction::Tool, "ls"));
        assert!(
            question.contains("\"stdin\": \"ls\"") && question.contains("exactly this call"),
            "{question}"
        );
    }

    #[test]
    fn only_an_answer_is_one() {
        assert_eq!(ApprovalReply::read(" Y "), Some(ApprovalReply::Yes));
        assert_eq!(ApprovalReply::read("always"), Some(ApprovalReply::Always));
        assert_eq!(ApprovalReply::read("no"), Some(ApprovalReply::No(None)));
        assert_eq!(ApprovalReply::read("n: use make"), Some(ApprovalReply::No(Some("use make".into()))));
        for other in ["", "yes please", "ok", "yn", "a b", "y1", "nothing"] {
            assert_eq!(ApprovalReply::read(other), None, "{other:?}");
        }
    }
}
