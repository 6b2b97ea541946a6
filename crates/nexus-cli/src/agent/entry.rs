//! Lines for `nexus.yaml`.

/// Texts that a reader of YAML 1.1 or 1.2 takes for a truth value or for nothing.
const WORDS: [&str; 9] = ["null", "true", "false", "yes", "no", "on", "off", "y", "n"];

/// Quotes the name of an agent where YAML would read it as something other than text.
pub(super) fn yaml_name(name: &str) -> String {
    // Every number and every date begins with a digit, except `nan` and `inf`.
    let is_text = name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.parse::<f64>().is_err()
        && !WORDS.iter().any(|word| word.eq_ignore_ascii_case(name));
    if is_text { name.to_owned() } else { format!("\"{name}\"") }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::yaml_name;

    #[test]
    fn a_name_is_read_as_text() {
        for name in [
            "true",
            "No",
            "Y",
            "123",
            "1e5",
            "0x1F",
            "null",
            "NaN",
            "inf",
            "2027-01-31",
            "mine",
            "a.b-c_d",
            "e5",
        ] {
            let read: Value = serde_yaml::from_str(&yaml_name(name)).unwrap();
            assert_eq!(read, Value::from(name));
        }
        assert_eq!(["mine", "e5", "true", "1e5"].map(yaml_name), ["mine", "e5", "\"true\"", "\"1e5\""]);
    }
}
