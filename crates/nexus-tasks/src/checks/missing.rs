//! Detects programs that never started: by their exit code, their last words and the files of the trees.

use std::path::{Component, Path, PathBuf};

use super::output::ProgramExit;

/// Exit codes with which shells, `env` and similar programs report a missing or non-executable program. Source: POSIX, `sh`, "Exit
/// Status".
const NO_PROGRAM: [i32; 2] = [126, 127];
/// Phrases of such reports, in the last line of standard error.
const NO_PROGRAM_WORDS: [&str; 4] =
    ["not found", "No such file or directory", "Permission denied", "cannot execute"];
/// Phrase with which Python reports a missing module.
const NO_MODULE: &str = "No module named ";
/// Length of standard error that is searched for paths, in bytes.
const LOOKED_THROUGH: usize = 64 << 10;
/// Maximum number of files of a tree to visit in search of a module.
const MOST_FILES: usize = 50_000;

/// Returns the program or module that a command of the project reports as missing. The report of the command itself suffices here: a
/// person reads it as the reason why the tests of the base cannot run.
pub(super) fn tool(exit: ProgramExit, stderr: &str) -> Option<String> {
    let last = last_line(stderr)?;
    let is_module = exit == ProgramExit::Code(1)
        // `python -m` prefixes its own path. An uncaught import error of a running program has another form.
        && last.contains(": No module named ")
        && !last.starts_with("ModuleNotFoundError");
    (is_no_program(exit, last) || is_module).then(|| last.to_owned())
}

/// Returns the missing program or module that a probe reports after it wrote nothing and failed. Any program could print these words.
/// The caller therefore accepts them only if every side reports the same, so that they hide nothing.
pub(super) fn said(exit: ProgramExit, stderr: &str) -> Option<String> {
    let last = last_line(stderr)?;
    let has_no_module = exit == ProgramExit::Code(1) && module(stderr).is_some();
    (is_no_program(exit, last) || has_no_module).then(|| last.to_owned())
}

/// Returns a file or Python module that a probe names, if this side lacks it and another side has it. The words of the probe do not
/// suffice; the trees must confirm them.
pub(super) fn file(stderr: &str, project: &Path, here: &Path, others: &[PathBuf]) -> Option<String> {
    let stderr = &stderr[..stderr.floor_char_boundary(LOOKED_THROUGH)];
    // A file that every tree lacks hides no difference between them.
    let only_elsewhere =
        |is_in: &dyn Fn(&Path) -> bool| !is_in(here) && others.iter().any(|other| is_in(other));
    let is_separator =
        |character: char| character.is_whitespace() || "'\"`:,;()[]<>=\u{2018}\u{2019}".contains(character);
    let mut words = stderr.split(is_separator).filter(|word| !word.is_empty());
    let path = words.find_map(|word| {
        let place = place(word, project)?;
        only_elsewhere(&|tree: &Path| tree.join(&place).symlink_metadata().is_ok()).then(|| word.to_owned())
    });
    path.or_else(|| {
        let module = module(stderr)?;
        only_elsewhere(&|tree: &Path| has_module(tree, module)).then(|| format!("the module {module}"))
    })
}

/// Checks both the exit code and the words: tests may end with any code, such as the number of failures.
fn is_no_program(exit: ProgramExit, last: &str) -> bool {
    matches!(exit, ProgramExit::Code(code) if NO_PROGRAM.contains(&code))
        && NO_PROGRAM_WORDS.iter().any(|words| last.contains(words))
}

fn last_line(text: &str) -> Option<&str> {
    text.lines().rev().map(str::trim).find(|line| !line.is_empty())
}

/// Returns the path in the tree that a word names: below the project, or relative and similar to the name of a file.
fn place(word: &str, project: &Path) -> Option<PathBuf> {
    let path = Path::new(word.trim_end_matches('.'));
    let place = path.strip_prefix(project).unwrap_or(path);
    let is_plain = place.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    let is_file = word.contains('/') || path.extension().is_some();
    (is_plain && is_file && !place.as_os_str().is_empty())
        .then(|| place.components().filter(|part| *part != Component::CurDir).collect())
}

