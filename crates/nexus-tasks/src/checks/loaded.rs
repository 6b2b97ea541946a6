//! Files of the project that the test command loads in addition to the code under test, as far as the task's base shows them.
//!
//! A command names files: as arguments, as modules, and through files that it reads itself, such as a script that sources another or a
//! `Makefile` that includes one. These files are read from the base, never as an agent left them. Computed loads stay invisible: a path
//! built at run time, a plug-in that an installed package registers, a file that a test opens.

use std::{
    collections::{BTreeSet, VecDeque},
    path::Path,
};

use super::{
    python_modules::is_of_runner, shell_words::commands, test_files::kind_of, test_run::TestFileKind,
};

/// Maximum number of files to read in search of others. Source: our own bound.
const MOST_FILES: usize = 64;
/// Files in the root that name files or plug-ins for test commands.
const READ_FIRST: [&str; 6] =
    ["package.json", "pytest.ini", ".pytest.ini", "tox.ini", "setup.cfg", "pyproject.toml"];
/// Files in the root with the commands that `make` and `just` run.
const MAKEFILES: [&str; 4] = ["GNUmakefile", "makefile", "Makefile", "justfile"];
/// Deepest nesting of commands to follow. Source: our own bound.
const MOST_DEPTH: usize = 8;
/// Extensions of programs in other languages than shell, and of data files.
const OTHER_TEXTS: [&str; 13] =
    ["py", "js", "mjs", "cjs", "ts", "rb", "pl", "php", "toml", "json", "yml", "yaml", "md"];
/// Programs whose first argument is a program to run.
const INTERPRETERS: [&str; 13] =
    ["sh", "bash", "dash", "zsh", "ksh", "python", "python3", "node", "deno", "bun", "ruby", "perl", "php"];
/// Words before a command that start it.
const STARTERS: [&str; 14] = [
    "exec", "command", "time", "env", "nice", "nohup", "sudo", "then", "do", "else", "if", "while", "!", "@",
];
/// Runners that load, apart from the code under test, only files with well-known paths.
const KNOWN_RUNNERS: [&str; 18] = [
    "cargo",
    "go",
    "pytest",
    "py.test",
    "mvn",
    "gradle",
    "dotnet",
    "mix",
    "swift",
    "rspec",
    "phpunit",
    "jest",
    "vitest",
    "mocha",
    "ava",
    "tap",
    "ctest",
    "cargo-nextest",
];
/// Python test runners that `-m` starts.
const KNOWN_MODULES: [&str; 3] = ["unittest", "pytest", "nose2"];
/// Programs that run another program, named behind them or behind the given verb.
const WRAPPERS: [(&str, Option<&str>); 12] = [
    ("env", None),
    ("nice", None),
    ("time", None),
    ("npx", None),
    ("uvx", None),
    ("uv", Some("run")),
    ("poetry", Some("run")),
    ("pipenv", Some("run")),
    ("hatch", Some("run")),
    ("pdm", Some("run")),
    ("bundle", Some("exec")),
    ("pnpm", Some("exec")),
];
/// Package managers that run the scripts of a `package.json`.
const SCRIPT_RUNNERS: [&str; 4] = ["npm", "pnpm", "yarn", "bun"];
/// Folders that are searched for modules in addition to the root.
const IMPORT_FOLDERS: [&str; 4] = ["src", "lib", "python", "app"];
/// Folders that are searched for programs.
const PROGRAM_FOLDERS: [&str; 5] = ["bin", ".bin", "sbin", "scripts", "Scripts"];
/// Extensions of module files.
const MODULE_ENDINGS: [&str; 4] = ["py", "pyc", "so", "pyd"];

/// Files of a tree that a command may load.
pub(super) trait BaseFiles {
    /// Returns true if there is a file or a link.
    fn has(&self, path: &str) -> bool;
    /// Returns the text of a file, or the target of a link. `None` if it is missing, is not UTF-8 or is too large.
    fn text(&mut self, path: &str) -> Option<String>;
    /// Paths with this name, at any depth.
    fn named(&self, name: &str) -> Vec<String>;
}

