//! Secrets never reach the report: not as a variable's value, and not where that value is
//! repeated in a command line or a setting.

use crate::session::Environment;

const MASKED: &str = "***";

pub struct Mask {
    /// Longest first, so that a secret inside another one leaves no rest behind.
    secrets: Vec<String>,
}

impl Mask {
    pub fn new(env: &Environment) -> Mask {
        let mut secrets = env.secrets();
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Mask { secrets }
    }

    pub fn text(&self, text: &str) -> String {
        self.secrets.iter().fold(text.to_string(), |text, secret| text.replace(secret, MASKED))
    }

    /// A variable with a telling name is masked however short its value is.
    pub fn value(&self, name: &str, value: &str) -> String {
        let name = name.to_ascii_uppercase();
        match ["KEY", "TOKEN", "SECRET", "PASSWORD"].iter().any(|word| name.contains(word)) {
            true => MASKED.to_string(),
            false => self.text(value),
        }
    }
}
