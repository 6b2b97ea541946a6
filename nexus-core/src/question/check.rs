//! Checks of questions, and of the values that answer them.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{
    AgentQuestion, FieldChoice, FieldInput, MAX_FIELD_CHOICES, MAX_QUESTION_FIELDS, QuestionField,
    QuestionSubject, TextFormat,
};
#[cfg(feature = "schema")]
use crate::json_schema::SchemaChecker;
use crate::visible::is_invisible;

/// Largest number of characters of a pattern. Source: our own bound.
#[cfg(feature = "schema")]
const MAX_PATTERN_CHARS: usize = 200;
/// Largest number of characters of a text that must match a pattern. Source: our own bound.
#[cfg(feature = "schema")]
const MAX_MATCHED_CHARS: usize = 4_000;
/// Largest number of fields with a pattern in a form. It bounds the time to compile them. Source: our own bound.
const MAX_PATTERNS: usize = 10;
/// Largest number of characters of an address. Source: our own bound, as of many browsers.
const MAX_URL_CHARS: usize = 2_048;
/// Largest whole number that a floating-point number represents exactly.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;
/// Largest number of characters of a field's name, and of a choice's value. Source: our own bound.
const MAX_NAME_CHARS: usize = 500;

/// Checks that a person can answer a question.
pub(super) fn question(question: &AgentQuestion) -> Result<(), String> {
    if let QuestionSubject::Page { url, .. } = &question.subject {
        return page(url);
    }
    let fields = question.fields();
    if fields.len() > MAX_QUESTION_FIELDS {
        return Err(format!("the form has more than {MAX_QUESTION_FIELDS} fields"));
    }
    let is_matched = |field: &&QuestionField| matches!(&field.input, FieldInput::Text { pattern, .. } if pattern.is_some());
    if fields.iter().filter(is_matched).count() > MAX_PATTERNS {
        return Err(format!("the form has more than {MAX_PATTERNS} fields with a pattern"));
    }
    let mut names = BTreeSet::new();
    for field in fields {
        if !is_plain_name(&field.name) {
            return Err("the name of a field is too long, or has invisible characters".to_owned());
        }
        if !names.insert(&field.name) {
            return Err(format!("the form has two fields {:?}", field.name));
        }
        bounds(&field.input).map_err(|problem| format!("{:?}: {problem}", field.name))?;
    }
    Ok(())
}

/// Checks the address of a page.
fn page(url: &str) -> Result<(), String> {
    let rest = ["https://", "http://"].iter().find_map(|scheme| url.strip_prefix(scheme));
    // Browsers treat a backslash like a slash, so the host ends there too.
    let authority = rest.and_then(|rest| rest.split(['/', '?', '#', '\\']).next()).unwrap_or_default();
    // The part before the `@` is a user name, even if it looks like a host.
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    if host.is_empty() || host.starts_with(':') {
        return Err("the address is not one of a web page".to_owned());
    }
    if url.chars().nth(MAX_URL_CHARS).is_some() {
        return Err(format!("the address has more than {MAX_URL_CHARS} characters"));
    }
    let is_hidden = |letter: char| letter.is_whitespace() || letter.is_control() || is_invisible(letter);
    match url.contains(is_hidden) {
        true => Err("the address has white space or invisible characters".to_owned()),
        false => Ok(()),
    }
}

/// Returns true if a person can read the whole name or value.
fn is_plain_name(name: &str) -> bool {
    name.chars().nth(MAX_NAME_CHARS).is_none()
        && !name.contains(|letter: char| letter.is_control() || is_invisible(letter))
}

fn bounds(input: &FieldInput) -> Result<(), String> {
    let fits = match input {
        FieldInput::Text { min_chars, max_chars, pattern, .. } => {
            if let Some(pattern) = pattern {
                // Compile the pattern now, so that a faulty one is rejected before a person answers.
                has_pattern(pattern, "")?;
            }
            is_ordered(*min_chars, *max_chars)
        }
        FieldInput::Integer { min, max } => is_ordered(*min, *max),
        FieldInput::Number { min, max } => is_ordered(*min, *max),
        FieldInput::Boolean => true,
        FieldInput::Choice { choices } => return choices_fit(choices),
        FieldInput::Choices { choices, min, max } => {
            choices_fit(choices)?;
            is_ordered(*min, *max) && min.is_none_or(|min| min <= choices.len() as u64)
        }
    };
    if fits { Ok(()) } else { Err("no value fits its bounds".to_owned()) }
}

