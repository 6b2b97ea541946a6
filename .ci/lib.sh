# Shared by .ci/run and .ci/deep: the environment of tests, installation, steps with their times, and the closing line.
# Sourced, never executed.

cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." || exit 2
repository=$PWD

export CARGO_TERM_COLOR=never RUST_BACKTRACE=1 CARGO_INCREMENTAL=0
# A changed text is a failure here, never a new snapshot.
export INSTA_UPDATE=no
# A machine without a sandbox, git or a browser skips the tests that need one. Here that is a failure.
export NEXUS_TEST_SANDBOX=required NEXUS_TEST_GIT=required NEXUS_TEST_BROWSER=required
# Many tests wait for a process or a limit, so more of them run at once than there are processors.
export RUST_TEST_THREADS=4
tools=$repository/target/ci-tools
export PATH=$tools/bin:$PATH

logs=$(mktemp -d)
trap 'rm -rf -- "$logs"' EXIT
began=$SECONDS
mkdir -p target
times_file=$repository/target/ci-times.tsv

# ---- Steps ----

# Prints the processor seconds of all children in what `times` wrote to a file. `times` itself must not run in a subshell, which
# has children of its own.
children_seconds() {
    sed -n 2p "$1" | tr 'ms' '  ' | awk '{ printf "%d", 60 * $1 + $2 + 60 * $3 + $4 + 0.5 }'
}

# step NAME COMMAND...: runs one step, shows its output, and records its outcome and times.
step() {
    local name=$1
    shift
    printf '\n=== %s: %s\n' "$name" "$*"
    local start=$SECONDS processor outcome=ok
    times > "$logs/times.$name"
    processor=$(children_seconds "$logs/times.$name")
    # A pipe of its own: some vendors' programs make their standard output non-blocking, which would make `tee` fail.
    if ! "$@" 2>&1 | tee "$logs/$name.log"; then
        outcome=FAILED
        : > "$logs/$name.failed"
    fi
    times > "$logs/times.$name"
    processor=$(($(children_seconds "$logs/times.$name") - processor))
    printf '%s\t%d\t%d\t%s\n' "$name" $((SECONDS - start)) "$processor" "$outcome" >> "$logs/times.tsv"
    printf '=== %s: %s in %d s, %d s of processor time\n' "$name" "$outcome" $((SECONDS - start)) "$processor"
}