/// Relation of a changed path to the test command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoadedAs {
    /// The file is a test or build file: the base's tests run with the version of the base.
    File(TestFileKind),
    /// The command may load it, but it may also be part of the code under test.
    MayBeLoaded,
}

/// Files that a test command loads.
#[derive(Debug, Default)]
pub(super) struct Loaded {
    /// Files that are loaded as tests.
    tests: BTreeSet<String>,
    /// Files that are loaded as parts of the build.
    build: BTreeSet<String>,
    /// Files that are named, but not as a program to run.
    named: BTreeSet<String>,
    /// Folders of which a file may be loaded.
    folders: BTreeSet<String>,
    /// Folders that are searched for modules.
    imports: BTreeSet<String>,
    /// Names of programs that are searched for.
    programs: BTreeSet<String>,
    is_python: bool,
    is_unknown: bool,
}

impl Loaded {
    /// Collects the files that `command` names, and the files that those name.
    pub(super) fn by(command: &[String], base: &mut dyn BaseFiles) -> Self {
        let mut loaded = Self::default();
        // The empty name stands for the root, where Python finds modules as well.
        loaded.imports.insert(String::new());
        loaded.imports.extend(IMPORT_FOLDERS.map(str::to_owned));
        let mut reading = LoadSearch { loaded, base, todo: VecDeque::new(), seen: BTreeSet::new() };
        reading.loaded.tests.extend(command.iter().map(|word| join("", word)));
        reading.command(command, "");
        reading.loaded.is_unknown |= !reading.is_known(command, 0);
        for name in READ_FIRST {
            reading.read_later(name.to_owned());
        }
        for name in ["Cargo.toml", "go.mod", "conftest.py"] {
            for path in reading.base.named(name) {
                reading.read_later(path);
            }
        }
        reading.read_all();
        reading.loaded
    }

    /// Returns true if the set of loaded files is known for this command.
    pub(super) fn is_known(&self) -> bool {
        !self.is_unknown
    }

    /// Returns the relation of a path, which is changed or new, to the command.
    pub(super) fn concern(&self, path: &Path, is_new: bool, base: &dyn BaseFiles) -> Option<LoadedAs> {
        if let Some(kind) = kind_of(path) {
            return Some(LoadedAs::File(kind));
        }
        let text = path.to_string_lossy();
        if self.tests.contains(&*text) {
            return Some(LoadedAs::File(TestFileKind::Test));
        }
        if self.build.contains(&*text) {
            return Some(LoadedAs::File(TestFileKind::Build));
        }
        // A new module can shadow a module of the runner or of Python's library, by the order of `sys.path`.
        if is_new
            && let Some((folder, module)) = module_of(&text)
            && self.imports.contains(folder)
        {
            let is_there = |path: String| base.has(&path);
            let own = !is_there(join(folder, &format!("{module}.py")))
                && !is_there(join(folder, &format!("{module}/__init__.py")));
            if own && is_of_runner(module) {
                return Some(LoadedAs::File(TestFileKind::Test));
            }
            // The installed packages are not known, so a new module in the root may shadow one of them.
            if own && self.is_python && folder.is_empty() {
                return Some(LoadedAs::MayBeLoaded);
            }
        }
        let (folder, name) = text.rsplit_once('/').unwrap_or(("", &text));
        let last = folder.rsplit('/').next().unwrap_or_default();
        let is_program =
            self.programs.contains(name) && (folder.is_empty() || PROGRAM_FOLDERS.contains(&last));
        let is_below = |above: &String| text.strip_prefix(&**above).is_some_and(|rest| rest.starts_with('/'));
        (is_program || self.named.contains(&*text) || self.folders.iter().any(is_below))
            .then_some(LoadedAs::MayBeLoaded)
    }
}

