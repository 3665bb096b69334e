# shellcheck shell=bash disable=SC2016,SC2154,SC2164,SC2317 # sourced by ci/claude, whose helpers these are
# Messages that must arrive: typed, acknowledged, and carried where typing did not help.

triggers_arrive() {
    section "triggers: claude acknowledges by its hook, an operator goes first"
    home trigger
    printf '[trigger]\nquiet = "2s"\nack_timeout = "1s"\nretry_waits = ["500ms"]\n' >"$dir/trigger.toml"
    open_shell
    local trigger=(agentsup trigger --dir "$dir/state" --thread ci) long told
    supervise trig --config "$dir/trigger.toml" -- claude
    check "claude comes up" wait_for 20 is_idle
    same "one that is typed is acknowledged" "delivered a, by hook" "$("${trigger[@]}" --id a --reason 'red build' trig 'fix it' 2>&1)"
    check "the API sees it in its frame" wait_for 10 was_asked \
        '\[BRIDGE_TRIGGER id=a thread=ci reason=red build\]\\nfix it\\n\[/BRIDGE_TRIGGER\]'
    same "the same id again is the same" "delivered a, by hook" "$("${trigger[@]}" --id a --reason 'red build' trig 'fix it' 2>&1)"
    long=$(printf 'line %s of a long text\n' {1..300})
    same "300 lines arrive as one" "delivered b, by hook" "$("${trigger[@]}" --id b trig "$long" 2>&1)"
    wait_for 10 is_idle || true
    keys -l 'words of my own'
    wait_for 10 new_shows '^❯.words of my own' || fail "a draft stands" "$(screen)"
    same "a draft holds it back" "deferred c, OPERATOR_BUSY" "$("${trigger[@]}" --id c --no-wait trig 'the third' 2>&1 || true)"
    keys Enter
    check "the draft is sent as it was" wait_for 10 was_asked 'words of my own'
    same "then it follows" "delivered c, by hook" "$("${trigger[@]}" --id c trig 'the third' 2>&1)"
    check "and is a prompt of its own" wait_for 10 was_asked '\[BRIDGE_TRIGGER id=c thread=ci\]\\nthe third\\n\[/BRIDGE_TRIGGER\]'
    told=$(requests | tail -n 1)
    has "in one conversation" "$told" '^user: \[BRIDGE_TRIGGER id=a .*user: words of my own .*user: \[BRIDGE_TRIGGER id=c '
    same "each was asked once" "1 1" "$(requests | grep -c 'user: \[BRIDGE_TRIGGER id=a [^|]*$') $(asked 'words of my own')"
    end_it
}

# told FIELD JSON: one of its values, as text.
told() { python3 -c 'import json, sys; print(json.loads(sys.argv[2]).get(sys.argv[1]))' "$@"; }

# falls_back SESSION ID TEXT: what the trigger's end is, as JSON; its code is left in $dir/code.
falls_back() {
    local code=0
    agentsup trigger --dir "$dir/state" --thread t --id "$2" --json "$1" "$3" 2>&1 || code=$?
    echo "$code" >"$dir/code"
}

# begins_hello SESSION CONFIG OPTIONS: a claude without a terminal that has answered `hello`; $! is its supervisor.
begins_hello() {
    {
        printf '[trigger]\nack_timeout = "1s"\nretry_waits = ["200ms"]\nquiet = "1s"\nmax_defer = "3s"\n'
        printf '%s\n' "$2"
    } >"$dir/$1.toml"
    home "$1"
    cd "$dir/work"
    agentsup run --dir "$dir/state" --session "$1" --config "$dir/$1.toml" "${@:3}" -- claude </dev/null >"$dir/out" 2>"$dir/err" &
    wait_for 20 has_spawned "$1" 1 || fail "claude is started" "$(cat "$dir/err")"
    sends "$1" hello >/dev/null
    wait_for 20 bare_shows "$1" '^● reply to: hello$' || fail "hello is answered" "$(bare "$1" 2>&1)"
    wait_for 10 has_kept "$1" 'reply to: hello' || fail "the transcript is written"
}