# Prints the times, what failed and the closing line, and exits.
finish() {
    local passed failed steps
    passed=$(sed -n 's/^test result: .* \([0-9]*\) passed; .*/\1/p' "$logs"/*.log | awk '{ total += $1 } END { print total + 0 }')
    failed=$(sed -n 's/^test result: .* \([0-9]*\) failed; .*/\1/p' "$logs"/*.log | awk '{ total += $1 } END { print total + 0 }')
    mapfile -t steps < <(cd "$logs" && find . -name '*.failed' -printf '%f\n' | sed 's/\.failed$//' | sort)

    printf '\n'
    # The failures once more, since a reader looks at the end of a log first.
    sed -n '/^failures:$/,/^test result: FAILED/p' "$logs"/*.log | grep -v '^ *[0-9]*: \|^ *at /' | head -n 200
    write_times | tee "$times_file" | column -t -s $'\t'
    ((${#steps[@]} == 0)) || printf '\nfailed steps: %s\n' "${steps[*]}"
    printf '\n%d passed, %d failed\n' "$passed" "$((failed > ${#steps[@]} ? failed : ${#steps[@]}))"
    exit $((${#steps[@]} > 0))
}

# The table of steps. A step named download-… waits for a network, so the sum has a line without these.
write_times() {
    printf 'step\twall seconds\tprocessor seconds\toutcome\n'
    cat "$logs/times.tsv"
    awk -F '\t' -v wall=$((SECONDS - began)) '
        $1 ~ /^download/ { waited += $2; next }
        { processor += $3 }
        END {
            printf "all\t%d\t%d\t-\n", wall, processor
            printf "all without downloads\t%d\t%d\t-\n", wall - waited, processor
        }' "$logs/times.tsv"
}

# ---- Installation ----

# install_packages COMMAND=PACKAGE...: Debian packages for the commands that are missing.
install_packages() {
    local pair missing=()
    for pair in "$@"; do
        command -v "${pair%%=*}" > /dev/null || missing+=("${pair#*=}")
    done
    python3 -c 'import ensurepip' 2> /dev/null || missing+=(python3 python3-venv)
    ((${#missing[@]})) || return 0
    echo "missing: ${missing[*]}"
    if ((EUID)) || ! command -v apt-get > /dev/null; then
        echo "These packages must be there first. On Debian or Ubuntu: sudo apt-get install ${missing[*]}"
        return 1
    fi
    local patience=(-o Acquire::Retries=2 -o Acquire::http::Timeout=60 -o Acquire::https::Timeout=60)
    apt-get update -qq "${patience[@]}" \
        && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${patience[@]}" "${missing[@]}" \
        || { echo "apt-get could not install: ${missing[*]}"; return 1; }
}

gate_packages=(git=git ip=iproute2 bwrap=bubblewrap chromium=chromium setpriv=util-linux npm=npm cc=gcc c++=g++ column=bsdextrautils)

# The programs that .ci/tools.txt pins: seconds, where compiling them would take minutes.
install_tools() {
    local stamp=$tools/.installed-from
    [[ $(python3 --version && cat .ci/tools.txt) != "$(cat "$stamp" 2> /dev/null)" ]] || return 0
    python3 -m venv --clear "$tools" \
        && "$tools/bin/pip" install --quiet --disable-pip-version-check --require-hashes --only-binary :all: \
            --timeout 60 --retries 2 --requirement .ci/tools.txt \
        && { python3 --version && cat .ci/tools.txt; } > "$stamp" && return 0
    rm -rf -- "$tools"
    echo "pip could not install the programs of .ci/tools.txt; the line above names the package"
    return 1
}

# The crates of every lock file named.
fetch_crates() {
    local manifest
    for manifest in "$@"; do
        cargo fetch --quiet --locked --manifest-path "$manifest" \
            || { echo "cargo could not fetch the crates of $manifest; the line above names the crate"; return 1; }
    done
}

# The vendors' programs and the servers of others.
fetch_programs() {
    { real/clis/install && real/servers/install; } > "$logs/programs.part" && mv -- "$logs/programs.part" "$logs/programs.env"
}

# Sets NEXUS_REAL_…, which name the programs. Downloads nothing if `fetch_programs` ran.
use_programs() {
    [[ -s $logs/programs.env ]] || fetch_programs || return 1
    # shellcheck disable=SC1091
    source "$logs/programs.env"
    # One of the CLIs sets this variable by itself; a host that has it too would look like a leak.
    unset GRPC_DEFAULT_SSL_ROOTS_FILE_PATH
}

# ---- Test programs ----

# README's own command, so that what it promises is what runs here.
readme_test_command() {
    local command
    command=$(sed -n 's/^\(cargo test .*\)$/\1/p' README.md | head -n 1)
    [[ -n $command ]] || { echo "README.md names no test command" >&2; return 1; }
    echo "$command"
}

# Lines "PACKAGE TARGET FOLDER PROGRAM" of all test programs of the workspace, and of the programs that it builds.
built_programs() {
    [[ -s $logs/built ]] || cargo test --workspace --no-run --message-format=json 2> "$logs/built.err" | node -e '
        const { dirname } = require("node:path");
        const lines = require("node:fs").readFileSync(0, "utf8").split("\n").filter(Boolean).map((l) => JSON.parse(l));
        for (const l of lines) {
            if (!l.executable || !l.manifest_path) continue;
            const name = /#(?:([^@]*)@)/.exec(l.package_id)?.[1] ?? dirname(l.manifest_path).split("/").pop();
            const target = l.profile.test && l.target.kind[0] !== "test" ? "unit" : l.target.name;
            console.log(name, target, dirname(l.manifest_path), l.executable);
        }' > "$logs/built" || { cat "$logs/built.err" >&2; return 1; }
    cat "$logs/built"
}

# tests PACKAGE TARGET [ARGUMENT]...: runs one test program, in the package's folder as cargo would, and through `enter` if that
# array is set.
tests() {
    local package=$1 target=$2 folder program start=$SECONDS status=0
    shift 2
    read -r folder program < <(built_programs | awk -v p="$package" -v t="$target" '$1 == p && $2 == t { print $3, $4 }')
    [[ -n $program ]] || { echo "no test program $target of $package was built"; return 1; }
    printf '\n     Running %s %s %s\n' "$package" "$target" "$*"
    (cd "$folder" && CARGO_MANIFEST_DIR=$PWD "${enter[@]}" "$program" "$@" 2>&1 | cat
        exit "${PIPESTATUS[0]}") || status=1
    printf '     %s %s took %d s\n' "$package" "$target" $((SECONDS - start))
    return $status
}
enter=()

# only COUNT PACKAGE TARGET [ARGUMENT]...: like `tests`, and fails unless exactly COUNT tests passed: libtest also succeeds if a
# name matches nothing.
only() {
    local count=$1 log
    shift
    log=$(mktemp -p "$logs")
    tests "$@" > "$log" || { cat "$log"; return 1; }
    cat "$log"
    grep -q "^test result: ok. $count passed" "$log" || { echo "$count tests were to pass: $*"; return 1; }
}

# Runs a command as an ordinary user with a fresh home: as this user, or as `nobody` where this user is root. Folders that only
# root may enter are replaced, in a private mount namespace, by what the command needs of them.
as_ordinary_user() {
    local home status=0
    home=$(mktemp -d)
    if ((EUID)); then
        HOME=$home TMPDIR=$home CARGO_HOME=${CARGO_HOME:-$HOME/.cargo} RUSTUP_HOME=${RUSTUP_HOME:-$HOME/.rustup} "$@" || status=$?
    else
        chown nobody:nogroup "$home"
        # Cargo locks the target folder and writes lists of dependencies there, even if nothing is to be built.
        chown -R nobody:nogroup target/debug target/tmp 2> /dev/null
        local stash
        # Not below TMPDIR, which may be in a folder that is replaced.
        stash=$(mktemp -d /tmp/nexus-ci.XXXXXX)
        unshare --mount --propagation private -- bash "$repository/.ci/as-nobody" "$home" "$stash" "$@" || status=$?
        rmdir -- "$stash"
    fi
    rm -rf -- "$home"
    return $status
}
