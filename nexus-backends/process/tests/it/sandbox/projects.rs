//! In a project of each kind, the tree that is meant is the one that runs: it lies at the path of the person's checkout, to which
//! installs and caches point. What is kept (`.venv`, `node_modules`) is the checkout's own and read-only.
//!
//! They need the tools of their kind, and no network.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use nexus_process::sandbox::{Sandbox, SandboxCommand};

use super::support::{has_sandbox, ran, sandbox, variables};

/// A person's checkout with the value "old", and a tree elsewhere whose function gives "new".
struct Project {
    folder: tempfile::TempDir,
}

impl Project {
    fn new(files: &[(&str, &str)]) -> Self {
        let project = Self { folder: tempfile::tempdir().unwrap() };
        for (root, value) in [(project.checkout(), "old"), (project.tree(), "new")] {
            for (file, content) in files {
                let file = root.join(file);
                fs::create_dir_all(file.parent().unwrap()).unwrap();
                let content =
                    content.replace("VALUE", value).replace("CHECKOUT", project.checkout().to_str().unwrap());
                fs::write(file, content).unwrap();
            }
        }
        project
    }

    /// Where the person works, and where the tree lies inside.
    fn checkout(&self) -> PathBuf {
        self.folder.path().join("home/project")
    }

    fn tree(&self) -> PathBuf {
        self.folder.path().join("trees/7")
    }

