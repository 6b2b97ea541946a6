//! Tool chains of this machine, for programs in a sandbox.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Component, Path, PathBuf};

use crate::environment::{Environment, EnvironmentBuilder};

/// Path of the home inside a sandbox, if that of this machine cannot be used.
const HOME: &str = "/home/sandbox";
/// System folders that every sandbox shows, or creates itself. A home cannot lie below one of them.
const SYSTEM: [&str; 15] = [
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/libexec", "/nix", "/gnu", "/etc",
    "/proc", "/dev", "/sys", "/run",
];
/// Folders of programs in every sandbox.
const PATH: [&str; 5] = ["/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"];
/// Folders below the home in which well-known tool chains are installed. Source: the documentation of each.
const USUAL: [&str; 10] =
    [".cargo", ".rustup", ".pyenv", ".nvm", ".volta", ".rbenv", ".goenv", ".deno", ".bun", ".local/share/uv"];

/// Tool chains of a person, as a sandbox shows them: their folders, and the variables and folders of `PATH` that lead there.
#[derive(Clone)]
pub struct ToolChains {
    host: Vec<(OsString, OsString)>,
    folders: Vec<PathBuf>,
}

impl ToolChains {
    /// Variables that name the folder of a tool chain. They are passed on where that folder is shown.
    pub const VARIABLES: [&'static str; 12] = [
        "CARGO_HOME",
        "RUSTUP_HOME",
        "RUSTUP_TOOLCHAIN",
        "PYENV_ROOT",
        "PYENV_VERSION",
        "GOROOT",
        "GOPATH",
        "JAVA_HOME",
        "NVM_DIR",
        "VOLTA_HOME",
        "DOTNET_ROOT",
        "GEM_HOME",
    ];

    /// Creates the tool chains in `folders`, where `~/` stands for the home of the variables `host`.
    #[must_use]
    pub fn new(host: Vec<(OsString, OsString)>, folders: &[PathBuf]) -> Self {
        let mut chains = Self { host, folders: Vec::new() };
        let expanded = |folder: &PathBuf| match (folder.strip_prefix("~"), chains.host("HOME")) {
            (Ok(below), Some(home)) => Path::new(home).join(below),
            _ => folder.clone(),
        };
        chains.folders = folders.iter().map(expanded).collect();
        chains
    }

    /// Finds well-known tool chains in the home of the variables `host`. Reads the file system.
    #[must_use]
    pub fn find(host: Vec<(OsString, OsString)>) -> Self {
        let usual: Vec<PathBuf> = USUAL.iter().map(|name| Path::new("~").join(name)).collect();
        let mut chains = Self::new(host, &usual);
        chains.folders.retain(|folder| folder.is_absolute() && folder.is_dir());
        chains
    }

    /// Returns the folders, for [`Sandbox::tool_chain`](super::Sandbox::tool_chain).
    #[must_use]
    pub fn folders(&self) -> &[PathBuf] {
        &self.folders
    }

    /// Returns the path of the home inside a sandbox: that of this machine, so that tool chains find their folders below it. The
    /// home itself is empty. `None` if the variables name no home.
    #[must_use]
    pub fn home(&self, project: &Path) -> Option<PathBuf> {
        let home = PathBuf::from(self.host("HOME")?);
        // A home mounted over the project or a system folder would hide it.
        let is_usable = home.is_absolute()
            && home.parent().is_some()
            && !home.components().any(|part| part == Component::ParentDir)
            && !home.starts_with(project)
            && !SYSTEM.iter().any(|system| home.starts_with(system));
        Some(if is_usable { home } else { HOME.into() })
    }

