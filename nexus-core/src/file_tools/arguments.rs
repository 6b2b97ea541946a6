//! Arguments of the tools, and their schemas for the model. The schemas are written by hand, because vendors
//! accept only a common subset: types and descriptions, without optional values by `null`.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;

/// Declares argument types, each with its fields and its schema.
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
        "path": { "type": "string", "description": "The folder. Default: every folder that you may read." },
        "depth": { "type": "integer", "minimum": 1, "description": "Depth of folders to list; 1 lists the \
            folder itself. Default: 2." },
        "offset": { "type": "integer", "minimum": 1, "description": "Number of the first entry to show, \
            counted from 1. Use it to continue a long list." },
    },
});

arguments!(ReadFile { path: String, offset: Option<usize>, limit: Option<usize>, } {
    "type": "object",
    "properties": {
        "path": { "type": "string", "description": "The file." },
        "offset": { "type": "integer", "minimum": 1, "description": "Number of the first line to show, \
            counted from 1." },
        "limit": { "type": "integer", "minimum": 1, "description": "Maximum number of lines to show." },
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
        "pattern": { "type": "string", "description": "A regular expression, matched against one line at a \
            time. Back-references and look-around are not supported." },
        "path": { "type": "string", "description": "The folder or file to search. Default: every file that \
            you may read." },
        "names": { "type": "string", "description": "A glob for the files, such as *.rs or src/**/*.md. \
            Default: all files." },
        "literal": { "type": "boolean", "description": "True if the pattern is plain text instead of a \
            regular expression." },
        "ignore_case": { "type": "boolean", "description": "True to ignore the difference between upper and \
            lower case." },
        "limit": { "type": "integer", "minimum": 1, "description": "Maximum number of lines to find. \
            Default: 100." },
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
        "path": { "type": "string", "description": "The file. Missing parent folders are created." },
        "content": { "type": "string", "description": "The complete new content of the file." },
        "expected_hash": { "type": "string", "description": "Hash of the existing file that is replaced, as \
            read_file shows it. Leave it out for a new file." },
        "executable": { "type": "boolean", "description": "True to make the file executable, false to make \
            it not executable. Default: unchanged." },
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
        "expected_hash": { "type": "string", "description": "Hash of the file, as read_file or the last \
            change returned it." },
        "old_text": { "type": "string", "description": "The text to replace, exactly as it is in the file, without line numbers. It must be in the file once." },
        "new_text": { "type": "string", "description": "The replacement text. Empty to delete the old text." },
        "replace_all": { "type": "boolean", "description": "True to replace every occurrence of the text in \
            the file." },
    },
    "required": ["path", "expected_hash", "old_text", "new_text"],
});

arguments!(DeleteFile { path: String, } {
    "type": "object",
    "properties": { "path": { "type": "string", "description": "The file." } },
    "required": ["path"],
});
