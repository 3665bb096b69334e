//! What a caller names its request by.

use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};

/// Any JSON scalar; it comes back in every reply to the request as it was given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Id {
    Number(Number),
    Text(#[cfg_attr(feature = "schema", schemars(length(max = 256)))] String),
    Bool(bool),
    Null,
}

impl Id {
    /// A stream repeats the id in each frame, so a long one would be a lever.
    pub const LONGEST: usize = 256;

    pub(super) fn from_value(value: Value) -> Result<Id, String> {
        match value {
            Value::Null => Ok(Id::Null),
            Value::Bool(it) => Ok(Id::Bool(it)),
            Value::Number(it) => Ok(Id::Number(it)),
            Value::String(it) if it.len() <= Id::LONGEST => Ok(Id::Text(it)),
            Value::String(it) => Err(format!("`id` is {} bytes long, {} are allowed", it.len(), Id::LONGEST)),
            Value::Array(_) => {
                Err("`id` is an array; a string, a number, true, false or null is allowed".into())
            }
            Value::Object(_) => {
                Err("`id` is an object; a string, a number, true, false or null is allowed".into())
            }
        }
    }
}

impl From<u64> for Id {
    fn from(number: u64) -> Id {
        Id::Number(number.into())
    }
}
