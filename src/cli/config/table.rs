//! Tables of the config file: each key with what reads it. serde's derive would do, with ten times the code.

use toml::de::DeTable;

use super::value::{Value, wrong_kind};
use crate::cli::names::nearest;

/// Where something is wrong, and what.
pub type Complaint = (usize, String);
pub type Read<T> = Result<T, Complaint>;

pub trait Table: Default {
    const KEYS: &'static [&'static str];

    /// One of `KEYS`; `false` for any other.
    fn set(&mut self, key: &str, value: &Value) -> Read<bool>;
}

/// `Type { key: reader, … }`: the fields of the type are the keys of its table.
macro_rules! table {
    ($Type:ty { $($key:ident: $read:expr,)+ }) => {
        impl $crate::cli::config::table::Table for $Type {
            const KEYS: &'static [&'static str] = &[$(stringify!($key)),+];

            fn set(
                &mut self,
                key: &str,
                value: &$crate::cli::config::value::Value,
            ) -> $crate::cli::config::table::Read<bool> {
                match key {
                    $(stringify!($key) => self.$key = $read(value)?,)+
                    _ => return Ok(false),
                }
                Ok(true)
            }
        }
    };
}
pub(in crate::cli) use table;

pub fn read<T: Table>(from: &Value) -> Read<T> {
    read_as(from, "a table")
}

pub fn read_as<T: Table>(from: &Value, expected: &str) -> Read<T> {
    fill(from.get_ref().as_table().ok_or_else(|| wrong_kind(from, expected))?)
}

pub fn fill<T: Table>(from: &DeTable) -> Read<T> {
    let mut table = T::default();
    for (key, value) in from.iter() {
        if !table.set(key.get_ref(), value)? {
            return Err((key.span().start, unknown(key.get_ref(), T::KEYS)));
        }
    }
    Ok(table)
}

fn unknown(key: &str, known: &[&str]) -> String {
    match nearest(key, known.iter().copied()) {
        Some(meant) => format!("unknown key `{key}`; expected `{meant}`?"),
        None => format!("unknown key `{key}`; expected one of {}", known.join(", ")),
    }
}
