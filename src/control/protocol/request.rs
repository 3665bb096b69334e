//! A request, from its bytes and to them.

use serde::Serialize;
use serde_json::Value;

use super::call::{METHODS, UNBUILT};
use super::error::quoted;
use super::params::Params;
use super::{Call, Code, Error, Id};
use crate::control::frame::{self, EncodeError, Framing};
use crate::control::json;

/// What a caller sends. Keys beside these are ignored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Request {
    /// Comes back in every reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<Id>,
    #[serde(flatten)]
    pub call: Call,
}

impl Request {
    /// One frame's JSON. A refusal carries the id whenever it could be read.
    pub fn parse(bytes: &[u8]) -> Result<Request, (Option<Id>, Error)> {
        let refuse = |code, message: String| (None, Error::new(code, message));
        let json = json::parse(bytes).map_err(|why| refuse(Code::BadJson, format!("no JSON: {why}")))?;
        let Value::Object(mut fields) = json else {
            return Err(refuse(Code::BadRequest, "a request is a JSON object with a `method`".into()));
        };
        let id = fields.remove("id").map(Id::from_value).transpose();
        let id = id.map_err(|why| refuse(Code::BadRequest, why))?;
        match parse_call(fields.remove("method"), fields.remove("params")) {
            Ok(call) => Ok(Request { id, call }),
            Err(error) => Err((id, error)),
        }
    }

    /// The request as a client sends it.
    pub fn to_frame(&self, framing: Framing) -> Result<Vec<u8>, EncodeError> {
        frame::encode(framing, self, frame::REQUEST_MAX)
    }
}

fn parse_call(method: Option<Value>, params: Option<Value>) -> Result<Call, Error> {
    let name = match method {
        Some(Value::String(name)) => name,
        Some(_) => return Err(Error::new(Code::BadRequest, "`method` must be a string")),
        None => return Err(Error::new(Code::BadRequest, "a request needs a `method`")),
    };
    let known = METHODS.into_iter().find(|known| *known == name);
    let Some(method) = known else {
        return Err(match UNBUILT.contains(&name.as_str()) {
            true => Error::new(Code::Unsupported, format!("`{name}` is not built yet")),
            false => Error::new(Code::UnknownMethod, format!("there is no method `{}`", quoted(&name, 64))),
        });
    };
    Call::of(method, Params::new(method, params)?)
}
