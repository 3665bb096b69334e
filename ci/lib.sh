# shellcheck shell=bash
# What the checks share: `source "$(dirname "$0")/lib.sh"`. No effect until something is called.

passed=0
failed=0

section() { printf '\n== %s\n' "$*"; }

pass() {
    passed=$((passed + 1))
    printf 'ok      %s\n' "$*"
}

# fail WHAT [DETAIL]: counts; the script goes on, so that one run shows all that is wrong.
fail() {
    failed=$((failed + 1))
    printf 'FAILED  %s\n' "$1"
    [[ $# -lt 2 || -z $2 ]] || printf '%s\n' "${*:2}" | tail -n 40 | sed 's/^/        | /'
}

# check WHAT COMMAND…: passes when the command does.
check() {
    # No local variables: the command may be a function that reads the caller's.
    if "${@:2}"; then pass "$1"; else fail "$1" "$(printf '%q ' "${@:2}")"; fi
}

# same WHAT EXPECTED SEEN
same() {
    if [[ $2 == "$3" ]]; then pass "$1"; else fail "$1" "expected: $2"$'\n'"seen:     $3"; fi
}

# has WHAT TEXT PATTERN: the text holds the extended regular expression.
has() {
    if grep -qE -- "$3" <<<"$2"; then pass "$1"; else fail "$1" "no /$3/ in:"$'\n'"$2"; fi
}

has_not() {
    if grep -qE -- "$3" <<<"$2"; then fail "$1" "/$3/ is in:"$'\n'"$2"; else pass "$1"; fi
}

# below WHAT LIMIT VALUE UNIT
below() {
    if (($3 < $2)); then pass "$1 ($3 $4)"; else fail "$1" "$3 $4, the limit is $2"; fi
}

# wait_for SECONDS COMMAND…: until it holds; false when it never did.
wait_for() {
    local wait_ends=$((SECONDS + $1))
    until "${@:2}"; do
        ((SECONDS < wait_ends)) || return 1
        sleep 0.1
    done
}

now_ms() { date +%s%3N; }

# The script's last line, and its exit status.
summary() {
    printf '\n%s: %d passed, %d failed\n' "${0##*/}" "$passed" "$failed"
    ((failed == 0))
}

# need PROGRAM PACKAGE: installed by package name when it is not there.
need() {
    PATH=$PATH:/usr/sbin:/sbin type -P "$1" >/dev/null || install_packages "$2"
}

# foreign BINARY: leaves in $emulator what has to stand before it: nothing where the machine runs it.
# shellcheck disable=SC2034 # the caller's
foreign() {
    emulator=()
    need readelf binutils
    if [[ $(LC_ALL=C readelf --file-header "$1") == *AArch64* && $(uname -m) != aarch64 ]]; then
        need qemu-aarch64-static qemu-user-static
        emulator=("$(type -P qemu-aarch64-static)")
    fi
}

install_packages() {
    echo "installing: $*"
    # A machine that has just booted may hold the lock for its own updates.
    local apt=(apt-get -qq -o DPkg::Lock::Timeout=120)
    ((EUID == 0)) || apt=(sudo -n "${apt[@]}")
    if [[ -z ${apt_is_fresh:-} ]]; then
        "${apt[@]}" update
        apt_is_fresh=1
    fi
    DEBIAN_FRONTEND=noninteractive "${apt[@]}" install -y --no-install-recommends "$@" >/dev/null
}

# python_with NAME PACKAGE…: leaves in $python the bin directory of a venv that has the packages; it is
# kept for the next time.
python_with() {
    python=${XDG_CACHE_HOME:-$HOME/.cache}/agentsup-ci/$1/bin
    [[ ! -e $python/.complete ]] || return 0
    need python3 python3
    python3 -m venv "${python%/bin}" 2>/dev/null || { install_packages python3-venv && python3 -m venv "${python%/bin}"; }
    "$python/pip" install --quiet "${@:2}"
    touch "$python/.complete"
}
