//! Backends whose turns run on other machines, by one key.

use std::{
    fs,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use nexus_core::{
    BackendId, BackendKind, BuildContext, ConfigSection, Credential, CredentialError, CredentialSource,
    ExecutionBackend, Pools, Registry, SettingsError, SharedLogins, Standing, TurnRequest, VendorId,
};
use nexus_router::{ConfigError, Router};
use serde_json::{Map, Value, json};

use super::support::{Act, answering, capabilities, chain, context, fake_with, registry, run};

/// What a backend was built into.
#[derive(Clone, Debug, PartialEq)]
struct Built {
    id: String,
    pool: String,
    section: Option<Value>,
    base_directory: PathBuf,
}

/// Pools whose backends say where they run. The pool `own` is that of this process, and `full` takes no more.
#[derive(Debug, Default)]
pub(crate) struct Machines {
    built: Mutex<Vec<Built>>,
}

impl Machines {
    fn built(&self) -> Vec<Built> {
        self.built.lock().unwrap().clone()
    }

    fn router(self: &Arc<Self>, text: &str) -> Result<Router, ConfigError> {
        Router::from_str(text, self.registry(), context())
    }

    fn registry(self: &Arc<Self>) -> Registry {
        registry().with_pools(Arc::clone(self) as Arc<dyn Pools>)
    }
}

impl ConfigSection for Machines {
    fn name(&self) -> &'static str {
        "fleet"
    }

    fn schema(&self) -> Value {
        json!({
            "type": "object",
            "additionalProperties": false,
            "properties": {
                "servers": { "type": "array", "items": { "type": "string" } },
                "logins": { "type": "object" },
            },
        })
    }

    fn check(&self, value: &Value) -> Result<(), SettingsError> {
        match value["servers"].as_array() {
            Some(servers) if servers.is_empty() => Err(SettingsError::new("servers", "name at least one")),
            _ => Ok(()),
        }
    }
}

impl Pools for Machines {
    fn build(
        &self,
        local: Arc<dyn ExecutionBackend>,
        pool: &str,
        section: Option<&Value>,
        context: &BuildContext,
    ) -> Result<Arc<dyn ExecutionBackend>, SettingsError> {
        self.built.lock().unwrap().push(Built {
            id: local.id().to_string(),
            pool: pool.to_owned(),
            section: section.cloned(),
            base_directory: context.base_directory.clone(),
        });
        let refused = |path: &[&str], reason: &str| SettingsError {
            path: path.iter().map(|key| (*key).to_owned()).collect(),
            reason: reason.to_owned(),
        };
        let Some(section) = section else { return Err(refused(&[], "the file has no section `fleet`")) };
        if section["servers"][0] == "far" {
            return Err(refused(&["servers", "0"], "not an address"));
        }
        match pool {
            "own" => Ok(local),
            "full" => Err(refused(&[], "the pool takes no more")),
            _ => {
                let answer = Act::Answer(format!("{} in {pool}", local.id()));
                Ok(fake_with(local.id().as_str(), [answer], local.capabilities()))
            }
        }
    }

    fn shared_logins(&self, section: &Value, _: &BuildContext) -> Result<SharedLogins, SettingsError> {
        let Some(logins) = section["logins"].as_object() else { return Ok(SharedLogins::new()) };
        if logins.contains_key("unknown") {
            let path = vec!["logins".to_owned(), "unknown".to_owned()];
            return Err(SettingsError { path, reason: "there is no such login".to_owned() });
        }
        let lent = |word: &String| (word.clone(), Arc::new(Nothing) as Arc<dyn CredentialSource>);
        Ok(logins.keys().map(lent).collect())
    }
}

/// Lends nothing.
#[derive(Debug)]
struct Nothing;

#[async_trait]
impl CredentialSource for Nothing {
    fn describe(&self) -> String {
        "nothing".to_owned()
    }

    async fn standing(&self) -> Result<Standing, CredentialError> {
        Ok(Standing::default())
    }

    async fn credential(&self, _: Duration) -> Result<Credential, CredentialError> {
        Err(CredentialError::Missing { place: "nowhere".to_owned(), remedy: "none".to_owned() })
    }

    async fn renewed(&self, _: &Credential, _: Duration) -> Result<Option<Credential>, CredentialError> {
        Ok(None)
    }
}

/// A kind that counts how often it is built, with these shared logins.
#[derive(Debug, Default)]
struct Borrower(Mutex<Vec<Vec<String>>>);

impl BackendKind for Borrower {
    fn name(&self) -> &str {
        "borrower"
    }

    fn vendor(&self, _: &Map<String, Value>, _: &BuildContext) -> VendorId {
        "vendor".into()
    }

    fn settings_schema(&self) -> Value {
        json!({ "type": "object", "additionalProperties": false, "properties": {} })
    }

