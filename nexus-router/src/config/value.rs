//! Converts a JSON value that a program built into text, so that errors can show a position in it.

use serde_json::{Map, Value};

use super::node::{MappingKey, Node, NodeValue, Position};

/// Returns the value as text, and as a tree with positions in that text.
pub(crate) fn written(value: &Value) -> (String, Node) {
    let mut writer = Writer { text: String::new(), position: Position::START, depth: 0 };
    let node = writer.node(value);
    (writer.text, node)
}

struct Writer {
    text: String,
    position: Position,
    depth: usize,
}

impl Writer {
    fn node(&mut self, value: &Value) -> Node {
        let position = self.position;
        let content = match value {
            Value::Array(items) => self.items(items),
            Value::Object(entries) => self.entries(entries),
            scalar => {
                self.push(&scalar.to_string());
                match scalar {
                    Value::Bool(value) => NodeValue::Bool(*value),
                    Value::Number(number) => NodeValue::Number(number.clone()),
                    Value::String(text) => NodeValue::Text(text.clone()),
                    _ => NodeValue::Null,
                }
            }
        };
        Node { content, position }
    }

    fn items(&mut self, items: &[Value]) -> NodeValue {
        // Lists in a configuration are lists of names, so they fit on one line.
        self.push("[");
        let mut nodes = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                self.push(", ");
            }
            nodes.push(self.node(item));
        }
        self.push("]");
        NodeValue::Sequence(nodes)
    }

    fn entries(&mut self, entries: &Map<String, Value>) -> NodeValue {
        self.push("{");
        self.depth += 1;
        let mut nodes = Vec::with_capacity(entries.len());
        for (index, (key, value)) in entries.iter().enumerate() {
            if index > 0 {
                self.push(",");
            }
            self.next_line();
            let key_node = MappingKey { text: key.clone(), position: self.position };
            self.push(&Value::String(key.clone()).to_string());
            self.push(": ");
            nodes.push((key_node, self.node(value)));
        }
        self.depth -= 1;
        if !entries.is_empty() {
            self.next_line();
        }
        self.push("}");
        NodeValue::Mapping(nodes)
    }

    fn next_line(&mut self) {
        self.text.push('\n');
        self.position = Position { line: self.position.line + 1, column: 1 };
        self.push(&"  ".repeat(self.depth));
    }

    /// Writes text without line breaks: JSON escapes line breaks in strings.
    fn push(&mut self, text: &str) {
        self.text.push_str(text);
        self.position.column += text.chars().count();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_place_is_that_of_the_text() {
        let value = json!({ "a": { "b": [1, "x\ny", null] }, "c": true, "d": {} });
        let (text, node) = written(&value);
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
        assert_eq!(node.to_value(), value);
        let Position { line, column } = node.position_of(&["a".into(), "b".into(), "1".into()]);
        let line: String = text.lines().nth(line - 1).unwrap().chars().skip(column - 1).collect();
        assert!(line.starts_with(r#""x\ny""#), "{line}");
    }
}
