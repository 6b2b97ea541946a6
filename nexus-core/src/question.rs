//! Questions of a vendor's program to the person: forms to fill in, and pages to open.

mod check;
mod clean;

use serde_json::{Map, Value};

use crate::{id::ParticipantId, redact::Redactor};

/// Largest number of fields in a form. Source: our own bound.
pub const MAX_QUESTION_FIELDS: usize = 50;
/// Largest number of choices in a field. Source: our own bound.
pub const MAX_FIELD_CHOICES: usize = 200;

/// A question that a vendor's program asks while its turn runs.
///
/// Its texts come from the model, the program or one of its servers: before you show them to a person, escape everything
/// that a terminal or a page would treat as more than text.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq)]
pub struct AgentQuestion {
    /// Participant of the session.
    pub participant: ParticipantId,
    /// Text that explains the question.
    pub message: String,
    /// The requested answer.
    pub subject: QuestionSubject,
}

/// The answer that a question requests.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq)]
pub enum QuestionSubject {
    /// Values of fields. They are not secret: a program must ask for a secret on a page.
    Form {
        /// The fields, in the order in which they are shown.
        fields: Vec<QuestionField>,
    },
    /// Consent to open a page, where the person acts. The answer has no values.
    Page {
        /// The program's id of the question. [`QuestionCompleted`](crate::turn::QuestionCompleted) repeats it.
        id: String,
        /// Address of the page. Show its host to the person, and open it only with consent.
        url: String,
    },
}

/// A field of a form.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq)]
pub struct QuestionField {
    /// Name of the value in the answer.
    pub name: String,
    /// Name for a person.
    pub title: Option<String>,
    /// Explanation for a person.
    pub description: Option<String>,
    /// True if the answer must have a value.
    pub is_required: bool,
    /// The allowed values.
    pub input: FieldInput,
    /// The proposed value. It is one of the allowed values.
    pub default: Option<Value>,
}

/// Allowed values of a field.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq)]
pub enum FieldInput {
    /// A text.
    Text {
        /// Smallest number of characters.
        min_chars: Option<u64>,
        /// Largest number of characters.
        max_chars: Option<u64>,
        /// Regular expression that a part of the text must match.
        pattern: Option<String>,
        /// Form of the text.
        format: Option<TextFormat>,
    },
    /// A whole number.
    Integer {
        /// Smallest value.
        min: Option<i64>,
        /// Largest value.
        max: Option<i64>,
    },
    /// A number.
    Number {
        /// Smallest value.
        min: Option<f64>,
        /// Largest value.
        max: Option<f64>,
    },
    /// Yes or no.
    Boolean,
    /// One of these texts.
    Choice {
        /// The texts.
        choices: Vec<FieldChoice>,
    },
    /// A list of some of these texts.
    Choices {
        /// The texts.
        choices: Vec<FieldChoice>,
        /// Smallest number of texts in the list.
        min: Option<u64>,
        /// Largest number of texts in the list.
        max: Option<u64>,
    },
}

/// Form of a text.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextFormat {
    /// An email address.
    Email,
    /// A URI.
    Uri,
    /// A date, as `2026-11-30`.
    Date,
    /// A date and a time, as `2026-11-30T12:00:00Z`.
    DateTime,
}

/// One allowed text of a field.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldChoice {
    /// The text in the answer.
    pub value: String,
    /// The text for a person.
    pub label: String,
    /// Explanation for a person.
    pub description: Option<String>,
}

/// The answer to an [`AgentQuestion`].
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq)]
pub enum QuestionReply {
    /// The values of a form, by the names of its fields; or the consent to open a page, without values.
    Answered {
        /// The values.
        values: Map<String, Value>,
    },
    /// The person or the host said no.
    Declined {
        /// Reason.
        reason: String,
    },
    /// The question got no decision: the user dismissed it, or its time limit expired.
    Cancelled,
}

impl AgentQuestion {
    /// Creates a question. The session fills in the participant.
    pub fn new(message: impl Into<String>, subject: QuestionSubject) -> Self {
        Self { participant: "".into(), message: message.into(), subject }
    }

    /// Returns the fields; none for a page.
    pub fn fields(&self) -> &[QuestionField] {
        match &self.subject {
            QuestionSubject::Form { fields } => fields,
            QuestionSubject::Page { .. } => &[],
        }
    }

    /// Checks that a person can answer the question: that its fields have names, choices and valid bounds.
    ///
    /// # Errors
    ///
    /// The problem, with the field.
    pub fn check(&self) -> Result<(), String> {
        check::question(self)
    }

    /// Checks the values of an answer.
    ///
    /// # Errors
    ///
    /// The problem, with the field.
    pub fn check_values(&self, values: &Map<String, Value>) -> Result<(), String> {
        check::values(self.fields(), values)
    }

    /// Checks the values of an answer, and returns them with the whole numbers written without a fraction.
    ///
    /// # Errors
    ///
    /// The problem, with the field.
    pub(crate) fn checked_values(
        &self,
        mut values: Map<String, Value>,
    ) -> Result<Map<String, Value>, String> {
        self.check_values(&values)?;
        check::write_whole_numbers(self.fields(), &mut values);
        Ok(values)
    }

    /// Removes secrets from the texts for a person, checks the question, and shortens its texts.
    ///
    /// # Errors
    ///
    /// The problem. It contains no secret.
    pub(crate) fn prepare(&mut self, redactor: &Redactor) -> Result<(), String> {
        // Redact first, so that no problem of the check contains a secret. Cut texts last, so that no secret is
        // halved.
        clean::redact(self, redactor)?;
        check::question(self)?;
        clean::shorten(self);
        Ok(())
    }
}

impl QuestionField {
    /// Creates an optional field without a title.
    pub fn new(name: impl Into<String>, input: FieldInput) -> Self {
        Self { name: name.into(), title: None, description: None, is_required: false, input, default: None }
    }

    /// Sets the name and the explanation for a person.
    #[must_use]
    pub fn with_words(mut self, title: Option<String>, description: Option<String>) -> Self {
        (self.title, self.description) = (title, description);
        self
    }

    /// Requires a value.
    #[must_use]
    pub fn required(mut self, is_required: bool) -> Self {
        self.is_required = is_required;
        self
    }

    /// Sets the proposed value. A value that is not allowed is not proposed.
    #[must_use]
    pub fn with_default(mut self, default: Option<Value>) -> Self {
        self.default = default.filter(|value| self.check(value).is_ok());
        self
    }

    /// Checks one value.
    ///
    /// # Errors
    ///
    /// The problem.
    pub fn check(&self, value: &Value) -> Result<(), String> {
        check::value(&self.input, value)
    }
}

impl FieldInput {
    /// Returns any text.
    pub fn text() -> Self {
        Self::Text { min_chars: None, max_chars: None, pattern: None, format: None }
    }
}

impl FieldChoice {
    /// Creates a choice that a person sees as `label`.
    pub fn new(value: impl Into<String>, label: impl Into<String>) -> Self {
        Self { value: value.into(), label: label.into(), description: None }
    }

    /// Sets the explanation for a person.
    #[must_use]
    pub fn with_description(mut self, description: Option<String>) -> Self {
        self.description = description;
        self
    }
}

impl QuestionReply {
    /// Creates a refusal.
    pub fn declined(reason: impl Into<String>) -> Self {
        Self::Declined { reason: reason.into() }
    }
}
