//! Passes questions of an agent to the person at the client: `elicitation/create`.

use std::collections::BTreeMap;

use agent_client_protocol_schema::v1::{
    BooleanPropertySchema, CompleteElicitationNotification, CreateElicitationResponse, ElicitationAction,
    ElicitationCapabilities, ElicitationContentValue, ElicitationPropertySchema, EnumOption,
    IntegerPropertySchema, MultiSelectPropertySchema, NumberPropertySchema, StringFormat,
    StringPropertySchema,
};
use nexus_core::{
    AgentQuestion, FieldChoice, FieldInput, QuestionField, QuestionReply, QuestionSubject, TextFormat,
};
use serde_json::{Map, Value, json};

use crate::{client_text::harmless, session_client::SessionClient};

/// Questions of a turn.
#[derive(Clone, Debug)]
pub(crate) struct EditorQuestions {
    pub(crate) client: SessionClient,
    /// Modes that the client shows.
    pub(crate) modes: ElicitationCapabilities,
    /// Prefix of the ids, because two turns may have the same id.
    pub(crate) prefix: String,
}

impl EditorQuestions {
    /// Returns true if the client shows questions of any kind.
    pub(crate) fn are_shown(&self) -> bool {
        self.modes.supports_form() || self.modes.supports_url()
    }

    /// Asks the person. The session checks the values of the answer.
    pub(crate) async fn ask(&self, question: AgentQuestion) -> QuestionReply {
        let mut params = json!({ "sessionId": self.client.session, "message": harmless(&question.message) });
        match &question.subject {
            QuestionSubject::Form { fields } if self.modes.supports_form() => {
                let Some(schema) = schema(fields) else {
                    return QuestionReply::declined("the editor cannot show a field of this type");
                };
                params["mode"] = json!("form");
                params["requestedSchema"] = schema;
            }
            QuestionSubject::Page { id, url } if self.modes.supports_url() => {
                params["mode"] = json!("url");
                params["elicitationId"] = json!(self.id(id));
                params["url"] = json!(url);
            }
            QuestionSubject::Form { .. } => return QuestionReply::declined("the editor shows no forms"),
            _ => return QuestionReply::declined("the editor opens no pages"),
        }
        let answer = self.client.out.ask::<CreateElicitationResponse>("elicitation/create", &params).await;
        match answer.map(|response| response.action) {
            Ok(ElicitationAction::Accept(accepted)) => {
                let values = accepted.content.unwrap_or_default();
                QuestionReply::Answered { values: values_of(values) }
            }
            Ok(ElicitationAction::Cancel) => QuestionReply::Cancelled,
            Ok(ElicitationAction::Decline) => QuestionReply::declined("the person declined"),
            Ok(_) => QuestionReply::declined("the editor answered in an unknown way"),
            Err(error) => {
                tracing::warn!(code = i32::from(error.code), "the client could not ask a question");
                QuestionReply::declined("the editor could not ask the person")
            }
        }
    }

    /// Reports that the action on a page is complete.
    pub(crate) fn completed(&self, question: &str) {
        if self.modes.supports_url() {
            let notification = CompleteElicitationNotification::new(self.id(question));
            self.client.out.notify("elicitation/complete", &notification);
        }
    }

    fn id(&self, question: &str) -> String {
        format!("{}-{}", self.prefix, harmless(question))
    }
}

fn values_of(values: BTreeMap<String, ElicitationContentValue>) -> Map<String, Value> {
    let value = |value| serde_json::to_value(value).unwrap_or_default();
    values.into_iter().map(|(name, content)| (name, value(content))).collect()
}

/// Returns the schema of a form, with the fields in their order. `None` for a field that the protocol lacks.
fn schema(fields: &[QuestionField]) -> Option<Value> {
    let mut properties = Map::new();
    for field in fields {
        properties.insert(field.name.clone(), serde_json::to_value(property(field)?).ok()?);
    }
    let required = fields.iter().filter(|field| field.is_required).map(|field| field.name.as_str());
    let required: Vec<&str> = required.collect();
    Some(json!({ "type": "object", "properties": properties, "required": required }))
}

fn property(field: &QuestionField) -> Option<ElicitationPropertySchema> {
    let title = field.title.as_deref().map(harmless);
    let description = field.description.as_deref().map(harmless);
    let default = field.default.as_ref();
    let text = || {
        let default = default.and_then(Value::as_str).map(str::to_owned);
        StringPropertySchema::new()
            .title(title.clone())
            .description(description.clone())
            .default_value(default)
    };
    Some(match &field.input {
        FieldInput::Text { min_chars, max_chars, pattern, format } => {
            let chars = |count: &Option<u64>| count.map(|count| u32::try_from(count).unwrap_or(u32::MAX));
            let schema = text()
                .min_length(chars(min_chars))
                .max_length(chars(max_chars))
                .pattern(pattern.clone())
                .format(format.and_then(format_of));
            schema.into()
        }
        FieldInput::Choice { choices } => text().one_of(options(choices)).into(),
        FieldInput::Integer { min, max } => IntegerPropertySchema::new()
            .title(title)
            .description(description)
            .minimum(*min)
            .maximum(*max)
            .default_value(default.and_then(Value::as_i64))
            .into(),
        FieldInput::Number { min, max } => NumberPropertySchema::new()
            .title(title)
            .description(description)
            .minimum(*min)
            .maximum(*max)
            .default_value(default.and_then(Value::as_f64))
            .into(),
        FieldInput::Boolean => BooleanPropertySchema::new()
            .title(title)
            .description(description)
            .default_value(default.and_then(Value::as_bool))
            .into(),
        FieldInput::Choices { choices, min, max } => {
            let texts = default.and_then(Value::as_array).map(|values| {
                values.iter().filter_map(|value| value.as_str().map(str::to_owned)).collect::<Vec<_>>()
            });
            MultiSelectPropertySchema::titled(options(choices))
                .title(title)
                .description(description)
                .min_items(*min)
                .max_items(*max)
                .default_value(texts)
                .into()
        }
        _ => return None,
    })
}

fn options(choices: &[FieldChoice]) -> Vec<EnumOption> {
    let option = |choice: &FieldChoice| {
        EnumOption::new(choice.value.clone(), harmless(&choice.label))
            .description(choice.description.as_deref().map(harmless))
    };
    choices.iter().map(option).collect()
}

fn format_of(format: TextFormat) -> Option<StringFormat> {
    match format {
        TextFormat::Email => Some(StringFormat::Email),
        TextFormat::Uri => Some(StringFormat::Uri),
        TextFormat::Date => Some(StringFormat::Date),
        TextFormat::DateTime => Some(StringFormat::DateTime),
        _ => None,
    }
}
