//! Schemas of types of the engine, which does not depend on `schemars`.
//!
//! Each schema names the fields that a program can rely on. There may be further fields.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

/// Declares a type that replaces another type in a schema.
macro_rules! foreign {
    ($generator:ident; $($(#[$about:meta])* $name:ident = $shown:literal $schema:tt)*) => {$(
        $(#[$about])*
        #[derive(Debug)]
        pub(crate) struct $name;

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                $shown.into()
            }

            #[allow(unused_variables, reason = "only some of them name others")]
            fn json_schema($generator: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    )*};
}

foreign! {
    generator;
    /// Schema of `nexus::Availability`.
    AvailabilitySchema = "Availability" {
        "type": "object",
        "properties": { "state": { "enum": ["ready", "not_installed", "unauthenticated", "unusable"] } },
        "required": ["state"],
    }
    /// Schema of `nexus::EventEnvelope`.
    EventSchema = "TurnEvent" {
        "type": "object",
        "properties": {
            "sequence": { "type": "integer", "minimum": 0 },
            "elapsed": { "type": "object" },
            "event": {
                "type": "object",
                "properties": { "type": { "enum": [
                    "queued", "started", "text_delta", "thinking_delta", "tool_call_started", "tool_call_arguments",
                    "tool_call_finished", "input_received", "compacted", "context_usage", "question_completed", "message_ended", "message_voided", "rate_limit", "retrying", "fallback",
                    "warning", "unrecognized", "repaired",
                ] } },
                "required": ["type"],
            },
        },
        "required": ["sequence", "elapsed", "event"],
    }
    /// Schema of `nexus::TurnResult`.
    ResultSchema = "TurnResult" {
        "type": "object",
        "properties": {
            "text": { "type": "string" },
            "output": true,
            "messages": { "type": "array" },
            "tool_calls": { "type": "array" },
            "usage": { "type": "object" },
            "cost": { "type": ["object", "null"] },
            "finish": true,
            "effects": true,
            "resume": true,
            "provenance": { "type": "object" },
        },
        "required": ["text", "output", "messages", "tool_calls", "usage", "cost", "finish", "effects", "resume", "provenance"],
    }
    /// Schema of `nexus::TurnErrorReport`.
    TurnErrorSchema = "TurnError" {
        "type": "object",
        "properties": {
            "kind": true,
            "backend": { "type": "string" },
            "retry": true,
            "message": { "type": ["string", "null"] },
            "partial": { "type": "object" },
            "process": { "type": ["object", "null"] },
            "skipped": { "type": "array" },
            "causes": { "type": "array", "items": { "type": "string" } },
        },
        "required": ["kind", "backend", "retry", "message", "partial", "process", "skipped", "causes"],
    }
    /// Schema of `nexus::TurnRecord`.
    RecordSchema = "TurnRecord" {
        "type": "object",
        "properties": {
            "id": { "type": "string" },
            "name": { "type": "string" },
            "began": { "type": "object" },
            "request": { "type": "object" },
            "events": { "type": "array", "items": generator.subschema_for::<EventSchema>() },
            "outcome": { "anyOf": [
                { "type": "null" },
                { "type": "object", "properties": { "result": generator.subschema_for::<ResultSchema>() }, "required": ["result"] },
                { "type": "object", "properties": { "error": generator.subschema_for::<TurnErrorSchema>() }, "required": ["error"] },
                { "type": "object", "required": ["unknown"] },
            ] },
            "took": { "type": ["object", "null"] },
            "lost_lines": { "type": "integer" },
            "is_forgotten": { "type": "boolean" },
            "cuts": { "type": "array" },
        },
        "required": ["id", "name", "began", "request", "events", "outcome", "took", "lost_lines", "is_forgotten", "cuts"],
    }
    /// Schema of `nexus::Explanation`.
    ExplanationSchema = "Explanation" {
        "type": "object",
        "properties": {
            "kind": { "type": "string" },
            "tier": { "type": ["string", "null"] },
            "phase": { "type": ["string", "null"] },
            "fallback": true,
            "target": { "anyOf": [
                { "type": "object", "properties": { "chain": { "type": "object" } }, "required": ["chain"] },
                { "type": "object", "properties": { "panel": { "type": "object" } }, "required": ["panel"] },
            ] },
            "as_of": { "type": "object" },
        },
        "required": ["kind", "tier", "phase", "fallback", "target", "as_of"],
    }
    /// Schema of `nexus::ConversationSummary`.
    SummarySchema = "ConversationSummary" {
        "type": "object",
        "properties": {
            "name": { "type": "string" },
            "turns": { "type": "integer" },
            "messages": { "type": "integer" },
            "updated_at_ms": { "type": "integer" },
            "resumes": { "type": ["string", "null"] },
        },
        "required": ["name", "turns", "messages", "updated_at_ms", "resumes"],
    }
    /// Schema of `nexus::ConversationMessage`.
    MessageSchema = "ConversationMessage" {
        "type": "object",
        "properties": { "role": { "enum": ["user", "assistant", "tool_call"] } },
        "required": ["role"],
    }
    /// Schema of `nexus::ConversationTurn`.
    ConversationTurnSchema = "ConversationTurn" {
        "type": "object",
        "properties": {
            "ended_at_ms": { "type": "integer" },
            "backend": { "type": ["string", "null"] },
            "model": { "type": ["string", "null"] },
            "messages": { "type": "array", "items": generator.subschema_for::<MessageSchema>() },
        },
        "required": ["ended_at_ms", "backend", "model", "messages"],
    }
    /// Schema of a JSON object, such as a JSON Schema.
    ObjectSchema = "Object" { "type": "object" }
}