    fn build(
        &self,
        id: BackendId,
        _: &Map<String, Value>,
        context: &BuildContext,
    ) -> Result<Arc<dyn ExecutionBackend>, SettingsError> {
        self.0.lock().unwrap().push(context.shared_logins.keys().cloned().collect());
        Ok(answering(id.as_str()))
    }
}

#[test]
fn backends_are_built_with_the_logins_that_the_file_shares_and_again_when_those_change() {
    let (machines, borrower) = (Arc::new(Machines::default()), Arc::new(Borrower::default()));
    let registry = machines.registry().with(Arc::clone(&borrower) as Arc<dyn BackendKind>);
    let file = |logins: &str| {
        format!(
            "fleet: {{ servers: [near]{logins} }}\nbackends: {{ borrower: {{}}, alpha-cli: {{ pool: a }} }}\n"
        )
    };
    let router = Router::from_str(&file(", logins: { one: {} }"), registry, context()).unwrap();
    router.replace(&file(", logins: { one: {} }")).unwrap();
    router.replace(&file(", logins: { one: {}, two: {} }")).unwrap();
    router.replace(&file("")).unwrap();
    let wanted = [vec!["one"], vec!["one", "two"], vec![]];
    assert_eq!(*borrower.0.lock().unwrap(), wanted);
    let refused = router.replace(&file(", logins: { unknown: {} }")).unwrap_err();
    let [problem] = refused.all() else { panic!("{refused}") };
    assert_eq!((problem.position.line, problem.position.column), (1, 46), "{refused}");
    assert_eq!(problem.message, "fleet: logins.unknown: there is no such login");
}

const FLEET: &str = "fleet: { servers: [near] }\n";

/// A file in which `alpha-cli` runs in this pool.
fn in_pool(pool: &str) -> String {
    format!("{FLEET}{}backends: {{ alpha-cli: {{ pool: {pool} }} }}\n", chain("alpha-cli, beta-cli"))
}

async fn answer(router: &Router) -> String {
    run(router, TurnRequest::new("x")).await.1.unwrap().text
}

#[track_caller]
fn only_problem(loaded: Result<Router, ConfigError>) -> (usize, usize, String) {
    let error = loaded.expect_err("the text was accepted");
    let [problem] = error.all() else { panic!("{error}") };
    (problem.position.line, problem.position.column, problem.message.clone())
}

#[tokio::test]
async fn one_line_moves_a_backend_and_its_removal_brings_it_back() {
    let machines = Arc::new(Machines::default());
    let router = machines.router(&in_pool("builders")).unwrap();
    assert_eq!(answer(&router).await, "alpha-cli in builders");
    assert_eq!(router.vendor(&"alpha-cli".into()), Some("alpha".into()));
    assert_eq!(router.backends()["alpha-cli"].capabilities(), capabilities());
    let built = Built {
        id: "alpha-cli".into(),
        pool: "builders".into(),
        section: Some(json!({ "servers": ["near"] })),
        base_directory: context().base_directory,
    };
    assert_eq!(machines.built(), [built], "beta-cli has no pool");

    router.replace(&format!("{FLEET}{}", chain("alpha-cli, beta-cli"))).unwrap();
    assert_eq!(answer(&router).await, "from alpha-cli");
    router.replace(&in_pool("testers")).unwrap();
    assert_eq!(answer(&router).await, "alpha-cli in testers");
    // A worker of the pool runs the turn itself.
    router.replace(&in_pool("own")).unwrap();
    assert_eq!(answer(&router).await, "from alpha-cli");
}

#[test]
fn a_backend_in_a_pool_is_built_again_when_the_pool_or_the_section_changes_and_not_else() {
    let machines = Arc::new(Machines::default());
    let text = in_pool("builders");
    let router = machines.router(&text).unwrap();
    let mut before = router.backends();
    let mut is_kept = |text: &str| {
        router.replace(text).unwrap();
        let after = router.backends();
        let is_kept = ["alpha-cli", "beta-cli"].map(|id| Arc::ptr_eq(&before[id], &after[id]));
        before = after;
        is_kept
    };
    assert_eq!(is_kept(&format!("# A comment.\n{text}tasks: {{}}\n")), [true, true]);
    assert_eq!(is_kept(&text.replace("near", "other")), [false, true]);
    assert_eq!(is_kept(&text.replace("near", "other").replace("builders", "testers")), [false, true]);
    assert_eq!(is_kept(&text.replace(" pool: builders ", "")), [false, true]);
    assert_eq!(is_kept(&text.replace(" pool: builders ", "").replace("near", "any")), [true, true]);
    assert_eq!(machines.built().len(), 3);
}

