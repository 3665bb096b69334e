//! What can be said about a run. Names and keys are a contract with whoever reads the log, so
//! each stands in one list.

use super::redact::Redactor;

/// How loud journald should be about an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    Info,
    Warning,
    Error,
}

macro_rules! names {
    ($($variant:ident $text:literal $severity:ident,)+) => {
        /// Every event there is. `claude_*` whatever the agent.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Name {
            $($variant,)+
        }

        impl Name {
            pub const ALL: &'static [Name] = &[$(Name::$variant,)+];

            pub fn as_str(self) -> &'static str {
                match self {
                    $(Name::$variant => $text,)+
                }
            }

            pub fn severity(self) -> Severity {
                match self {
                    $(Name::$variant => Severity::$severity,)+
                }
            }
        }
    };
}

names! {
    SessionStart "session_start" Info,
    PtyAllocated "pty_allocated" Info,
    CwdResolved "cwd_resolved" Info,
    EnvBuilt "env_built" Info,
    BeforeSpawn "before_spawn" Info,
    ClaudeSpawn "claude_spawn" Info,
    ClaudeExit "claude_exit" Info,
    SpawnFailed "spawn_failed" Error,
    StateChanged "state_changed" Info,
    RestartScheduled "restart_scheduled" Info,
    ContinueFailed "continue_failed" Warning,
    ConversationChanged "conversation_changed" Info,
    RateLimited "rate_limited" Warning,
    RecoverySent "recovery_sent" Info,
    RecoveryFailed "recovery_failed" Warning,
    Halted "halted" Error,
    Resumed "resumed" Info,
    Notify "notify" Info,
    UserAction "user_action" Info,
    ControlDenied "control_denied" Warning,
    Inject "inject" Info,
    Send "send" Info,
    OperatorInput "operator_input" Info,
    Attached "attached" Info,
    Detached "detached" Info,
    TriggerQueued "trigger_queued" Info,
    TriggerRefused "trigger_refused" Warning,
    TriggerDeferred "trigger_deferred" Info,
    TriggerSent "trigger_sent" Info,
    AckReceived "ack_received" Info,
    FallbackResumeStarted "fallback_resume_started" Warning,
    FallbackResumeSucceeded "fallback_resume_succeeded" Info,
    FallbackResumeFailed "fallback_resume_failed" Warning,
    FallbackSpawnStarted "fallback_spawn_started" Warning,
    TriggerDelivered "trigger_delivered" Info,
    TriggerFailed "trigger_failed" Warning,
    ThreadBlocked "thread_blocked" Warning,
    ThreadUnblocked "thread_unblocked" Info,
    RuleFired "rule_fired" Warning,
    RuleFailed "rule_failed" Warning,
    ActivityChanged "activity_changed" Info,
    Stuck "stuck" Warning,
    PermissionRequested "permission_requested" Info,
    PermissionAnswered "permission_answered" Info,
    QuestionRequested "question_requested" Info,
    QuestionAnswered "question_answered" Info,
    Done "done" Info,
    Claimed "claimed" Info,
    ClaimReleased "claim_released" Info,
    ChildSpawn "child_spawn" Info,
    ChildReady "child_ready" Info,
    ChildExit "child_exit" Info,
    ChildRefused "child_refused" Error,
    ChildStop "child_stop" Info,
    GaveUp "gave_up" Error,
    SignalReceived "signal_received" Info,
    Suspended "suspended" Info,
    Continued "continued" Info,
    ProcUnusable "proc_unusable" Warning,
    RuntimeLost "runtime_lost" Error,
    RuntimeRestored "runtime_restored" Warning,
    OrphanReaped "orphan_reaped" Info,
    LeftoversEnded "leftovers_ended" Info,
    KillSurvived "kill_survived" Error,
    OomKill "oom_kill" Warning,
    OutputLost "output_lost" Warning,
    RecordLost "record_lost" Warning,
    RecordResumed "record_resumed" Info,
    LogLost "log_lost" Warning,
    LogRotated "log_rotated" Info,
    Shutdown "shutdown" Info,
}

