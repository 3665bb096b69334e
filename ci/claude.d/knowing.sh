# shellcheck shell=bash disable=SC2016,SC2154,SC2164,SC2317 # sourced by ci/claude, whose helpers these are
# What is known of claude while it runs: what it does, asks and costs.

# ask VERB SESSION WORDS…
ask() { agentsup "$1" --dir "$dir/state" --session "$2" "${@:3}"; }
activity() { agentsup state --dir "$dir/state" --json "$1" 2>/dev/null | sed -n 's/^  "activity": "\(.*\)",$/\1/p'; }
does() { [[ $(activity "$1") == "$2" ]]; }
# What it did, in order, since the last look; tools may come and go between two of them.
did() { log "$1" | sed -n 's/.* activity_changed .* to=\([a-z_]*\).*/\1/p' | tr '\n' ' '; }

figures() { agentsup stats --json --dir "$dir/state" "$1"; }
# figure SESSION NAME…: of its stats, by their paths, in one line.
figure() {
    figures "$1" | python3 -c 'import functools, json, sys
it = json.load(sys.stdin)
print(*(functools.reduce(lambda part, name: part.get(name, 0), path.split("."), it) for path in sys.argv[1:]))' "${@:2}"
}
counted_all() { [[ $(figure asks tokens.total) == 120 ]]; }

asks_for_permission() {
    section "claude asks for a tool, and others answer"
    home asks
    cd "$dir/work"
    rm -f -- *
    local supervisor
    printf '[permission]\ntimeout = "7s"\n' >"$dir/asks.toml"
    agentsup run --config "$dir/asks.toml" --dir "$dir/state" --session asks -- claude </dev/null >"$dir/out" 2>"$dir/err" &
    supervisor=$!
    check "it comes to rest" wait_for 30 does asks idle
    same "from starting to idle" "idle " "$(did asks)"
    ask send asks 'run: touch allowed.txt' >/dev/null
    check "it waits for a permission" wait_for 20 does asks waiting_permission
    has "on the way it worked" "$(did asks)" 'idle working (tool )?waiting_permission $'
    has "the tool and its input are shown" "$(ask permission asks ls)" 'Bash, asked .* denied in'
    has "the input" "$(ask permission asks ls)" 'command: touch allowed.txt'
    same "nothing has run" "" "$(ls)"
    has "allowed" "$(ask permission asks allow)" '^allowed p1$'
    check "the tool has run" wait_for 20 test -e allowed.txt
    check "and it is idle again" wait_for 20 does asks idle
    has "by way of the tool" "$(did asks)" 'waiting_permission tool (working )?idle $'
    check "claude got what the tool said" wait_for 10 bare_shows asks 'tools said: '

    ask send asks 'run: touch denied.txt' >/dev/null
    check "asked again" wait_for 20 does asks waiting_permission
    ask permission asks deny --reason 'not on a Friday' >/dev/null
    check "the reason reached claude" wait_for 20 bare_shows asks 'tools said: .*not on a Friday'
    check "idle" wait_for 20 does asks idle

    ask send asks 'run: touch late.txt' >/dev/null
    check "asked, and nobody answers" wait_for 20 does asks waiting_permission
    check "denied in time" wait_for 20 bare_shows asks 'tools said: .*nobody answered within 7s'
    check "idle" wait_for 20 does asks idle
    same "only what was allowed has run" "allowed.txt" "$(ls)"

    ask send asks 'run: sleep 3; touch dialog.txt' >/dev/null
    check "asked once more" wait_for 20 does asks waiting_permission
    check "its own dialog stands" wait_for 10 bare_shows asks 'Do you want to proceed'
    printf 1 | agentsup inject --dir "$dir/state" asks - >/dev/null
    check "a human's answer counts" wait_for 3 does asks tool
    same "at once: the tool still runs" "allowed.txt" "$(ls)"
    check "and ends" wait_for 20 test -e dialog.txt
    check "and nothing waits any more" wait_for 20 does asks idle
    same "no request is left" "no permissions wait for an answer" "$(ask permission asks ls)"

    # Four turns with a tool each; the API says 10 in and 5 out for every answer, of which there are two a turn.
    wait_for 5 counted_all || fail "stats" "$(figures asks)"
    same "stats: prompts, turns, failed ones" "4 4 0" "$(figure asks prompts turns failed_turns)"
    same "stats: permissions asked, allowed, denied, expired" "4 1 1 1" \
        "$(figure asks permissions.asked permissions.allowed permissions.denied permissions.expired)"
    same "stats: tools" "4" "$(figure asks tools.Bash)"
    same "stats: tokens in, out, in all" "80 40 120" "$(figure asks tokens.input tokens.output tokens.total)"
    plausible() { (($(figure asks "$1") >= $2 && $(figure asks "$1") <= $3)); }
    check "stats: claude wrote some kilobytes" plausible output_bytes 4000 4000000
    check "stats: and was typed a few hundred bytes" plausible input_bytes 100 4000
    check "stats: its tree has used CPU, in ms" plausible tree.cpu_ms 100 120000
    check "stats: and memory, in bytes" plausible tree.rss_bytes 50000000 2000000000
    check "stats: processes" plausible tree.processes 1 20
    check "stats: it has run, in ms" plausible run_ms 2000 300000
    check "stats: agentsup itself takes less memory than claude" plausible resident_bytes 500000 30000000

    ask send asks 'run: touch never.txt' >/dev/null
    check "its dialog stands again" wait_for 20 bare_shows asks 'Do you want to proceed'
    printf 3 | agentsup inject --dir "$dir/state" asks - >/dev/null
    check "a human's no ends the turn" wait_for 5 does asks idle
    # The next prompt brings what the tool said, and the API looks at nothing else then.
    same "and the next one begins: confirmed" confirmed "$(sends asks 'never mind')"
    check "idle" wait_for 20 does asks idle

    ask send asks 'run: touch never.txt' >/dev/null
    check "the last one" wait_for 20 does asks waiting_permission
    kill -9 "$(agent_pid asks)"
    check "its request is gone with the agent" wait_for 10 logged asks 'permission_answered .*answer=withdrawn'
    check "it comes back" wait_for 30 has_spawned asks 2
    check "and to rest" wait_for 30 does asks idle
    same "nothing else has run" "allowed.txt dialog.txt" "$(echo *)"
    kill -TERM "$supervisor"
    wait "$supervisor" || true
    rm -f allowed.txt dialog.txt
}

