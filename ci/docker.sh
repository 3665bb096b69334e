# shellcheck shell=bash disable=SC2034,SC2317 # read by the scripts that source it; called by wait_for
# A Docker engine of a check's own: `source "$(dirname "$0")/docker.sh"` after lib.sh, then
# `start_docker`. Daemon, images and volumes live in $dir and are gone with the script; another
# daemon is neither used nor touched.

export PATH=$PATH:/usr/sbin:/sbin
dir=$(mktemp -d)
unset DOCKER_CONTEXT DOCKER_TLS_VERIFY TMUX
export DOCKER_HOST=unix://$dir/docker.sock DOCKER_CONFIG=$dir/config DOCKER_BUILDKIT=0
daemon=
finish() {
    local left
    if [[ -n $daemon ]]; then
        left=$(docker ps -aq 2>/dev/null) || left=
        # shellcheck disable=SC2086 # one word per container
        [[ -z $left ]] || docker rm -f $left >/dev/null 2>&1 || true
        kill -TERM "$daemon" 2>/dev/null || true
        wait "$daemon" 2>/dev/null || true
    fi
    tmux -S "$dir/tmux" kill-server 2>/dev/null || true
    mount | awk -v dir="$dir/" 'index($3, dir) == 1 { print $3 }' | sort -r | xargs -r umount 2>/dev/null || true
    rm -rf --one-file-system "$dir" || true
}
trap finish EXIT

# engine PROGRAM PACKAGE: as `need` with CI=true. Elsewhere no engine is installed behind anybody's
# back: without it the whole check is skipped.
engine() {
    [[ ${CI:-} != true ]] || { need "$@"; return; }
    type -P "$1" >/dev/null || skip_all "there is no $1 (package $2); with CI=true it is installed"
}

skip_all() {
    printf '\n%s: SKIPPED, NOTHING WAS CHECKED: %s\n' "${0##*/}" "$1" >&2
    exit 0
}

start_docker() {
    engine dockerd docker.io
    engine docker docker.io
    ((EUID == 0)) || [[ ${CI:-} == true ]] || skip_all "a daemon needs root"
    mkdir -p "$dir/config" "$dir/data" "$dir/exec"
    dockerd --iptables=false --bridge=none --data-root "$dir/data" --exec-root "$dir/exec" \
        --pidfile "$dir/docker.pid" -H "$DOCKER_HOST" >"$dir/dockerd.log" 2>&1 &
    daemon=$!
    answers() { docker version >/dev/null 2>&1 || ! kill -0 "$daemon" 2>/dev/null; }
    wait_for 60 answers && docker version >/dev/null && return
    tail -n 20 "$dir/dockerd.log" >&2
    echo "${0##*/}: dockerd does not come up" >&2
    exit 1
}

# image NAME [ARGS…]: built in $dir/context, from the Dockerfile on stdin.
image() {
    docker build -q --network=none -t "$1" "${@:2}" -f - "$dir/context" >"$dir/build.log" 2>&1 || {
        cat "$dir/build.log" >&2
        exit 1
    }
}

# run_in ARGS…: `docker run`; leaves the exit code in $code, the streams in $dir/out and $dir/err.
run_in() {
    code=0
    docker run --rm --network=none "$@" >"$dir/out" 2>"$dir/err" </dev/null || code=$?
}
story() { cat "$dir/out" "$dir/err"; }

# code_is WHAT CODE ARGS…
code_is() {
    run_in "${@:3}"
    if [[ $code == "$2" ]]; then pass "$1: $2"; else fail "$1: $2" "seen: $code"$'\n'"$(story)"; fi
}

# started NAME WORD ARGS…: in the background, until its output holds the word.
started() {
    docker run -d --name "$1" --network=none "${@:3}" >/dev/null
    said "$1" "$2"
    namespace=$(namespace_of "$1" pid)
}
# said NAME WORD: waits until the container has.
said() {
    has_said() { docker logs "$1" 2>&1 | grep -q -- "$2"; }
    wait_for 20 has_said "$1" "$2" || fail "$1 never said '$2'" "$(docker logs "$1" 2>&1)"
}
# namespace_of NAME KIND
namespace_of() { readlink "/proc/$(docker inspect -f '{{.State.Pid}}' "$1")/ns/$2"; }

# stopped NAME [ARGS…]: `docker stop`; $took ms, $code, $logs; the container is removed.
stopped() {
    local name=$1 began
    began=$(now_ms)
    docker stop "${@:2}" "$name" >/dev/null
    took=$(($(now_ms) - began))
    ended "$name"
}
ended() {
    code=$(docker wait "$1")
    logs=$(docker logs "$1" 2>&1)
    docker rm -f "$1" >/dev/null
}

# Every process on the host that lives in that pid namespace.
inhabitants() {
    local process
    for process in /proc/[0-9]*; do
        [[ $(readlink "$process/ns/pid" 2>/dev/null) != "$1" ]] || echo "${process#/proc/}"
    done
}
