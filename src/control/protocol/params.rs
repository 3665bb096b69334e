//! Params, taken out one by one, so that every complaint names the one it is about.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde::Serializer;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::error::quoted;
use super::{Code, Error};
use crate::control::json;

/// Scripts lose the padding easily, and nothing is ambiguous without it.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

pub struct Params {
    method: &'static str,
    given: Map<String, Value>,
    asked: Vec<&'static str>,
}

impl Params {
    pub fn new(method: &'static str, params: Option<Value>) -> Result<Params, Error> {
        let given = match params {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(map)) => map,
            Some(_) => {
                let message = format!("`{method}`: `params` must be an object");
                return Err(Error::new(Code::BadParams, message));
            }
        };
        Ok(Params { method, given, asked: Vec::new() })
    }

    /// A null is as good as absent: typed clients send it for what they do not say.
    pub fn maybe<T: DeserializeOwned>(&mut self, key: &'static str) -> Result<Option<T>, Error> {
        self.asked.push(key);
        match self.given.remove(key) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => json::read(&value).map(Some).map_err(|why| self.complain(key, &why.to_string())),
        }
    }

    pub fn or<T: DeserializeOwned>(&mut self, key: &'static str, default: T) -> Result<T, Error> {
        Ok(self.maybe(key)?.unwrap_or(default))
    }

    pub fn need<T: DeserializeOwned>(&mut self, key: &'static str) -> Result<T, Error> {
        self.maybe(key)?.ok_or_else(|| self.complain(key, "it is missing"))
    }

    pub fn base64(&mut self, key: &'static str) -> Result<Vec<u8>, Error> {
        let text: String = self.need(key)?;
        BASE64.decode(text).map_err(|why| self.complain(key, &format!("no base64: {why}")))
    }

    /// Nothing may be left over.
    pub fn done(self) -> Result<(), Error> {
        let Some(key) = self.given.keys().next() else { return Ok(()) };
        let known = match &self.asked[..] {
            [] => "it takes none".to_owned(),
            keys => format!("it takes `{}`", keys.join("`, `")),
        };
        let message = format!("`{}` has no param `{}`; {known}", self.method, quoted(key, 64));
        Err(Error::new(Code::BadParams, message))
    }

    fn complain(&self, key: &str, why: &str) -> Error {
        Error::new(Code::BadParams, format!("`{}`: param `{key}`: {}", self.method, quoted(why, 200)))
    }
}

pub fn as_base64<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&BASE64.encode(bytes))
}
