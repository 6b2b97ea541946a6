//! A program that prints observations, as an agent submits it.

use nexus_core::scope::is_dot_git;
use nexus_work::{DraftError, Faults};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A program that prints observations, to be run on three trees: the task's base, the step's base, and the files as they are now.
///
/// Its files are written into a copy of each tree. Their paths must be free in all three trees.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProbeDraft {
    /// Files to write into a copy of each tree: at most 16, each at most 64 KiB. Their paths must be free in all three trees.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<ProbeFile>,
    /// The program and its arguments, run in the root of the copy: `[python3, probe.py]`. No shell interprets it.
    pub argv: Vec<String>,
    /// Standard inputs, at most 16. The program runs once for each. Without any, it runs once with empty input.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<String>,
}

/// A file of a probe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProbeFile {
    /// Its path from the root of the tree, with `/` between the names.
    pub path: String,
    /// Its content.
    pub content: String,
}

/// Maximum number of files of a probe: it is a script with some data, not a project.
const MOST_FILES: usize = 16;
/// Maximum number of bytes of one file: more than a model writes in one answer.
const FILE_BYTES: usize = 64 << 10;
/// Longest path of a file, in bytes. A file system allows 4,096, and the path of the copy takes some of them.
const PATH_BYTES: usize = 1_024;
/// Longest name in such a path, in bytes. Source: Linux, `NAME_MAX`.
const NAME_BYTES: usize = 255;
/// Maximum number of arguments, the program among them.
const MOST_ARGUMENTS: usize = 64;
/// Maximum number of bytes of one argument. Source: Linux takes 128 KiB.
const ARGUMENT_BYTES: usize = 32 << 10;
/// Maximum number of inputs: each costs six runs.
const MOST_INPUTS: usize = 16;
/// Maximum number of bytes of one input.
const INPUT_BYTES: usize = 64 << 10;

impl ProbeDraft {
    /// Checks the draft, as far as possible without the trees.
    ///
    /// # Errors
    ///
    /// A [`DraftError`] with every fault.
    pub fn check(&self) -> Result<(), DraftError> {
        let mut faults = Faults::default();
        faults.count("files", self.files.len(), MOST_FILES);
        for (number, file) in self.files.iter().enumerate() {
            let place = format!("files[{number}]");
            if let Err(problem) = check_path(&file.path) {
                faults.add(format!("{place}.path"), problem);
            }
            if file.content.len() > FILE_BYTES {
                faults.add(format!("{place}.content"), too_long(file.content.len(), FILE_BYTES));
            }
            // Two files conflict also if one of them would be a folder on the path of the other.
            let is_before = |other: &ProbeFile| {
                let below = format!("{}/", other.path);
                other.path == file.path
                    || file.path.starts_with(&below)
                    || other.path.starts_with(&format!("{}/", file.path))
            };
            if self.files.iter().take(number).any(is_before) {
                faults.add(
                    format!("{place}.path"),
                    "another file of the probe has the same path; give each file its own path",
                );
            }
        }
        faults.count("argv", self.argv.len(), MOST_ARGUMENTS);
        match self.argv.first() {
            None => faults.add("argv", "is empty; name a program and its arguments"),
            Some(program) if program.is_empty() => faults.add("argv[0]", "is empty; name a program"),
            Some(_) => {}
        }
        for (number, argument) in self.argv.iter().enumerate() {
            if argument.contains('\0') {
                faults.add(format!("argv[{number}]"), "contains NUL, which is not allowed in an argument");
            } else if argument.len() > ARGUMENT_BYTES {
                faults.add(format!("argv[{number}]"), too_long(argument.len(), ARGUMENT_BYTES));
            }
        }
        faults.count("inputs", self.inputs.len(), MOST_INPUTS);
        for (number, input) in self.inputs.iter().enumerate() {
            if input.len() > INPUT_BYTES {
                faults.add(format!("inputs[{number}]"), too_long(input.len(), INPUT_BYTES));
            }
        }
        faults.into_result("probe")
    }

    /// Returns the number of inputs to run with. Without any, a single empty input is used.
    pub(super) fn runs(&self) -> usize {
        self.inputs.len().max(1)
    }
}

fn too_long(bytes: usize, most: usize) -> String {
    format!("has {bytes} bytes, more than {most}")
}

/// Checks that a path stays in the copy, and that it is in canonical form.
fn check_path(path: &str) -> Result<(), String> {
    if path.is_empty() || path.len() > PATH_BYTES {
        return Err(format!("has {} bytes; write 1 to {PATH_BYTES}", path.len()));
    }
    if path.chars().any(char::is_control) || path.contains('\\') {
        return Err("has control characters or a backslash; write names with `/` between them".to_owned());
    }
    for name in path.split('/') {
        let problem = match name {
            "" => {
                "has an empty name in it: write it relative to the root of the tree, without `/` at its \
                beginning or end"
            }
            "." | ".." => "has `.` or `..` in it: write the path from the root of the tree",
            _ if is_dot_git(name.as_bytes()) => "names a repository",
            _ if name.len() > NAME_BYTES => "has a name of more than 255 bytes in it",
            _ => continue,
        };
        return Err(problem.to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probe(paths: &[&str]) -> ProbeDraft {
        let file = |path: &&str| ProbeFile { path: (*path).to_owned(), content: String::new() };
        ProbeDraft {
            files: paths.iter().map(file).collect(),
            argv: vec!["true".to_owned()],
            inputs: Vec::new(),
        }
    }

    #[test]
    fn paths_stay_in_the_copy() {
        for path in ["probe.py", "a/b/c.sh", "\u{e9} x/.hidden", "...", ".gitignore"] {
            probe(&[path]).check().unwrap();
        }
        let long = "a/".repeat(600);
        for path in [
            "",
            "/",
            "/etc/passwd",
            "..",
            "../x",
            "a/../../x",
            "a/./b",
            "a//b",
            "a/",
            ".git",
            "a/.GIT/hooks/x",
            ".git./config",
            "a/git~1/x",
            "a\0b",
            "a\nb",
            "a\\b",
            &long,
            &"n".repeat(256),
        ] {
            let error = probe(&[path]).check().unwrap_err();
            assert_eq!(
                (error.what, error.faults.len(), error.faults[0].place.as_str()),
                ("probe", 1, "files[0].path"),
                "{path:?}"
            );
        }
        for pair in [["a", "a"], ["a", "a/b"], ["a/b", "a"]] {
            assert_eq!(probe(&pair).check().unwrap_err().faults[0].place, "files[1].path", "{pair:?}");
        }
        probe(&["a", "ab", "a.b"]).check().unwrap();
    }

    #[test]
    fn everything_that_is_too_much_is_told_at_once() {
        let many: Vec<String> = (0..17).map(|number| format!("f{number}")).collect();
        let mut probe = probe(&many.iter().map(String::as_str).collect::<Vec<_>>());
        probe.files[3].content = "x".repeat(FILE_BYTES + 1);
        probe.argv = vec!["x".repeat(ARGUMENT_BYTES + 1), "a\0b".to_owned()];
        probe.inputs = vec!["x".repeat(INPUT_BYTES + 1); 17];
        let faults = probe.check().unwrap_err().faults;
        let places: Vec<&str> = faults.iter().map(|fault| fault.place.as_str()).collect();
        assert_eq!(&places[..6], ["files", "files[3].content", "argv[0]", "argv[1]", "inputs", "inputs[0]"]);
        assert_eq!(ProbeDraft::default().check().unwrap_err().faults[0].place, "argv");
    }
}