/// Returns the module that the last line of a Python traceback names.
fn module(stderr: &str) -> Option<&str> {
    let last = last_line(stderr)?;
    let name = last.strip_prefix("ModuleNotFoundError: ")?.strip_prefix(NO_MODULE)?;
    let name = name.strip_prefix('\'')?.split('\'').next()?;
    let is_name = name.split('.').all(|part| {
        !part.is_empty() && part.chars().all(|character| character.is_alphanumeric() || character == '_')
    });
    is_name.then_some(name)
}

/// Returns true if a tree has the files of a module in any folder, since the root of its packages is not known.
fn has_module(tree: &Path, module: &str) -> bool {
    let below: PathBuf = module.split('.').collect();
    let file = below.with_extension("py");
    let mut todo = vec![tree.to_owned()];
    let mut seen = 0;
    while let Some(folder) = todo.pop() {
        if folder.join(&file).is_file() || folder.join(&below).is_dir() {
            return true;
        }
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            seen += 1;
            if seen > MOST_FILES {
                return false;
            }
            // `file_type` does not follow links, so a cycle of links cannot trap the search.
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                todo.push(entry.path());
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_command_names_what_it_lacks() {
        let code = ProgramExit::Code;
        assert_eq!(
            tool(code(127), "env: \u{2018}nosuch\u{2019}: No such file or directory\n").unwrap(),
            "env: \u{2018}nosuch\u{2019}: No such file or directory"
        );
        assert_eq!(
            tool(code(1), "/usr/bin/python3: No module named pytest\n").unwrap(),
            "/usr/bin/python3: No module named pytest"
        );
        assert_eq!(tool(code(1), "ModuleNotFoundError: No module named 'x'\n"), None);
        assert_eq!(tool(code(2), "make: cargo: No such file or directory\n"), None);
        assert_eq!(tool(code(127), ""), None);
        assert_eq!(
            tool(code(127), "127 of 300 tests failed\n"),
            None,
            "it ran, and ended with the number of failures"
        );
        assert_eq!(said(code(127), "sh: 1: frob: not found\n").unwrap(), "sh: 1: frob: not found");
        assert_eq!(said(code(127), "all is well\n"), None);
        assert_eq!(
            said(code(1), "Traceback\nModuleNotFoundError: No module named 'numpy'\n").unwrap(),
            "ModuleNotFoundError: No module named 'numpy'"
        );
        assert_eq!(said(code(1), "AssertionError\n"), None);
        assert_eq!(said(ProgramExit::Signal(11), "sh: 1: frob: not found\n"), None);
    }

    #[test]
    fn only_what_another_tree_has_is_missing() {
        let folder = tempfile::tempdir().unwrap();
        let (old, new) = (folder.path().join("old"), folder.path().join("new"));
        fs::create_dir_all(&old).unwrap();
        fs::create_dir_all(new.join("src/pkg")).unwrap();
        fs::write(new.join("src/pkg/added.py"), "").unwrap();
        fs::write(new.join("tool.sh"), "").unwrap();
        let project = Path::new("/home/me/project");
        let others = [new.clone()];
        let missing = |stderr: &str| file(stderr, project, &old, &others);
        assert_eq!(missing("sh: 0: cannot open tool.sh: No such file").unwrap(), "tool.sh");
        assert_eq!(
            missing("python3: can't open file '/home/me/project/tool.sh': [Errno 2]").unwrap(),
            "/home/me/project/tool.sh"
        );
        assert_eq!(
            missing("ModuleNotFoundError: No module named 'pkg.added'").unwrap(),
            "the module pkg.added"
        );
        assert_eq!(missing("ModuleNotFoundError: No module named 'numpy'"), None);
        assert_eq!(missing("/etc/passwd ../tool.sh /home/me/project/../tool.sh nothing.py"), None);
        assert_eq!(file("cannot open tool.sh", project, &new, std::slice::from_ref(&old)), None);
        assert_eq!(
            file("No module named 'pkg.added'", project, &old, &others),
            None,
            "not at the end of a traceback"
        );
    }
}