tokens_of() { figure "$1" tokens.input tokens.output tokens.total; }

counts_tokens() {
    section "tokens: counted from claude's transcript, and a rule that is met by them"
    home tokens
    cd "$dir/work"
    local supervisor
    # The API says 10 in and 5 out for each answer; a recovery prompt would be one more.
    printf '[recovery]\nprompt = false\n[[rule]]\nname = "budget"\nwhen = { max_tokens = 45 }\nthen = "reap"\n' >"$dir/rules.toml"
    agentsup run --dir "$dir/state" --session tokens --on-halt wait --config "$dir/rules.toml" -- claude </dev/null >"$dir/out" 2>"$dir/err" &
    supervisor=$!
    wait_for 20 has_spawned tokens 1 || fail "claude is started"
    same "nothing yet" "0 0 0" "$(tokens_of tokens)"
    # say_to TEXT: and its answer is in the transcript.
    say_to() { same "$1: confirmed" confirmed "$(sends tokens "$1")"; wait_for 10 has_kept tokens "reply to: $1" || fail "$1: kept"; }
    say_to 'one'
    same "an answer" "10 5 15" "$(tokens_of tokens)"
    say_to 'two'
    same "another" "20 10 30" "$(tokens_of tokens)"
    kill_it "$(agent_pid tokens)"
    check "killed, it starts again" wait_for 20 has_spawned tokens 2
    same "a continue counts nothing twice" "20 10 30" "$(tokens_of tokens)"
    wait_for 20 bare_shows tokens "$idle" || true
    same "three: confirmed" confirmed "$(sends tokens three)"
    check "the rule is met" wait_for 20 logged tokens 'rule_fired rule=budget when=max_tokens then=reap value=45'
    check "and halts" wait_for 20 logged tokens 'halted reason="rule budget"'
    agentsup resume --dir "$dir/state" tokens >/dev/null
    check "resumed, it starts again" wait_for 20 has_spawned tokens 3
    wait_for 20 bare_shows tokens "$idle" || true
    say_to 'four'
    same "and has a new budget" "40 20 60 1" "$(tokens_of tokens) $(log tokens | grep -c ' rule_fired ')"
    kill -TERM "$supervisor"
    wait "$supervisor" || true
}

