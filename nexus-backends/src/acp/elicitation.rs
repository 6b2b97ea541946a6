//! Questions of an agent to the person: `elicitation/create` and its answers.
//!
//! Source: the protocol, elicitation (stable in revision 1 since July 2026), and its schema, `CreateElicitationRequest`.

use std::collections::BTreeSet;

use agent_client_protocol_schema::v1::{
    ElicitationPropertySchema, ElicitationScope, EnumOption, MultiSelectItems, MultiSelectPropertySchema,
    StringFormat, StringPropertySchema,
};
use nexus_core::{
    AgentQuestion, FieldChoice, FieldInput, MAX_QUESTION_FIELDS, QuestionField, QuestionReply,
    QuestionSubject, TextFormat,
};
use serde::Deserialize;
use serde_json::{Value, json};

/// Largest number of characters that are shown of a name. Source: our own bound.
const MAX_SHOWN_CHARS: usize = 100;

/// A request for an answer of the person.
#[derive(Debug)]
pub(super) struct Elicitation {
    /// The agent's session, unless the question belongs to a request outside of a session.
    pub(super) session: Option<String>,
    pub(super) question: AgentQuestion,
    /// Names of optional fields that Nexus does not know, which are left out.
    pub(super) left_out: Vec<String>,
}

/// Reason why a request has no question for a person.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ElicitationFault {
    /// The request breaks the protocol.
    Malformed,
    /// Nexus cannot show the question.
    Unknown(String),
}

#[derive(Deserialize)]
struct ElicitationParams {
    mode: String,
    message: String,
    #[serde(flatten)]
    scope: ElicitationScope,
    #[serde(default, rename = "requestedSchema")]
    schema: Value,
    #[serde(default, rename = "elicitationId")]
    id: String,
    #[serde(default)]
    url: String,
}

impl Elicitation {
    /// Parses the parameters of `elicitation/create`.
    pub(super) fn read(params: &Value) -> Result<Self, ElicitationFault> {
        let params = ElicitationParams::deserialize(params).map_err(|_| ElicitationFault::Malformed)?;
        let mut left_out = Vec::new();
        let subject = match params.mode.as_str() {
            "form" => QuestionSubject::Form { fields: fields(&params.schema, &mut left_out)? },
            "url" if params.id.is_empty() => return Err(ElicitationFault::Malformed),
            "url" => QuestionSubject::Page { id: params.id, url: params.url },
            // A client must not show a mode that it does not know. Source: the protocol, elicitation.
            other => {
                let reason = format!("the mode {:?} is not known", shown(other));
                return Err(ElicitationFault::Unknown(reason));
            }
        };
        let session = match params.scope {
            ElicitationScope::Session(scope) => Some(scope.session_id.to_string()),
            _ => None,
        };
        Ok(Self { session, question: AgentQuestion::new(params.message, subject), left_out })
    }
}

/// Returns the result of the request.
pub(super) fn answer(reply: &QuestionReply, has_values: bool) -> Value {
    match reply {
        QuestionReply::Answered { values } if has_values => json!({ "action": "accept", "content": values }),
        QuestionReply::Answered { .. } => json!({ "action": "accept" }),
        QuestionReply::Declined { reason } => {
            json!({ "action": "decline", "_meta": { "nexus": { "reason": reason } } })
        }
        _ => json!({ "action": "cancel" }),
    }
}

/// Returns the fields in the order of the agent.
fn fields(schema: &Value, left_out: &mut Vec<String>) -> Result<Vec<QuestionField>, ElicitationFault> {
    let no_properties = serde_json::Map::new();
    let properties = match schema.get("properties") {
        None => &no_properties,
        Some(properties) => properties.as_object().ok_or(ElicitationFault::Malformed)?,
    };
    let no_names = Vec::new();
    let required = match schema.get("required") {
        None | Some(Value::Null) => &no_names,
        Some(names) => names.as_array().ok_or(ElicitationFault::Malformed)?,
    };
    // Check before the lists are copied, because the agent chooses their length.
    if properties.len().max(required.len()) > MAX_QUESTION_FIELDS {
        let reason = format!("the form has more than {MAX_QUESTION_FIELDS} fields");
        return Err(ElicitationFault::Unknown(reason));
    }
    let required: Option<BTreeSet<&str>> = required.iter().map(Value::as_str).collect();
    let required = required.ok_or(ElicitationFault::Malformed)?;
    let mut fields = Vec::new();
    for (name, property) in properties {
        let is_required = required.contains(name.as_str());
        match field(name, property) {
            Some(field) => fields.push(field.required(is_required)),
            // An answer without a required field is invalid, so the form could not be answered.
            None if is_required => {
                let reason = format!("the type of the field {:?} is not known", shown(name));
                return Err(ElicitationFault::Unknown(reason));
            }
            None => left_out.push(shown(name)),
        }
    }
    match required.iter().find(|name| !properties.contains_key(**name)) {
        Some(_) => Err(ElicitationFault::Malformed),
        None => Ok(fields),
    }
}

