# shellcheck shell=bash disable=SC2016,SC2154,SC2164,SC2317 # sourced by ci/claude, whose helpers these are
# The real codex: its first screen, and turns with an API on loopback.

codex_without_terminal() {
    section "codex without a terminal: it asks for the cursor, and somebody answers"
    home codex-bare
    cd "$dir/work"
    local supervisor code=0
    agentsup run --dir "$dir/state" --session bare-codex -- codex </dev/null >"$dir/out" 2>"$dir/err" &
    supervisor=$!
    check "its first screen comes up" wait_for 30 bare_shows bare-codex 'Sign in with ChatGPT'
    sleep 2
    check "and stays" bare_shows bare-codex 'Sign in with ChatGPT'
    same "it is the same codex" 1 "$(spawns bare-codex)"
    printf '\e[B' | agentsup inject --dir "$dir/state" bare-codex - >/dev/null
    check "it hears keys" wait_for 10 bare_shows bare-codex '^> 2\. '
    kill -TERM "$supervisor"
    wait "$supervisor" || code=$?
    has "TERM: the code" "$code" '^(143|0)$'
}

codex_shows_up() {
    section "codex"
    home codex
    open_shell
    local before supervisor began
    before=$(terminal_state)
    supervise codex -- codex
    check "its first screen comes up" wait_for 30 shows 'Sign in with ChatGPT'
    sleep 1
    check "and stays" shows 'Sign in with ChatGPT'
    supervisor=$(parent_of "$(agent_pid codex)")
    began=$(now_ms)
    kill -TERM "$supervisor"
    check "TERM: it ends" wait_for 10 gone "$supervisor"
    below "TERM: time" 5000 "$(($(now_ms) - began))" ms
    back "TERM" "$before"
    has "TERM: the code" "$(code_was)" '^(143|0)$'
    same "TERM: no process of codex is left" "" "$(pgrep -f "$cache/node_modules/.*codex" || true)"
}

conversation_of() { agentsup state --dir "$dir/state" --json "$1" 2>/dev/null | sed -n 's/^  "conversation": "\(.*\)",$/\1/p'; }

codex_tells() {
    section "codex tells of the end of a turn, and is continued by its own id"
    home codex-tells
    cd "$dir/work"
    local supervisor provider id
    provider="model_providers.loopback={name=\"loopback\",base_url=\"$ANTHROPIC_BASE_URL/v1\",wire_api=\"responses\"}"
    # A home below /tmp it complains about; nobody's trust is asked for twice.
    mkdir -p "$HOME/.codex"
    printf '[projects."%s"]\ntrust_level = "trusted"\n' "$dir/work" >"$HOME/.codex/config.toml"
    agentsup run --dir "$dir/state" --session codex-tells -- codex -c model_provider=loopback -c "$provider" \
        </dev/null >"$dir/out" 2>"$dir/err" &
    supervisor=$!
    check "it shows its line" wait_for 30 bare_shows codex-tells '^› '
    check "nobody knows what it does" does codex-tells unknown
    sends codex-tells 'hello codex' >/dev/null
    check "it answers" wait_for 20 bare_shows codex-tells 'reply to: hello codex'
    check "and is idle" wait_for 20 does codex-tells idle
    id=$(conversation_of codex-tells)
    has "its conversation has an id of its own" "$id" '^[0-9a-f-]{36}$'
    # It writes a little later than it speaks; before that there is nothing to resume.
    wrote() { grep -rqs -- "$1" "$HOME/.codex/sessions"; }
    check "it writes its transcript" wait_for 10 wrote 'reply to: hello codex'
    agentsup restart --dir "$dir/state" codex-tells >/dev/null
    has "a restart resumes it by that id" "$(tr '\0' ' ' <"/proc/$(agent_pid codex-tells)/cmdline")" " resume $id "
    check "with what was said" wait_for 20 bare_shows codex-tells 'reply to: hello codex'
    wait_for 20 bare_shows codex-tells '^› ' || true
    sends codex-tells 'hello again' >/dev/null
    check "it goes on" wait_for 20 bare_shows codex-tells 'reply to: hello again'
    check "idle" wait_for 20 does codex-tells idle
    same "under the same id" "$id" "$(conversation_of codex-tells)"
    check "it writes that too" wait_for 10 wrote 'reply to: hello again'
    agentsup restart --dir "$dir/state" codex-tells >/dev/null
    has "the next restart resumes what was said last" "$(tr '\0' ' ' <"/proc/$(agent_pid codex-tells)/cmdline")" " resume $id "
    check "with the beginning" wait_for 20 bare_shows codex-tells 'reply to: hello codex'
    check "and the end" wait_for 20 bare_shows codex-tells 'reply to: hello again'
    kill -TERM "$supervisor"
    wait "$supervisor" || true
}
