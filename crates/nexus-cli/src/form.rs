//! Questions of an agent at the terminal: the person fills in a form field by field, and reviews it before it is sent.

use std::{collections::BTreeSet, fmt::Write as _};

use nexus::{AgentQuestion, FieldChoice, FieldInput, QuestionField, QuestionReply, QuestionSubject};
use nexus_core::visible::Visible;
use serde_json::{Map, Value, json};

use crate::screen::QUESTION_MARK;

/// Line that declines a question. A field may take every other text except [`NO_VALUE`].
const DECLINE: &str = "/no";
/// Line that leaves an optional field without a value if one is proposed.
const NO_VALUE: &str = "/none";
/// Largest number of lines for one field, or for the review, that do not fit. Source: our own bound.
const MAX_TRIES: u32 = 5;
/// Largest number of choices that are shown with their explanation. Source: our own bound.
const MAX_EXPLAINED: usize = 20;

/// A question that a person answers line by line.
#[derive(Debug)]
pub(crate) struct FormDialogue {
    question: AgentQuestion,
    /// Number of fields that have their line.
    asked: usize,
    values: Map<String, Value>,
    /// Names of the fields that the person left without a value.
    cleared: BTreeSet<String>,
    tries: u32,
}

/// Next step of a question.
#[derive(Debug, PartialEq)]
pub(crate) enum FormStep {
    /// Show this text, and read a line.
    Ask(String),
    /// The question has its answer. The note is for the person.
    Done(QuestionReply, &'static str),
}

impl FormDialogue {
    pub(crate) fn new(question: AgentQuestion) -> Self {
        Self { question, asked: 0, values: Map::new(), cleared: BTreeSet::new(), tries: 0 }
    }

    /// Returns the beginning: what the agent asks, and the first line to read.
    pub(crate) fn begin(&self) -> String {
        let mut text = format!("{QUESTION_MARK}the agent asks: ");
        lines(&mut text, &self.question.message, "    ");
        match &self.question.subject {
            QuestionSubject::Page { url, .. } => {
                let host = host(url);
                let _ =
                    writeln!(text, "  Open this page at {} yourself:\n    {}", Visible(host), Visible(url));
            }
            _ => {
                let _ =
                    writeln!(text, "  It gets your answers. Give it no password or key. {DECLINE} declines.");
            }
        }
        text.push_str(&self.prompt());
        text
    }

    /// Takes a line.
    pub(crate) fn line(&mut self, line: &str) -> FormStep {
        if line.trim() == DECLINE {
            return declined();
        }
        let Some(field) = self.question.fields().get(self.asked) else { return self.reviewed(line) };
        let proposed = self.proposed(field);
        // Without a proposed value an empty line already stands for no value, so the word counts as text.
        let is_cleared = line.trim() == NO_VALUE && proposed.is_some() && !field.is_required;
        let parsed = match (line.trim().is_empty(), proposed) {
            _ if is_cleared => Ok(None),
            (true, Some(value)) => Ok(Some(value)),
            (true, None) if field.is_required => Err("a value is needed".to_owned()),
            (true, None) => Ok(None),
            (false, _) => parse(field, line).map(Some),
        };
        match parsed {
            Ok(value) => {
                match value {
                    Some(value) => {
                        self.cleared.remove(&field.name);
                        self.values.insert(field.name.clone(), value);
                    }
                    None => {
                        // Remember the choice, so that the default is not proposed again in the next round.
                        self.cleared.insert(field.name.clone());
                        self.values.remove(&field.name);
                    }
                }
                (self.asked, self.tries) = (self.asked + 1, 0);
                FormStep::Ask(self.prompt())
            }
            Err(problem) => self.again(&problem),
        }
    }

    /// Handles the end of the input.
    pub(crate) fn end() -> FormStep {
        declined()
    }

    fn reviewed(&mut self, line: &str) -> FormStep {
        match line.trim().to_lowercase().as_str() {
            "y" | "yes" => {
                let values = std::mem::take(&mut self.values);
                FormStep::Done(QuestionReply::Answered { values }, "  sent\n")
            }
            "n" | "no" => declined(),
            "c" | "change" if !self.question.fields().is_empty() => {
                (self.asked, self.tries) = (0, 0);
                FormStep::Ask(self.prompt())
            }
            _ => self.again("answer with one of these letters"),
        }
    }

    fn again(&mut self, problem: &str) -> FormStep {
        self.tries += 1;
        if self.tries >= MAX_TRIES {
            let reason = "the person gave no answer that fits";
            return FormStep::Done(QuestionReply::declined(reason), "  declined: no line fits\n");
        }
        FormStep::Ask(format!("  {}\n{}", Visible(problem), self.prompt()))
    }