/// Cuts a name from the agent to the length that is shown.
pub(super) fn shown(name: &str) -> String {
    nexus_files::shortened(name, MAX_SHOWN_CHARS)
}

/// Returns a field; `None` for a type or a form of choices that is not known.
fn field(name: &str, property: &Value) -> Option<QuestionField> {
    let field = |input, title, description, default: Option<Value>| {
        QuestionField::new(name, input).with_words(title, description).with_default(default)
    };
    Some(match ElicitationPropertySchema::deserialize(property).ok()? {
        ElicitationPropertySchema::String(text) => {
            let (title, description) = (text.title.clone(), text.description.clone());
            let default = text.default.clone().map(Value::from);
            field(text_input(text), title, description, default)
        }
        ElicitationPropertySchema::Number(number) => {
            let input = FieldInput::Number { min: number.minimum, max: number.maximum };
            field(input, number.title, number.description, number.default.map(Value::from))
        }
        ElicitationPropertySchema::Integer(number) => {
            let input = FieldInput::Integer { min: number.minimum, max: number.maximum };
            field(input, number.title, number.description, number.default.map(Value::from))
        }
        ElicitationPropertySchema::Boolean(choice) => {
            field(FieldInput::Boolean, choice.title, choice.description, choice.default.map(Value::from))
        }
        ElicitationPropertySchema::Array(list) => {
            let choices = choices_of(&list)?;
            let input = FieldInput::Choices { choices, min: list.min_items, max: list.max_items };
            field(input, list.title, list.description, list.default.map(Value::from))
        }
        _ => return None,
    })
}

fn text_input(text: StringPropertySchema) -> FieldInput {
    if let Some(options) = text.one_of {
        return FieldInput::Choice { choices: titled(options) };
    }
    if let Some(values) = text.enum_values {
        return FieldInput::Choice { choices: untitled(values) };
    }
    FieldInput::Text {
        min_chars: text.min_length.map(u64::from),
        max_chars: text.max_length.map(u64::from),
        pattern: text.pattern,
        format: text.format.and_then(format_of),
    }
}

fn format_of(format: StringFormat) -> Option<TextFormat> {
    match format {
        StringFormat::Email => Some(TextFormat::Email),
        StringFormat::Uri => Some(TextFormat::Uri),
        StringFormat::Date => Some(TextFormat::Date),
        StringFormat::DateTime => Some(TextFormat::DateTime),
        _ => None,
    }
}

fn choices_of(list: &MultiSelectPropertySchema) -> Option<Vec<FieldChoice>> {
    match &list.items {
        MultiSelectItems::String(items) => Some(untitled(items.values.clone())),
        MultiSelectItems::Titled(items) => Some(titled(items.options.clone())),
        _ => None,
    }
}

fn titled(options: Vec<EnumOption>) -> Vec<FieldChoice> {
    let choice = |option: EnumOption| {
        FieldChoice::new(option.value, option.title).with_description(option.description)
    };
    options.into_iter().map(choice).collect()
}

