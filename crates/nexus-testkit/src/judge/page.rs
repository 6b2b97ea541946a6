//! `docs/reference/versions.md`: the tables for people to read.

use std::fmt::Write as _;

use super::{PARTS, Row, Table};

/// The page.
pub fn page(tables: &[Table]) -> String {
    let mut page = String::from(
        "# Versions of the vendors' programs\n\n\
         `nexus-judge` writes this page. It runs a program through its backend, against a simulated model on loopback. Each \
         column is a part of what a version must do. A cell lists the cases of the conformance suite that failed. \
         `real/clis/judge PACKAGE@VERSION` adds a row.\n\n\
         The backends read the same data. A version without a row runs with a warning, or is rejected with `versions: tested` \
         in `nexus.yaml`.\n\n\
         A turn with an output schema is rejected if its version failed `an_answer_in_shape_is_a_value`. For a version without \
         a row, the row of the version before it decides. With `versions: any` the turn runs anyway.\n",
    );
    for table in tables {
        let Table { program, floor, judged, .. } = table;
        // Writing into a text cannot fail.
        let _ = write!(
            page,
            "\n## {program}\n\nNexus runs versions from {} on. An older version {}, and is rejected.\n\n| version |",
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