    /// Runs something in the checkout, without a sandbox.
    fn outside(&self, program: &str, arguments: &[&str]) -> String {
        let mut command = Command::new(program);
        let output = command.args(arguments).current_dir(self.checkout()).output().unwrap();
        assert!(output.status.success(), "{program}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Runs it in the tree, in a sandbox.
    async fn inside(&self, sandbox: Sandbox, path: &str, arguments: &[&str]) -> String {
        let sandbox = sandbox.home(self.folder.path().join("home")).writable(self.tree(), self.checkout());
        let path = format!("{path}:/usr/local/bin:/usr/bin:/bin");
        let environment = variables(&[
            ("PATH", &path),
            ("NPM_CONFIG_UPDATE_NOTIFIER", "false"),
            ("CARGO_NET_OFFLINE", "true"),
        ]);
        let command = SandboxCommand::new(arguments).folder(self.checkout()).environment(environment);
        let outcome = ran(&sandbox, command).await;
        assert!(outcome.is_success(), "{outcome:?}\n{}\n{}", outcome.stdout.text(), outcome.stderr.text());
        outcome.stdout.text().trim().to_owned()
    }
}

/// What a program says of itself, where the tool chain of a person is installed.
fn asked(program: &str, arguments: &[&str]) -> PathBuf {
    let output = Command::new(program).args(arguments).output();
    let output = output.unwrap_or_else(|error| panic!("{program}, which this test needs: {error}"));
    PathBuf::from(String::from_utf8(output.stdout).unwrap().trim())
}

/// The sandbox with a tool chain, unless it is the system's.
fn with(tool_chain: &Path) -> Sandbox {
    match tool_chain.starts_with("/usr") {
        true => sandbox(),
        false => sandbox().tool_chain(tool_chain),
    }
}

#[tokio::test]
#[ignore = "needs python3 with venv; run by `.ci/deep real`"]
async fn an_editable_install_of_python_runs_the_tree() {
    assert!(has_sandbox().await);
    // A build backend of its own, so that nothing has to be downloaded.
    let backend = r#"
import zipfile, pathlib
def build_editable(folder, settings=None, metadata=None):
    name = "meant-1.0-py3-none-any.whl"
    info = "meant-1.0.dist-info/"
    with zipfile.ZipFile(pathlib.Path(folder) / name, "w") as wheel:
        wheel.writestr("meant.pth", str(pathlib.Path.cwd() / "source"))
        wheel.writestr(info + "METADATA", "Metadata-Version: 2.1\nName: meant\nVersion: 1.0\n")
        wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\nGenerator: own\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(info + "RECORD", "")
    return name
"#;
    let project = Project::new(&[
        (
            "pyproject.toml",
            "[build-system]\nrequires = []\nbuild-backend = \"own\"\nbackend-path = [\".\"]\n[project]\nname = \"meant\"\nversion = \"1.0\"\n",
        ),
        ("own.py", backend),
        ("source/meant/__init__.py", "def value():\n    return 'VALUE'\n"),
    ]);
    project.outside("python3", &["-m", "venv", ".venv"]);
    project.outside(
        ".venv/bin/pip",
        &["install", "--quiet", "--no-index", "--disable-pip-version-check", "--editable", "."],
    );
    let probe = ["-c", "import meant, os; os.chdir('/'); print(meant.value(), meant.__file__)"];
    let expected =
        |value: &str| format!("{value} {}", project.checkout().join("source/meant/__init__.py").display());
    let python = project.checkout().join(".venv/bin/python");
    let python = python.to_str().unwrap();
    assert_eq!(project.outside(python, &probe), expected("old"));

    let base = asked("python3", &["-c", "import sys; print(sys.base_prefix)"]);
    let kept = project.checkout().join(".venv");
    let sandbox = with(&base).read_only(&kept, &kept);
    assert_eq!(project.inside(sandbox, "/usr/bin", &[&[python], &probe[..]].concat()).await, expected("new"));
}

#[tokio::test]
#[ignore = "needs node and npm; run by `.ci/deep real`"]
async fn a_linked_package_of_npm_is_that_of_the_tree() {
    assert!(has_sandbox().await);
    let project = Project::new(&[
        (
            "package.json",
            r#"{ "name": "all", "private": true, "workspaces": ["packages/*"], "scripts": { "test": "node test.js" } }"#,
        ),
        ("packages/meant/package.json", r#"{ "name": "meant", "version": "1.0.0", "main": "index.js" }"#),
        ("packages/meant/index.js", "exports.value = () => 'VALUE';"),
        ("test.js", "console.log(require('meant').value());"),
    ]);
    project.outside("npm", &["install", "--offline", "--no-audit", "--no-fund", "--silent"]);
    assert_eq!(project.outside("npm", &["test", "--silent"]), "old");
    let node = asked("node", &["-p", "require('path').dirname(require('path').dirname(process.execPath))"]);
    let kept = project.checkout().join("node_modules");
    let sandbox = with(&node).read_only(&kept, &kept);
    let path = node.join("bin");
    assert_eq!(project.inside(sandbox, path.to_str().unwrap(), &["npm", "test", "--silent"]).await, "new");
}

#[tokio::test]
#[ignore = "needs cargo and a linker; run by `.ci/deep real`"]
async fn a_crate_of_cargo_is_that_of_the_tree_also_by_its_absolute_path() {
    assert!(has_sandbox().await);
    let project = Project::new(&[
        (
            "Cargo.toml",
            "[package]\nname = \"all\"\nversion = \"1.0.0\"\nedition = \"2021\"\n[dependencies]\nmeant = { path = \"CHECKOUT/meant\" }\n[workspace]\n",
        ),
        ("src/main.rs", "fn main() { println!(\"{}\", meant::value()); }"),
        ("meant/Cargo.toml", "[package]\nname = \"meant\"\nversion = \"1.0.0\"\nedition = \"2021\"\n"),
        ("meant/src/lib.rs", "pub fn value() -> &'static str { \"VALUE\" }"),
    ]);
    let run = ["run", "--quiet", "--offline", "--target-dir", "target"];
    assert_eq!(project.outside("cargo", &run), "old");
    let chain = asked("rustc", &["--print", "sysroot"]);
    let path = chain.join("bin");
    let inside = project.inside(with(&chain), path.to_str().unwrap(), &[&["cargo"], &run[..]].concat()).await;
    assert_eq!(inside, "new");
    // What was built is the tree's own, and stays for the next run.
    assert!(project.tree().join("target/debug/all").exists());
    assert_eq!(project.outside("cargo", &run), "old");
}

#[tokio::test]
#[ignore = "runs where go is; run by `.ci/deep real`"]
async fn a_module_of_go_is_that_of_the_tree() {
    assert!(has_sandbox().await);
    if Command::new("go").arg("version").output().is_err() {
        return eprintln!("SKIPPED, not shown here: there is no go");
    }
    let project = Project::new(&[
        ("go.mod", "module whole\n\ngo 1.18\n\nrequire meant v1.0.0\n\nreplace meant => CHECKOUT/meant\n"),
        ("main.go", "package main\n\nimport \"meant\"\n\nfunc main() { println(meant.Value()) }\n"),
        ("meant/go.mod", "module meant\n\ngo 1.18\n"),
        ("meant/meant.go", "package meant\n\nfunc Value() string { return \"VALUE\" }\n"),
    ]);
    let root = asked("go", &["env", "GOROOT"]);
    let path = root.join("bin");
    let script = ["sh", "-c", "GOFLAGS=-mod=mod GOTOOLCHAIN=local go run . 2>&1"];
    assert_eq!(project.outside(script[0], &script[1..]), "old");
    assert_eq!(project.inside(with(&root), path.to_str().unwrap(), &script).await, "new");
}
