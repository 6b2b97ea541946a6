//! Turns a tree into a checked configuration, or into a list of all its errors.

use serde_json::Value;

use super::{
    check, configuration::Configuration, error::ConfigError, node::Node, report::FoundProblems,
    schema::WrittenConfiguration, sources::Sources, value::written,
};

/// Checks a configuration that a program built as a value.
pub(crate) fn load_value(
    value: &Value,
    sources: &Sources,
    before: Option<&Configuration>,
) -> Result<Configuration, ConfigError> {
    let (text, node) = written(value);
    checked(&node, &text, sources, before, FoundProblems::default())
}

/// Checks a parsed tree. `text` supplies the lines for error messages.
pub(super) fn checked(
    node: &Node,
    text: &str,
    sources: &Sources,
    before: Option<&Configuration>,
    mut report: FoundProblems,
) -> Result<Configuration, ConfigError> {
    let written = WrittenConfiguration::read(
        node,
        sources.registry.sections().map(|section| section.name()),
        &mut report,
    );
    let mut configuration = check::check(&written, sources, before, &mut report);
    if !report.is_empty() {
        return Err(report.into_error(text));
    }
    configuration.warnings = report.into_warnings(text);
    Ok(configuration)
}
