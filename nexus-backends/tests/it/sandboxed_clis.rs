//! The vendors' programs in the sandbox of Nexus. Scripts in their places do what they are told; the real programs are in the
//! module of each vendor.

use std::{collections::BTreeMap, fs, path::PathBuf, sync::Arc};

use base64::Engine as _;
use nexus_core::{
    AccessEnforcer, AccessSupport, BuildContext, ErrorKind, ExecutionBackend, Tool, ToolAccess, Toolbox,
    TurnEvent, TurnHost, TurnRequest,
};
use nexus_testkit::{
    escapes::EscapeSite,
    sim::{Dialect, Reply, Sim},
};
use serde_json::{Value, json};

use crate::support::program::write_script;
use crate::support::ran::Ran;
use crate::support::sandbox::{can_open_networks, has_sandbox};

/// Levels at which a sandbox encloses a program.
const LEVELS: [ToolAccess; 3] = [ToolAccess::ScopedOnly, ToolAccess::ReadOnly, ToolAccess::WorkspaceWrite];

/// A backend kind: its name, its credential's billing, and the version that its program tells.
type CliKind = (&'static str, &'static str, &'static str);

const KINDS: [CliKind; 3] = [
    ("claude-cli", "metered", "2.1.197 (Claude Code)"),
    ("codex-cli", "metered", "codex-cli 0.169.0"),
    ("grok-cli", "plan", "grok 1.0.41"),
];

/// Machine with a project, a home and a home of Nexus.
struct Machine {
    folder: tempfile::TempDir,
    environment: BTreeMap<String, String>,
}

impl Machine {
    fn new() -> Self {
        can_open_networks();
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for name in ["project/.git/hooks", "home/.ssh", "nexus/auth", "programs"] {
            fs::create_dir_all(root.join(name)).unwrap();
        }
        for (file, text) in [
            ("project/a.txt", "one\n"),
            ("outside.txt", "canary"),
            ("home/.ssh/id", "canary"),
            ("nexus/auth/login.json", "canary"),
        ] {
            fs::write(root.join(file), text).unwrap();
        }
        let home = root.join("home");
        let environment = [
            ("PATH", "/usr/local/bin:/usr/bin:/bin"),
            ("HOME", home.to_str().unwrap()),
            ("OTHER_API_KEY", "canary"),
            ("TOKEN", "lent-1"),
        ];
        let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        Self { folder, environment }
    }

    fn path(&self, relative: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(relative)
    }

    fn backend(&self, kind: CliKind, settings: &Value) -> Arc<dyn ExecutionBackend> {
        let (kind, billing, _) = kind;
        let mut all = json!({
            "executable": self.path("programs/fake"), "enforce": "sandbox", "credential": { "env": "TOKEN" },
            "billing": billing,
        });
        for (key, value) in settings.as_object().unwrap() {
            match value {
                Value::Null => drop(all.as_object_mut().unwrap().remove(key)),
                value => all[key] = value.clone(),
            }
        }
        let context = BuildContext::in_home(self.path("nexus")).with_environment(self.environment.clone());
        let built = nexus_backends::registry().kind(kind).cloned().unwrap();
        built.build(kind.into(), all.as_object().unwrap(), &context).unwrap()
    }

    /// Runs a program that runs `script`, and returns what the script printed.
    async fn run(&self, kind: CliKind, settings: Value, access: ToolAccess, script: &str) -> String {
        self.run_with(
            kind,
            settings,
            TurnRequest::new("Go.").with_tool_access(access),
            TurnHost::new(),
            script,
        )
        .await
        .0
    }

    async fn run_with(
        &self,
        kind: CliKind,
        settings: Value,
        request: TurnRequest,
        host: TurnHost,
        script: &str,
    ) -> (String, Ran) {
        // The output passes as a line that no vendor writes, in base64, so that nothing in it is redacted or read.
        let program = format!(
            "case $1 in\n--version) echo '{}'; exit ;;\ndebug) echo '{}'; exit ;;\nesac\n\
             text=$(bash <<'TASK' 2>&1 | base64 -w0\n{script}\nTASK\n)\n\
             echo told:$text",
            kind.2,
            json!({ "models": [{ "slug": "m", "visibility": "list" }] }),
        );
        write_script(&self.path("programs/fake"), &program);
        let request = match request.working_directory {
            Some(_) => request,
            None => request.in_directory(self.path("project")),
        };
        let mut events = Vec::new();
        let mut sink = |envelope: nexus_core::EventEnvelope| events.push(envelope.event);
        let outcome = self.backend(kind, &settings).run_turn(request, host, &mut sink).await;
        let ran = Ran { outcome, events };
        let told = ran.events.iter().find_map(|event| match event {
            TurnEvent::Unrecognized(line) => line.raw.as_str()?.strip_prefix("told:"),
            _ => None,
        });
        let told = told.unwrap_or_else(|| panic!("{} told nothing: {:?}", kind.0, ran.error()));
        let told = base64::engine::general_purpose::STANDARD.decode(told).unwrap();
        (String::from_utf8_lossy(&told).into_owned(), ran)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_program_in_the_sandbox_gets_out_of_its_working_directory() {
    if !has_sandbox().await {
        return;
    }
    for kind in KINDS {
        for access in LEVELS {
            let machine = Machine::new();
            let mut site = EscapeSite::beside(&machine.path("project"));
            let output = machine.run(kind, json!({}), access, &site.script()).await;
            let found = site.succeeded(&output);
            assert!(found.is_empty(), "{} {access:?}: {found:?}", kind.0);
            site.assert_untouched();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_program_without_the_sandbox_gets_out() {
    for kind in KINDS {
        let machine = Machine::new();
        let site = EscapeSite::beside(&machine.path("project"));
        let output = machine.run(kind, json!({}), ToolAccess::Unrestricted, &site.script()).await;
        let found = site.succeeded(&output);
        assert!(found.len() >= EscapeSite::TRIES - 4, "{} of {}: {found:?}", found.len(), EscapeSite::TRIES);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_level_shows_the_workspace_as_it_says() {
    if !has_sandbox().await {
        return;
    }
    let script = "pwd; cat a.txt; echo two > b.txt && echo written; echo x > .git/config || echo closed";
    for kind in KINDS {
        let machine = Machine::new();
        let project = machine.path("project");
        for access in LEVELS {
            let output = machine.run(kind, json!({}), access, script).await;
            assert!(output.starts_with(project.to_str().unwrap()), "{} {access:?}: {output}", kind.0);
            let seen = ["one\n", "written", "closed"].map(|word| output.contains(word));
            let expected = match access {
                // An empty folder in memory.
                ToolAccess::ScopedOnly => [false, true, true],
                ToolAccess::ReadOnly => [true, false, true],
                _ => [true, true, true],
            };
            assert_eq!(seen, expected, "{} {access:?}: {output}", kind.0);
            let is_written = access == ToolAccess::WorkspaceWrite;
            assert_eq!(project.join("b.txt").exists(), is_written, "{} {access:?}", kind.0);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_gets_the_lent_token_and_nothing_else_of_the_user() {
    if !has_sandbox().await {
        return;
    }
    let script =
        "env; cat $GROK_HOME/auth.json; ls -A ~; cat ~/.ssh/id; find / -name login.json -not -path '/proc/*'";
    for kind in KINDS {
        let machine = Machine::new();
        for access in LEVELS {
            let output = machine.run(kind, json!({}), access, script).await;
            assert!(output.contains("lent-1"), "{} {access:?}: {output}", kind.0);
            assert!(!output.contains("canary") && !output.contains("login.json"), "{}: {output}", kind.0);
            let home = format!("HOME={}\n", machine.path("home").display());
            assert!(output.contains(&home), "{} {access:?}: {output}", kind.0);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_reaches_its_server_the_tools_and_the_listed_hosts_alone() {
    if !has_sandbox().await {
        return;
    }
    let servers: Vec<Sim> =
        (0..3).map(|_| Sim::start(Dialect::Chat, Reply::text("Here.")).unwrap()).collect();
    let port = |sim: &Sim| sim.base_url().rsplit(':').next().unwrap().split('/').next().unwrap().to_owned();
    let [own, listed, unlisted] = [0, 1, 2].map(|number| port(&servers[number]));
    let ask = |port: &str| format!("(exec 3<>/dev/tcp/127.0.0.1/{port} && echo reached-{port})\n");
    // Claude Code gets the address of the tools' server on its standard input, which this script does not have.
    let tools = r#"
        url=$(cat $CODEX_HOME/config.toml $GROK_HOME/config.toml 2>/dev/null | grep -o 'http://127.0.0.1:[0-9]*/' | tail -1)
        port=${url##*:}; (exec 3<>/dev/tcp/127.0.0.1/${port%/} && echo reached-tools)
    "#;
    let script = [&own, &listed, &unlisted].map(|port| ask(port)).concat() + tools;
    let settings = json!({
        "base_url": format!("http://127.0.0.1:{own}"), "hosts": [format!("localhost:{listed}")],
    });
    for kind in KINDS {
        let machine = Machine::new();
        let lookup =
            Tool::with_schema("lookup", "Looks a word up.", json!({ "type": "object" }), |_| async {
                Ok::<_, String>("violet".to_owned())
            });
        let host = TurnHost::new().with_tools(Arc::new(Toolbox::new().with(lookup.read_only())));
        let request = TurnRequest::new("Go.").with_tool_access(ToolAccess::ReadOnly);
        let (output, _) = machine.run_with(kind, settings.clone(), request, host, &script).await;
        let reached = |what: &str| output.contains(&format!("reached-{what}"));
        assert!(reached(&own) && reached(&listed) && !reached(&unlisted), "{}: {output}", kind.0);
        assert_eq!(reached("tools"), kind.0 != "claude-cli", "{}: {output}", kind.0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_users_own_login_of_claude_code_is_renewed_in_its_own_folder() {
    if !has_sandbox().await {
        return;
    }
    let script = "cd ${CLAUDE_CONFIG_DIR:-$HOME/.claude} && cat .credentials.json && \
                  echo renewed > new && mv new .credentials.json; ls -A ~ ; cat ~/.ssh/id";
    for folder in ["home/.claude", "elsewhere"] {
        let mut machine = Machine::new();
        fs::create_dir(machine.path(folder)).unwrap();
        fs::write(machine.path(folder).join(".credentials.json"), "login-1").unwrap();
        if folder == "elsewhere" {
            let folder = machine.path(folder).to_str().unwrap().to_owned();
            machine.environment.insert("CLAUDE_CONFIG_DIR".to_owned(), folder);
        }
        let own = json!({ "credential": null, "billing": null });
        let output = machine.run(KINDS[0], own, ToolAccess::ReadOnly, script).await;
        assert!(output.contains("login-1") && !output.contains("canary"), "{output}");
        let kept = fs::read_to_string(machine.path(folder).join(".credentials.json")).unwrap();
        assert_eq!(kept, "renewed\n", "{folder}: {output}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn links_private_folders_and_further_programs_are_shown() {
    if !has_sandbox().await {
        return;
    }
    for kind in KINDS {
        let machine = Machine::new();
        let link = machine.path("link");
        std::os::unix::fs::symlink(machine.path("project"), &link).unwrap();
        fs::create_dir(machine.path("library")).unwrap();
        fs::write(machine.path("library/part"), "part-1").unwrap();
        let settings = json!({ "program_folders": [machine.path("library")] });
        let script =
            format!("cat a.txt {}; echo x > {0} || echo closed", machine.path("library/part").display());
        let request = TurnRequest::new("Go.").with_tool_access(ToolAccess::ReadOnly);
        let (output, _) = machine
            .run_with(kind, settings, request.clone().in_directory(&link), TurnHost::new(), &script)
            .await;
        assert!(output.contains("one\npart-1") && output.contains("closed"), "{}: {output}", kind.0);
        // A turn without a folder has a private one in the home of Nexus.
        let mut request = request.with_tool_access(ToolAccess::WorkspaceWrite);
        request.working_directory = Some(machine.path("nexus/tmp"));
        fs::create_dir_all(machine.path("nexus/tmp")).unwrap();
        let backend = machine.backend(kind, &json!({}));
        let refused = Ran::of(&*backend, request.clone()).await;
        assert_eq!(refused.error().kind(), ErrorKind::InvalidRequest, "{}", kind.0);
        request.working_directory = None;
        let ran = Ran::of(&*backend, request).await;
        assert!(
            ran.events.iter().any(|event| matches!(event, TurnEvent::Unrecognized(_))),
            "{:?}",
            ran.error()
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_capabilities_name_the_enforcer() {
    let machine = Machine::new();
    write_script(&machine.path("programs/fake"), "exit 1");
    for kind in KINDS {
        let access =
            |enforce: Value| machine.backend(kind, &json!({ "enforce": enforce })).capabilities().access;
        for level in LEVELS {
            let by_nexus = AccessSupport::Kept(AccessEnforcer::Nexus);
            assert_eq!(access(json!("sandbox")).of(level), by_nexus, "{} {level:?}", kind.0);
            assert_ne!(access(Value::Null).of(level), by_nexus, "{} {level:?}", kind.0);
            assert_eq!(
                access(json!("program")).of(level),
                access(Value::Null).of(level),
                "{} {level:?}",
                kind.0
            );
        }
        let unrestricted = access(json!("sandbox")).unrestricted;
        assert_eq!(unrestricted, AccessSupport::Kept(AccessEnforcer::None), "{}", kind.0);
    }
}
