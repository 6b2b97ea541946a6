//! Workers: their start, their trees, and the landing and removal of their work.

use std::{
    path::{Path, PathBuf},
    time::SystemTime,
};

use nexus_core::{ToolAccess, harness::try_blocking};
use nexus_router::Router;
use nexus_trees::{CommitId, CommitIntent, Git, Landing, Project, Tree, TreeErrorKind, TreeOptions};
use serde_json::{Map, Value};

use crate::{
    agent::{AgentDocument, AgentScope, AgentStatus, Directory, WorkerTree},
    cut::cut,
    error::{BrokerError, BrokerErrorKind},
    message::{Address, Envelope},
};

/// Maximum size of a worker's changes in its result, in bytes. Its tree has all of them.
const MAX_DIFF_BYTES: usize = 64 << 10;

/// Request of a manager for a worker.
#[derive(Debug)]
pub(crate) struct WorkerOrder {
    pub(crate) name: String,
    pub(crate) task: String,
    pub(crate) inputs: Map<String, Value>,
    pub(crate) kind: Option<String>,
    pub(crate) required_tools: Vec<String>,
    pub(crate) max_workers: u32,
}

/// Starts workers, and stores their trees below one folder.
#[derive(Debug)]
pub(crate) struct Workers {
    folder: PathBuf,
    starting: tokio::sync::Mutex<()>,
}

impl Workers {
    pub(crate) fn in_folder(folder: &Path) -> Self {
        Self { folder: folder.join("workers"), starting: tokio::sync::Mutex::default() }
    }

    /// Adds a worker. It gets a tree if its manager's folder is a repository.
    pub(crate) async fn start(
        &self,
        directory: &Directory,
        manager: &str,
        order: &WorkerOrder,
        router: &Router,
    ) -> Result<AgentDocument, BrokerError> {
        let refused = |message: String, instead: &str| {
            Err(BrokerError::new(BrokerErrorKind::NotAllowed, message, instead))
        };
        Address::agent(&order.name)?;
        let manager = directory.get(manager).await?;
        let scope = &manager.scope;
        if scope.max_workers == 0 || scope.max_depth == 0 {
            return refused(format!("{} may not start workers", manager.name), "do the work yourself");
        }
        // Start workers one after the other: two calls of one turn must count each other for the limit.
        let _one = self.starting.lock().await;
        let own =
            directory.all().await?.into_iter().filter(|agent| agent.manager.as_ref() == Some(&manager.name));
        let own = own.filter(|agent| !is_over(agent)).count();
        if own >= scope.max_workers as usize {
            let message = format!("{} has {own} workers, which is the limit", manager.name);
            return refused(message, "wait for a result, or stop one");
        }
        let kind = order.kind.clone().unwrap_or_else(|| manager.kind.clone());
        if kind != manager.kind && !scope.worker_kinds.contains(&kind) {
            let kinds = [std::slice::from_ref(&manager.kind), &scope.worker_kinds].concat().join(", ");
            return refused(
                format!("workers of {} may not have the type {kind:?}", manager.name),
                &format!("use one of {kinds}"),
            );
        }
        router
            .binding(kind.as_str())
            .map_err(|error| BrokerError::invalid(error.to_string(), "take another type"))?;
        let max_depth = scope.max_depth - 1;
        if order.max_workers > 0 && max_depth == 0 {
            return refused(
                format!("workers of {} may not start workers", manager.name),
                "leave out max_workers",
            );
        }
        let mut record = AgentDocument {
            name: order.name.clone(),
            kind,
            instructions: None,
            folder: manager.folder.clone(),
            access: manager.access,
            machine: manager.machine.clone(),
            manager: Some(manager.name.clone()),
            depth: manager.depth + 1,
            scope: AgentScope {
                // Messages between a worker and its manager need no entry. All other agents are out of reach.
                may_write_to: Vec::new(),
                may_search: Vec::new(),
                // A worker never gets wider rights than its manager.
                max_workers: order.max_workers.min(scope.max_workers),
                max_depth,
                worker_kinds: scope.worker_kinds.clone(),
            },
            status: AgentStatus::Assigned,
            task_id: Some(order.name.clone()),
            report: None,
            turn: None,
            unended: Vec::new(),
            tree: None,
            changed_at: SystemTime::now(),
            other: Map::new(),
        };
        // Add the record before the tree, so that two workers of one name cannot share a tree.
        directory.add(&record).await?;
        // A worker that cannot change files needs no tree of its own.
        if record.access <= ToolAccess::ReadOnly {
            return Ok(record);
        }
        match self.tree(&manager, &order.name).await {
            Ok(None) => Ok(record),
            Ok(Some((tree, folder))) => {
                record = directory
                    .update(&order.name, |record| {
                        record.tree = Some(tree.clone());
                        record.folder = Some(folder.clone());
                        Ok(())
                    })
                    .await?;
                Ok(record)
            }
            Err(error) => {
                // Free the name, so that the manager can try again.
                directory.remove(&order.name).await?;
                let workspace = self.folder.join(&order.name);
                try_blocking(move || {
                    if let Ok(git) = Git::find() {
                        // Ignore errors of the cleanup: the caller gets the error that caused it.
                        let _ = Tree::delete_in(&git, &workspace);
                    }
                    let _ = std::fs::remove_dir_all(&workspace);
                    Ok::<_, BrokerError>(())
                })
                .await?;
                Err(error)
            }
        }
    }