fn choices_fit(choices: &[FieldChoice]) -> Result<(), String> {
    match choices.len() {
        0 => Err("it has no choices".to_owned()),
        count if count > MAX_FIELD_CHOICES => Err(format!("it has more than {MAX_FIELD_CHOICES} choices")),
        _ if !choices.iter().all(|choice| is_plain_name(&choice.value)) => {
            Err("the value of a choice is too long, or has invisible characters".to_owned())
        }
        _ => Ok(()),
    }
}

fn is_ordered<T: PartialOrd>(min: Option<T>, max: Option<T>) -> bool {
    match (min, max) {
        (Some(min), Some(max)) => min <= max,
        _ => true,
    }
}

/// Checks the values of an answer.
pub(super) fn values(fields: &[QuestionField], values: &Map<String, Value>) -> Result<(), String> {
    if let Some(name) = values.keys().find(|name| fields.iter().all(|field| field.name != **name)) {
        return Err(format!("the form has no field {name:?}"));
    }
    for field in fields {
        match values.get(&field.name) {
            Some(value) => field.check(value).map_err(|problem| format!("{:?} {problem}", field.name))?,
            None if field.is_required => return Err(format!("{:?} needs a value", field.name)),
            None => {}
        }
    }
    Ok(())
}

/// Writes the whole numbers of an answer without a fraction.
pub(super) fn write_whole_numbers(fields: &[QuestionField], values: &mut Map<String, Value>) {
    for field in fields {
        if let (FieldInput::Integer { .. }, Some(value)) = (&field.input, values.get_mut(&field.name))
            && let Some(number) = whole_number(value)
        {
            *value = number.into();
        }
    }
}

/// Checks one value.
pub(super) fn value(input: &FieldInput, value: &Value) -> Result<(), String> {
    match input {
        FieldInput::Text { min_chars, max_chars, pattern, format } => {
            let text = value.as_str().ok_or("must be a text")?;
            within(text.chars().count() as u64, *min_chars, *max_chars, "characters")?;
            if !format.is_none_or(|format| is_of(format, text)) {
                return Err(format!("must be {}", format.map(name_of).unwrap_or_default()));
            }
            match pattern {
                Some(pattern) if !has_pattern(pattern, text)? => Err(format!("must match {pattern}")),
                _ => Ok(()),
            }
        }
        FieldInput::Integer { min, max } => {
            let number = whole_number(value).ok_or("must be a whole number")?;
            within(number, *min, *max, "")
        }
        FieldInput::Number { min, max } => {
            let number = value.as_f64().filter(|number| number.is_finite()).ok_or("must be a number")?;
            within(number, *min, *max, "")
        }
        FieldInput::Boolean => value.is_boolean().then_some(()).ok_or_else(|| "must be yes or no".to_owned()),
        FieldInput::Choice { choices } => {
            let is_choice = value.as_str().is_some_and(|text| is_among(choices, text));
            is_choice.then_some(()).ok_or_else(|| "must be one of the choices".to_owned())
        }
        FieldInput::Choices { choices, min, max } => {
            let chosen = value.as_array().ok_or("must be a list of the choices")?;
            // A set is smaller than the list if the list repeats a choice.
            let texts: Option<BTreeSet<&str>> = chosen.iter().map(Value::as_str).collect();
            let texts = texts.filter(|texts| texts.iter().all(|text| is_among(choices, text)));
            match texts {
                Some(texts) if texts.len() == chosen.len() => {
                    within(chosen.len() as u64, *min, *max, "choices")
                }
                _ => Err("must be a list of different choices".to_owned()),
            }
        }
    }
}

/// Returns a whole number, which may be written with a fraction of zero, such as `3.0`.
fn whole_number(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| {
        let number = value.as_f64().filter(|number| number.fract() == 0.0 && number.abs() <= MAX_EXACT)?;
        #[allow(clippy::cast_possible_truncation, reason = "it is whole and within the bounds")]
        Some(number as i64)
    })
}

fn within<T: Copy + PartialOrd + std::fmt::Display>(
    value: T,
    min: Option<T>,
    max: Option<T>,
    unit: &str,
) -> Result<(), String> {
    let bound = match (min, max) {
        (Some(min), _) if value < min => format!("at least {min}"),
        (_, Some(max)) if value > max => format!("at most {max}"),
        _ => return Ok(()),
    };
    match unit {
        "" => Err(format!("must be {bound}")),
        unit => Err(format!("must have {bound} {unit}")),
    }
}

fn is_among(choices: &[FieldChoice], text: &str) -> bool {
    choices.iter().any(|choice| choice.value == text)
}

