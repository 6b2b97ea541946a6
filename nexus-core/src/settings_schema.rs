//! The JSON Schema of settings and sections of `nexus.yaml`, derived from the types that read them: for
//! [`BackendKind::settings_schema`](crate::BackendKind::settings_schema) and [`ConfigSection::schema`](crate::ConfigSection::schema).

use std::{
    any::TypeId,
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use schemars::{JsonSchema, Schema, generate::SchemaSettings, transform::transform_subschemas};
use serde_json::{Value, json};

/// Returns the schema of `T`, in a form for authors of a configuration: one object without references. An optional key may be left
/// out.
pub fn of<T: JsonSchema + 'static>() -> Value {
    Value::clone(&shared::<T>())
}

/// Like [`of`], without a copy. The schema of a type is made once in a process, because a configuration may have thousands of backends.
pub fn shared<T: JsonSchema + 'static>() -> Arc<Value> {
    static MADE: Mutex<BTreeMap<TypeId, Arc<Value>>> = Mutex::new(BTreeMap::new());
    let made = || MADE.lock().unwrap_or_else(PoisonError::into_inner);
    let known = made().get(&TypeId::of::<T>()).cloned();
    known.unwrap_or_else(|| {
        // Make it before taking the lock: the schema of a type may need that of another one.
        let schema = Arc::new(new::<T>());
        Arc::clone(made().entry(TypeId::of::<T>()).or_insert(schema))
    })
}

fn new<T: JsonSchema>() -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    plain(&mut schema);
    // The description of the kind is more specific than that of its settings type.
    schema.remove("description");
    schema.to_value()
}

/// Returns the JSON Schema of settings that several kinds share, together with a kind's own settings, `Own`.
pub fn with_own<Shared: JsonSchema + 'static, Own: JsonSchema + 'static>() -> Value {
    let (mut schema, mut own) = (of::<Shared>(), of::<Own>());
    if let (Some(all), Some(own)) = (schema["properties"].as_object_mut(), own["properties"].as_object_mut())
    {
        all.append(own);
    }
    schema
}

/// Removes details of Rust types, and `null`: an optional key may be missing, but not null.
fn plain(schema: &mut Schema) {
    schema.remove("title");
    schema.remove("format");
    if schema.get("default").is_some_and(Value::is_null) {
        schema.remove("default");
    }
    // `schemars` writes an optional object as a choice between the object and null.
    let null = json!({ "type": "null" });
    if let Some([inner, last]) = schema.get("anyOf").and_then(Value::as_array).map(Vec::as_slice)
        && *last == null
    {
        let inner = inner.as_object().cloned().unwrap_or_default();
        schema.remove("anyOf");
        let object = schema.ensure_object();
        for (key, value) in inner {
            object.entry(key).or_insert(value);
        }
    }
    // Enum variants with comments become alternatives of one value each.
    let words = |schema: &Value| match (schema.get("const"), schema.get("enum")) {
        (Some(word), _) => Some(vec![word.clone()]),
        (None, words) => words?.as_array().cloned(),
    };
    let alternatives = schema.get("oneOf").and_then(Value::as_array);
    if let Some(words) = alternatives.and_then(|list| list.iter().map(words).collect::<Option<Vec<_>>>()) {
        schema.remove("oneOf");
        schema.insert("type".to_owned(), "string".into());
        schema.insert("enum".to_owned(), words.concat().into());
    }
    // `schemars` adds null to the type of an optional scalar.
    for keyword in ["type", "enum"] {
        let Some(Value::Array(values)) = schema.get_mut(keyword) else { continue };
        values.retain(|value| !value.is_null() && value != "null");
        if let ("type", [only]) = (keyword, values.as_slice()) {
            let only = only.clone();
            schema.insert(keyword.to_owned(), only);
        }
    }
    // Join the lines of a comment's paragraph.
    if let Some(Value::String(text)) = schema.get_mut("description") {
        *text = text.replace('\n', " ");
    }
    transform_subschemas(&mut plain, schema);
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[derive(Default, serde::Deserialize, JsonSchema)]
    #[serde(default, deny_unknown_fields, rename_all = "lowercase")]
    struct Outer {
        /// A path,
        /// or none.
        path: Option<PathBuf>,
        /// How often.
        #[schemars(range(min = 1))]
        count: u32,
        word: Option<Word>,
        inner: Option<Inner>,
    }

    #[derive(serde::Deserialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    enum Word {
        /// The first.
        One,
        /// The second.
        Two,
    }

    /// Something inside.
    #[derive(Default, serde::Deserialize, JsonSchema)]
    #[serde(default, deny_unknown_fields)]
    struct Inner {
        flag: bool,
    }

    #[test]
    fn a_schema_is_made_once() {
        static MADE: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        struct Counted;
        impl JsonSchema for Counted {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                "Counted".into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> Schema {
                MADE.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                schemars::json_schema!({ "type": "object" })
            }
        }
        let first = shared::<Counted>();
        for _ in 0..1_000 {
            assert_eq!(
                (of::<Counted>(), Arc::as_ptr(&shared::<Counted>())),
                (Value::clone(&first), Arc::as_ptr(&first))
            );
        }
        assert_eq!(MADE.load(std::sync::atomic::Ordering::SeqCst), 1);
    }

    #[test]
    fn a_schema_may_need_that_of_another_type() {
        struct Nested;
        impl JsonSchema for Nested {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                "Nested".into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> Schema {
                schemars::json_schema!({ "type": "object", "properties": { "inner": of::<Inner>() } })
            }
        }
        // Another thread, so that a deadlock fails the test.
        let (sender, made) = std::sync::mpsc::channel();
        std::thread::spawn(move || sender.send(of::<Nested>()));
        let made = made.recv_timeout(std::time::Duration::from_secs(30)).unwrap();
        assert_eq!(made["properties"]["inner"], of::<Inner>());
    }

    #[test]
    fn a_schema_is_as_one_would_write_it_by_hand() {
        let expected = json!({
            "type": "object",
            "additionalProperties": false,
            "properties": {
                "path": { "type": "string", "description": "A path, or none." },
                "count": { "type": "integer", "minimum": 1, "default": 0, "description": "How often." },
                "word": { "type": "string", "enum": ["one", "two"] },
                "inner": {
                    "type": "object",
                    "description": "Something inside.",
                    "additionalProperties": false,
                    "properties": { "flag": { "type": "boolean", "default": false } },
                },
            },
        });
        assert_eq!(of::<Outer>(), expected);
    }
}