# begins SESSION OPTIONS… -- COMMAND…: claude without a terminal, in a HOME of its own; $! is its supervisor.
begins() {
    home "$1"
    cd "$dir/work"
    agentsup run --dir "$dir/state" --session "$1" "${@:2}" </dev/null >"$dir/out-$1" 2>"$dir/err-$1" &
    wait_for 20 has_spawned "$1" 1 || fail "claude is started" "$(cat "$dir/err-$1")"
}
# No menu, no dialog, no words in the line; its Stop hook comes before the turn has left the screen.
at_rest() { does "$1" idle && bare_shows "$1" "$idle" && ! bare_shows "$1" 'Rewind|Esc to cancel|esc to interrupt'; }
# works_on SESSION TEXT: a turn that does not end by itself is under way, and its screen says so.
works_on() {
    sends "$1" "$2" >/dev/null
    wait_for 20 was_asked "$2" || fail "$2: the API is asked"
    wait_for 10 bare_shows "$1" 'esc to interrupt' || fail "$2: a turn is shown" "$(bare "$1")"
}

interrupts() {
    section "interrupt: a turn of claude's is cancelled by one key, and nothing else is"
    local supervisor
    begins stopme -- claude
    supervisor=$!
    wait_for 30 at_rest stopme || fail "it comes to rest" "$(bare stopme)"
    same "hello: confirmed" confirmed "$(sends stopme hello)"
    wait_for 20 bare_shows stopme '^● reply to: hello$' || true
    wait_for 20 at_rest stopme || fail "it comes to rest" "$(bare stopme)"
    same "idle: two at once press no key" "nothing to cancel: the agent is idle/nothing to cancel: the agent is idle/" \
        "$( (ask interrupt stopme; ask interrupt stopme) | tr '\n' /)"
    works_on stopme 'count slowly'
    same "in a turn: two at once press one" "interrupted/interrupted already, a moment ago/" \
        "$( (ask interrupt stopme; ask interrupt stopme) | tr '\n' /)"
    check "claude says so" wait_for 10 bare_shows stopme 'Interrupted · What should Claude do instead'
    check "it is idle again" wait_for 20 does stopme idle
    check "no menu stands" wait_for 10 at_rest stopme
    same "the next prompt: confirmed" confirmed "$(sends stopme 'and now')"
    check "it is answered" wait_for 10 bare_shows stopme '^● reply to: and now$'

    # claude puts a prompt that it had not begun to answer back into its line.
    works_on stopme 'think silently'
    same "before the answer has begun" interrupted "$(ask interrupt stopme)"
    same "the next prompt: confirmed" confirmed "$(sends stopme 'something else')"
    check "it is asked by itself" wait_for 10 was_asked 'something else'
    check "it is answered" wait_for 10 bare_shows stopme '^● reply to: something else$'

    works_on stopme 'talk slowly'
    printf 'a draft' | agentsup inject --dir "$dir/state" stopme - >/dev/null
    wait_for 5 bare_shows stopme '^❯.a draft' || fail "a draft stands" "$(bare stopme)"
    same "beside a draft" interrupted "$(ask interrupt stopme)"
    check "it is idle again" wait_for 20 does stopme idle
    same "and again" "nothing to cancel: the agent is idle" "$(ask interrupt stopme)"
    check "the draft stands" bare_shows stopme '^❯.a draft'
    printf '\x15' | agentsup inject --dir "$dir/state" stopme - >/dev/null

    wait_for 5 bare_shows stopme "$idle" || true
    works_on stopme 'run: sleep 60'
    check "a tool runs" wait_for 10 does stopme tool
    same "it is cancelled" interrupted "$(ask interrupt stopme)"
    check "it is idle again" wait_for 20 does stopme idle
    check "no menu stands" wait_for 10 at_rest stopme
    same "the same claude" 1 "$(spawns stopme)"
    ended "$supervisor"
}

