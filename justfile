# Each recipe is a line that you can type yourself; CONTRIBUTING.md lists them for those without `just`.

# The recipes
default:
    @just --list

# What every commit passes
check: format lint test docs structure prose weight deny

# Is the code formatted
format:
    cargo fmt --all --check

# Is clippy content
lint:
    cargo clippy --workspace --all-targets --all-features -- -D warnings

# All tests, or those whose names contain NAME
test NAME="":
    cargo test --workspace {{ NAME }}

# The tests of one crate whose names contain TEST
one CRATE TEST="":
    cargo test --package {{ CRATE }} {{ TEST }}

# Is the documentation whole
docs:
    RUSTDOCFLAGS='-D warnings' cargo doc --workspace --all-features --no-deps

# Circles of imports, vendor names out of place, repeated type names, lines
structure:
    cargo xtask structure

# How plainly comments, errors, help texts and pages are written
prose:
    cargo xtask prose

# Writes the generated pages and the picture of the book
book:
    cargo xtask book

# How many crates does a dependent compile
weight:
    cargo xtask weight

# May the dependencies be what they are
deny:
    cargo deny --locked check bans licenses sources

# Known faults of the dependencies; downloads a database
advisories:
    cargo deny --locked check advisories

# What breaks callers, compared with another commit
semver BASE="HEAD~1":
    cargo semver-checks --workspace --baseline-rev {{ BASE }}

# The engine's benches; `benches/README.md` says how to read them
bench:
    cargo bench -p nexus-benches --bench spawn --bench decode --bench turn_overhead --bench conversation

# The vendors' own programs against loopback servers
real:
    .ci/deep real

# Can every crate be packaged
package:
    cargo package --workspace --exclude nexus-benches --exclude nexus-tests --exclude xtask --no-verify

# The gate
ci:
    .ci/run

# A lane of the long proofs, such as `just deep suites`
deep LANE:
    .ci/deep {{ LANE }}
