//! Checks, by the program's own report, that the settings which remove the program's own tools are in force.
//!
//! The program does not report its model's tools, but its effective settings and the origin of each. `config/read`
//! lists all layers, the strongest first, such as another command line, an administrator's file, and our file. This
//! module looks up each of our settings there. If another layer overrides one, the turn ends before the prompt is sent.
//!
//! No setting shows a tool that a later version enables by default under an unknown name. So the table of versions
//! lists the versions without such a tool, as seen at a loopback model.
//!
//! Source: observed with codex 0.158.0 and 0.169.0.

use nexus_core::{ErrorKind, harness::Failure};
use serde_json::Value;

use super::wire::{ConfigRead, RpcError};

/// Returns the failure of a turn without the program's own tools if a setting of `asked` is not in force; `None` if all
/// are in force.
pub(super) fn overruled(asked: &Value, read: Result<&Value, &RpcError>) -> Option<Failure> {
    let refused = |reason: String| Some(Failure::new(ErrorKind::Unsupported, reason));
    let read = match read.map(|read| serde_json::from_value::<ConfigRead>(read.clone())) {
        Ok(Ok(read)) => read,
        // An unreadable report counts as one without our settings, so the turn ends.
        Ok(Err(_)) => ConfigRead::default(),
        Err(error) => return refused(format!("codex does not report its configuration: {}", error.message)),
    };
    let holds = |path: &[&str], wanted: &Value| {
        // The strongest layer is the first, so the first one with the setting decides.
        let named = read.layers.iter().find_map(|layer| at(&layer.config, path));
        let effective =
            path.first().filter(|first| **first == "features").and_then(|_| at(&read.config.rest, path));
        named == Some(wanted) && effective.is_none_or(|value| value == wanted)
    };
    let mut overruled = Vec::new();
    add_overruled(asked, &mut Vec::new(), &holds, &mut overruled);
    if overruled.is_empty() {
        return None;
    }
    overruled.sort_unstable();
    refused(format!(
        "codex has settings that a turn without its own tools cannot have, from a file such as \
         /etc/codex/config.toml or from the program's start: {}; nothing was sent",
        overruled.join(", ")
    ))
}

/// Adds the path of each leaf of `asked` that is not in force.
fn add_overruled<'v>(
    asked: &'v Value,
    path: &mut Vec<&'v str>,
    holds: &impl Fn(&[&str], &Value) -> bool,
    overruled: &mut Vec<String>,
) {
    let Value::Object(keys) = asked else {
        if !holds(path, asked) {
            overruled.push(path.join("."));
        }
        return;
    };
    for (key, value) in keys {
        path.push(key);
        add_overruled(value, path, holds, overruled);
        path.pop();
    }
}

fn at<'v>(value: &'v Value, path: &[&str]) -> Option<&'v Value> {
    path.iter().try_fold(value, |value, key| value.get(key))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[allow(clippy::needless_pass_by_value, reason = "what is tried is written where it is tried")]
    fn verdict(layers: Value, features: Value) -> Option<String> {
        let asked = json!({ "web_search": "disabled", "features": { "goals": false }, "tools": { "plan": { "on": false } } });
        let read = json!({ "config": { "features": features }, "layers": layers });
        overruled(&asked, Ok(&read)).map(|failure| failure.message.unwrap_or_default())
    }

    fn ours() -> Value {
        let config = json!({ "web_search": "disabled", "features": { "goals": false }, "tools": { "plan": { "on": false } } });
        json!({ "name": { "type": "user" }, "config": config })
    }

    #[test]
    fn settings_that_hold_are_held() {
        assert_eq!(verdict(json!([ours()]), json!({ "goals": false, "other": true })), None);
        let beside = json!({ "name": { "type": "system" }, "config": { "features": { "goals": true } } });
        assert_eq!(verdict(json!([ours(), beside]), json!({ "goals": false })), None, "ours is the stronger");
    }

    #[test]
    fn a_stronger_layer_is_found_out() {
        for (flags, name) in [
            (json!({ "features": { "goals": true } }), "features.goals"),
            (json!({ "tools": { "plan": { "on": true } } }), "tools.plan.on"),
            (json!({ "web_search": "live" }), "web_search"),
        ] {
            let layers = json!([{ "name": { "type": "sessionFlags" }, "config": flags }, ours()]);
            let reason = verdict(layers, json!({ "goals": false })).unwrap();
            assert!(reason.contains(&format!("program's start: {name}; ")), "{reason}");
        }
        let flags = json!({ "web_search": "live", "features": { "goals": true } });
        let layers = json!([{ "name": { "type": "sessionFlags" }, "config": flags }, ours()]);
        let reason = verdict(layers, json!({ "goals": true })).unwrap();
        assert!(reason.contains("program's start: features.goals, web_search; "), "each is named: {reason}");
    }

    #[test]
    fn what_is_not_reported_is_not_held() {
        assert!(verdict(json!([]), json!({ "goals": false })).is_some());
        assert!(verdict(Value::Null, Value::Null).is_some());
        assert!(verdict(json!([ours()]), json!({ "goals": true })).is_some(), "a layer that is not listed");
        let refusal: RpcError = serde_json::from_value(json!({ "message": "no such method" })).unwrap();
        assert!(
            overruled(&json!({ "a": 1 }), Err(&refusal)).unwrap().message.unwrap().contains("no such method")
        );
    }
}