/// Search for the files that a command loads.
struct LoadSearch<'b> {
    loaded: Loaded,
    base: &'b mut dyn BaseFiles,
    todo: VecDeque<String>,
    seen: BTreeSet<String>,
}

impl LoadSearch<'_> {
    fn read_later(&mut self, path: String) {
        if self.seen.len() < MOST_FILES && self.base.has(&path) && self.seen.insert(path.clone()) {
            self.todo.push_back(path);
        }
    }

    fn read_all(&mut self) {
        while let Some(path) = self.todo.pop_front() {
            let Some(text) = self.base.text(&path) else { continue };
            let (folder, name) = path.rsplit_once('/').unwrap_or(("", &path));
            let folder = folder.to_owned();
            match name {
                "package.json" => self.package(&text),
                "Cargo.toml" => self.cargo(&text, &folder),
                "go.mod" => self.go(&text, &folder),
                "conftest.py" => self.plugins(&text),
                "pytest.ini" | ".pytest.ini" | "setup.cfg" | "pyproject.toml" => self.plugins(&text),
                "tox.ini" => {
                    self.plugins(&text);
                    if self.loaded.programs.contains("tox") {
                        // Splits `commands = pytest` so that the value is read as a command.
                        self.script(&text.replace(" = ", "\n"), &folder);
                    }
                }
                _ if MAKEFILES.contains(&name) || self.loaded.build.contains(&path) => {
                    self.makefile(&text, &folder);
                }
                // A link: its text is the path of its target.
                _ if !text.contains('\n') && self.base.has(&join(&folder, &text)) => {
                    let target = join(&folder, &text);
                    self.run(target);
                }
                // Other languages and data files contain no shell commands to follow.
                _ if name.rsplit_once('.').is_some_and(|(_, ending)| OTHER_TEXTS.contains(&ending)) => {}
                _ => self.script(&text, &folder),
            }
        }
    }

    /// Records a file that is run or sourced.
    fn run(&mut self, path: String) {
        self.loaded.tests.insert(path.clone());
        self.read_later(path);
    }

    /// Reads one command: a program with its arguments, run in the root. A file in `folder` contains the command.
    fn command(&mut self, words: &[String], folder: &str) {
        let mut words = words;
        while let [first, rest @ ..] = words
            && (STARTERS.contains(&first.as_str()) || is_assignment(first))
        {
            words = rest;
        }
        let Some((program, arguments)) = words.split_first() else { return };
        let places = |word: &str| -> Vec<String> {
            let word = behind_variable(word);
            let mut places = vec![join("", word)];
            // The working folder of a script is not known: a name may be relative to the root or to the script.
            if !folder.is_empty() {
                places.push(join(folder, word));
            }
            places
        };
        let name = program.rsplit('/').next().unwrap_or_default();
        // A program with a path, or behind a variable, may be a file of the project.
        if program.contains('/') || program.contains('$') {
            places(program).into_iter().for_each(|place| self.run(place));
        } else if !name.is_empty() {
            self.loaded.programs.insert(name.to_owned());
        }
        if matches!(name, "." | "source") {
            if let Some(file) = arguments.first() {
                places(file).into_iter().for_each(|place| self.run(place));
            }
            return;
        }
        self.loaded.is_python |= is_python(name);
        if matches!(name, "make" | "gmake" | "just") {
            MAKEFILES.iter().for_each(|file| self.read_later((*file).to_owned()));
            for pair in arguments.windows(2).filter(|pair| matches!(pair[0].as_str(), "-f" | "--file")) {
                self.include(join("", &pair[1]));
            }
        }
        for (wrapper, verb) in WRAPPERS {
            let inner = match (name == wrapper, verb) {
                (true, None) => {
                    arguments.iter().position(|word| !word.starts_with('-') && !is_assignment(word))
                }
                (true, Some(verb)) => arguments.iter().position(|word| word == verb).map(|at| at + 1),
                (false, _) => None,
            };
            if let Some(at) = inner {
                self.command(arguments.get(at..).unwrap_or_default(), folder);
            }
        }
        if INTERPRETERS.contains(&without_version(name)) {
            self.interpreted(name, arguments, folder);
        }
        if SCRIPT_RUNNERS.contains(&name) {
            let scripts = npm_scripts(arguments);
            self.scripts_of_package(&scripts);
        }
        for word in arguments {
            // Values of options such as `--config=FILE` name files as well.
            let word = word.rsplit('=').next().unwrap_or(word);
            self.loaded.named.extend(places(word));
        }
    }

    /// Reads the arguments of an interpreter: a module, a text, or a file to run.
    fn interpreted(&mut self, name: &str, arguments: &[String], folder: &str) {
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "-m" if is_python(name) => {
                    if let Some(module) = words.next() {
                        self.module(module);
                        let runs = KNOWN_MODULES.contains(&module.as_str());
                        // Behind the module come names of test modules, perhaps with a class and a method.
                        words
                            .filter(|word| runs && !word.starts_with('-'))
                            .for_each(|word| self.test_name(word));
                    }
                    return;
                }
                "-c" if !is_python(name) => {
                    if let Some(text) = words.next() {
                        self.script(text, folder);
                    }
                    return;
                }
                // Code on the command line is not read. For `node -e` and the like it could load anything.
                "-c" | "-e" => return,
                // These options take a value. After `-r` and `--require` it is a module that is loaded before the
                // program.
                "-W" | "-X" | "-r" | "--require" | "-o" => {
                    if let Some(value) = words.next() {
                        self.loaded.tests.insert(join("", value));
                    }
                }
                word if word.starts_with('-') => {
                    if let Some(module) = word.strip_prefix("-m").filter(|_| is_python(name)) {
                        self.module(module);
                        return;
                    }
                }
                file => {
                    for place in [join("", behind_variable(file)), join(folder, behind_variable(file))] {
                        // Python adds the folder of the script to its import path.
                        if let Some((above, _)) = place.rsplit_once('/') {
                            self.loaded.imports.insert(above.to_owned());
                        }
                        self.run(place);
                    }
                    return;
                }
            }
        }
    }

    /// Records a module that is run by its name.
    fn module(&mut self, name: &str) {
        let path = name.replace('.', "/");
        for top in ["", "src/"] {
            self.run(format!("{top}{path}.py"));
            for inner in ["__init__.py", "__main__.py"] {
                self.run(format!("{top}{path}/{inner}"));
            }
            self.loaded.folders.insert(format!("{top}{path}"));
        }
    }

    fn test_name(&mut self, name: &str) {
        let parts: Vec<&str> = name.split('.').collect();
        // The name may end with a class and a method, so each prefix may be the path of the module.
        for count in 1..=parts.len() {
            self.loaded.tests.insert(format!("{}.py", parts[..count].join("/")));
        }
    }

    /// Reads the commands of a shell script, or of a similar text.
    fn script(&mut self, text: &str, folder: &str) {
        for words in commands(text) {
            self.command(&words, folder);
        }
    }

    /// Records an included part of a `Makefile`.
    fn include(&mut self, path: String) {
        self.loaded.build.insert(path.clone());
        self.read_later(path);
    }

    fn makefile(&mut self, text: &str, folder: &str) {
        for line in text.lines() {
            let mut words = line.split_whitespace();
            if !line.starts_with('\t') && matches!(words.next(), Some("include" | "-include" | "sinclude")) {
                for word in words {
                    [join("", word), join(folder, word)].into_iter().for_each(|place| self.include(place));
                    // The values of patterns and variables are not known.
                    self.loaded.is_unknown |= word.contains(['*', '$', '?']);
                }
            } else if let Some(recipe) = line.strip_prefix('\t') {
                // Make removes these signs, which control echo and errors, before it runs the line.
                self.script(recipe.trim_start_matches(['@', '-', '+']), "");
            }
        }
    }

    /// Reads the settings of tools in a `package.json`, which name files.
    fn package(&mut self, text: &str) {
        let Ok(package) = serde_json::from_str::<serde_json::Value>(text) else { return };
        for tool in ["jest", "mocha", "ava", "tap", "c8", "nyc", "vitest"] {
            let mut todo: Vec<&serde_json::Value> = package.get(tool).into_iter().collect();
            while let Some(value) = todo.pop() {
                match value {
                    serde_json::Value::String(text) => {
                        self.loaded.tests.insert(join("", text.trim_start_matches("<rootDir>/")));
                    }
                    serde_json::Value::Array(items) => todo.extend(items),
                    serde_json::Value::Object(fields) => todo.extend(fields.values()),
                    _ => {}
                }
            }
        }
    }

    /// Reads the named scripts of `package.json`, and the scripts that they run in turn.
    fn scripts_of_package(&mut self, names: &[String]) {
        for (place, script) in self.scripts(names) {
            // A script may run itself; `seen` ends the recursion.
            if self.seen.insert(place) {
                self.script(&script, "");
            }
        }
    }

    /// Returns these scripts of `package.json` with their `pre` and `post` scripts, each as a key and its text.
    fn scripts(&mut self, names: &[String]) -> Vec<(String, String)> {
        let Some(text) = self.base.text("package.json") else { return Vec::new() };
        let package: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
        let mut found = Vec::new();
        for name in names {
            for name in [format!("pre{name}"), name.clone(), format!("post{name}")] {
                let script = package.get("scripts").and_then(|scripts| scripts.get(&name)?.as_str());
                found.extend(script.map(|script| (format!("package.json#{name}"), script.to_owned())));
            }
        }
        found
    }

    fn cargo(&mut self, text: &str, folder: &str) {
        for line in text.lines() {
            let Some((key, value)) = line.split_once('=') else { continue };
            // `build = "…"` names the build script. It is the only key of interest, so no TOML parser is needed.
            if key.trim() == "build"
                && let Some(path) = value.split('"').nth(1).or_else(|| value.split('\'').nth(1))
            {
                self.loaded.build.insert(join(folder, path));
            }
        }
    }

    fn go(&mut self, text: &str, folder: &str) {
        for line in text.lines() {
            let Some((_, target)) = line.split_once("=>") else { continue };
            let target = target.split_whitespace().next().unwrap_or_default().trim_matches('"');
            if target.starts_with('.') {
                self.loaded.folders.insert(join(folder, target));
            }
        }
    }

    /// Records pytest plug-ins by their names.
    fn plugins(&mut self, text: &str) {
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            let words: Vec<&str> =
                line.split(|letter: char| letter.is_whitespace() || "\"'=,[]()".contains(letter)).collect();
            for pair in words.windows(2) {
                if pair[0] == "-p" {
                    self.plugin(pair[1]);
                }
            }
            words.iter().filter_map(|word| word.strip_prefix("-p")).for_each(|name| self.plugin(name));
            if words.contains(&"pytest_plugins") {
                // `pytest_plugins` itself is recorded as well, which does no harm.
                words.iter().for_each(|word| self.plugin(word));
                let is_open =
                    line.contains('[') && !line.contains(']') || line.contains('(') && !line.contains(')');
                if is_open {
                    let rest = lines.by_ref().take_while(|line| !line.trim_start().starts_with([']', ')']));
                    let names: Vec<String> = rest
                        .flat_map(|line| line.split(['"', '\'']).map(str::to_owned).collect::<Vec<_>>())
                        .collect();
                    names.iter().for_each(|name| self.plugin(name));
                }
            }
        }
    }

    fn plugin(&mut self, name: &str) {
        if name.is_empty() || name.contains(['/', ' ']) {
            return;
        }
        let path = name.replace('.', "/");
        for top in ["", "src/"] {
            self.loaded.tests.insert(format!("{top}{path}.py"));
            self.loaded.tests.insert(format!("{top}{path}/__init__.py"));
        }
    }

    /// Returns true if the loaded files of a command are known: it is a known runner, or a package script that runs only known runners.
    fn is_known(&mut self, command: &[String], depth: usize) -> bool {
        let Some((program, arguments)) = command.split_first() else { return false };
        // A path may lead to a file of the project that loads any file. The depth ends scripts that run each other.
        if depth > MOST_DEPTH || program.contains('/') {
            return false;
        }
        for (wrapper, verb) in WRAPPERS {
            if program == wrapper {
                let at = match verb {
                    None => arguments.iter().position(|word| !word.starts_with('-') && !is_assignment(word)),
                    Some(verb) => arguments.iter().position(|word| word == verb).map(|at| at + 1),
                };
                return at
                    .is_some_and(|at| self.is_known(arguments.get(at..).unwrap_or_default(), depth + 1));
            }
        }
        if KNOWN_RUNNERS.contains(&program.as_str()) {
            return true;
        }
        if is_python(program) {
            let module = arguments.iter().position(|word| word == "-m").and_then(|at| arguments.get(at + 1));
            return module.is_some_and(|module| KNOWN_MODULES.contains(&module.as_str()));
        }
        if SCRIPT_RUNNERS.contains(&program.as_str()) {
            let scripts = self.scripts(&npm_scripts(arguments));
            let mut inner = scripts.iter().flat_map(|(_, script)| commands(script));
            return inner.all(|words| self.is_known(&words, depth + 1));
        }
        false
    }
}