    /// Creates a tree of the manager's repository. Returns the tree and the folder with its files. `None` if the manager's
    /// folder is not in a repository.
    async fn tree(
        &self,
        manager: &AgentDocument,
        name: &str,
    ) -> Result<Option<(WorkerTree, PathBuf)>, BrokerError> {
        let Some(folder) = manager.folder.clone() else { return Ok(None) };
        let workspace = self.folder.join(name);
        try_blocking(move || {
            let project = match Project::find(&folder) {
                Ok(project) if project.is_repository() => project,
                Ok(_) => return Ok(None),
                Err(error) if error.kind() == TreeErrorKind::NotAProject => return Ok(None),
                Err(error) => return Err(error.into()),
            };
            let git = Git::find()?;
            std::fs::create_dir_all(&workspace).map_err(BrokerError::at(&workspace))?;
            // The tree starts from the last commit: the worker must not bring uncommitted changes of the
            // manager to the branch.
            let tree = Tree::create(&git, &workspace, &project, &TreeOptions::new())?;
            let work = workspace.join("work");
            tree.check_out(&tree.base().commit, &work)?;
            let project = project.path().to_owned();
            Ok(Some((
                WorkerTree { workspace, project, commits: Vec::new(), refs: Vec::new(), is_landed: false },
                work,
            )))
        })
        .await
    }

    /// Creates the folder of an agent if it does not exist.
    pub(crate) async fn prepare(&self, agent: &AgentDocument) -> Result<(), BrokerError> {
        let Some(folder) = agent.folder.clone() else { return Ok(()) };
        try_blocking(move || match folder.is_dir() {
            true => Ok(()),
            false => Err(BrokerError::new(
                BrokerErrorKind::Failed,
                format!("{} is not a folder", folder.display()),
                "create it, or name another folder in nexus.yaml",
            )),
        })
        .await
    }

