//! Model list of the CLI, from its response to `initialize`.

use super::wire::ModelInfo;

/// Returns true if the model supports the effort, by the CLI's model list. A model that is not in the list counts as
/// supporting it.
pub(super) fn takes_effort(models: &[ModelInfo], model: &str, effort: &str) -> bool {
    let is_it = |known: &&ModelInfo| known.value == model || known.resolved_model.as_deref() == Some(model);
    let Some(known) = models.iter().find(is_it) else { return true };
    match known.supports_effort {
        Some(true) => {
            let levels = &known.supported_effort_levels;
            levels.is_empty() || levels.iter().any(|level| level == effort)
        }
        Some(false) => false,
        // If other models in the list have the field, a model without it does not support effort.
        None => models.iter().all(|other| other.supports_effort.is_none()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn silence_is_a_no_where_the_menu_speaks_of_effort() {
        let models: Vec<ModelInfo> = serde_json::from_value(json!([
            { "value": "big", "resolvedModel": "big-1", "supportsEffort": true, "supportedEffortLevels": ["low"] },
            { "value": "small" },
        ]))
        .unwrap();
        assert!(takes_effort(&models, "big-1", "low"));
        assert!(!takes_effort(&models, "big", "max"));
        assert!(!takes_effort(&models, "small", "low"));
        assert!(takes_effort(&models, "unknown", "max"));
        let silent: Vec<ModelInfo> = serde_json::from_value(json!([{ "value": "small" }])).unwrap();
        assert!(takes_effort(&silent, "small", "low"));
    }
}