envelope() { printf '\\[BRIDGE_TRIGGER id=%s thread=t\\]\\\\n%s\\\\n\\[/BRIDGE_TRIGGER\\]' "$1" "$2"; }

ended() {
    kill -TERM "$1" || true
    wait "$1" || true
}

trigger_falls_back() {
    section "a trigger that nobody acknowledges: a one-shot call in the conversation carries it"
    local supervisor end pid first
    begins_hello back '' --no-hooks
    supervisor=$!
    pid=$(agent_pid back)
    end=$(falls_back back red 'the build is red')
    same "its end: code, state, by" "0 delivered resume" "$(cat "$dir/code") $(told state "$end") $(told by "$end")"
    check "the call is told" logged back ' fallback_resume_started .*trigger_id=red'
    check "and its end" logged back ' fallback_resume_succeeded .*trigger_id=red'
    check "claude was ended and returned" wait_for 20 has_spawned back 2
    check "as another process" test "$pid" != "$(agent_pid back)"
    has "in the same conversation" "$(log back | grep ' claude_spawn ' | tail -n 1)" 'start=continue'
    same "which has one id" 1 "$(conversations back | sort -u | wc -l)"
    has "that end was asked for" "$(log back | grep ' claude_exit ')" ' class=asked'
    same "and is no crash" 0 "$(log back | grep -c ' restart_scheduled ' || true)"
    wait_for 20 bare_shows back "$idle" || fail "claude comes up again" "$(bare back 2>&1)"
    sends back again >/dev/null
    check "the API is asked" wait_for 20 was_asked again
    has "with all that was said, the trigger too" "$(requests | grep 'user: again$' | tail -n 1)" \
        "^user: hello \| assistant: reply to: hello \| .*user: $(envelope red 'the build is red') \| .*user: again\$"

    section "and where claude was in the middle of a turn, it is asked only once"
    same "a slow turn begins" submitted "$(sends back 'answer this slowly')"
    wait_for 20 was_asked 'answer this slowly' || fail "the slow question arrives"
    end=$(falls_back back late 'the build is late')
    same "its end: code, state, by" "0 delivered resume" "$(cat "$dir/code") $(told state "$end") $(told by "$end")"
    same "the API saw it once" 1 "$(asked "$(envelope late 'the build is late')")"
    check "claude returned" wait_for 20 has_spawned back 3
    same "no crash is counted" 0 "$(log back | grep -c ' restart_scheduled ' || true)"
    wait_for 20 bare_shows back "$idle" || fail "claude comes up again" "$(bare back 2>&1)"
    sends back 'and on' >/dev/null
    check "it goes on" wait_for 20 was_asked 'and on'
    # Nobody but the call said it, so this is what claude read of it when it returned.
    same "and knows what the call said and heard, once" 1 \
        "$(requests | grep 'user: and on$' | grep -o "user: $(envelope late 'the build is late') | assistant: reply to: " | wc -l)"

    section "a call that fails: claude returns all the same"
    end=$(falls_back back bad $'so\nfail now')
    same "its end: code, error" "70 RESUME_FAILED" "$(cat "$dir/code") $(grep -oE '(RESUME|SPAWN)_FAILED' <<<"$end" | head -n 1)"
    check "claude returned" wait_for 20 has_spawned back 4
    wait_for 20 bare_shows back "$idle" || fail "claude comes up again" "$(bare back 2>&1)"
    sends back 'no matter' >/dev/null
    check "it can be talked to" wait_for 20 was_asked 'no matter'
    same "in the same conversation" 1 "$(conversations back | sort -u | wc -l)"
    ended "$supervisor"
    check "nothing is left of it" gone "$(agent_pid back)"

    section "after a crash too many: a new conversation that begins with it"
    begins_hello crashed 'crash_shortcut = [1, "15m"]' --no-hooks
    supervisor=$!
    kill_it "$(agent_pid crashed)"
    wait_for 20 has_spawned crashed 2 || fail "it is started again"
    wait_for 20 bare_shows crashed "$idle" || fail "it comes up again" "$(bare crashed 2>&1)"
    first=$(conversations crashed | tail -n 1)
    spawned_anew crashed third "$first" 3
    ended "$supervisor"

    section "when the agent gave no sign for too long: the same"
    begins_hello stale 'stale_after = "1s"' --no-hooks
    supervisor=$!
    agentsup heartbeat --dir "$dir/state" stale >/dev/null || fail "a heartbeat is taken"
    first=$(conversations stale | tail -n 1)
    sleep 2
    spawned_anew stale fourth "$first" 2
    ended "$supervisor"

    section "with hooks a claude in the middle of a turn is waited for, and not ended"
    begins_hello busy ''
    supervisor=$!
    pid=$(agent_pid busy)
    same "a slow turn begins" confirmed "$(sends busy 'answer this slowly, too')"
    end=$(falls_back busy patient 'when you have time')
    same "its end: code, state, by" "0 delivered hook" "$(cat "$dir/code") $(told state "$end") $(told by "$end")"
    same "by the same claude" "$pid 1" "$(agent_pid busy) $(spawns busy)"
    check "the API is asked" wait_for 30 was_asked "$(envelope patient 'when you have time')"
    same "once" 1 "$(asked "$(envelope patient 'when you have time')")"
    ended "$supervisor"

    forks_beside_a_draft
}

