//! `docs/reference/versions.md`: the tables for people to read.

use std::fmt::Write as _;

use super::{PARTS, Row, Table};

/// The page.
pub fn page(tables: &[Table]) -> String {
    let mut page = String::from(
        "# Versions of the vendors' programs\n\n\
         Written by `nexus-judge`, which runs a program through its backend before a simulated model on loopback. Each column is a \
         part of what a version must do; a cell names the cases of the conformance suite that it did not pass. `real/clis/judge \
         PACKAGE@VERSION` adds a row. The backends read the same data: a version that is not here is run with a warning, or \
         refused where `nexus.yaml` says `versions: tested`. A turn that asks for an answer in a shape is refused where the version, or \
         else the one before it, did not pass `an_answer_in_shape_is_a_value`, unless it says `versions: any`.\n",
    );
    for table in tables {
        let Table { program, floor, judged, .. } = table;
        // Writing into a text cannot fail.
        let _ = write!(
            page,
            "\n## {program}\n\nFrom {} on. An older one {}, and is refused.\n\n| version |",
            floor.version, floor.because
        );
        PARTS.iter().for_each(|part| page.push_str(&format!(" {} |", part.name)));
        page.push_str(" descriptions of tools |\n| --- |");
        (0..=PARTS.len()).for_each(|_| page.push_str(" --- |"));
        for row in judged.iter().rev() {
            page.push_str(&line(row));
        }
        page.push('\n');
    }
    page
}

fn line(row: &Row) -> String {
    let mut line = format!("\n| {} |", row.version);
    for part in PARTS {
        let failed = part.cases.iter().filter(|case| row.failed.iter().any(|failed| failed == *case));
        let failed: Vec<_> = failed.map(|case| format!("`{case}`")).collect();
        let cell = if failed.is_empty() { "ok".to_owned() } else { failed.join(", ") };
        line.push_str(&format!(" {cell} |"));
    }
    match row.description_units {
        Some(units) => line.push_str(&format!(" cut after {units} |")),
        None => line.push_str(" whole |"),
    }
    line
}