    /// Starts the environment inside a sandbox that shows the tool chains and `shown`: language and time zone, the folders of `PATH`
    /// that are shown, and the variables of tool chains whose folders are shown.
    #[must_use]
    pub fn environment(&self, shown: &[PathBuf]) -> EnvironmentBuilder {
        let shown: Vec<&PathBuf> = self.folders.iter().chain(shown).collect();
        let is_shown = |folder: &Path| {
            let real = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
            folder.is_absolute()
                && (PATH.iter().any(|system| folder == Path::new(system))
                    || folder.starts_with("/nix/store")
                    || folder.starts_with("/gnu/store")
                    || shown.iter().any(|shown| folder.starts_with(shown) || real.starts_with(shown)))
        };
        let mut path: Vec<PathBuf> =
            self.host("PATH").map(|path| env::split_paths(path).collect()).unwrap_or_default();
        path.retain(|folder| is_shown(folder));
        for folder in PATH.map(PathBuf::from) {
            if !path.contains(&folder) {
                path.push(folder);
            }
        }
        let mut environment = Environment::from_host(self.host.iter().cloned());
        for name in Self::VARIABLES {
            let is_named = |value: &&OsStr| !Path::new(value).is_absolute() || is_shown(Path::new(value));
            if let Some(value) = self.host(name).filter(is_named) {
                environment = environment.with(name, value);
            }
        }
        // Splitting `PATH` leaves no folder with a colon, so joining cannot fail.
        let path = env::join_paths(path).unwrap_or_else(|_| PATH.join(":").into());
        environment.with("PATH", path)
    }

    /// Sets the folders of cargo and rustup, for a program without a sandbox whose `HOME` is an empty folder. Without the variables
    /// both look below `HOME`.
    #[must_use]
    pub fn with_default_homes(&self, mut environment: Environment) -> Environment {
        let home = self.host("HOME");
        for (name, folder) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")] {
            let folder = home.map(|home| Path::new(home).join(folder)).filter(|folder| folder.is_dir());
            if let Some(folder) = folder
                && environment.value(name).is_none()
            {
                // `set` rejects only NUL and `=` in names and NUL in values; neither can occur here.
                let _ = environment.set(name, folder);
            }
        }
        environment
    }

    fn host(&self, name: &str) -> Option<&OsStr> {
        self.host.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_os_str())
    }
}

// The variables of the host may be secrets.
impl std::fmt::Debug for ToolChains {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ToolChains").field("folders", &self.folders).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_of_tool_chains_that_are_shown_are_found_and_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().canonicalize().unwrap();
        for name in ["chain/bin", "other/bin", "project/.venv/bin"] {
            std::fs::create_dir_all(home.join(name)).unwrap();
        }
        let at = |name: &str| home.join(name).into_os_string();
        let path = env::join_paths([
            at("chain/bin"),
            at("other/bin"),
            "/usr/bin".into(),
            "relative".into(),
            at("project/.venv/bin"),
        ]);
        let host = vec![
            ("PATH".into(), path.unwrap()),
            ("HOME".into(), home.clone().into_os_string()),
            ("CARGO_HOME".into(), at("chain")),
            ("GOPATH".into(), at("other")),
            ("TOKEN".into(), "secret".into()),
        ];
        let chains = ToolChains::new(host, &["~/chain".into()]);
        let environment = chains.environment(&[home.join("project/.venv")]).build().unwrap();
        let names: Vec<_> = environment.names().collect();
        assert_eq!(names, ["CARGO_HOME", "PATH"]);
        let path = environment.value("PATH").unwrap().to_str().unwrap().replace(home.to_str().unwrap(), "~");
        assert_eq!(path, "~/chain/bin:/usr/bin:~/project/.venv/bin:/usr/local/bin:/bin:/usr/sbin:/sbin");
        assert_eq!(chains.home(&home.join("project")), Some(home.clone()));
        for (home, project) in
            [("/", "/p"), ("relative", "/p"), ("/p/home", "/p"), ("/etc/x", "/p"), ("/a/../b", "/p")]
        {
            let chains = ToolChains::new(vec![("HOME".into(), home.into())], &[]);
            assert_eq!(chains.home(Path::new(project)), Some(HOME.into()), "{home}");
        }
    }

    #[test]
    fn only_tool_chains_that_are_there_are_found() {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join(".rustup")).unwrap();
        std::fs::write(home.path().join(".cargo"), "a file").unwrap();
        let chains = ToolChains::find(vec![("HOME".into(), home.path().into())]);
        assert_eq!(chains.folders(), [home.path().join(".rustup")]);
        assert!(ToolChains::find(Vec::new()).folders().is_empty());
    }
}
