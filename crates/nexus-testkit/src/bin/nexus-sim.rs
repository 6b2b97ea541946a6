//! `nexus-sim`: the vendor simulator as a program, for real clients by hand.

use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use nexus_testkit::issuer::Issuer;
use nexus_testkit::sim::{Dialect, GALLERY, Scenario, Sim};

/// Serves simulated model APIs on 127.0.0.1, prints how to point each vendor's program at them, and
/// logs every request.
///
/// Every model call is answered from a scenario: one with a name (see --list), or a YAML or JSON file:
///
///   replies:                                  # one per model call
///     - parts: [{ part: call, call: shell, command: date }]
///     - parts: [{ part: call, call: function, name: add, arguments: { a: 4, b: 8 } }] # a caller's tool
///     - parts: [{ part: text, text: It is late. }]
///       pace: { piece_chars: 3, gap_ms: 200 }
///   rules:                                    # calls whose prompt holds these words
///     - when_prompt_contains: tear
///       replies:
///         - parts: [{ part: text, text: Hal }]
///           fault: { kind: torn, cut: reset } # or fin, clean_end
///         - fault: { kind: status, status: 429, retry_after: 2 }
///   models: [plain, { name: modern, lite: true, efforts: [low, high] }]
///   strict_shape: true                        # refuses what the vendor is known to refuse
///
/// The last reply repeats.
#[derive(Debug, Parser)]
#[command(name = "nexus-sim", verbatim_doc_comment)]
struct Arguments {
    /// Vendor whose API is spoken.
    #[arg(long, value_enum, default_value_t = Speaks::All)]
    dialect: Speaks,

    /// A scenario's name, or a YAML or JSON file.
    #[arg(long, value_name = "NAME|FILE", default_value = "text")]
    scenario: String,

    /// The port of 127.0.0.1 to listen on; 0 takes a free one.
    #[arg(long, value_name = "N", default_value_t = 0)]
    port: u16,

    /// Also serve an authorization server on another port, for logins by hand.
    #[arg(long)]
    issuer: bool,

    /// The port of 127.0.0.1 for the authorization server; 0 takes a free one.
    #[arg(long, value_name = "N", default_value_t = 0, requires = "issuer")]
    issuer_port: u16,

    /// Lifetime of the authorization server's access tokens, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 3600, requires = "issuer")]
    token_life: u64,

    /// Serves TLS as the host NAME, for a client that cannot be given another URL; needs --ca-file.
    #[cfg(feature = "tls")]
    #[arg(long, value_name = "NAME", requires = "ca_file")]
    tls_host: Option<String>,

    /// File for the certificate authority that the client must trust.
    #[cfg(feature = "tls")]
    #[arg(long, value_name = "FILE", requires = "tls_host")]
    ca_file: Option<std::path::PathBuf>,

