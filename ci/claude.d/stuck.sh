# shellcheck shell=bash disable=SC2016,SC2154,SC2164,SC2317 # sourced by ci/claude, whose helpers these are
# A claude whose API has fallen silent in the middle of a turn: its spinner turns, its clock runs.

# ticks_of PID: what it has used of a processor.
ticks_of() { awk '{ sub(/.*\) /, ""); print $12 + $13 }' "/proc/$1/stat"; }

gets_stuck() {
    section "a claude that is stuck is told to continue, then killed, and goes on"
    local supervisor
    printf '[watch]\ncontinue_after = "5s"\nkill_after = "21s"\nstart_after = "60s"\n[policy]\ntransient_wait = "200ms"\n' >"$dir/stuck.toml"
    begins stuck --watch --config "$dir/stuck.toml" -- claude
    supervisor=$!
    check "it comes to rest" wait_for 30 does stuck idle
    sends stuck 'a first turn' >/dev/null
    check "answered" wait_for 20 bare_shows stuck 'reply to: a first turn'
    check "and idle" wait_for 20 does stuck idle
    works_on stuck 'please answer slowly'
    local before share
    before=$(ticks_of "$(agent_pid stuck)")
    sleep 4
    share=$((($(ticks_of "$(agent_pid stuck)") - before) * 100 / ($(getconf CLK_TCK) * 4)))
    if ((share >= 13)); then
        # A fifth of a core counts as work, and here a spinner comes too near to that.
        echo "SKIPPED: claude's spinner takes $share % of a core on this machine, too much to be told from work"
        ended "$supervisor"
        return
    fi
    check "it is stuck" wait_for 20 does stuck stuck
    has "by evidence" "$(ask state stuck --why)" 'no hook, only a spinner or a clock on its screen, 1?[0-9] % of a core'
    check "and it is killed" wait_for 30 logged stuck ' stuck action=kill from=working '
    check "continue was typed before" wait_for 10 logged stuck ' send by=watch receipt='
    check "it comes back" wait_for 20 has_spawned stuck 2
    same "to the same conversation" 1 "$(conversations stuck | sort -u | wc -l)"
    check "and is told why" wait_for 30 logged stuck ' recovery_sent reason="it was stuck'
    check "in that conversation" wait_for 20 was_asked 'You were restarted because it was stuck.*'
    check "idle" wait_for 20 does stuck idle
    # Longer than it may be silent at work: who has nothing to do owes no sign.
    sleep 7
    same "an idle one is not stuck" 2 "$(log stuck | grep -c ' stuck action=')"
    kill -TERM "$supervisor"
    wait "$supervisor" || true
}
