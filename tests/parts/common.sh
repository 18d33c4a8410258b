# What ./test and its parts share: folders, what a part needs, and how tests are compiled.
#
# A part is a program beside this file. ./test runs it in the folder of the repository, and its exit code
# is the outcome: 0 passed, 77 skipped, others failed. Its output is kept in target/test/PART.log.
# shellcheck shell=bash disable=SC2034 # some variables are for the parts only

root=$PWD
logs=$root/target/test
# A clone of this repository. README's first command builds the program there that all parts test.
clone=$root/target/clone
candor=$clone/target/release/candor
# The exit status of a part that lacks something.
skipped=77
export CI=${CI:-false}
export CARGO_TARGET_DIR=$root/target CARGO_TERM_COLOR=never PYTHONDONTWRITEBYTECODE=1
export CANDOR_CACHE=${CANDOR_CACHE:-$root/target/cache}
kernels=${CANDOR_KERNELS:-6.12 6.12-rt}

# ---- What parts need ----------------------------------------------------------------------------

# skip WHAT COMMAND: ends the part; COMMAND would install what is absent.
skip() {
    echo "$1 is absent; install it with: $2"
    exit $skipped
}

# install_packages PACKAGE...: from Debian, in CI only.
install_packages() {
    local sudo=()
    [ "$(id -u)" = 0 ] || sudo=(sudo -n)
    [ "$CI" = true ] || return
    (
        # One lane at a time.
        flock 8
        if ! [ -e "$logs/apt-updated" ]; then
            "${sudo[@]}" apt-get -q update || exit
            touch "$logs/apt-updated"
        fi
        "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive \
            apt-get -q install -y --no-install-recommends "$@" >> "$logs/apt-get.log"
    ) 8> "$logs/apt-lock"
}

# need PROGRAM PACKAGE
need() {
    command -v "$1" > /dev/null || install_packages "$2" || skip "$1" "sudo apt-get install $2"
}

# need_component CARGO-COMMAND COMPONENT
need_component() {
    if ! cargo "$1" --version > /dev/null 2>&1; then
        local remedy="rustup component add $2"
        if ! [ "$CI" = true ] || ! $remedy; then skip "cargo $1" "$remedy"; fi
    fi
}

# need_target TRIPLE: the core library for another machine.
need_target() {
    if ! [ -d "$(rustc --print target-libdir --target "$1")" ]; then
        local remedy="rustup target add $1"
        if ! [ "$CI" = true ] || ! $remedy; then skip "the core library of $1" "$remedy"; fi
    fi
}

need_python_packages() {
    need python3 python3
    local packages="asammdf, can, can_cannelloni, cantools, cbor2, e2e, jsonschema, msgpack, prometheus_client, websockets"
    if ! tests/.venv/bin/python -c "import $packages" 2> /dev/null; then
        python3 -c 'import ensurepip' || install_packages python3-venv ||
            skip "venv of Python" "sudo apt-get install python3-venv"
        python3 -m venv --clear tests/.venv
        local remedy="tests/.venv/bin/pip install -q -r tests/requirements.txt"
        $remedy || skip "packages of Python" "$remedy"
    fi
}

need_node_packages() {
    need node nodejs
    need npm npm
    if ! [ node_modules/.package-lock.json -nt package-lock.json ]; then
        npm ci --no-audit --no-fund || skip playwright-core "npm ci --prefix tests/browser"
    fi
}

# Kernels and what runs them. Those that are in the cache are not fetched again.
need_kernels() {
    need qemu-system-x86_64 qemu-system-x86
    need_program
    local kernel cached
    cached=$("$candor" vm kernels --json | grep -F '"type":"cached"' || true)
    for kernel in $kernels; do
        if ! grep -qF "\"kernel\":\"$kernel\"" <<< "$cached" && [ "$CI" != true ]; then
            skip "Linux $kernel" "CANDOR_CACHE=$CANDOR_CACHE $candor vm fetch $kernels"
        fi
    done
    # shellcheck disable=SC2086 # a list of words
    "$candor" vm fetch $kernels
}

# in_clone COMMAND...: builds beside the program under test, where most of what a release needs is compiled already, and where what runs in guests
# was built for it.
in_clone() {
    (cd "$clone" && env -u CANDOR_NESTED_BUILT CARGO_TARGET_DIR="$clone/target" "$@")
}

need_data() {
    if ! [ -d ../shared/data ]; then
        echo "../shared/data is absent"
        exit $skipped
    fi
}

# The program under test, which the part `clone` builds once per run.
need_program() {
    (
        flock 7
        [ -e "$logs/clone-begun" ] || tests/parts/clone
    ) 7> "$logs/clone-lock"
    [ -x "$candor" ]
}

# ---- Tests in Rust -------------------------------------------------------------------------------

# linted COMMAND...: with Clippy as the compiler, so that lints and tests take one compilation.
linted() {
    RUSTC_WORKSPACE_WRAPPER=$(command -v clippy-driver || true) "$@"
}

# tests_asked_for NAME... -- ARGUMENT...: tests that run only when asked for, by the names of their
# files. All packages are chosen, since cargo would compile dependencies again for a part of them: with
# other features.
tests_asked_for() {
    local files=()
    while [ "$1" != -- ]; do
        files+=(--test "$1")
        shift
    done
    linted cargo test --workspace --locked --no-fail-fast "${files[@]}" "$@" 2>&1 |
        awk '{ print } /^test result: / { ran += $4 + $6 } END { exit ran == 0 }'
}

# Everything that the Rust tests run.
build_tests() {
    linted cargo test --workspace --all-targets --no-run --locked
}

# in_guests NAME...: tests that run on real kernels.
in_guests() {
    CANDOR_BINARY=$candor CANDOR_KERNELS=$kernels CANDOR_CASES=${CANDOR_CASES:-500} \
        tests_asked_for "$@" -- --ignored
}

# ---- This folder ---------------------------------------------------------------------------------

# Names and contents of everything that differs from the last commit.
differences() {
    git status --porcelain --untracked-files=all && git diff HEAD
}

# ---- Packages ------------------------------------------------------------------------------------

# build_twice FOLDER ARGUMENTS...: artefacts of packaging/build in FOLDER/one, and again from a copy of the sources in another folder, whose name
# has a blank. Both must have the same bytes.
build_twice() {
    local copy=$1/another\ place
    mkdir -p "$copy"
    git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents --no-dereference -t "$copy"
    export SOURCE_DATE_EPOCH CANDOR_COMMIT
    SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
    CANDOR_COMMIT=$(git rev-parse --short=12 HEAD)
    env -u CARGO_TARGET_DIR packaging/build "${@:2}" --out "$1/one"
    (cd "$copy" && env -u CARGO_TARGET_DIR packaging/build "${@:2}" --out "$1/two")
    (cd "$1/two" && sha256sum ./*) > "$1/sums"
    [ -s "$1/sums" ] && (cd "$1/one" && sha256sum --check --quiet "$1/sums") ||
        { echo "FAILED: the same sources gave other bytes in another folder"; return 1; }
    rm -rf "$copy" "$1/two"
}
