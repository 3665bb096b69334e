//! Secrets never reach the report: not as a variable's value, and not where that value is
//! repeated in a command line or a setting.

use crate::log::Redactor;
use crate::session::{Environment, env};

pub struct Mask(Redactor);

impl Mask {
    pub fn new(env: &Environment) -> Mask {
        Mask(Redactor::new(env.secrets()))
    }

    pub fn text(&self, text: &str) -> String {
        self.0.mask(text).into_owned()
    }

    /// A variable with a telling name is masked however short its value is.
    pub fn value(&self, name: &str, value: &str) -> String {
        if env::is_secret_name(name.as_ref()) { "***".to_owned() } else { self.text(value) }
    }
}
