//! JSON Schemas of the files below `.nexus/`, which the folder `schemas/` of this crate contains.

use serde_json::Value;

use crate::{
    hook::{AgentTracker, ToolLogLine, Untold},
    skill::ActiveSkill,
    state::{
        AgentFilesLine, Document, History, Pending, ProjectPlan, ProjectTasks, schema_of, titled_schema,
    },
};

/// Returns the schema of each file, by the file's name. The schema of a log is that of a line.
pub fn schemas() -> Vec<(&'static str, Value)> {
    vec![
        of::<ProjectPlan>(),
        of::<ProjectTasks>(),
        of::<History>(),
        of::<AgentTracker>(),
        of::<ActiveSkill>(),
        of::<Untold>(),
        of::<Pending>(),
        (AgentFilesLine::NAME, titled_schema::<AgentFilesLine>(AgentFilesLine::NAME)),
        (ToolLogLine::NAME, titled_schema::<ToolLogLine>(ToolLogLine::NAME)),
    ]
}

fn of<D: Document>() -> (&'static str, Value) {
    (D::NAME, schema_of::<D>())
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    use super::*;

    /// With `NEXUS_WRITE_SCHEMA=1` they are written.
    #[test]
    fn the_schemas_of_the_folder_are_those_of_the_types() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas");
        let mut names = BTreeSet::new();
        for (file, schema) in schemas() {
            let stem = file.trim_start_matches('.').split('.').next().unwrap();
            let name = format!("{stem}.schema.json");
            let text = format!("{}\n", serde_json::to_string_pretty(&schema).unwrap());
            if std::env::var_os("NEXUS_WRITE_SCHEMA").is_some() {
                fs::create_dir_all(&folder).unwrap();
                fs::write(folder.join(&name), &text).unwrap();
            }
            // As values: a crate elsewhere in a build decides in which order keys are written.
            let written: serde_json::Value =
                serde_json::from_str(&fs::read_to_string(folder.join(&name)).unwrap()).unwrap();
            assert_eq!(written, serde_json::from_str::<serde_json::Value>(&text).unwrap(), "{name}");
            names.insert(name);
        }
        let there: BTreeSet<_> = fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        assert_eq!(there, names);
    }
}
