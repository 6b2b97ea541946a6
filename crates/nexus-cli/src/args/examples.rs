//! Two examples for the help of each command.

/// Two command lines for each command, by its name. A test parses every line and finds commands without one.
const EXAMPLES: &[(&str, [&str; 2])] = &[
    (
        "",
        [
            "nexus run 'Explain what a B-tree is.'",
            "nexus task new 'Fix the failing test' --test 'cargo test'",
        ],
    ),
    ("acp", ["nexus acp", "nexus acp --type executor --access read-only"]),
    ("artifact", ["nexus artifact new milestone 'Sign-in'", "nexus artifact lint --enforce"]),
    ("artifact append", ["nexus artifact append M001 review.md", "nexus artifact append M001 --seal"]),
    ("artifact gate", ["nexus artifact gate M001", "nexus artifact gate M001 --json"]),
    ("artifact handoff", ["nexus artifact handoff list", "nexus artifact handoff mark 0a1b2c3d read"]),
    (
        "artifact handoff list",
        [
            "nexus artifact handoff list --status open",
            "nexus artifact handoff list --agent tester --milestone M001",
        ],
    ),
    (
        "artifact handoff mark",
        ["nexus artifact handoff mark 0a1b2c3d read", "nexus artifact handoff mark 0a1b2c3d archived"],
    ),
    (
        "artifact handoff new",
        [
            "nexus artifact handoff new 'Form' --from engineer --to tester",
            "nexus artifact handoff new 'Freeze' --from lead --to '*' --body 'No edits.'",
        ],
    ),
    (
        "artifact lint",
        ["nexus artifact lint", "nexus artifact lint notes/form.md --schema slice-plan --enforce"],
    ),
    (
        "artifact mark",
        ["nexus artifact mark M001-S001-T0001 in-progress", "nexus artifact mark M001-S001-T0001 done"],
    ),
    ("artifact new", ["nexus artifact new milestone 'Sign-in'", "nexus artifact new slice M001 'Form'"]),
    (
        "artifact new milestone",
        [
            "nexus artifact new milestone 'Sign-in'",
            "nexus artifact new milestone 'Sign-in' --criterion 'The form is shown'",
        ],
    ),
    (
        "artifact new slice",
        ["nexus artifact new slice M001 'Form'", "nexus artifact new slice M001 'Session' --json"],
    ),
    (
        "artifact new task",
        [
            "nexus artifact new task M001-S001 'Write the form' --tier sonnet",
            "nexus artifact new task M001-S001 'Check it' --tier haiku --file form.rs",
        ],
    ),
    ("artifact reconcile", ["nexus artifact reconcile M001", "nexus artifact reconcile M001 --json"]),
    ("artifact rules", ["nexus artifact rules", "nexus artifact rules --json"]),
    ("artifact scaffold", ["nexus artifact scaffold M001", "nexus artifact scaffold M001-S001"]),
    (
        "artifact schema",
        ["nexus artifact schema", "nexus artifact schema slice-plan > slice-plan.schema.json"],
    ),
    ("artifact status", ["nexus artifact status M001", "nexus artifact status M001 --json"]),
    ("artifact todo", ["nexus artifact todo M001", "nexus artifact todo M001-S001"]),
    ("broker", ["nexus broker run", "nexus broker send clerk 'Sort the inbox.' --wait 60"]),
    ("broker clean", ["nexus broker clean poet", "nexus broker clean poet --unlanded"]),
    ("broker inbox", ["nexus broker inbox", "nexus broker inbox --as lead --json"]),
    ("broker land", ["nexus broker land poet", "nexus broker land poet --json"]),
    ("broker log", ["nexus broker log", "nexus broker log --json | tail -n 5"]),
    ("broker run", ["nexus broker run", "nexus broker run --turns 2 --webhooks 127.0.0.1:8791"]),
    (
        "broker send",
        [
            "nexus broker send clerk 'Sort the inbox.' --wait 60",
            "nexus broker send clerk 'Count the files.' --task count --expires 10m",
        ],
    ),
    ("broker start", ["nexus broker start clerk", "nexus broker start clerk --here"]),
    ("broker status", ["nexus broker status", "nexus broker status --json"]),
    ("broker stop", ["nexus broker stop clerk", "nexus broker stop clerk --json"]),
    ("broker watch", ["nexus broker watch", "nexus broker watch --every 5"]),
    ("chat", ["nexus chat", "nexus chat executor --access workspace-write --conversation design"]),
    ("check", ["nexus check --probe", "nexus check --example > nexus.yaml"]),
    (
        "completions",
        [
            "nexus completions bash > ~/.local/share/bash-completion/completions/nexus",
            "nexus completions fish > ~/.config/fish/completions/nexus.fish",
        ],
    ),
    ("conversation", ["nexus conversation list", "nexus conversation show design"]),
    ("conversation delete", ["nexus conversation delete design", "nexus conversation delete design --json"]),
    (
        "conversation fork",
        ["nexus conversation fork design design-2", "nexus conversation fork design design-3 --at 4"],
    ),
    ("conversation list", ["nexus conversation list", "nexus conversation list --json"]),
    ("conversation show", ["nexus conversation show design", "nexus conversation show design --json"]),
    ("debate", ["nexus debate new 'Should the cache be per user?'", "nexus debate advance last --all"]),
    ("debate advance", ["nexus debate advance last --all", "nexus debate advance last --json"]),
    ("debate remove", ["nexus debate remove last", "nexus debate remove last --json"]),
    ("debate cancel", ["nexus debate cancel last", "nexus debate cancel last --json"]),
    ("debate list", ["nexus debate list", "nexus debate list --status done"]),
    (
        "debate new",
        [
            "nexus debate new 'Should the cache be per user?' --panelists 3",
            "nexus debate new --source costs=notes/costs.md < question.txt",
        ],
    ),
    ("debate report", ["nexus debate report last -o debate.html", "nexus debate report last > debate.html"]),
    ("debate show", ["nexus debate show last", "nexus debate show last --json"]),
    #[cfg(feature = "demo")]
    ("demo", ["nexus demo", "nexus demo task --wrong"]),
    #[cfg(feature = "demo")]
    ("demo server", ["nexus demo server", "nexus demo server --listen 127.0.0.1:9000"]),
    #[cfg(feature = "demo")]
    ("demo task", ["nexus demo task", "nexus demo task --repo ."]),
    #[cfg(feature = "demo")]
    ("demo turn", ["nexus demo turn", "nexus demo turn --home /tmp/demo"]),
    ("debate watch", ["nexus debate watch last", "nexus debate watch last --json"]),
    ("diff", ["nexus diff", "nexus diff 3 > change.patch"]),
    ("doctor", ["nexus doctor", "nexus doctor --json"]),
    ("explain", ["nexus explain", "nexus explain executor --watch"]),
    ("fleet", ["nexus fleet setup --pool builders", "nexus fleet status --watch 5"]),
    ("fleet key", ["nexus fleet key", "nexus fleet key --json"]),
    ("fleet setup", ["nexus fleet setup", "nexus fleet setup --pool builders --pool testers"]),
    ("fleet status", ["nexus fleet status", "nexus fleet status --watch 5"]),
    ("forget", ["nexus forget turns.jsonl", "nexus forget turns.jsonl --json"]),
    ("hold", ["nexus hold list", "nexus hold release --all"]),
    ("hold list", ["nexus hold list", "nexus hold list --json"]),
    ("hold release", ["nexus hold release claude-cli", "nexus hold release --all"]),
    (
        "hook",
        [
            "nexus hook session_start --harness claude",
            "nexus hook pre_tool_use --harness codex --project . < event.json",
        ],
    ),
    ("init", ["nexus init", "nexus init ~/workspace --git"]),
    ("key", ["nexus key set openai", "nexus key list"]),
    ("key list", ["nexus key list", "nexus key list --json"]),
    ("key remove", ["nexus key remove openai", "nexus key remove openai --json"]),
    ("key set", ["nexus key set openai", "nexus key set openai < key.txt"]),
    ("login", ["nexus login codex", "nexus login codex --device"]),
    ("logout", ["nexus logout codex", "nexus logout --all"]),
    ("manual", ["nexus manual > nexus.1", "nexus manual | man -l -"]),
    ("agent", ["nexus agent list", "nexus agent show opencode"]),
    (
        "agent add",
        ["nexus agent add goose --registry registry.json", "nexus agent add mine --command 'my-agent --acp'"],
    ),
    #[cfg(feature = "judge")]
    ("agent judge", ["nexus agent judge opencode", "nexus agent judge mine --program /opt/mine/bin/mine"]),
    ("agent list", ["nexus agent list", "nexus agent list --json"]),
    ("agent show", ["nexus agent show opencode", "nexus agent show --json gemini-cli"]),
    ("models", ["nexus models openrouter", "nexus models --providers"]),
    ("mcp", ["nexus mcp spawn", "nexus mcp project --project ."]),
    ("mcp debate", ["nexus mcp debate", "nexus mcp debate --http 7879"]),
    ("mcp project", ["nexus mcp project", "nexus mcp project --project ~/app --prefix app_"]),
    ("mcp spawn", ["nexus mcp spawn", "nexus mcp spawn --http 7878"]),
    ("onboard", ["nexus onboard", "nexus onboard ~/workspace --hub ../hub"]),
    ("project", ["nexus project init", "nexus project status"]),
    (
        "project add",
        [
            "nexus project add 'Write the cache' --owner engineer",
            "nexus project add 'Check it' --owner tester --after 1",
        ],
    ),
    ("project back", ["nexus project back 1", "nexus project back 1 --json"]),
    ("project begin", ["nexus project begin 1", "nexus project begin 1 --agent engineer"]),
    ("project close", ["nexus project close", "nexus project close --force"]),
    (
        "project conformance",
        [
            "nexus project conformance --server 'nexus mcp project'",
            "nexus project conformance --server ./my-server --prefix my_",
        ],
    ),
    (
        "project decide",
        ["nexus project decide 1 'Yes, by key: the reads repeat.'", "nexus project decide 2 'In memory.'"],
    ),
    ("project done", ["nexus project done 1", "nexus project done 1 --file src/cache.rs --agent engineer"]),
    ("project history", ["nexus project history", "nexus project history cache"]),
    ("project init", ["nexus project init", "nexus project init --project ~/app"]),
    (
        "project install",
        ["nexus project install claude", "nexus project install codex --command ~/bin/nexus"],
    ),
    (
        "project plan",
        [
            "nexus project plan 'Faster reads'",
            "nexus project plan 'Faster reads' --issue 'cache?' --issue 'where?'",
        ],
    ),
    ("project prompt", ["nexus project prompt 1", "nexus project prompt 1 --json"]),
    ("project reopen", ["nexus project reopen 1", "nexus project reopen 1 --json"]),
    ("project roles", ["nexus project roles", "nexus project roles engineer"]),
    ("project schema", ["nexus project schema plan.json", "nexus project schema tasks.json --json"]),
    ("project status", ["nexus project status", "nexus project status --json"]),
    ("project tasks", ["nexus project tasks", "nexus project tasks --json"]),
    (
        "project uninstall",
        ["nexus project uninstall claude", "nexus project uninstall codex --project ~/app"],
    ),
    (
        "run",
        [
            "nexus run executor 'Add a test.' --access workspace-write --cd .",
            "git diff | nexus run reviewer - --quiet",
        ],
    ),
    ("schema", ["nexus schema output", "nexus schema output task list"]),
    ("schema output", ["nexus schema output", "nexus schema output run > run.schema.json"]),
    ("serve", ["nexus serve", "nexus serve --tasks 4 --webhooks 127.0.0.1:8791"]),
    ("service", ["nexus service install", "nexus service status"]),
    ("service install", ["nexus service install", "nexus service install worker -- --pool builders"]),
    ("service status", ["nexus service status", "nexus service status --json"]),
    ("service uninstall", ["nexus service uninstall", "nexus service uninstall worker"]),
    ("session", ["nexus session list", "nexus session search parser"]),
    (
        "session export",
        ["nexus session export agent:clerk:main", "nexus session export agent:clerk:main > clerk.jsonl"],
    ),
    (
        "session fork",
        [
            "nexus session fork agent:clerk:main agent:clerk:draft",
            "nexus session fork agent:clerk:main agent:clerk:draft --at 4",
        ],
    ),
    ("session list", ["nexus session list", "nexus session list --json"]),
    ("session search", ["nexus session search parser", "nexus session search failed test --limit 3"]),
    ("session show", ["nexus session show agent:clerk:main", "nexus session show agent:clerk:main --json"]),
    ("setup", ["nexus setup", "nexus setup --yes --json"]),
    ("show", ["nexus show turns.jsonl", "nexus show turns.jsonl --json"]),
    ("skills", ["nexus skills list", "nexus skills install writing --hub ../hub"]),
    ("skills info", ["nexus skills info writing", "nexus skills info writing --json"]),
    (
        "skills install",
        [
            "nexus skills install writing --hub ../hub",
            "nexus skills install writing pdf --hub https://hub.example",
        ],
    ),
    ("skills list", ["nexus skills list", "nexus skills list --hub ../hub"]),
    ("skills remove", ["nexus skills remove writing", "nexus skills remove writing pdf"]),
    ("skills update", ["nexus skills update --hub ../hub", "nexus skills update writing --hub ../hub"]),
    ("skills use", ["nexus skills use writing", "nexus skills use writing --skills ~/workspace/skills"]),
    ("status", ["nexus status", "nexus status codex && nexus run executor hello"]),
    ("task", ["nexus task new 'Fix the failing test' --test 'cargo test'", "nexus task run last"]),
    ("task attach", ["nexus task attach last", "nexus task attach last --json"]),
    ("task cancel", ["nexus task cancel last", "nexus task cancel last --json"]),
    ("task land", ["nexus task land last", "nexus task land last --rebase"]),
    ("task list", ["nexus task list", "nexus task list --status active --project ."]),
    ("task log", ["nexus task log last", "nexus task log last --json"]),
    (
        "task new",
        [
            "nexus task new 'Fix the failing test' --test 'cargo test'",
            "nexus task new --project ~/app --usd 2 < goal.txt",
        ],
    ),
    ("task queue", ["nexus task queue", "nexus task queue last --priority 10"]),
    ("task remove", ["nexus task remove last", "nexus task remove last --json"]),
    (
        "task reopen",
        [
            "nexus task reopen last 'The tests need Python 3.12.'",
            "nexus task reopen last 'One reviewer is enough.' --min-vendors 1",
        ],
    ),
    ("task report", ["nexus task report last -o task.html", "nexus task report last > task.html"]),
    ("task run", ["nexus task run last", "nexus task run last --step --answer 'Only Linux.'"]),
    ("task show", ["nexus task show last patch | git apply --check", "nexus task show last step-1"]),
    ("task status", ["nexus task status last", "nexus task status last --json"]),
    ("task watch", ["nexus task watch last", "nexus task watch last --json"]),
    ("testbed", ["nexus testbed run study", "nexus testbed report study -o study.html"]),
    ("testbed list", ["nexus testbed list", "nexus testbed list --traps ./traps"]),
    ("testbed prove", ["nexus testbed prove", "nexus testbed prove --trap retry"]),
    ("testbed report", ["nexus testbed report study -o study.html", "nexus testbed report study --markdown"]),
    (
        "testbed run",
        ["nexus testbed run study", "nexus testbed run study --arm wary --answer planted --runs 3"],
    ),
    ("trigger", ["nexus trigger cron clerk @daily 'Sort the inbox.'", "nexus trigger list"]),
    (
        "trigger at",
        [
            "nexus trigger at clerk 2027-01-31T12:00:00Z 'Send the report.'",
            "nexus trigger at clerk 2027-01-31T12:00:00Z 'Send it.' --id january",
        ],
    ),
    (
        "trigger completion",
        [
            "nexus trigger completion lead 'Read the result.'",
            "nexus trigger completion lead 'Read the result.' --of-agent clerk",
        ],
    ),
    (
        "trigger cron",
        [
            "nexus trigger cron clerk @daily 'Sort the inbox.'",
            "nexus trigger cron clerk '30 9 * * 1-5' 'Begin.' --zone Europe/Berlin",
        ],
    ),
    ("trigger delete", ["nexus trigger delete january", "nexus trigger delete january --json"]),
    ("trigger disable", ["nexus trigger disable january", "nexus trigger disable january --json"]),
    ("trigger enable", ["nexus trigger enable january", "nexus trigger enable january --json"]),
    (
        "trigger event",
        [
            "nexus trigger event clerk deployed 'Check the site.'",
            "nexus trigger event clerk deployed 'Check it.' --id on-deploy",
        ],
    ),
    (
        "trigger file",
        [
            "nexus trigger file clerk inbox 'Sort the new file.'",
            "nexus trigger file clerk inbox 'Sort it.' --pattern '*.csv'",
        ],
    ),
    (
        "trigger fire",
        ["nexus trigger fire deployed", "nexus trigger fire deployed --data '{\"version\": 3}'"],
    ),
    ("trigger list", ["nexus trigger list", "nexus trigger list --json"]),
    (
        "trigger webhook",
        [
            "nexus trigger webhook clerk 'Read the request.'",
            "nexus trigger webhook clerk 'Read it.' --secret-environment HOOK_SECRET",
        ],
    ),
    ("worker", ["nexus worker --pool builders", "nexus worker --pool builders --name left --turns 2"]),
    ("trust", ["nexus trust", "nexus trust --list"]),
    ("undo", ["nexus undo", "nexus undo --list --cd src"]),
    ("clean", ["nexus clean", "nexus clean task --older-than 30d --status complete,cancelled"]),
    ("uninstall", ["nexus uninstall", "nexus uninstall --home --yes"]),
    ("usage", ["nexus usage --since 7d", "nexus usage --since 2026-11-01 --by day,vendor,model"]),
];

/// Returns the examples of a command. Empty if it has none.
pub(super) fn examples_of(command: &str) -> &'static [&'static str] {
    EXAMPLES.iter().find(|(name, _)| *name == command).map_or(&[], |(_, lines)| lines)
}