recovers() {
    section "recovery: a claude that was killed is told why, once, in the same conversation"
    local supervisor why='You were restarted because the process was ended by signal KILL\. What was under way then may be half done\.'
    begins again -- claude
    supervisor=$!
    same "before it: confirmed" confirmed "$(sends again 'before it')"
    wait_for 10 has_kept again 'reply to: before it' || fail "the transcript is written"
    works_on again 'this one slowly'
    kill_it "$(agent_pid again)"
    check "it is told" wait_for 30 logged again ' recovery_sent '
    check "and answers" wait_for 10 bare_shows again 'reply to: You were restarted because'
    has "in the conversation that was under way" "$(requests | grep "user: $why\$" | tail -n 1)" \
        '^user: before it \| assistant: reply to: before it \| user: this one slowly \| .*user: You were restarted'
    check "the log knows" wait_for 5 logged again 'recovery_sent reason="the process was ended by signal KILL" receipt=confirmed'
    wait_for 10 does again idle || true
    agentsup restart --dir "$dir/state" again >/dev/null
    check "restarted by an operator" wait_for 20 has_spawned again 3
    same "the next prompt: confirmed" confirmed "$(sends again 'after it')"
    check "is answered" wait_for 10 bare_shows again '^● reply to: after it$'
    same "it was told once, and nothing of the restart" "1 1" \
        "$(requests | grep '^user: before it ' | grep -c "user: $why\$") $(log again | grep -c ' recovery_')"
    same "all in one conversation" 1 "$(conversations again | sort -u | wc -l)"
    ended "$supervisor"
}

own_settings() {
    section "settings of the user's own: their hooks run beside ours"
    local supervisor how given
    printf '{"hooks": {"UserPromptSubmit": [{"hooks": [{"type": "command", "command": "echo file >>%s/own-hooks"}]}]}}' "$dir" >"$dir/own.json"
    cp "$dir/own.json" "$dir/own-before.json"
    printf '{"hooks": {' >"$dir/broken.json"
    for how in file inline; do
        given=$dir/own.json
        [[ $how == file ]] || given=$(sed 's/echo file/echo inline/' "$dir/own.json")
        begins "own-$how" -- claude --settings "$given"
        supervisor=$!
        same "$how: confirmed" confirmed "$(sends "own-$how" "said with $how")"
        check "$how: answered" wait_for 10 bare_shows "own-$how" "^● reply to: said with $how\$"
        check "$how: idle" wait_for 10 does "own-$how" idle
        same "$how: by our hooks" "idle working idle " "$(did "own-$how")"
        same "$how: theirs ran, once" 1 "$(grep -c "^$how\$" "$dir/own-hooks")"
        ended "$supervisor"
    done
    check "their file is as it was" cmp "$dir/own.json" "$dir/own-before.json"
    begins own-broken -- claude --settings "$dir/broken.json"
    supervisor=$!
    check "unreadable: claude starts, and complains itself" wait_for 20 bare_shows own-broken '3\. Continue without these settings'
    printf 3 | agentsup inject --dir "$dir/state" own-broken - >/dev/null
    wait_for 10 bare_shows own-broken "$idle" || fail "unreadable: its line comes up" "$(bare own-broken)"
    same "unreadable: nobody confirms" submitted "$(sends own-broken 'said without')"
    check "unreadable: answered" wait_for 10 bare_shows own-broken '^● reply to: said without$'
    same "unreadable: one warning, which names it" 1 "$(grep -c "^\[supervisor\].* $dir/broken.json: it is no JSON object" "$dir/err-own-broken")"
    ended "$supervisor"
}