# spawned_anew SESSION ID CONVERSATION SPAWNS: a trigger that begins another conversation.
spawned_anew() {
    local end anew
    end=$(falls_back "$1" "$2" "words of the $2")
    same "its end: code, state, by" "0 delivered spawn" "$(cat "$dir/code") $(told state "$end") $(told by "$end")"
    check "claude is started anew" wait_for 20 has_spawned "$1" "$4"
    has "fresh" "$(log "$1" | grep ' claude_spawn ' | tail -n 1)" 'start=fresh'
    check "in another conversation" test "$3" != "$(conversations "$1" | tail -n 1)"
    begun() { requests | grep -v '| ' | grep -q -- "^user: .*$(envelope "$1" "words of the $1")"; }
    check "whose first words hold the trigger" wait_for 20 begun "$2"
    anew=$(requests | grep -v '| ' | grep -- "$(envelope "$2" "words of the $2")" || true)
    has_not "and not what was said before" "$anew" hello
    same "and are asked once" 1 "$(grep -c . <<<"$anew")"
    wait_for 20 bare_shows "$1" "$idle" || fail "it comes up" "$(bare "$1" 2>&1)"
    sends "$1" "on with the $2" >/dev/null
    check "it can be talked to" wait_for 20 was_asked "on with the $2"
}

forks_beside_a_draft() {
    section "while a human types: a copy of the conversation answers, the draft stands"
    local end pid
    printf '[trigger]\nquiet = "1s"\nmax_defer = "3s"\n' >"$dir/fork.toml"
    home fork
    open_shell
    supervise fork --config "$dir/fork.toml" -- claude
    wait_for 20 is_idle || fail "claude comes up" "$(screen)"
    check "it can be talked to" answers hello
    wait_for 10 has_kept fork 'reply to: hello' || fail "the transcript is written"
    wait_for 10 is_idle || true
    pid=$(agent_pid fork)
    keys -l 'my very own words'
    wait_for 10 new_shows '^❯.my very own words' || fail "a draft stands" "$(screen)"
    end=$(falls_back fork beside 'said beside it')
    same "its end: code, state, by, forked" "0 delivered fork True" \
        "$(cat "$dir/code") $(told state "$end") $(told by "$end") $(told forked "$end")"
    check "the draft stands" new_shows '^❯.my very own words'
    same "the same claude" "$pid 1" "$(agent_pid fork) $(spawns fork)"
    same "the copy holds what was said before, and the trigger, once" 1 \
        "$(requests | grep -c "^user: hello | assistant: reply to: hello | user: $(envelope beside 'said beside it')\$")"
    keys Enter
    check "the draft is sent as it was" wait_for 20 was_asked 'my very own words'
    same "the conversation does not hold the trigger" 1 \
        "$(requests | grep -c '^user: hello | assistant: reply to: hello | user: my very own words$')"
    same "it is the conversation that is known" 1 "$(conversations fork | sort -u | wc -l)"
    check "its answer is on the screen" wait_for 10 shows 'reply to: my very own words'
    wait_for 10 is_idle || true
    end_it
}
