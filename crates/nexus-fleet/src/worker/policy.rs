//! Limits of a worker.

use std::path::{Path, PathBuf};

use nexus_core::{ErrorKind, ToolAccess, TurnRequest, harness::Failure};

use crate::settings::WorkerSettings;

/// Limits of a worker, which no request can exceed.
#[derive(Clone, Debug)]
pub(super) struct Policy {
    /// Allowed folders, with all links resolved.
    folders: Vec<PathBuf>,
    access: ToolAccess,
    environment: Vec<String>,
    /// Offered backends. `None`: all.
    backends: Option<Vec<String>>,
}

impl Policy {
    pub(super) fn of(settings: &WorkerSettings) -> Self {
        let folders =
            settings.folders.iter().map(|folder| folder.canonicalize().unwrap_or_else(|_| folder.clone()));
        Self {
            folders: folders.collect(),
            access: settings.access.unwrap_or_default(),
            environment: settings.environment.clone(),
            backends: settings.backends.clone(),
        }
    }

    /// Rejects a request beyond the limits of this worker.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Forbidden`]: nothing was run.
    pub(super) fn check(&self, backend: &str, request: &TurnRequest) -> Result<(), Failure> {
        let refused = |reason: String| {
            Err(Failure::new(
                ErrorKind::Forbidden,
                format!("the worker rejects this turn: {reason}; nothing was run"),
            ))
        };
        if !self.offers(backend) {
            return refused(format!("{backend} is not among its `backends`"));
        }
        if request.tool_access > self.access {
            return refused(format!(
                "the access level is {}, but its `access` is {}",
                request.tool_access.as_str(),
                self.access.as_str()
            ));
        }
        let folders = request.working_directory.iter().chain(&request.extra_roots);
        for folder in folders {
            if !self.includes(folder) {
                return refused(format!("{} is not below any of its `folders`", folder.display()));
            }
        }
        if let Some(name) = request.environment.iter().find(|name| !self.environment.contains(name)) {
            return refused(format!("the variable {name} is not in its `environment`"));
        }
        Ok(())
    }

    /// Returns true if turns of this backend are accepted.
    pub(super) fn offers(&self, backend: &str) -> bool {
        self.backends.as_ref().is_none_or(|offered| offered.iter().any(|name| name == backend))
    }

    /// Returns true if a folder exists and is below an allowed one, with all links resolved.
    fn includes(&self, folder: &Path) -> bool {
        let Ok(real) = folder.canonicalize() else { return false };
        folder.is_absolute() && self.folders.iter().any(|allowed| real.starts_with(allowed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_beyond_the_policy_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (inside, outside) = (folder.path().join("in"), folder.path().join("out"));
        std::fs::create_dir_all(&inside).unwrap();
        std::fs::create_dir_all(&outside).unwrap();
        std::os::unix::fs::symlink(&outside, inside.join("link")).unwrap();
        let policy = Policy::of(&WorkerSettings {
            folders: vec![inside.clone()],
            access: Some(ToolAccess::ReadOnly),
            environment: vec!["LANG".to_owned()],
            backends: Some(vec!["alpha".to_owned()]),
            ..WorkerSettings::default()
        });
        let request = || TurnRequest::new("x").in_directory(&inside).with_variable("LANG");
        assert!(policy.check("alpha", &request().with_tool_access(ToolAccess::ReadOnly)).is_ok());
        assert_eq!(policy.check("beta", &request()).unwrap_err().kind, ErrorKind::Forbidden);
        for beyond in [
            request().with_tool_access(ToolAccess::WorkspaceWrite),
            request().in_directory(&outside),
            request().in_directory(inside.join("../out")),
            request().in_directory(inside.join("link")),
            request().in_directory(inside.join("nothing")),
            request().in_directory("in"),
            request().with_extra_root("/"),
            request().with_variable("PATH"),
        ] {
            assert_eq!(policy.check("alpha", &beyond).unwrap_err().kind, ErrorKind::Forbidden, "{beyond:?}");
        }
        assert!(Policy::of(&WorkerSettings::default()).check("alpha", &TurnRequest::new("x")).is_ok());
    }
}