    /// Returns the text before the next line.
    fn prompt(&self) -> String {
        let Some(field) = self.question.fields().get(self.asked) else { return self.review() };
        let mut text = String::from("  ");
        lines(&mut text, field.title.as_deref().unwrap_or(&field.name), "  ");
        if let Some(description) = &field.description {
            text.push_str("    ");
            lines(&mut text, description, "    ");
        }
        if let FieldInput::Choice { choices } | FieldInput::Choices { choices, .. } = &field.input {
            listed(&mut text, choices);
        }
        let mut hints = vec![hint(&field.input).to_owned()];
        // A value of an earlier round is proposed again.
        if let Some(value) = self.proposed(field) {
            hints.push(format!("empty: {}", Visible(&shown(&value))));
            if !field.is_required {
                hints.push(format!("{NO_VALUE}: no value"));
            }
        } else if !field.is_required {
            hints.push("empty: no value".to_owned());
        }
        let _ = writeln!(text, "    ({})", hints.join("; "));
        text
    }

    /// Returns the proposed value of a field.
    fn proposed(&self, field: &QuestionField) -> Option<Value> {
        let default = field.default.as_ref().filter(|_| !self.cleared.contains(&field.name));
        self.values.get(&field.name).or(default).cloned()
    }

    fn review(&self) -> String {
        let mut text = String::new();
        if let QuestionSubject::Page { .. } = &self.question.subject {
            text.push_str("  y  yes, I open it\n  n  no\n");
            return text;
        }
        for field in self.question.fields() {
            let value = self.values.get(&field.name).map_or_else(|| "no value".to_owned(), shown);
            let title = field.title.as_deref().unwrap_or(&field.name);
            let _ = writeln!(text, "    {}: {}", Visible(title), Visible(&value));
        }
        text.push_str("  y  send\n  n  decline\n");
        if !self.question.fields().is_empty() {
            text.push_str("  c  change\n");
        }
        text
    }
}

fn declined() -> FormStep {
    FormStep::Done(QuestionReply::declined("the person declined"), "  declined\n")
}

/// Appends a text, with the lines after the first indented.
fn lines(text: &mut String, shown: &str, indent: &str) {
    let mut shown = shown.lines();
    let _ = writeln!(text, "{}", Visible(shown.next().unwrap_or_default()));
    for line in shown {
        let _ = writeln!(text, "{indent}{}", Visible(line));
    }
}

fn listed(text: &mut String, choices: &[FieldChoice]) {
    for (number, choice) in choices.iter().enumerate() {
        let _ = write!(text, "    {:>2}  {}", number + 1, Visible(&choice.label));
        if let Some(description) = choice.description.as_deref().filter(|_| choices.len() <= MAX_EXPLAINED) {
            let _ = write!(text, ": {}", Visible(description));
        }
        text.push('\n');
    }
}

fn hint(input: &FieldInput) -> &'static str {
    match input {
        FieldInput::Integer { .. } => "a whole number",
        FieldInput::Number { .. } => "a number",
        FieldInput::Boolean => "y or n",
        FieldInput::Choice { .. } => "the number of a choice",
        FieldInput::Choices { .. } => "numbers of choices, with spaces between",
        _ => "a text",
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::Array(values) => values.iter().map(shown).collect::<Vec<_>>().join(", "),
        value => value.to_string(),
    }
}

/// Returns the host of an address, as far as a person must see it.
fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
    // Only the part after the last `@` is the host; text before it can imitate another host.
    authority.rsplit_once('@').map_or(authority, |(_, host)| host)
}

/// Parses a whole number, which may have a fraction of zero, such as `3.0`.
fn whole_number(text: &str) -> Option<i64> {
    let whole = match text.split_once('.') {
        Some((whole, fraction)) if !fraction.is_empty() && fraction.bytes().all(|byte| byte == b'0') => whole,
        _ => text,
    };
    whole.parse().ok()
}