clears() {
    section "/clear: another conversation, and what is killed soon goes on in it"
    local supervisor first second turns
    printf '[policy]\ntransient_wait = "200ms"\nflapping_wait = "200ms"\n' >"$dir/clear.toml"
    begins clear --config "$dir/clear.toml" -- claude
    supervisor=$!
    same "the first words: confirmed" confirmed "$(sends clear 'before clear')"
    check "and answered" wait_for 10 does clear idle
    first=$(conversations clear | tail -n 1)
    sends clear /clear >/dev/null
    check "it is told" wait_for 20 logged clear ' conversation_changed conversation=.* source=clear'
    second=$(log clear | sed -n 's/.* conversation_changed conversation=\([^ ]*\).*/\1/p' | tail -n 1)
    check "as another one" test "$first" != "$second"
    has "state knows it" "$(agentsup state --json --dir "$dir/state" clear)" "\"conversation\": *\"$second\""
    same "words in the new one: confirmed" confirmed "$(sends clear 'behind clear')"
    check "and answered" wait_for 10 does clear idle
    # claude writes it down a moment after its Stop hook.
    tells_of_it() { agentsup transcript --dir "$dir/state" clear | grep -q 'reply to: behind clear'; }
    check "its transcript is read" wait_for 10 tells_of_it
    for turns in 2 3; do
        kill_it "$(agent_pid clear)"
        check "killed, it starts again" wait_for 20 has_spawned clear "$turns"
        has "in the new one" "$(log clear | grep claude_spawn | tail -n 1)" "start=continue conversation=$second"
        told_why() { [[ $(log clear | grep -c ' recovery_sent ') -ge $((turns - 1)) ]]; }
        check "and is told why" wait_for 20 told_why
    done
    check "no continue has failed" test -z "$(log clear | grep ' continue_failed' || true)"
    ended "$supervisor"
}

# limits_begin: a claude on a terminal of agentsup's and a one-shot one, as a subscriber calls them, that meet a
# limit until the minute is over. Other checks go on meanwhile.
limits_begin() {
    unset ANTHROPIC_API_KEY
    export CLAUDE_CODE_OAUTH_TOKEN=sk-ant-oat01-test-0123456789-0123456789-0123456789
    begins limited -- claude
    limited=$!
    begins limited-once --restart on-failure -- claude -p 'limit me once'
    limited_once=$!
    sends limited 'limit me' >/dev/null
    unset CLAUDE_CODE_OAUTH_TOKEN
    export ANTHROPIC_API_KEY=$key
}

rate_limited() {
    section "a rate limit: waited for, and no crash"
    [[ -n ${limited:-} ]] || limits_begin
    local code=0 met until over
    check "claude tells of it by its hook" wait_for 10 logged limited ' rate_limited by=hook .*session limit . resets '
    met=$(log limited | grep ' rate_limited ')
    until=$(sed -n 's/.* until=\([0-9]*\).*/\1/p' <<<"$met")
    same "the reset is the minute that it named" 0 "$((until % 60))"
    check "it is idle meanwhile" does limited idle
    # `over` by the log's own clock.
    check "then it goes on" wait_for 75 logged limited ' recovery_sent reason="the rate limit is over" receipt=confirmed'
    over=$(log limited | sed -n 's/^\[\([0-9]*\)\].* recovery_sent .*/\1/p')
    has "within seconds of the reset" "$((over - until))" '^[0-9]$'
    check "in the same conversation" wait_for 10 was_asked 'continue'
    same "the same claude, no exit" "1 0" "$(spawns limited) $(log limited | grep -c ' claude_exit ' || true)"
    same "no limit is known any more" "" "$(agentsup state --why --dir "$dir/state" limited | grep 'rate limit' || true)"
    ended "$limited"
    wait "$limited_once" || code=$?
    same "one-shot: its code" 0 "$code"
    same "one-shot: the answer" "reply to: limit me once" "$(tail -n 1 "$dir/out-limited-once")"
    same "one-shot: one exit at the limit, one good one" "rate_limited clean " \
        "$(log limited-once | sed -n 's/.* claude_exit .*class=\([a-z_]*\).*/\1/p' | tr '\n' ' ')"
    has "one-shot: the wait is told" "$(cat "$dir/err-limited-once")" 'at a rate limit, which is waited for until '
    limited=
}