fn untitled(values: Vec<String>) -> Vec<FieldChoice> {
    values.into_iter().map(|value| FieldChoice::new(value.clone(), value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(properties: &Value, required: &Value) -> Result<Elicitation, ElicitationFault> {
        Elicitation::read(&json!({
            "mode": "form", "message": "Which?", "sessionId": "s",
            "requestedSchema": { "type": "object", "properties": properties, "required": required },
        }))
    }

    #[test]
    fn the_fields_of_a_form_keep_their_order_and_their_bounds() {
        let properties = json!({
            "z": { "type": "string", "title": "Zone", "minLength": 2, "format": "email", "default": "x" },
            "y": { "type": "integer", "minimum": 1, "default": 3 },
            "x": { "type": "string", "oneOf": [{ "const": "a", "title": "A" }] },
            "w": { "type": "array", "items": { "type": "string", "enum": ["b"] }, "maxItems": 1 },
            "v": { "type": "array", "items": { "anyOf": [{ "const": "c", "title": "C" }] } },
            "u": { "type": "boolean", "default": true },
            "t": { "type": "number", "maximum": 0.5 },
        });
        let read = form(&properties, &json!(["y"])).unwrap();
        let fields = read.question.fields();
        let names: Vec<_> = fields.iter().map(|field| field.name.as_str()).collect();
        assert_eq!(names, ["z", "y", "x", "w", "v", "u", "t"]);
        assert_eq!((fields[0].title.as_deref(), &fields[0].default), (Some("Zone"), &None));
        assert!(fields[1].is_required && !fields[0].is_required);
        assert_eq!((&fields[1].default, &fields[5].default), (&Some(json!(3)), &Some(json!(true))));
        assert_eq!(fields[2].input, FieldInput::Choice { choices: vec![FieldChoice::new("a", "A")] });
        let choices = vec![FieldChoice::new("b", "b")];
        assert_eq!(fields[3].input, FieldInput::Choices { choices, min: None, max: Some(1) });
        assert_eq!((read.session.as_deref(), read.left_out.len()), (Some("s"), 0));
    }

    #[test]
    fn a_field_of_an_unknown_type_is_left_out_unless_it_is_required() {
        for property in
            [json!({ "type": "color" }), json!({ "type": "array", "items": { "type": "date" } }), json!(7)]
        {
            let read = form(&json!({ "c": property, "b": { "type": "boolean" } }), &json!([])).unwrap();
            assert_eq!(
                (read.left_out, read.question.fields().len()),
                (vec!["c".to_owned()], 1),
                "{property}"
            );
            let fault = form(&json!({ "c": property }), &json!(["c"])).unwrap_err();
            let expected = ElicitationFault::Unknown(r#"the type of the field "c" is not known"#.to_owned());
            assert_eq!(fault, expected, "{property}");
        }
    }

    #[test]
    fn a_form_with_too_many_names_is_not_read() {
        let too_many = ElicitationFault::Unknown("the form has more than 50 fields".to_owned());
        let names: Vec<String> = (0..51).map(|number| number.to_string()).collect();
        let unknown = names.iter().map(|name| (name.clone(), json!(7))).collect::<serde_json::Map<_, _>>();
        assert_eq!(form(&Value::Object(unknown), &json!([])).unwrap_err(), too_many);
        assert_eq!(form(&json!({}), &json!(names)).unwrap_err(), too_many);
        assert_eq!(form(&json!({}), &json!([7])).unwrap_err(), ElicitationFault::Malformed);
        assert_eq!(shown(&"ü".repeat(101)), format!("{}…", "ü".repeat(100)));
    }

    #[test]
    fn what_breaks_the_protocol_is_no_question() {
        let page = json!({ "mode": "url", "message": "Go.", "requestId": 4, "elicitationId": "e", "url": "https://a" });
        let read = Elicitation::read(&page).unwrap();
        assert_eq!(read.session, None);
        let subject = QuestionSubject::Page { id: "e".into(), url: "https://a".into() };
        assert_eq!(read.question.subject, subject);
        for params in [
            json!({}),
            json!(null),
            json!({ "mode": "form", "message": "x" }),
            json!({ "mode": "form", "message": 7, "sessionId": "s" }),
            json!({ "mode": "form", "message": "x", "sessionId": "s", "requestedSchema": { "properties": [] } }),
            json!({ "mode": "form", "message": "x", "sessionId": "s", "requestedSchema": { "required": ["a"] } }),
            json!({ "mode": "url", "message": "x", "sessionId": "s", "url": "https://a" }),
        ] {
            assert_eq!(Elicitation::read(&params).unwrap_err(), ElicitationFault::Malformed, "{params}");
        }
        let other = json!({ "mode": "voice", "message": "x", "sessionId": "s" });
        assert!(matches!(Elicitation::read(&other), Err(ElicitationFault::Unknown(_))));
    }
}