/// Parses a line as the value of a field.
fn parse(field: &QuestionField, line: &str) -> Result<Value, String> {
    let trimmed = line.trim();
    let numbered = |choices: &[FieldChoice], word: &str| {
        let by_number = word.parse::<usize>().ok().and_then(|number| choices.get(number.checked_sub(1)?));
        let by_text = || choices.iter().find(|choice| choice.value == word || choice.label == word);
        let choice = by_number.or_else(by_text).map(|choice| json!(choice.value));
        choice.ok_or_else(|| format!("{word} is no choice"))
    };
    let value = match &field.input {
        FieldInput::Integer { .. } => json!(whole_number(trimmed).ok_or("a whole number is needed")?),
        FieldInput::Number { .. } => json!(trimmed.parse::<f64>().map_err(|_| "a number is needed")?),
        FieldInput::Boolean => match trimmed.to_lowercase().as_str() {
            "y" | "yes" => json!(true),
            "n" | "no" => json!(false),
            _ => return Err("answer y or n".to_owned()),
        },
        FieldInput::Choice { choices } => numbered(choices, trimmed)?,
        FieldInput::Choices { choices, .. } => {
            let words = trimmed.split([' ', ',']).filter(|word| !word.is_empty());
            Value::Array(words.map(|word| numbered(choices, word)).collect::<Result<_, _>>()?)
        }
        _ => json!(line),
    };
    field.check(&value).map_err(|problem| format!("the value {problem}"))?;
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(fields: Vec<QuestionField>) -> FormDialogue {
        FormDialogue::new(AgentQuestion::new("Which\u{1b}[2J one?\nNow.", QuestionSubject::Form { fields }))
    }

    #[expect(clippy::needless_pass_by_value, reason = "it is written where it is compared")]
    fn answered(values: Value) -> FormStep {
        FormStep::Done(QuestionReply::Answered { values: values.as_object().unwrap().clone() }, "  sent\n")
    }

    fn all() -> FormDialogue {
        let choices = || vec![FieldChoice::new("a", "Alpha"), FieldChoice::new("b", "Beta")];
        form(vec![
            QuestionField::new("name", FieldInput::text()).required(true),
            QuestionField::new("age", FieldInput::Integer { min: Some(0), max: None }),
            QuestionField::new("sure", FieldInput::Boolean).with_default(Some(json!(true))),
            QuestionField::new("one", FieldInput::Choice { choices: choices() }).required(true),
            QuestionField::new("some", FieldInput::Choices { choices: choices(), min: None, max: None }),
        ])
    }

    #[test]
    fn a_form_is_filled_in_reviewed_changed_and_sent() {
        let mut dialogue = all();
        assert!(dialogue.begin().contains("Which\\u{1b}[2J one?\n    Now.\n"), "{}", dialogue.begin());
        for line in ["Ada", "", "", "2", "1, 2"] {
            assert!(matches!(dialogue.line(line), FormStep::Ask(_)), "{line}");
        }
        let FormStep::Ask(text) = dialogue.line("c") else { panic!("it is not asked again") };
        assert!(text.contains("empty: Ada"), "{text}");
        for line in ["", "36.0", "n", "Alpha", ""] {
            assert!(matches!(dialogue.line(line), FormStep::Ask(_)), "{line}");
        }
        let expected = json!({ "name": "Ada", "sure": false, "one": "a", "some": ["a", "b"], "age": 36 });
        assert_eq!(dialogue.line("y"), answered(expected));
    }

    #[test]
    fn a_proposed_value_of_an_optional_field_can_be_left_out() {
        let mut dialogue = all();
        dialogue.line("Ada");
        let FormStep::Ask(text) = dialogue.line("36") else { panic!("the next field is not asked for") };
        assert!(text.contains("/none: no value"), "{text}");
        for line in ["/none", "a", "", "c", "", "/none", "/none", "", "", "c", "", "", "", "", ""] {
            assert!(matches!(dialogue.line(line), FormStep::Ask(_)), "{line}");
        }
        // Neither the default nor the earlier value comes back by itself.
        assert_eq!(dialogue.line("y"), answered(json!({ "name": "Ada", "one": "a" })));
    }

    #[test]
    fn a_line_that_does_not_fit_is_asked_again_and_not_for_ever() {
        let mut dialogue = all();
        let FormStep::Ask(text) = dialogue.line("") else { panic!("a required value is missing") };
        assert!(text.contains("a value is needed"), "{text}");
        dialogue.line("Ada");
        for line in ["x", "-1", "1.5", "nine"] {
            assert!(matches!(dialogue.line(line), FormStep::Ask(_)), "{line}");
        }
        assert!(matches!(dialogue.line("ten"), FormStep::Done(QuestionReply::Declined { .. }, _)));
    }

    #[test]
    fn every_step_can_be_declined() {
        for before in 0..=5 {
            let mut dialogue = all();
            ["Ada", "1", "y", "1", "1"].iter().take(before).for_each(|line| drop(dialogue.line(line)));
            assert!(matches!(dialogue.line("/no"), FormStep::Done(QuestionReply::Declined { .. }, _)));
        }
    }

    #[test]
    fn a_page_is_shown_with_its_host_and_is_not_opened() {
        let url = "https://good.example@evil.example/x".to_owned();
        let page = || QuestionSubject::Page { id: "e".into(), url: url.clone() };
        let mut dialogue = FormDialogue::new(AgentQuestion::new("Sign in.", page()));
        assert!(dialogue.begin().contains("this page at evil.example yourself"), "{}", dialogue.begin());
        assert!(matches!(dialogue.line("c"), FormStep::Ask(_)));
        assert_eq!(dialogue.line("y"), answered(json!({})));
        let mut dialogue = FormDialogue::new(AgentQuestion::new("Sign in.", page()));
        assert!(matches!(dialogue.line("n"), FormStep::Done(QuestionReply::Declined { .. }, _)));
    }
}
