//! Removes secrets from a question, and shortens its texts.

use super::{AgentQuestion, FieldChoice, FieldInput, QuestionField, QuestionSubject};
use crate::redact::Redactor;

/// Largest number of characters of the message. Source: our own bound.
const MAX_MESSAGE_CHARS: usize = 4_000;
/// Largest number of characters of a title, a label or a description. Source: our own bound.
const MAX_TEXT_CHARS: usize = 500;

/// Removes secrets from the texts for a person. Returns the problem if a part that the answer repeats has a secret.
pub(super) fn redact(question: &mut AgentQuestion, redactor: &Redactor) -> Result<(), String> {
    // The answer repeats these parts, so redacting them would break it.
    if has_fixed_secret(&question.subject, redactor) {
        return Err("a name, a value, a pattern or an id of the question contains a secret".to_owned());
    }
    texts(question, &mut |text, _| {
        if let Some(clean) = redactor.without_secrets(text) {
            *text = clean;
        }
    });
    if let QuestionSubject::Page { url, .. } = &mut question.subject
        && let Some(clean) = redactor.without_secrets(url)
    {
        *url = clean;
    }
    Ok(())
}

/// Shortens the texts for a person.
pub(super) fn shorten(question: &mut AgentQuestion) {
    texts(question, &mut |text, limit| *text = nexus_files::shortened(text, limit));
}

/// Calls `change` with each text for a person, and with the largest number of its characters.
fn texts(question: &mut AgentQuestion, change: &mut dyn FnMut(&mut String, usize)) {
    change(&mut question.message, MAX_MESSAGE_CHARS);
    let QuestionSubject::Form { fields } = &mut question.subject else { return };
    for field in fields {
        let words = field.title.iter_mut().chain(&mut field.description);
        words.for_each(|text| change(text, MAX_TEXT_CHARS));
        let (FieldInput::Choice { choices } | FieldInput::Choices { choices, .. }) = &mut field.input else {
            continue;
        };
        for choice in choices {
            change(&mut choice.label, MAX_TEXT_CHARS);
            choice.description.iter_mut().for_each(|text| change(text, MAX_TEXT_CHARS));
        }
    }
}

fn has_fixed_secret(subject: &QuestionSubject, redactor: &Redactor) -> bool {
    let is_secret = |text: &str| redactor.without_secrets(text).is_some();
    let has_secret_choice = |choices: &[FieldChoice]| choices.iter().any(|choice| is_secret(&choice.value));
    let is_secret_field = |field: &QuestionField| {
        let default = field.default.as_ref();
        is_secret(&field.name)
            || default.is_some_and(|value| redactor.value_without_secrets(value).is_some())
            || match &field.input {
                FieldInput::Choice { choices } | FieldInput::Choices { choices, .. } => {
                    has_secret_choice(choices)
                }
                FieldInput::Text { pattern, .. } => pattern.as_deref().is_some_and(is_secret),
                _ => false,
            }
    };
    match subject {
        QuestionSubject::Page { id, .. } => is_secret(id),
        QuestionSubject::Form { fields } => fields.iter().any(is_secret_field),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn form(field: QuestionField) -> AgentQuestion {
        AgentQuestion::new("?", QuestionSubject::Form { fields: vec![field] })
    }

    fn one(choice: FieldChoice) -> FieldInput {
        FieldInput::Choice { choices: vec![choice] }
    }

    #[test]
    fn no_text_for_a_person_has_a_secret() {
        let redactor = Redactor::new(["swordfish"]);
        let word = || Some("my swordfish".to_owned());
        let choice = FieldChoice::new("a", "swordfish").with_description(word());
        for input in
            [one(choice.clone()), FieldInput::Choices { choices: vec![choice], min: None, max: None }]
        {
            let mut question = form(QuestionField::new("x", input).with_words(word(), word()));
            question.message = "swordfish?".to_owned();
            assert_eq!(redact(&mut question, &redactor), Ok(()));
            let shown = format!("{question:?}");
            assert!(!shown.contains("swordfish"), "{shown}");
            assert_eq!(shown.matches("[redacted]").count(), 5, "{shown}");
        }
    }

    #[test]
    fn a_question_with_a_secret_that_an_answer_repeats_is_faulty() {
        let redactor = Redactor::new(["swordfish"]);
        let text = |pattern: Option<&str>| FieldInput::Text {
            min_chars: None,
            max_chars: None,
            pattern: pattern.map(str::to_owned),
            format: None,
        };
        let page = QuestionSubject::Page { id: "swordfish".into(), url: "https://a".into() };
        for mut question in [
            form(QuestionField::new("swordfish", FieldInput::Boolean)),
            form(QuestionField::new("x", one(FieldChoice::new("swordfish", "a")))),
            form(QuestionField::new("x", text(None)).with_default(Some(json!("swordfish")))),
            form(QuestionField::new("x", text(Some("swordfish")))),
            AgentQuestion::new("?", page),
        ] {
            let problem = redact(&mut question, &redactor).unwrap_err();
            assert!(!problem.contains("swordfish"), "{problem}");
        }
    }

    #[test]
    fn long_texts_are_shortened() {
        let long = || "ü".repeat(5_000);
        let choice = FieldChoice::new("a", long()).with_description(Some(long()));
        let mut question = form(QuestionField::new("x", one(choice)).with_words(Some(long()), Some(long())));
        question.message = long();
        shorten(&mut question);
        let mut lengths = Vec::new();
        texts(&mut question, &mut |text, _| lengths.push(text.chars().count()));
        assert_eq!(lengths, [4_001, 501, 501, 501, 501]);
    }
}
