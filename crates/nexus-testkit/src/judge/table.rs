//! The tables of versions in the repository.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

/// The folders of vendors that have a program, in the order of the page.
const VENDORS: [&str; 3] = ["claude", "codex", "grok"];

/// Known versions of one program: `versions.json` beside a vendor's code.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// The program, in words.
    pub program: String,
    before: String,
    after: String,
    upgrade: String,
    /// The oldest version that is run.
    pub floor: Floor,
    /// Judged versions, oldest first.
    pub judged: Vec<Row>,
    #[serde(skip)]
    path: PathBuf,
}

/// The oldest version that is run.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Floor {
    /// Its number.
    pub version: String,
    /// Defect of older versions.
    pub because: String,
}

/// Judgement of one version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// Its number.
    pub version: String,
    /// Scenarios that it failed.
    pub failed: Vec<String>,
    /// Number of scenarios that it was tried with.
    pub scenarios: usize,
    /// Maximum length of a tool description that reaches the model whole, in UTF-16 units; `None` without a limit.
    pub description_units: Option<usize>,
}

impl Table {
    /// The table of a vendor's program.
    ///
    /// # Errors
    ///
    /// A sentence: the table does not exist or cannot be read.
    pub fn of(repository: &Path, vendor: &str) -> Result<Self, String> {
        let path = repository.join("nexus-backends/src").join(vendor).join("cli/versions.json");
        let wrong = |error: &dyn fmt::Display| format!("{}: {error}", path.display());
        let text = fs::read_to_string(&path).map_err(|error| wrong(&error))?;
        let mut table: Self = serde_json::from_str(&text).map_err(|error| wrong(&error))?;
        table.path = path;
        Ok(table)
    }

    /// The tables of all programs.
    ///
    /// # Errors
    ///
    /// Same as [`Table::of`].
    pub fn all(repository: &Path) -> Result<Vec<Self>, String> {
        VENDORS.iter().map(|vendor| Self::of(repository, vendor)).collect()
    }

    /// Returns the row of a version, if it was judged.
    pub fn row(&self, version: &str) -> Option<&Row> {
        self.judged.iter().find(|row| row.version == version)
    }

    /// Inserts a row, in place of the earlier row of that version.
    pub fn insert(&mut self, row: Row) {
        self.judged.retain(|known| known.version != row.version);
        self.judged.push(row);
        self.judged.sort_by_key(|row| number(&row.version));
    }

    /// Writes the table to its file.
    ///
    /// # Errors
    ///
    /// A sentence.
    pub fn write(&self) -> Result<(), String> {
        let text = serde_json::to_string_pretty(self).map_err(|error| error.to_string())?;
        fs::write(&self.path, text + "\n").map_err(|error| format!("{}: {error}", self.path.display()))
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let passed = self.scenarios - self.failed.len().min(self.scenarios);
        write!(f, "{}: {passed} of {} scenarios", self.version, self.scenarios)?;
        match self.description_units {
            Some(units) => write!(f, ", descriptions of tools cut after {units}"),
            None => Ok(()),
        }
    }
}

/// The repository that this program was built from.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).map(Path::to_path_buf).unwrap_or_default()
}

/// Sort key of a version.
fn number(version: &str) -> (Vec<u64>, bool) {
    let (number, rest) = version.split_once('-').unwrap_or((version, ""));
    (number.split('.').map(|part| part.parse().unwrap_or(0)).collect(), rest.is_empty())
}
