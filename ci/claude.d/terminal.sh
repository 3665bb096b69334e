# shellcheck shell=bash disable=SC2016,SC2154,SC2164,SC2317 # sourced by ci/claude, whose helpers these are
# On a terminal (tmux): as without agentsup, Ctrl-Z, and what a kill leaves.

as_without_agentsup() {
    section "the same keys, with and without agentsup"
    local how before
    for how in plain agentsup; do
        home "$how"
        open_shell
        before=$(terminal_state)
        if [[ $how == plain ]]; then
            command_line "stty -a >$dir/before; claude; echo \$? >$dir/code"
        else
            supervise same --on-clean exit -- claude
        fi
        check "$how: claude comes up" wait_for 20 is_idle
        # claude's own cursor comes and goes, with or without agentsup, and the line below the input box is
        # still changing; all else stands.
        "${pane[@]}" capture-pane -e -p | sed -e '/shortcuts/,$d' -e 's/\x1b\[\(7\|0\|49\)m//g' >"$dir/screen-$how"
        keys -l 'a draft'
        wait_for 10 shows '^❯.a draft' || fail "$how: typing is seen" "$(screen)"
        keys C-c
        check "$how: Ctrl-C empties the line" wait_for 5 shows "$idle"
        sleep 2 # that one may count as a first; let it pass
        check "$how: it can be talked to" answers "hello from $how"
        check "$how: a slow turn begins" say "talk $how slowly"
        check "$how: the API is asked" wait_for 20 was_asked "talk $how slowly"
        sleep 1
        keys C-c
        check "$how: Ctrl-C interrupts it" wait_for 10 shows 'Interrupted'
        wait_for 10 is_idle || true
        sleep 2
        check "$how: and it can be talked to again" answers "again from $how"
        sleep 1
        check "$how: the first Ctrl-C only warns, the second ends" leave
        back "$how" "$before"
        same "$how: its code" 0 "$(code_was)"
    done
    check "the first screen is the same, colours included" diff "$dir/screen-plain" "$dir/screen-agentsup"
}

suspends() {
    section "Ctrl-Z and fg"
    home suspend
    open_shell
    local before
    before=$(terminal_state)
    supervise z -- claude
    check "claude comes up" wait_for 20 is_idle
    check "it can be talked to" answers "before it"
    sleep 1
    keys C-z
    check "Ctrl-Z: the shell is back" wait_for 10 at_prompt
    check "Ctrl-Z: claude says so" shows 'Claude Code has been suspended'
    check "Ctrl-Z: the shell calls it stopped" shows '^\[1\]\+ +Stopped .*agentsup run'
    same "Ctrl-Z: claude is stopped too" T "$(sed 's/.*) \(.\).*/\1/' "/proc/$(agent_pid z)/stat")"
    back "Ctrl-Z" "$before"
    command_line 'echo "the shell $((40 + 2))"'
    check "Ctrl-Z: the shell works" wait_for 5 shows '^the shell 42$'
    keys -l fg
    keys Enter
    check "fg: claude is back" wait_for 10 is_idle
    check "fg: it can be talked to" answers "behind it"
    has "fg: in the same conversation" "$(requests | tail -n 1)" 'user: before it .* user: behind it'
    same "fg: it is the same claude" 1 "$(spawns z)"
    sleep 1
    say /exit || true
    check "/exit: agentsup asks" wait_for 10 shows '^\[supervisor\] agent exited with code 0 .*q: quit'
    keys q
    back "q" "$before"
}

survives_kill() {
    section "kill -9: the same conversation"
    home kill
    open_shell
    local before old
    before=$(terminal_state)
    supervise kill --prompt "'first words'" -- claude
    check "the prompt is answered" wait_for 30 shows 'reply to: first words'
    wait_for 10 is_idle || true
    wait_for 10 has_kept kill 'reply to: first words' || fail "the transcript is written"
    kill_it "$(agent_pid kill)"
    check "it is started again" wait_for 20 has_spawned kill 2
    check "the restart is told" shows '^\[supervisor\] agent was ended by signal KILL'
    has "with continue" "$(log kill | grep claude_spawn | tail -n 1)" 'start=continue'
    same "in the same conversation" 1 "$(conversations kill | sort -u | wc -l)"
    check "its old turns are shown" wait_for 20 new_shows 'reply to: first words'
    wait_for 10 is_idle || true
    has "on a clean screen" "$(new_screen)" '^╭─+ Claude Code v'
    check "it is told why" wait_for 20 new_shows 'reply to: You were restarted because the process was ended by signal KILL'
    wait_for 10 is_idle || true
    check "it can be talked to" answers 'second words'
    has "the API saw the whole conversation" "$(requests | grep 'second words$')" \
        '^user: first words \| assistant: reply to: first words \| user: You were restarted [^|]*\| [^|]*\| user: second words$'
    same "the API saw the first prompt once" 1 "$(asked 'first words')"
    sleep 1
    kill_it "$(agent_pid kill)"
    wait_for 10 waits_again kill 2 || true
    keys C-c
    back "killed, then Ctrl-C" "$before"
    same "killed, then Ctrl-C: the code" 137 "$(code_was)"

    section "kill -9 of agentsup, then --start continue"
    open_shell
    supervise both -- claude "'third words'"
    check "the prompt is answered" wait_for 30 shows 'reply to: third words'
    wait_for 10 has_kept both 'reply to: third words' || fail "the transcript is written"
    old=$(agent_pid both)
    kill_it "$(parent_of "$old")"
    check "claude dies with it" wait_for 10 gone "$old"
    # Nobody is left who could tidy up.
    open_shell
    supervise both --start continue -- claude "'third words'"
    check "the next start shows the old turns" wait_for 30 shows 'reply to: third words'
    wait_for 10 is_idle || true
    check "it can be talked to" answers 'fourth words'
    same "in the same conversation" \
        'user: third words | assistant: reply to: third words | user: fourth words' "$(requests | grep 'fourth words$')"
    same "the API saw the prompt once" 1 "$(asked 'third words')"
    end_it
}

# end_it: leaves claude and agentsup; how that looks is checked elsewhere.
end_it() {
    sleep 1
    leave && wait_for 10 shows 'Enter: start again, q: quit' && keys q && wait_for 10 at_prompt && return
    fail "the end" "$(screen)"
}

survives_bad_transcript() {
    local what file
    for what in garbage truncated empty; do
        section "a transcript that is $what: a fresh start, no halt"
        home "$what"
        open_shell
        supervise "$what" -- claude "'begin $what'"
        check "the prompt is answered" wait_for 30 shows "reply to: begin $what"
        wait_for 10 has_kept "$what" "reply to: begin $what" || fail "the transcript is written"
        file=$(transcript "$what")
        kill_it "$(agent_pid "$what")"
        case $what in
        garbage) head -c 5000 /dev/urandom >"$file" ;;
        truncated) truncate -s 100 "$file" ;;
        empty) : >"$file" ;;
        esac
        fresh_again() { log "$what" | grep ' claude_spawn ' | tail -n +2 | grep -q start=fresh; }
        check "it is started fresh" wait_for 30 fresh_again
        # claude itself refuses the first two; an empty one is no transcript, so nobody tries.
        [[ $what == empty ]] || check "continue_failed is told" logged "$what" ' continue_failed'
        check "there is no halt" test -z "$(log "$what" | grep ' halted' || true)"
        same "in a new conversation" 2 "$(conversations "$what" | sort -u | wc -l)"
        wait_for 20 new_shows "reply to: begin $what" || true
        wait_for 20 is_idle || true
        check "it can be talked to" answers "on with $what"
        end_it
    done
}