    /// Commits a worker's changes, and stores the commit in the repository under a separate ref. Returns the changes as
    /// text.
    pub(crate) async fn keep(
        &self,
        directory: &Directory,
        name: &str,
        envelope: &Envelope,
    ) -> Result<Option<String>, BrokerError> {
        let record = directory.get(name).await?;
        let Some(tree) = record.tree.clone() else { return Ok(None) };
        let (own, id) = (name.to_owned(), envelope.message_id.to_string());
        // With the time of the message, a repetition after a crash gives the same commit.
        let time = envelope.timestamp;
        let kept = try_blocking(move || {
            let git = Git::find()?;
            let of = Tree::open(&git, &tree.workspace)?;
            let parent = newest(&tree, &of)?;
            let snapshot = of.snapshot(tree.workspace.join("work"))?;
            // The same tree means that the turn changed nothing, so add no empty commit.
            if of.tree_of(&parent)? == snapshot {
                return Ok::<_, BrokerError>(None);
            }
            let patch = of.patch(&parent, &snapshot)?.text();
            let intent = CommitIntent::new(snapshot, parent, time, format!("Work of {own}"))
                .with_trailer("Agent", own.as_str())
                .with_trailer("Message", id);
            let commit = of.commit(&intent)?;
            // The ref of a number may exist: from an earlier worker of this name, or from a broker that was killed.
            let first = tree.commits.len() + 1;
            let mut number = first;
            let kept = loop {
                match of.keep(&format!("agents/{own}/{number}"), &commit) {
                    Err(error) if error.kind() == TreeErrorKind::RefMoved && number < first + 1_000 => {
                        number += 1;
                    }
                    kept => break kept?,
                }
            };
            Ok(Some((commit.as_str().to_owned(), kept, patch)))
        })
        .await?;
        let Some((commit, kept_as, patch)) = kept else { return Ok(None) };
        directory
            .update(name, |record| {
                // A repetition after a crash returns the same commit, so add it only once.
                if let Some(tree) = record.tree.as_mut().filter(|tree| !tree.commits.contains(&commit)) {
                    tree.commits.push(commit.clone());
                    tree.refs.push(kept_as.clone());
                    tree.is_landed = false;
                }
                Ok(())
            })
            .await?;
        Ok(Some(format!("kept as {kept_as}\n{}", cut(&patch, MAX_DIFF_BYTES))))
    }

    /// Moves the branch that a worker's tree began with to the worker's newest commit. If the branch has moved meanwhile, it
    /// moves to a merge of both, if they merge without conflict. Otherwise it fails with
    /// [`Conflict`](BrokerErrorKind::Conflict), and names the obstacle and the ref.
    pub(crate) async fn land(&self, directory: &Directory, name: &str) -> Result<String, BrokerError> {
        let record = directory.get(name).await?;
        let Some(tree) = record.tree.clone() else {
            return Ok(format!("{name} worked in your own folder: there is nothing to land"));
        };
        let Some(kept_as) = tree.refs.last().cloned() else {
            return Ok(format!("{name} has not changed anything yet"));
        };
        let message = format!("Merge the work of {name}\n\nAgent: {name}");
        let landed = try_blocking(move || {
            let git = Git::find()?;
            let of = Tree::open(&git, &tree.workspace)?;
            let tip = newest(&tree, &of)?;
            of.land_merged(&tip, SystemTime::now(), &message).map_err(BrokerError::from)
        })
        .await?;
        match landed {
            Landing::FastForwarded { branch, to, .. } => {
                directory
                    .update(name, |record| {
                        // A turn may have added another commit meanwhile.
                        if let Some(tree) = &mut record.tree
                            && tree.refs.last() == Some(&kept_as)
                        {
                            tree.is_landed = true;
                        }
                        Ok(())
                    })
                    .await?;
                Ok(format!("{branch} is at {}", to.as_str()))
            }
            Landing::Patch { obstacle, .. } => Err(BrokerError::new(
                BrokerErrorKind::Conflict,
                format!("not landed: {obstacle}; the commit is stored as {kept_as}"),
                format!(
                    "a person can run `git merge {kept_as}`; a new worker starts from the present branch"
                ),
            )),
            _ => Err(BrokerError::new(
                BrokerErrorKind::Conflict,
                format!("not landed; the commit is stored as {kept_as}"),
                "",
            )),
        }
    }