/// Every key an event may carry. journald's field names are made from this list when agentsup is
/// compiled, so a key that is not here would be in the file only.
pub const KEYS: [&str; 71] = [
    "action",
    "answer",
    "argv",
    "attempt",
    "by",
    "child",
    "class",
    "code",
    "config",
    "conversation",
    "count",
    "cwd",
    "dropped",
    "errno",
    "error",
    "exit",
    "file",
    "fingerprint",
    "forced",
    "from",
    "grace_ms",
    "health",
    "hint",
    "how",
    "killed",
    "label",
    "late",
    "lines",
    "lost",
    "method",
    "more",
    "names",
    "oom",
    "orphans",
    "pane",
    "phase",
    "pid",
    "program",
    "readonly",
    "reason",
    "receipt",
    "record",
    "request_id",
    "restarts",
    "role",
    "rule",
    "run_ms",
    "sender",
    "session",
    "signal",
    "signal_name",
    "sink",
    "size",
    "source",
    "start",
    "step",
    "text",
    "then",
    "thread",
    "ticket",
    "to",
    "tool",
    "trigger_id",
    "uid",
    "until",
    "value",
    "vars",
    "wait_ms",
    "way",
    "when",
    "why",
];

/// One thing that happened, with what is known about it, in the order in which it is printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub name: Name,
    fields: Vec<(&'static str, String)>,
}

impl Event {
    pub fn new(name: Name) -> Event {
        Event { name, fields: Vec::new() }
    }

    /// `key` is one of [`KEYS`], at most once in an event: journald gets one value for each.
    pub fn with(mut self, key: &'static str, value: impl ToString) -> Event {
        debug_assert!(KEYS.contains(&key), "`{key}` is not in log::event::KEYS");
        debug_assert!(self.fields.iter().all(|(k, _)| *k != key), "`{key}` is given twice");
        self.fields.push((key, value.to_string()));
        self
    }

    /// [`Event::with`] when there is something to say, else nothing.
    pub fn maybe(self, key: &'static str, value: Option<impl ToString>) -> Event {
        match value {
            Some(value) => self.with(key, value),
            None => self,
        }
    }

    pub fn fields(&self) -> &[(&'static str, String)] {
        &self.fields
    }

    pub fn severity(&self) -> Severity {
        self.name.severity()
    }

    /// Secrets go before anything is quoted: an escaped secret would no longer be found.
    pub(super) fn masked(mut self, redactor: &Redactor) -> Event {
        for (_, value) in &mut self.fields {
            if let std::borrow::Cow::Owned(masked) = redactor.mask(value) {
                *value = masked;
            }
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_snake_case_and_distinct() {
        for (i, name) in Name::ALL.iter().enumerate() {
            let text = name.as_str();
            assert!(text.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{text}");
            assert!(Name::ALL[..i].iter().all(|other| other.as_str() != text), "{text} twice");
        }
    }

    #[test]
    fn keys_fit_into_journald_field_names() {
        for (i, key) in KEYS.iter().enumerate() {
            assert!(key.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{key}");
            assert!(!key.starts_with('_'), "{key}: journald drops what starts with an underscore");
            // 64 is journald's limit for a name, AGENTSUP_ included.
            assert!(key.len() < 50, "{key}");
            assert!(!KEYS[..i].contains(key), "{key} twice");
            assert!(!["message", "event"].contains(key), "{key} is journald's own");
        }
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "`colour` is not in log::event::KEYS")]
    fn an_unlisted_key_is_caught_in_tests() {
        let _ = Event::new(Name::Halted).with("colour", "red");
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "`pid` is given twice")]
    fn a_key_stands_once_in_an_event() {
        let _ = Event::new(Name::Halted).with("pid", 1).with("pid", 2);
    }

    #[test]
    fn maybe_leaves_out_what_is_not_known() {
        let event = Event::new(Name::ClaudeExit).maybe("code", Some(1)).maybe("signal", None::<i32>);
        assert_eq!(event.fields(), [("code", "1".to_owned())]);
    }
}