/// Returns true if a part of the text matches the regular expression.
#[cfg(feature = "schema")]
fn has_pattern(pattern: &str, text: &str) -> Result<bool, String> {
    if pattern.chars().nth(MAX_PATTERN_CHARS).is_some() {
        return Err(format!("its pattern has more than {MAX_PATTERN_CHARS} characters"));
    }
    if text.chars().nth(MAX_MATCHED_CHARS).is_some() {
        return Err(format!("must have at most {MAX_MATCHED_CHARS} characters"));
    }
    let checker = SchemaChecker::of_pattern(pattern)
        .map_err(|_| "its pattern is too large, or no regular expression without lookaround")?;
    Ok(checker.violations(&Value::String(text.to_owned()), 1).is_empty())
}

#[cfg(not(feature = "schema"))]
fn has_pattern(_: &str, _: &str) -> Result<bool, String> {
    Err("its pattern cannot be checked without the feature `schema`".to_owned())
}

fn name_of(format: TextFormat) -> &'static str {
    match format {
        TextFormat::Email => "an email address",
        TextFormat::Uri => "a URI, such as https://example.com",
        TextFormat::Date => "a date, such as 2026-11-30",
        TextFormat::DateTime => "a date and a time, such as 2026-11-30T12:00:00Z",
    }
}

fn is_of(format: TextFormat, text: &str) -> bool {
    let is_plain = !text.chars().any(|letter| letter.is_whitespace() || letter.is_control());
    match format {
        TextFormat::Email => {
            let parts = text.split_once('@');
            is_plain
                && parts
                    .is_some_and(|(name, host)| !name.is_empty() && !host.is_empty() && !host.contains('@'))
        }
        TextFormat::Uri => {
            is_plain
                && text.split_once(':').is_some_and(|(scheme, rest)| is_scheme(scheme) && !rest.is_empty())
        }
        TextFormat::Date => is_date(text),
        TextFormat::DateTime => {
            text.split_once(['T', 't']).is_some_and(|(date, time)| is_date(date) && is_time(time))
        }
    }
}