    /// Removes an ended worker and its tree, if its work is landed, it has no work, or `even_unlanded` is true. The refs
    /// stay.
    pub(crate) async fn clean(
        &self,
        directory: &Directory,
        name: &str,
        even_unlanded: bool,
    ) -> Result<String, BrokerError> {
        let record = directory.get(name).await?;
        let conflict = |message: String, instead: &str| {
            Err(BrokerError::new(BrokerErrorKind::Conflict, message, instead))
        };
        if record.manager.is_none() {
            return conflict(format!("{name} is not a worker"), "take it out of nexus.yaml");
        }
        if directory.is_at_work(&record) || !is_over(&record) {
            return conflict(format!("{name} has not ended"), "wait for it, or stop it first");
        }
        if directory.all().await?.iter().any(|agent| agent.manager.as_deref() == Some(name)) {
            return conflict(format!("{name} has workers"), "clean those first");
        }
        if let Some(tree) = record.tree.clone() {
            let is_kept = tree.is_landed || tree.commits.is_empty();
            if !is_kept && !even_unlanded {
                return conflict(
                    format!(
                        "the changes of {name} are not landed: they are stored as {}",
                        tree.refs.last().cloned().unwrap_or_default()
                    ),
                    "land them first, or let a person remove them with `nexus broker clean --unlanded`",
                );
            }
            // A stopped worker begins no further turn.
            directory
                .update(name, |record| {
                    // A turn may have begun since the check above, so check again in the same write.
                    if directory.is_at_work(record) {
                        let message = format!("{name} is working again");
                        return Err(BrokerError::new(BrokerErrorKind::Conflict, message, "wait for it"));
                    }
                    record.status = AgentStatus::Stopped;
                    Ok(())
                })
                .await?;
            try_blocking(move || {
                let git = Git::find()?;
                let work = tree.workspace.join("work");
                // If the folder is gone, a killed broker checked it before it removed it.
                if !even_unlanded && work.exists() {
                    let of = Tree::open(&git, &tree.workspace)?;
                    let now = of.snapshot(&work)?;
                    if of.tree_of(&newest(&tree, &of)?)? != now {
                        return Err(BrokerError::new(
                            BrokerErrorKind::Conflict,
                            format!("{} has changes that no turn has committed", work.display()),
                            "let a person remove them with `nexus broker clean --unlanded`",
                        ));
                    }
                }
                // Move the files away in one step. A broker that is killed during the removal would leave files that
                // look changed.
                match std::fs::rename(&work, tree.workspace.join("removed")) {
                    Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                        // A leftover `removed` folder of a killed broker is in the way, or the file system refuses the
                        // rename.
                        tracing::debug!(work = %work.display(), %error, "removed in place");
                    }
                    _ => {}
                }
                Tree::delete_in(&git, &tree.workspace)?;
                match std::fs::remove_dir_all(&tree.workspace) {
                    Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                        Err(BrokerError::unusable(&tree.workspace, &error))
                    }
                    _ => Ok(()),
                }
            })
            .await?;
        }
        directory.remove(name).await?;
        Ok(format!("{name} is removed"))
    }

    /// Returns the workers below an agent, at any depth.
    pub(crate) async fn all_below(
        &self,
        directory: &Directory,
        name: &str,
    ) -> Result<Vec<String>, BrokerError> {
        let all = directory.all().await?;
        let mut found = vec![name.to_owned()];
        let mut looked = 0;
        while looked < found.len() {
            let manager = found[looked].clone();
            looked += 1;
            for agent in &all {
                // The second condition ends the search even if damaged records form a cycle.
                if agent.manager.as_ref() == Some(&manager) && !found.contains(&agent.name) {
                    found.push(agent.name.clone());
                }
            }
        }
        Ok(found.split_off(1))
    }
}

/// Returns true if a worker does not count any more towards the limit of its manager.
fn is_over(agent: &AgentDocument) -> bool {
    matches!(agent.status, AgentStatus::Done | AgentStatus::Failed | AgentStatus::Stopped)
}

/// Returns the newest commit of a worker.
fn newest(tree: &WorkerTree, of: &Tree) -> Result<CommitId, BrokerError> {
    match tree.commits.last() {
        None => Ok(of.base().commit.clone()),
        Some(commit) => commit.parse().map_err(|error| {
            BrokerError::new(BrokerErrorKind::Damaged, format!("{commit:?} is not a commit: {error}"), "")
        }),
    }
}