/// Returns the names of the scripts that a package manager's arguments run.
fn npm_scripts(arguments: &[String]) -> Vec<String> {
    let mut words = arguments.iter().filter(|word| !word.starts_with('-'));
    match words.next().map(String::as_str) {
        Some("t" | "tst") => vec!["test".to_owned()],
        Some("run" | "run-script") => words.next().cloned().into_iter().collect(),
        Some(name) => vec![name.to_owned()],
        None => Vec::new(),
    }
}

/// Returns the folder and the name of the module that a path belongs to.
fn module_of(path: &str) -> Option<(&str, &str)> {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let (stem, rest) = name.split_once('.')?;
    let is_module = rest.rsplit('.').next().is_some_and(|ending| MODULE_ENDINGS.contains(&ending));
    match (is_module, stem) {
        (true, "__init__" | "__main__") => Some(folder.rsplit_once('/').unwrap_or(("", folder))),
        (true, stem) => Some((folder, stem)),
        (false, _) => None,
    }
}

fn is_python(program: &str) -> bool {
    matches!(without_version(program), "python" | "pypy" | "pytest" | "py.test" | "tox" | "nox" | "coverage")
}

/// Returns a program's name without its version: `python` for `python3.11`.
fn without_version(program: &str) -> &str {
    program.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '.')
}