#[tokio::test]
async fn a_backend_of_the_programs_own_and_a_further_instance_of_a_kind_run_in_a_pool_too() {
    let machines = Arc::new(Machines::default());
    let text = format!(
        "{FLEET}{}backends:\n  mine: {{ pool: builders, max_turns_at_once: 2 }}\n  second: {{ kind: beta-cli, pool: builders }}\n",
        chain("mine, second")
    );
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nexus.yaml");
    fs::write(&path, &text).unwrap();
    let own = answering("mine");
    let builder = Router::builder(machines.registry(), context()).backend(own.clone());
    let router = builder.from_file(&path).unwrap();
    assert_eq!(answer(&router).await, "mine in builders");
    assert_eq!(
        machines.built().iter().map(|built| built.id.as_str()).collect::<Vec<_>>(),
        ["mine", "second"]
    );
    assert!(machines.built().iter().all(|built| built.base_directory == folder.path()));

    let before = router.backends();
    router.reload().unwrap();
    assert!(before.iter().all(|(id, backend)| Arc::ptr_eq(backend, &router.backends()[id])));
    fs::write(&path, text.replace("pool: builders, max", "max")).unwrap();
    router.reload().unwrap();
    let own: Arc<dyn ExecutionBackend> = own;
    assert!(Arc::ptr_eq(&router.backends()["mine"], &own));
    assert_eq!(router.vendor(&"mine".into()), Some("mine".into()));
}

#[test]
fn a_program_without_pools_says_so_at_each_key_and_passes_the_section_over() {
    let text = format!("{FLEET}backends:\n  alpha-cli: {{ pool: a }}\n  gamma-cli: {{ pool: b }}\n");
    let error = Router::from_str(&text, registry(), context()).unwrap_err();
    let places: Vec<_> =
        error.all().iter().map(|problem| (problem.position.line, problem.position.column)).collect();
    assert_eq!(places, [(3, 16), (4, 16)], "{error}");
    assert!(
        error.all()[0]
            .message
            .contains("cannot run turns on other machines: build it with the feature `fleet`"),
        "{error}"
    );
    Router::from_str(FLEET, registry(), context()).unwrap();
}

#[test]
fn the_name_of_a_pool_is_short_and_of_plain_characters() {
    let load = |name: &str| {
        Arc::new(Machines::default()).router(&format!("{FLEET}backends:\n  alpha-cli: {{ pool: {name} }}\n"))
    };
    let longest = "a".repeat(64);
    for name in ["a", "Builders_2-eu", &longest] {
        load(name).unwrap();
    }
    let too_long = "a".repeat(65);
    for name in ["a.b", "a b", "'>'", "'*'", "a/b", "büro", "\"a\\n\"", &too_long] {
        let (line, column, message) = only_problem(load(name));
        assert_eq!((line, column), (3, 22), "{name}");
        assert_eq!(message, "`pool` must be a name of at most 64 ASCII letters, digits, `-` and `_`");
    }
    assert_eq!(only_problem(load("''")), (3, 22, "`pool` cannot be empty".into()));
    assert_eq!(only_problem(load("7")).2, "`pool` must be text: write \"7\" in quotation marks");
    assert!(only_problem(load("[a]")).2.starts_with("`pool` must be text"));
}

#[test]
fn a_pool_that_cannot_be_used_is_told_at_its_key() {
    let machines = Arc::new(Machines::default());
    let text = "backends:\n  alpha-cli:\n    pool: full\n";
    assert_eq!(
        only_problem(machines.router(&format!("{text}{FLEET}"))),
        (3, 5, "`pool` of alpha-cli: the pool takes no more".into())
    );
    for missing in ["", "fleet:\n"] {
        assert_eq!(
            only_problem(machines.router(&format!("{text}{missing}"))),
            (3, 5, "`pool` of alpha-cli: the file has no section `fleet`".into())
        );
    }
}

#[test]
fn what_is_wrong_in_the_section_is_told_there_and_once() {
    let machines = Arc::new(Machines::default());
    let text = |fleet: &str| {
        format!("backends:\n  alpha-cli: {{ pool: a }}\n  beta-cli: {{ pool: full }}\nfleet:\n  {fleet}\n")
    };
    let (line, column, message) = only_problem(machines.router(&text("severs: [a]")));
    assert_eq!((line, column), (5, 3), "{message}");
    assert!(message.contains("unknown setting of `fleet`"), "{message}");
    let problem = only_problem(machines.router(&text("servers: []")));
    assert_eq!(problem, (5, 12, "fleet: servers: name at least one".into()));
    assert!(machines.built().is_empty(), "a backend was built from a section that was refused");
    let problem = only_problem(machines.router(&text("servers: [far]")));
    assert_eq!(problem, (5, 13, "fleet: servers.0: not an address".into()));
}

#[test]
fn a_slip_in_the_key_is_found() {
    let machines = Arc::new(Machines::default());
    let load = |text: &str| {
        let builder = Router::builder(machines.registry(), context()).backend(answering("mine"));
        builder.from_str(text).unwrap_err().all()[0].clone()
    };
    for text in ["backends: { alpha-cli: { pol: a } }\n", "backends: { mine: { pol: a } }\n"] {
        assert_eq!(load(text).suggestion.as_deref(), Some("pool"), "{text}");
    }
}
