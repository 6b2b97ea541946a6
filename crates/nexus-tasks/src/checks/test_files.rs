//! Recognises tests and build files by their paths.

use std::path::Path;

use super::test_run::TestFileKind;

/// Folders whose files are tests, or are used by tests.
const TEST_FOLDERS: [&str; 15] = [
    "test",
    "tests",
    "testing",
    "__tests__",
    "__mocks__",
    "__snapshots__",
    "snapshots",
    "spec",
    "specs",
    "e2e",
    "testdata",
    "test-data",
    "test_data",
    "fixtures",
    // Compiled modules, which Python may load in place of their sources.
    "__pycache__",
];
/// Files that are tests, or that test runners load by default.
const TEST_NAMES: [&str; 2] = [".rspec", "spec_helper.rb"];
/// Modules that Python and pytest load by default, as a file of any form or as a package.
const TEST_MODULES: [&str; 3] = ["conftest", "sitecustomize", "usercustomize"];
/// Files that define the build or the tests of a project.
const BUILD_NAMES: [&str; 80] = [
    // Rust.
    "cargo.toml",
    "cargo.lock",
    "build.rs",
    "rust-toolchain",
    "rust-toolchain.toml",
    "nextest.toml",
    // JavaScript.
    "package.json",
    "package-lock.json",
    "npm-shrinkwrap.json",
    "yarn.lock",
    "pnpm-lock.yaml",
    "pnpm-workspace.yaml",
    "bun.lock",
    "bunfig.toml",
    "deno.json",
    "deno.lock",
    "lerna.json",
    "nx.json",
    "turbo.json",
    ".npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".pnp.cjs",
    ".pnp.loader.mjs",
    // Python.
    "pyproject.toml",
    "setup.py",
    "setup.cfg",
    "tox.ini",
    "pytest.ini",
    ".pytest.ini",
    "noxfile.py",
    ".coveragerc",
    "pipfile",
    "pipfile.lock",
    "poetry.lock",
    "uv.lock",
    "manifest.in",
    // C and C++.
    "makefile",
    "gnumakefile",
    "cmakelists.txt",
    "cmakepresets.json",
    "meson.build",
    "meson_options.txt",
    "configure",
    "configure.ac",
    // Go, Java and .NET.
    "go.mod",
    "go.sum",
    "go.work",
    "build.gradle",
    "build.gradle.kts",
    "settings.gradle",
    "settings.gradle.kts",
    "gradle.properties",
    "gradlew",
    "pom.xml",
    "build.xml",
    "build.sbt",
    "global.json",
    "nuget.config",
    // Others.
    "gemfile",
    "gemfile.lock",
    "rakefile",
    "composer.json",
    "composer.lock",
    "mix.exs",
    "mix.lock",
    "rebar.config",
    "stack.yaml",
    "cabal.project",
    "dune",
    "dune-project",
    "package.swift",
    "pubspec.yaml",
    "workspace",
    "build",
    "justfile",
    "dockerfile",
    ".tool-versions",
    ".python-version",
    "mise.toml",
];
/// Beginnings of the names of such files.
const BUILD_BEGINNINGS: [&str; 17] = [
    "tsconfig",
    "jest.config.",
    "jest.setup.",
    "vitest.config.",
    "vitest.workspace.",
    "vite.config.",
    "webpack.config.",
    "babel.config.",
    "rollup.config.",
    "karma.conf.",
    "playwright.config.",
    "cypress.config.",
    ".mocharc",
    ".babelrc",
    "phpunit.xml",
    "requirements",
    // Variables that runners set for the tests.
    ".env",
];
/// Endings of the names of such files.
const BUILD_ENDINGS: [&str; 13] = [
    ".pth", ".mk", ".cmake", ".csproj", ".fsproj", ".vbproj", ".sln", ".props", ".targets", ".gemspec",
    ".cabal", ".bazel", ".bzl",
];
/// Folders whose files define the build, or belong to other packages that tests load.
const BUILD_FOLDERS: [&str; 11] = [
    ".cargo",
    ".mvn",
    ".config",
    "node_modules",
    ".yarn",
    "vendor",
    "third_party",
    "site-packages",
    "dist-packages",
    ".venv",
    "venv",
];