    /// Lists the scenarios that have a name.
    #[arg(long)]
    list: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Speaks {
    /// All of them on one port.
    All,
    /// Anthropic Messages, for Claude Code.
    Anthropic,
    /// OpenAI Responses, for Codex and any other client.
    Responses,
    /// xAI's Responses, for Grok.
    Xai,
    /// Chat Completions, for any client of that API.
    Chat,
    /// The Gemini API, for any client of that API.
    Gemini,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.list {
        for known in GALLERY {
            println!("{:<18} {}", known.name, known.summary);
        }
        return ExitCode::SUCCESS;
    }
    match serve(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("nexus-sim: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve(arguments: &Arguments) -> io::Result<()> {
    let scenario = scenario(&arguments.scenario)?;
    let dialect = match arguments.dialect {
        Speaks::All => Dialect::All,
        Speaks::Anthropic => Dialect::Anthropic,
        Speaks::Responses => Dialect::Responses,
        Speaks::Xai => Dialect::Xai,
        Speaks::Chat => Dialect::Chat,
        Speaks::Gemini => Dialect::Gemini,
    };
    let builder = Sim::builder(dialect, scenario).port(arguments.port).log();
    #[cfg(feature = "tls")]
    let builder = match &arguments.tls_host {
        Some(host) => builder.tls(host),
        None => builder,
    };
    let sim = builder.start()?;
    #[cfg(feature = "tls")]
    if let (Some(file), Some(pem)) = (&arguments.ca_file, sim.ca_pem()) {
        std::fs::write(file, pem)?;
    }
    #[cfg(feature = "tls")]
    let hidden = match (&arguments.tls_host, &arguments.ca_file) {
        (Some(host), Some(file)) => Some(first_party_directions(host, file)),
        _ => None,
    };
    #[cfg(not(feature = "tls"))]
    let hidden: Option<String> = None;
    println!("{}", hidden.unwrap_or_else(|| directions(&sim.root_url(), arguments.dialect)));
    let issuer = match arguments.issuer {
        true => Some(issuer(arguments)?),
        false => None,
    };
    if let Some(issuer) = &issuer {
        println!("{}", login_directions(&issuer.url()));
    }
    println!("Serving scenario `{}`. Stop with Ctrl-C.\n", arguments.scenario);
    loop {
        // A parked thread may wake without a cause.
        std::thread::park();
    }
}

fn issuer(arguments: &Arguments) -> io::Result<Issuer> {
    let life = Duration::from_secs(arguments.token_life);
    Issuer::builder().port(arguments.issuer_port).access_token_life(life).log().start()
}

/// The lines that log in at `issuer`, in a home of their own.
fn login_directions(issuer: &str) -> String {
    format!(
        "\
# Logins: open the page that is printed, and approve
export NEXUS_HOME=$(mktemp -d)
nexus login codex --issuer {issuer}
nexus login grok --issuer {issuer}
"
    )
}

fn scenario(wanted: &str) -> io::Result<Scenario> {
    if let Some(scenario) = Scenario::named(wanted) {
        return Ok(scenario);
    }
    if !Path::new(wanted).exists() {
        return Err(io::Error::other(format!(
            "`{wanted}` is neither a scenario's name (see --list) nor a file"
        )));
    }
    let text = std::fs::read_to_string(wanted)?;
    // JSON is YAML too.
    serde_yaml::from_str(&text).map_err(|error| io::Error::other(format!("{wanted}: {error}")))
}

/// The lines for Claude Code when it believes to speak to its own vendor.
#[cfg(feature = "tls")]
fn first_party_directions(host: &str, ca_file: &Path) -> String {
    format!(
        "\
# Claude Code, where {host} resolves to 127.0.0.1 (real/clis/in-namespace --host) and the port is 443
unset ANTHROPIC_BASE_URL ANTHROPIC_API_KEY
export NODE_EXTRA_CA_CERTS={} CLAUDE_CODE_OAUTH_TOKEN=sk-ant-oat01-simulated
export CLAUDE_CONFIG_DIR=$(mktemp -d) CLAUDE_CODE_MAX_RETRIES=1
claude -p --model sonnet 'Say hello'
",
        ca_file.display()
    )
}

/// The lines that point each vendor's program at `root`.
fn directions(root: &str, speaks: Speaks) -> String {
    let wants = |one: Speaks| speaks == Speaks::All || speaks == one;
    let mut text = String::new();
    if wants(Speaks::Anthropic) {
        text.push_str(&format!(
            "\
# Claude Code
export ANTHROPIC_BASE_URL={root} ANTHROPIC_API_KEY=simulated CLAUDE_CODE_MAX_RETRIES=1
export CLAUDE_CONFIG_DIR=$(mktemp -d) CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1
claude -p --model sonnet 'Say hello'

"
        ));
    }
    if wants(Speaks::Anthropic) {
        text.push_str(&format!(
            "\
# Nexus itself, by the wire messages in the form of Amazon Bedrock
cat > bedrock.yaml <<'END'
groups: {{ simulated: [server] }}
backends: {{ server: {{ provider: bedrock-anthropic, base_url: \"{root}\", model: anthropic.claude-simulated }} }}
types: {{ executor: {{ tier: execution, phase: implement, group: simulated }} }}
END
nexus run --config bedrock.yaml 'Say hello'

"
        ));
    }
    if wants(Speaks::Responses) {
        text.push_str(&format!(
            "\
# Codex
export CODEX_HOME=$(mktemp -d) NEXUS_CODEX_TOKEN=simulated
cat > $CODEX_HOME/config.toml <<'END'
model = \"gpt-5.5\"
model_provider = \"simulated\"
[features]
apps = false
plugins = false
unbounded_connection_retries = false
[analytics]
enabled = false
[model_providers.simulated]
name = \"simulated\"
base_url = \"{root}/v1\"
wire_api = \"responses\"
env_key = \"NEXUS_CODEX_TOKEN\"
supports_websockets = false
request_max_retries = 1
stream_max_retries = 1
END
codex exec --json --skip-git-repo-check 'Say hello' < /dev/null

"
        ));
    }
    for (kind, path) in [("chat", "v1"), ("gemini", "v1beta")] {
        let speaks_it = if kind == "chat" { Speaks::Chat } else { Speaks::Gemini };
        if !wants(speaks_it) {
            continue;
        }
        text.push_str(&format!(
            "\
# Nexus itself, by the wire {kind}
cat > simulated.yaml <<'END'
groups: {{ simulated: [server] }}
backends: {{ server: {{ kind: {kind}, base_url: \"{root}/{path}\", model: simulated }} }}
types: {{ executor: {{ tier: execution, phase: implement, group: simulated }} }}
END
nexus run --config simulated.yaml 'Say hello'

"
        ));
    }
    if wants(Speaks::Xai) {
        text.push_str(&format!(
            "\
# Grok
export GROK_HOME=$(mktemp -d) XAI_API_KEY=simulated GROK_XAI_API_BASE_URL={root}/v1
export GROK_CLI_CHAT_PROXY_BASE_URL={root}/v1 GROK_DISABLE_AUTOUPDATER=1 GROK_TELEMETRY_ENABLED=0
grok --single='Say hello' --output-format streaming-json --always-approve

"
        ));
    }
    text
}
