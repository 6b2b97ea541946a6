//! Arguments of the tools, and their schemas for the model. The schemas are written by hand, in the subset that
//! every vendor accepts: types and descriptions, and no optional values by `null`.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;

/// Arguments: their fields, with the schema that describes them.
macro_rules! arguments {
    ($name:ident { $($field:ident: $type:ty,)* } $schema:tt) => {
        #[derive(Debug, Deserialize)]
        pub(super) struct $name { $(pub(super) $field: $type,)* }

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    };
}

arguments!(ListFiles { path: Option<String>, depth: Option<usize>, offset: Option<usize>, } {
    "type": "object",
    "properties": {
        "path": { "type": "string", "description": "The folder. Without it: everything that may be read." },
        "depth": { "type": "integer", "minimum": 1, "description": "How many folders deep; 1 is the folder itself. 2 if left out." },
        "offset": { "type": "integer", "minimum": 1, "description": "The first entry to show, counted from 1, to go on with a long list." },
    },
});

arguments!(ReadFile { path: String, offset: Option<usize>, limit: Option<usize>, } {
    "type": "object",
    "properties": {
        "path": { "type": "string", "description": "The file." },
        "offset": { "type": "integer", "minimum": 1, "description": "The first line to show, counted from 1." },
        "limit": { "type": "integer", "minimum": 1, "description": "How many lines to show at most." },
    },
    "required": ["path"],
});

arguments!(SearchFiles {
    pattern: String,
    path: Option<String>,
    names: Option<String>,
    literal: Option<bool>,
    ignore_case: Option<bool>,
    limit: Option<usize>,
} {
    "type": "object",
    "properties": {
        "pattern": { "type": "string", "description": "A regular expression, held against one line at a time. Neither references back nor looking around." },
        "path": { "type": "string", "description": "The folder or the file to search. Without it: everything that may be read." },
        "names": { "type": "string", "description": "A glob for the files, such as *.rs or src/**/*.md. Without it: all." },
        "literal": { "type": "boolean", "description": "Whether the pattern is plain text, and no regular expression." },
        "ignore_case": { "type": "boolean", "description": "Whether upper and lower case are the same." },
        "limit": { "type": "integer", "minimum": 1, "description": "How many lines to find at most. 100 if left out." },
    },
    "required": ["pattern"],
});

arguments!(WriteFile {
    path: String,
    content: String,
    expected_hash: Option<String>,
    executable: Option<bool>,
} {
    "type": "object",
    "properties": {
        "path": { "type": "string", "description": "The file. Folders above it that do not exist are made." },
        "content": { "type": "string", "description": "All that is to be in it." },
        "expected_hash": { "type": "string", "description": "To replace a file that exists: its hash, as read_file shows it. Leave it out for a new file." },
        "executable": { "type": "boolean", "description": "Whether the file is a program that can be run. Leave it out to keep it as it is." },
    },
    "required": ["path", "content"],
});

arguments!(EditFile {
    path: String,
    expected_hash: String,
    old_text: String,
    new_text: String,
    replace_all: Option<bool>,
} {
    "type": "object",
    "properties": {
        "path": { "type": "string", "description": "The file." },
        "expected_hash": { "type": "string", "description": "Its hash, as read_file or the last change showed it." },
        "old_text": { "type": "string", "description": "The text to replace, exactly as it is in the file, without line numbers. It must be in the file once." },
        "new_text": { "type": "string", "description": "What is to stand there instead. Empty to take the text out." },
        "replace_all": { "type": "boolean", "description": "Whether to replace the text everywhere it is in the file." },
    },
    "required": ["path", "expected_hash", "old_text", "new_text"],
});

arguments!(DeleteFile { path: String, } {
    "type": "object",
    "properties": { "path": { "type": "string", "description": "The file." } },
    "required": ["path"],
});