/// Returns true if a word sets a variable for the command behind it.
fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}

/// Returns `lib/x` for `$(dirname "$0")/lib/x` and `${HERE}/lib/x`, the forms by which scripts find their neighbours.
fn behind_variable(word: &str) -> &str {
    match word.rfind(['$', ')', '}']) {
        Some(at) => word[at..].split_once('/').map_or("", |(_, rest)| rest),
        None => word,
    }
}

/// Returns the path relative to the root, without `.` and `..`. Returns an empty text for a path that leads out of the project.
fn join(folder: &str, path: &str) -> String {
    let mut names: Vec<&str> = Vec::new();
    if path.starts_with('/') {
        return String::new();
    }
    for name in folder.split('/').chain(path.split('/')) {
        match name {
            "" | "." => {}
            ".." => {
                if names.pop().is_none() {
                    return String::new();
                }
            }
            name => names.push(name),
        }
    }
    names.join("/")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// Files in memory.
    struct FilesInMemory(BTreeMap<String, String>);

    impl FilesInMemory {
        fn new(files: &[(&str, &str)]) -> Self {
            let owned = |(path, text): &(&str, &str)| ((*path).to_owned(), (*text).to_owned());
            Self(files.iter().map(owned).collect())
        }
    }

    impl BaseFiles for FilesInMemory {
        fn has(&self, path: &str) -> bool {
            self.0.contains_key(path)
        }

        fn text(&mut self, path: &str) -> Option<String> {
            self.0.get(path).cloned()
        }

        fn named(&self, name: &str) -> Vec<String> {
            self.0.keys().filter(|path| path.rsplit('/').next() == Some(name)).cloned().collect()
        }
    }

    fn words(command: &str) -> Vec<String> {
        command.split(' ').map(str::to_owned).collect()
    }

    fn concern(command: &str, base: &[(&str, &str)], path: &str) -> Option<LoadedAs> {
        let mut files = FilesInMemory::new(base);
        let loaded = Loaded::by(&words(command), &mut files);
        loaded.concern(Path::new(path), !files.has(path), &files)
    }

    const TEST: Option<LoadedAs> = Some(LoadedAs::File(TestFileKind::Test));
    const BUILD: Option<LoadedAs> = Some(LoadedAs::File(TestFileKind::Build));
    const MAY: Option<LoadedAs> = Some(LoadedAs::MayBeLoaded);

    #[test]
    fn what_files_name_is_found_through_other_files() {
        let scripts: &[(&str, &str)] = &[
            (
                "ci/check.sh",
                "#!/bin/bash\nset -e\nHERE=$(dirname \"$0\")\nsource \"$HERE/lib.sh\"\nbash ${HERE}/steps/one.sh arg.txt\n",
            ),
            ("ci/lib.sh", "run() { ./tools/judge \"$@\"; }\n. ci/more.sh\n"),
            ("ci/steps/one.sh", "python3 -m rules.main\nsh -c 'exec ruby judge.rb'\n"),
            ("ci/more.sh", ""),
        ];
        for (path, expected) in [
            ("ci/check.sh", TEST),
            ("ci/lib.sh", TEST),
            ("ci/more.sh", TEST),
            ("ci/steps/one.sh", TEST),
            ("tools/judge", TEST),
            ("rules/main.py", TEST),
            ("rules/main/__main__.py", TEST),
            ("rules/main/other.py", MAY),
            ("judge.rb", TEST),
            ("arg.txt", MAY),
            ("bin/ruby", MAY),
            ("src/app.rb", None),
            ("check.sh", None),
        ] {
            assert_eq!(concern("sh ./ci/check.sh", scripts, path), expected, "{path}");
        }
        let make: &[(&str, &str)] = &[
            ("Makefile", "include a/b.inc\n-include c.inc\ntest: x\n\t@./run.sh\n\tcc main.c\n"),
            ("a/b.inc", "include d.inc\n"),
        ];
        for (path, expected) in [
            ("a/b.inc", BUILD),
            ("c.inc", BUILD),
            ("a/d.inc", BUILD),
            ("run.sh", TEST),
            ("main.c", MAY),
            ("e.inc", None),
        ] {
            assert_eq!(concern("make test", make, path), expected, "{path}");
            assert_eq!(concern("cargo test", make, "main.c"), None, "nobody asks make");
        }
        let npm: &[(&str, &str)] = &[(
            "package.json",
            r#"{"scripts":{"pretest":"node gen.js","test":"npm run unit && jest","unit":"mocha -r ./hooks.js","start":"node app.js"},
                "jest":{"setupFiles":["<rootDir>/setup.js"]}}"#,
        )];
        for (path, expected) in
            [("gen.js", TEST), ("hooks.js", MAY), ("setup.js", TEST), ("app.js", None), ("index.js", None)]
        {
            assert_eq!(concern("npm test", npm, path), expected, "{path}");
        }
        let plugins: &[(&str, &str)] = &[
            ("tests/conftest.py", "pytest_plugins = [\n    \"a.plugin\",\n    'b',\n]\n"),
            ("setup.cfg", "[tool:pytest]\naddopts = -p c.d\n"),
        ];
        for (path, expected) in [("a/plugin.py", TEST), ("b.py", TEST), ("c/d.py", TEST), ("e.py", MAY)] {
            assert_eq!(concern("pytest", plugins, path), expected, "{path}");
        }
    }

    #[test]
    fn only_runners_that_go_by_names_are_known() {
        let is_known = |command: &str, base: &[(&str, &str)]| {
            Loaded::by(&words(command), &mut FilesInMemory::new(base)).is_known()
        };
        let package = |script: &str| format!(r#"{{"scripts":{{"test":"{script}"}}}}"#);
        for command in [
            "cargo test",
            "go test ./...",
            "python3.12 -B -m pytest -q",
            "uv run pytest",
            "env A=1 cargo test",
            "npx jest",
        ] {
            assert!(is_known(command, &[]), "{command}");
        }
        for command in [
            "./check",
            "sh check",
            "make",
            "python3 run.py",
            "python3 -m verify",
            "npm test -- x",
            "env",
            "uv run ./x",
            "",
        ] {
            let base = [("package.json", &*package("node run.js"))];
            assert!(!is_known(command, &base), "{command}");
        }
        assert!(is_known("npm test", &[("package.json", &package("jest --ci && mocha"))]));
        assert!(is_known("npm run test", &[]), "there is nothing to run");
        assert!(
            !is_known("npm test", &[("package.json", &package("npm test"))]),
            "a script that runs itself has no end"
        );
    }

    proptest! {
        #[test]
        fn no_command_and_no_file_is_too_odd(
            command in prop::collection::vec("[ -~]{0,12}|\\PC{0,6}", 0..6),
            texts in prop::collection::vec("([a-z./$({'\" ;&=-]|\n|include |source |-p |=> ){0,60}", 6),
            path in "([a-z.]{1,4}/){0,3}[a-z.]{1,6}",
        ) {
            let names = ["package.json", "Makefile", "a/Cargo.toml", "go.mod", "conftest.py", "check"];
            let files: Vec<(&str, &str)> = names.into_iter().zip(texts.iter().map(String::as_str)).collect();
            for command in [command, words("make"), words("npm test"), words("sh check")] {
                let mut files = FilesInMemory::new(&files);
                let loaded = Loaded::by(&command, &mut files);
                let _ = loaded.concern(Path::new(&path), true, &files);
            }
        }

        #[test]
        fn a_new_module_of_the_library_concerns_every_command(
            name in prop::sample::select(vec!["json", "doctest", "re", "enum", "_pytest", "pluggy", "pathlib"]),
            ending in prop::sample::select(vec![".py", "/__init__.py", "/__main__.py", ".so", ".cpython-312.pyc", ".abi3.so"]),
            folder in prop::sample::select(vec!["", "src/", "lib/"]),
            command in prop::sample::select(vec!["pytest", "python3 -m unittest", "make", "./check", "tox"]),
        ) {
            let path = format!("{folder}{name}{ending}");
            prop_assert_eq!(concern(command, &[], &path), TEST);
            // What the base has is the project's own, and so is what lies deeper.
            prop_assert_eq!(concern(command, &[(&format!("{folder}{name}.py"), "")], &format!("{folder}{name}/more.py")), None);
            prop_assert_eq!(concern(command, &[], &format!("deep/{path}")), None);
        }
    }
}
