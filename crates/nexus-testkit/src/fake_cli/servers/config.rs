//! The names of servers in configurations: the parts that two of the programs share.

use serde_json::Value;

use super::{super::notes::Given, Server};

/// The file as a value; an empty one if it cannot be read, as the programs take it.
pub(in crate::fake_cli) fn read_toml(path: &std::path::Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    toml::from_str::<Value>(&text).unwrap_or_default()
}

/// The servers under `mcp_servers` that are not turned off, each with its own table. `headers` is what the program
/// calls the table of headers.
pub(in crate::fake_cli) fn named_in(config: &Value, headers: &str, given: &Given) -> Vec<(Server, Value)> {
    let tables = config["mcp_servers"].as_object().into_iter().flatten();
    let tables = tables.filter(|(_, table)| table["enabled"] != false && table["url"].is_string());
    let server = |(name, table): (&String, &Value)| {
        let fields = table[headers].as_object().into_iter().flatten();
        let mut headers: Vec<(String, String)> = fields
            .filter_map(|(name, value)| Some((name.clone(), expanded(value.as_str()?, given))))
            .collect();
        let token = table["bearer_token_env_var"].as_str().and_then(|variable| given.variable(variable));
        headers.extend(token.map(|token| ("authorization".to_owned(), format!("Bearer {token}"))));
        let url = table["url"].as_str().unwrap_or_default().to_owned();
        (Server { name: name.clone(), url, headers }, table.clone())
    };
    tables.map(server).collect()
}

/// The text with `${NAME}` and `${NAME:-otherwise}` replaced. A variable that is not set stays as it is written.
pub(in crate::fake_cli) fn expanded(text: &str, given: &Given) -> String {
    let mut whole = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        whole.push_str(before);
        let Some((inside, after)) = after.split_once('}') else {
            whole.push_str("${");
            rest = after;
            continue;
        };
        let (name, otherwise) = match inside.split_once(":-") {
            Some((name, otherwise)) => (name, Some(otherwise)),
            None => (inside, None),
        };
        match given.variable(name).or(otherwise) {
            Some(value) => whole.push_str(value),
            None => whole.push_str(&format!("${{{inside}}}")),
        }
        rest = after;
    }
    whole.push_str(rest);
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given() -> Given {
        let environment = [("TOKEN".to_owned(), "t-1".to_owned())].into();
        Given { environment, ..Given::default() }
    }

    #[test]
    fn variables_are_replaced_where_they_are_set() {
        let expanded = |text| expanded(text, &given());
        assert_eq!(expanded("Bearer ${TOKEN}!"), "Bearer t-1!");
        assert_eq!(expanded("${NONE} ${NONE:-other} ${"), "${NONE} other ${");
    }

    #[test]
    fn servers_are_read_with_their_tokens() {
        let text = "[mcp_servers.nexus]\nurl = \"http://127.0.0.1:1/mcp\"\nbearer_token_env_var = \"TOKEN\"\n\
                    [mcp_servers.off]\nurl = \"http://127.0.0.1:2/mcp\"\nenabled = false\n";
        let servers = named_in(&toml::from_str(text).unwrap(), "http_headers", &given());
        let [(nexus, table)] = servers.as_slice() else { panic!("{servers:?}") };
        assert_eq!((nexus.name.as_str(), nexus.url.as_str()), ("nexus", "http://127.0.0.1:1/mcp"));
        assert_eq!(nexus.headers, [("authorization".to_owned(), "Bearer t-1".to_owned())]);
        assert_eq!(table["bearer_token_env_var"], "TOKEN");
    }
}