/// Returns the kind of a file, by its path in the tree. Case does not count.
///
/// | | by |
/// | --- | --- |
/// | test | a folder `tests`, `test`, `__tests__`, `spec`, `fixtures`, `testdata`, `__pycache__`, …; a name `test_x.*`, `x_test.*`, `x.test.*`, `x.spec.*`, `x_spec.*`, `XTest.java` and the like; a module or package `conftest`, `sitecustomize` or `usercustomize` |
/// | build | a name: `Cargo.toml`, `package.json`, `pyproject.toml`, `setup.cfg`, `tox.ini`, `Makefile`, `CMakeLists.txt`, `go.mod`, `build.gradle`, `jest.config.*`, `*.pth`, …; a folder `.cargo`, `node_modules`, `vendor`, `site-packages`, … |
///
/// Tests in the same file as the code under test are not recognised: they are part of the new tree alone.
pub(super) fn kind_of(path: &Path) -> Option<TestFileKind> {
    let names: Vec<String> = path.iter().map(|name| name.to_string_lossy().into_owned()).collect();
    let (name, folders) = names.split_last()?;
    let lower = name.to_ascii_lowercase();
    let is_in =
        |list: &[&str]| folders.iter().any(|folder| list.contains(&folder.to_ascii_lowercase().as_str()));
    let is_module = is_in(&TEST_MODULES)
        || lower.split_once('.').is_some_and(|(stem, ending)| {
            TEST_MODULES.contains(&stem)
                && ["py", "pyc", "so", "pyd"].contains(&ending.rsplit('.').next().unwrap_or_default())
        });
    if is_in(&TEST_FOLDERS) || is_module || TEST_NAMES.contains(&lower.as_str()) || is_test_name(name, &lower)
    {
        return Some(TestFileKind::Test);
    }
    let is_build = BUILD_NAMES.contains(&lower.as_str())
        || BUILD_BEGINNINGS.iter().any(|beginning| lower.starts_with(beginning))
        || BUILD_ENDINGS.iter().any(|ending| lower.ends_with(ending))
        || is_in(&BUILD_FOLDERS);
    is_build.then_some(TestFileKind::Build)
}

fn is_test_name(name: &str, lower: &str) -> bool {
    let words: Vec<&str> = lower.split(['.', '_', '-']).collect();
    let is_word = |word: &&str| matches!(*word, "test" | "tests" | "spec" | "specs");
    // The first word, the last before an extension, or one between dots: `test_x.py`, `x_test.go`, `x.spec.ts`.
    let stem_end = lower.find('.').unwrap_or(lower.len());
    let stem: Vec<&str> = lower[..stem_end].split(['_', '-']).collect();
    let is_edge = stem.first().is_some_and(is_word) || stem.last().is_some_and(is_word);
    let is_between = words.len() > 2 && lower.split('.').skip(1).any(|word| is_word(&word));
    // `XTest.java`, `XTests.cs`, `XSpec.scala`: a word of its own in a name of several.
    let own_stem = &name[..name.find('.').unwrap_or(name.len())];
    let is_camel = ["Test", "Tests", "Spec", "TestCase", "IT"].iter().any(|word| {
        own_stem
            .strip_suffix(word)
            .is_some_and(|rest| rest.ends_with(|last: char| last.is_lowercase() || last.is_ascii_digit()))
    });
    is_edge || is_between || is_camel || lower.ends_with(".snap")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_and_build_files_are_known_by_their_paths() {
        for path in [
            "tests/a.rs",
            "a/test/data.json",
            "src/__tests__/x.ts",
            "test_sum.py",
            "pkg/sum_test.go",
            "sum.test.js",
            "a/sum.spec.tsx",
            "sum_spec.rb",
            "conftest.py",
            "a/b/conftest.py",
            "conftest.cpython-311.pyc",
            "sitecustomize/__init__.py",
            "src/__pycache__/calc.cpython-311.pyc",
            "src/SumTest.java",
            "SumTests.cs",
            "x.snap",
            "tests.py",
            "test.sh",
            "run-tests.sh",
            "Tests/A.swift",
            "fixtures/in.txt",
            "testdata/x",
            "sum.test.mts.snap",
        ] {
            assert_eq!(kind_of(Path::new(path)), Some(TestFileKind::Test), "{path}");
        }
        for path in [
            "Cargo.toml",
            "a/Cargo.lock",
            "package.json",
            "pyproject.toml",
            "Makefile",
            "makefile",
            "CMakeLists.txt",
            "go.mod",
            "build.gradle",
            "tox.ini",
            "setup.cfg",
            "jest.config.ts",
            "tsconfig.build.json",
            "requirements-dev.txt",
            ".cargo/config.toml",
            "x/build.rs",
            "rules.mk",
            "venv/lib/x.pth",
            "node_modules/.bin/jest",
            "vendor/modules.txt",
            ".env.local",
        ] {
            assert_eq!(kind_of(Path::new(path)), Some(TestFileKind::Build), "{path}");
        }
        for path in [
            "src/sum.rs",
            "latest.py",
            "contest.py",
            "src/attest/a.c",
            "README.md",
            "protest_march.txt",
            "LIMIT",
            "unit.py",
        ] {
            assert_eq!(kind_of(Path::new(path)), None, "{path}");
        }
    }
}