fn is_scheme(scheme: &str) -> bool {
    scheme.starts_with(|letter: char| letter.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

/// Returns the numbers of a text whose parts have these lengths.
fn digits<const N: usize>(text: &str, between: char, lengths: [usize; N]) -> Option<[u32; N]> {
    let parts: Vec<&str> = text.split(between).collect();
    let parts: [&str; N] = parts.try_into().ok()?;
    let mut numbers = [0; N];
    for ((number, part), length) in numbers.iter_mut().zip(parts).zip(lengths) {
        let is_number = part.len() == length && part.bytes().all(|byte| byte.is_ascii_digit());
        *number = part.parse().ok().filter(|_| is_number)?;
    }
    Some(numbers)
}

fn is_date(text: &str) -> bool {
    let Some([year, month, day]) = digits(text, '-', [4, 2, 2]) else { return false };
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if is_leap => 29,
        2 => 28,
        _ => 0,
    };
    (1..=days).contains(&day)
}

/// Returns true for a time with an offset, as in RFC 3339.
fn is_time(text: &str) -> bool {
    let (time, has_offset) = match text.strip_suffix(['Z', 'z']) {
        Some(time) => (time, true),
        None => match text.rfind(['+', '-']) {
            Some(at) => {
                let (time, offset) = text.split_at(at);
                let offset = offset.get(1..).and_then(|offset| digits(offset, ':', [2, 2]));
                (time, offset.is_some_and(|[hours, minutes]| hours < 24 && minutes < 60))
            }
            None => (text, false),
        },
    };
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let is_fraction = !fraction.is_empty() && fraction.bytes().all(|byte| byte.is_ascii_digit());
    let time = digits(time, ':', [2, 2, 2]);
    // RFC 3339 allows 60 seconds, for a leap second.
    has_offset
        && is_fraction
        && time.is_some_and(|[hours, minutes, seconds]| hours < 24 && minutes < 60 && seconds <= 60)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn text(format: Option<TextFormat>) -> FieldInput {
        FieldInput::Text { min_chars: Some(1), max_chars: Some(30), pattern: None, format }
    }

    fn choices() -> Vec<FieldChoice> {
        vec![FieldChoice::new("a", "A"), FieldChoice::new("b", "B")]
    }

    #[test]
    fn a_value_fits_its_field_or_the_problem_is_named() {
        let any = || text(None);
        let some = FieldInput::Choices { choices: choices(), min: Some(1), max: Some(1) };
        for (input, value, problem) in [
            (any(), json!("ü".repeat(30)), None),
            (any(), json!("ü".repeat(31)), Some("must have at most 30 characters")),
            (any(), json!(""), Some("must have at least 1 characters")),
            (any(), json!(7), Some("must be a text")),
            (text(Some(TextFormat::Email)), json!("a@b"), None),
            (text(Some(TextFormat::Email)), json!("a b@c"), Some("must be an email address")),
            (text(Some(TextFormat::Uri)), json!("mailto:a"), None),
            (text(Some(TextFormat::Uri)), json!("here"), Some("must be a URI, such as https://example.com")),
            (text(Some(TextFormat::Date)), json!("2024-02-29"), None),
            (text(Some(TextFormat::Date)), json!("2026-02-29"), Some("must be a date, such as 2026-11-30")),
            (text(Some(TextFormat::DateTime)), json!("2026-11-30T12:00:00.5+01:00"), None),
            (
                text(Some(TextFormat::DateTime)),
                json!("2026-11-30T12:00:00"),
                Some("must be a date and a time, such as 2026-11-30T12:00:00Z"),
            ),
            (FieldInput::Integer { min: Some(-1), max: Some(1) }, json!(-1), None),
            (FieldInput::Integer { min: None, max: Some(1) }, json!(2), Some("must be at most 1")),
            (FieldInput::Integer { min: None, max: None }, json!(1.5), Some("must be a whole number")),
            (FieldInput::Integer { min: None, max: Some(3) }, json!(3.0), None),
            (FieldInput::Integer { min: None, max: Some(1) }, json!(2.0), Some("must be at most 1")),
            (FieldInput::Integer { min: None, max: None }, json!(1e300), Some("must be a whole number")),
            (FieldInput::Number { min: Some(0.5), max: None }, json!(1), None),
            (FieldInput::Number { min: Some(0.5), max: None }, json!(0.4), Some("must be at least 0.5")),
            (FieldInput::Boolean, json!(false), None),
            (FieldInput::Boolean, json!("no"), Some("must be yes or no")),
            (FieldInput::Choice { choices: choices() }, json!("a"), None),
            (FieldInput::Choice { choices: choices() }, json!("A"), Some("must be one of the choices")),
            (some.clone(), json!(["b"]), None),
            (some.clone(), json!(["a", "b"]), Some("must have at most 1 choices")),
            (some.clone(), json!(["a", "a"]), Some("must be a list of different choices")),
            (some, json!("a"), Some("must be a list of the choices")),
        ] {
            let found = super::value(&input, &value).err();
            assert_eq!(found.as_deref(), problem, "{input:?} {value}");
        }
    }

    #[cfg(feature = "schema")]
    #[test]
    fn a_pattern_is_checked_and_one_that_cannot_be_is_named() {
        let of = |pattern: &str| FieldInput::Text {
            min_chars: None,
            max_chars: None,
            pattern: Some(pattern.to_owned()),
            format: None,
        };
        assert_eq!(value(&of("^[a-z]+$"), &json!("abc")), Ok(()));
        assert_eq!(value(&of("^[a-z]+$"), &json!("ABC")).unwrap_err(), "must match ^[a-z]+$");
        assert_eq!(
            bounds(&of("(")).unwrap_err(),
            "its pattern is too large, or no regular expression without lookaround"
        );
    }

    /// The whole test takes minutes if patterns are compiled without a limit.
    #[cfg(feature = "schema")]
    #[test]
    fn a_large_pattern_is_not_compiled() {
        let of = |pattern: &str| FieldInput::Text {
            min_chars: None,
            max_chars: None,
            pattern: Some(pattern.to_owned()),
            format: None,
        };
        for pattern in [
            r"(?:[\p{L}\p{N}]{100}){20}",
            "(?:(?:(?:a{1000}){1000}){1000}){1000}",
            "(?=(?:a{1000}){1000})a",
            r"(a)\1",
        ] {
            let problem = bounds(&of(pattern)).unwrap_err();
            assert_eq!(problem, "its pattern is too large, or no regular expression without lookaround");
        }
        assert_eq!(bounds(&of(&"a".repeat(201))).unwrap_err(), "its pattern has more than 200 characters");
        assert_eq!(bounds(&of(r"^[\p{L} .'-]{1,20}$")), Ok(()));
        let long = value(&of("a"), &json!("a".repeat(4_001))).unwrap_err();
        assert_eq!(long, "must have at most 4000 characters");
        let field = |number: usize| QuestionField::new(number.to_string(), of("a"));
        let question =
            AgentQuestion::new("?", QuestionSubject::Form { fields: (0..11).map(field).collect() });
        assert_eq!(question.check().unwrap_err(), "the form has more than 10 fields with a pattern");
    }

    #[test]
    fn an_address_shows_where_it_leads() {
        let long = format!("https://a/{}", "b".repeat(2_048));
        for (url, problem) in [
            ("https://a.example:8/b?c=d", None),
            ("http://[::1]:8/", None),
            ("https://", Some("the address is not one of a web page")),
            ("https:///a", Some("the address is not one of a web page")),
            ("https://a@/b", Some("the address is not one of a web page")),
            ("https://:8/b", Some("the address is not one of a web page")),
            ("https://a b", Some("the address has white space or invisible characters")),
            ("https://a\n", Some("the address has white space or invisible characters")),
            ("https://a\u{202e}b", Some("the address has white space or invisible characters")),
            (&long, Some("the address has more than 2048 characters")),
        ] {
            assert_eq!(page(url).err().as_deref(), problem, "{url:?}");
        }
    }

    #[test]
    fn names_and_values_that_a_person_cannot_read_are_no_question() {
        let form = |field| AgentQuestion::new("?", QuestionSubject::Form { fields: vec![field] });
        for name in ["a\u{1b}b".to_owned(), "a\u{200b}".to_owned(), "a".repeat(501)] {
            let by_name = form(QuestionField::new(name.clone(), FieldInput::Boolean)).check().unwrap_err();
            assert_eq!(by_name, "the name of a field is too long, or has invisible characters");
            let choices = vec![FieldChoice::new(name, "A")];
            let by_value = form(QuestionField::new("x", FieldInput::Choice { choices })).check().unwrap_err();
            assert_eq!(by_value, r#""x": the value of a choice is too long, or has invisible characters"#);
        }
    }

    #[test]
    fn a_form_that_nobody_can_fill_in_is_no_question() {
        let form = |fields: Vec<QuestionField>| AgentQuestion::new("?", QuestionSubject::Form { fields });
        let field = |input| QuestionField::new("x", input);
        for (question, problem) in [
            (form(vec![field(FieldInput::Boolean); 2]), r#"the form has two fields "x""#),
            (
                form(vec![field(FieldInput::Integer { min: Some(2), max: Some(1) })]),
                r#""x": no value fits its bounds"#,
            ),
            (
                form(vec![field(FieldInput::Number { min: Some(f64::NAN), max: Some(1.0) })]),
                r#""x": no value fits its bounds"#,
            ),
            (form(vec![field(FieldInput::Choice { choices: Vec::new() })]), r#""x": it has no choices"#),
            (
                form(vec![field(FieldInput::Choices { choices: choices(), min: Some(3), max: None })]),
                r#""x": no value fits its bounds"#,
            ),
            (
                form((0..51).map(|n| QuestionField::new(n.to_string(), FieldInput::Boolean)).collect()),
                "the form has more than 50 fields",
            ),
            (
                AgentQuestion::new(
                    "?",
                    QuestionSubject::Page { id: "1".into(), url: "javascript:alert(1)".into() },
                ),
                "the address is not one of a web page",
            ),
        ] {
            assert_eq!(question.check().unwrap_err(), problem);
        }
        assert_eq!(form(Vec::new()).check(), Ok(()));
    }

    #[test]
    fn an_answer_has_the_required_values_and_no_others() {
        let fields = vec![
            QuestionField::new("name", FieldInput::text()).required(true),
            QuestionField::new("sure", FieldInput::Boolean).with_default(Some(json!("yes"))),
            QuestionField::new("age", FieldInput::Integer { min: None, max: None }),
        ];
        assert_eq!(fields[1].default, None, "a value that is not allowed is proposed");
        let question = AgentQuestion::new("?", QuestionSubject::Form { fields });
        let check = |values: Value| question.check_values(values.as_object().unwrap());
        assert_eq!(check(json!({ "name": "x" })), Ok(()));
        assert_eq!(check(json!({ "sure": true })).unwrap_err(), r#""name" needs a value"#);
        assert_eq!(check(json!({ "name": "x", "more": 1 })).unwrap_err(), r#"the form has no field "more""#);
        let values = json!({ "name": "x", "age": 3.0 }).as_object().unwrap().clone();
        assert_eq!(question.checked_values(values).unwrap()["age"], json!(3));
        assert_eq!(check(json!({ "name": "x", "sure": 1 })).unwrap_err(), r#""sure" must be yes or no"#);
    }
}
