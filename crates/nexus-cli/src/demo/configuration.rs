//! The configuration of the demo's home.

use std::{fmt::Write as _, net::SocketAddr};

use super::script::{CAREFUL, CARELESS, LENSES, NO_PROBE};

/// Names of the simulated vendors.
pub(super) const VENDORS: [&str; 2] = ["amber", "blue"];

/// First line of the configuration. A file without it belongs to the user.
pub(super) const MARK: &str = "# Written by `nexus demo`, again at each run.\n";

/// Properties of the configuration that differ between runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DemoSetup {
    /// Address of the server.
    pub(super) address: SocketAddr,
    /// True if the sandbox works on this machine.
    pub(super) has_sandbox: bool,
    /// True if the executor makes a mistake.
    pub(super) is_wrong: bool,
}

/// Returns the groups and backends of the simulated vendors at this address, as YAML.
pub(super) fn backends(address: SocketAddr) -> String {
    let mut yaml = "groups:\n".to_owned();
    for vendor in VENDORS {
        let _ = writeln!(yaml, "  {vendor}: [{vendor}-model]");
    }
    yaml.push_str("backends:\n");
    for vendor in VENDORS {
        let _ = writeln!(
            yaml,
            "  {vendor}-model:\n    {{ kind: responses, vendor: {vendor}, model: {CAREFUL},\n      base_url: \
             \"http://{address}/{vendor}/v1\" }}"
        );
    }
    yaml
}

/// Returns the whole configuration.
pub(super) fn written(setup: DemoSetup) -> String {
    let DemoSetup { address, has_sandbox, is_wrong } = setup;
    let [amber, blue] = VENDORS;
    let mut yaml = format!(
        "{MARK}#\n# Two simulated vendors. Start their server with:\n#   nexus demo server --listen {address}\n\n{}",
        backends(address)
    );
    let executor = if is_wrong { CARELESS } else { CAREFUL };
    let _ = write!(
        yaml,
        "
# The model `{CAREFUL}` makes no mistake, `{CARELESS}` makes one.
types:
  orchestrator: {{ tier: operations, phase: orchestrate, group: {amber} }}
  executor: {{ tier: execution, phase: implement, group: {blue}, model: {{ exact: {executor} }} }}
  reviewer: {{ tier: operations, phase: review, panel: review }}
  reflector: {{ tier: operations, phase: reflect, group: {amber} }}

panels:
  review:
    distinct: vendor  # one server plays both vendors
    seats:
"
    );
    for (vendor, lens) in VENDORS.into_iter().zip(&LENSES) {
        let _ = writeln!(yaml, "      - {{ group: {vendor}, lens: {} }}", lens.name);
    }
    yaml.push_str("lenses:\n");
    let suffix = if has_sandbox { String::new() } else { format!(" {NO_PROBE}: there is no sandbox.") };
    for lens in &LENSES {
        let _ = writeln!(yaml, "  {}: \"{}{suffix}\"", lens.name, lens.text);
    }
    if !has_sandbox {
        yaml.push_str(
            "\n# This machine has no sandbox. Tests run with all rights of the user.\ntasks: { defaults: { sandbox: { kind: none \
             } } }\n",
        );
    }
    yaml
}
