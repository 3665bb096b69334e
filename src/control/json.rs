//! JSON into types, in little code.
//!
//! serde_json reads a type in each way that JSON could be read: a struct from an array too, from text as from
//! a `Value` that it takes apart. All of that would be there once for each type. Here is one way, from a
//! `Value` that stays whole: objects are structs and maps, arrays are lists.

use std::fmt;

use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error, Expected, IntoDeserializer,
    MapAccess, SeqAccess, Unexpected, VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;
use serde_json::Value;

/// What is wrong, in words.
#[derive(Debug)]
pub struct Wrong(Box<str>);

pub fn read<T: DeserializeOwned>(from: &Value) -> Result<T, Wrong> {
    T::deserialize(Reader(from))
}

pub fn read_bytes<T: DeserializeOwned>(json: &[u8]) -> Result<T, Wrong> {
    read(&parse(json)?)
}

/// serde_json gives up at a depth of 128: deep nesting is an error, not a stack overflow.
#[inline(never)]
pub fn parse(json: &[u8]) -> Result<Value, Wrong> {
    serde_json::from_slice(json).map_err(Wrong::custom)
}

/// The same of what JavaScript writes when it has cut a text inside a character: half a surrogate pair, which is no
/// character, is read as U+FFFD.
pub fn parse_cut(json: &[u8]) -> Result<Value, Wrong> {
    parse(json).or_else(|_| parse(&without_halves(json)))
}

fn without_halves(json: &[u8]) -> Vec<u8> {
    let unit = |at: usize| {
        let digits = json.get(at..at + 6)?.strip_prefix(b"\\u")?;
        u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    };
    let (mut out, mut at) = (Vec::with_capacity(json.len()), 0);
    while let Some(byte) = json.get(at) {
        let (taken, is_half) = match (byte, unit(at)) {
            (b'\\', Some(0xd800..=0xdbff)) if matches!(unit(at + 6), Some(0xdc00..=0xdfff)) => (12, false),
            (b'\\', Some(0xd800..=0xdfff)) => (6, true),
            (b'\\', _) => (2, false),
            _ => (1, false),
        };
        let end = (at + taken).min(json.len());
        out.extend_from_slice(if is_half { b"\\ufffd" } else { &json[at..end] });
        at = end;
    }
    out
}

impl fmt::Display for Wrong {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for Wrong {}

impl Error for Wrong {
    #[inline(never)]
    fn custom<T: fmt::Display>(what: T) -> Wrong {
        Wrong(what.to_string().into())
    }
}

#[derive(Clone, Copy)]
struct Reader<'a>(&'a Value);

impl Reader<'_> {
    /// Once, not once for each visitor.
    #[inline(never)]
    fn unexpected(self, expected: &dyn Expected) -> Wrong {
        let found = match self.0 {
            Value::Null => Unexpected::Other("null"),
            Value::Bool(yes) => Unexpected::Bool(*yes),
            Value::Number(number) => match (number.as_u64(), number.as_i64()) {
                (Some(number), _) => Unexpected::Unsigned(number),
                (None, Some(number)) => Unexpected::Signed(number),
                (None, None) => Unexpected::Float(number.as_f64().unwrap_or(f64::NAN)),
            },
            Value::String(text) => Unexpected::Str(text),
            Value::Array(_) => Unexpected::Seq,
            Value::Object(_) => Unexpected::Map,
        };
        Wrong::invalid_type(found, expected)
    }
}

/// Methods that all read a number.
macro_rules! numbers {
    ($($method:ident)+) => {
        $(
            fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
                match self.0 {
                    Value::Number(number) => match (number.as_u64(), number.as_i64(), number.as_f64()) {
                        (Some(number), ..) => visitor.visit_u64(number),
                        (None, Some(number), _) => visitor.visit_i64(number),
                        (None, None, number) => visitor.visit_f64(number.unwrap_or(f64::NAN)),
                    },
                    _ => Err(self.unexpected(&visitor)),
                }
            }
        )+
    };
}

/// Methods that all read a text.
macro_rules! texts {
    ($($method:ident)+) => {
        $(
            fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
                match self.0 {
                    Value::String(text) => visitor.visit_str(text),
                    _ => Err(self.unexpected(&visitor)),
                }
            }
        )+
    };
}

impl<'de> Deserializer<'de> for Reader<'de> {
    type Error = Wrong;

    numbers! { deserialize_i32 deserialize_i64 deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_f64 }
    texts! { deserialize_str deserialize_string deserialize_identifier }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        match self.0 {
            Value::Null => visitor.visit_unit(),
            Value::Bool(yes) => visitor.visit_bool(*yes),
            Value::Number(_) => self.deserialize_f64(visitor),
            Value::String(text) => visitor.visit_str(text),
            Value::Array(_) => self.deserialize_seq(visitor),
            Value::Object(_) => self.deserialize_map(visitor),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        match self.0 {
            Value::Bool(yes) => visitor.visit_bool(*yes),
            _ => Err(self.unexpected(&visitor)),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        match self.0 {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        match self.0 {
            Value::Array(items) => visitor.visit_seq(Items(items.iter())),
            _ => Err(self.unexpected(&visitor)),
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        match self.0 {
            Value::Object(fields) => visitor.visit_map(Fields { rest: fields.iter(), value: &Value::Null }),
            _ => Err(self.unexpected(&visitor)),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        self.deserialize_map(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        match self.0 {
            Value::String(name) => visitor.visit_enum(Variant { name, content: &Value::Null }),
            Value::Object(fields) if fields.len() == 1 => {
                let (name, content) = fields.iter().next().expect("one was counted");
                visitor.visit_enum(Variant { name, content })
            }
            _ => Err(self.unexpected(&visitor)),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        i8 i16 i128 u128 f32 char bytes byte_buf unit unit_struct tuple tuple_struct
    }
}

struct Items<'a>(std::slice::Iter<'a, Value>);

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = Wrong;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Wrong> {
        self.0.next().map(|item| seed.deserialize(Reader(item))).transpose()
    }
}

struct Fields<'a> {
    rest: serde_json::map::Iter<'a>,
    /// Of the key that was taken last.
    value: &'a Value,
}

impl<'de> MapAccess<'de> for Fields<'de> {
    type Error = Wrong;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Wrong> {
        let Some((key, value)) = self.rest.next() else { return Ok(None) };
        self.value = value;
        seed.deserialize(named(key)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Wrong> {
        seed.deserialize(Reader(self.value))
    }
}

fn named(key: &str) -> StrDeserializer<'_, Wrong> {
    key.into_deserializer()
}

struct Variant<'a> {
    name: &'a str,
    content: &'a Value,
}

impl<'de> EnumAccess<'de> for Variant<'de> {
    type Error = Wrong;
    type Variant = Reader<'de>;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Reader<'de>), Wrong> {
        Ok((seed.deserialize(named(self.name))?, Reader(self.content)))
    }
}

impl<'de> VariantAccess<'de> for Reader<'de> {
    type Error = Wrong;

    fn unit_variant(self) -> Result<(), Wrong> {
        match self.0 {
            Value::Null => Ok(()),
            _ => Err(self.unexpected(&"a word")),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Wrong> {
        seed.deserialize(self)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Wrong> {
        self.deserialize_seq(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        self.deserialize_map(visitor)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Default, Deserialize, PartialEq)]
    struct Told {
        n: u32,
        #[serde(default)]
        at: f64,
        way: Option<Way>,
        #[serde(default)]
        more: BTreeMap<String, Vec<i64>>,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(rename_all = "snake_case")]
    enum Way {
        Out,
        Through(String),
        Back { steps: u64 },
    }

    #[test]
    fn what_serde_derives_is_read_and_unknown_keys_are_passed_over() {
        for (json, told) in [
            (json!({"n": 7, "new": [1, {"a": null}]}), Told { n: 7, ..Told::default() }),
            (
                json!({"n": 1, "at": 2, "way": "out"}),
                Told { n: 1, at: 2.0, way: Some(Way::Out), ..Told::default() },
            ),
            (
                json!({"n": 1, "way": {"through": "a door"}, "more": {"x": [-1, 2]}}),
                Told {
                    n: 1,
                    way: Some(Way::Through("a door".into())),
                    more: BTreeMap::from([("x".to_owned(), vec![-1, 2])]),
                    ..Told::default()
                },
            ),
            (
                json!({"n": 1, "way": {"back": {"steps": 3}}}),
                Told { n: 1, way: Some(Way::Back { steps: 3 }), ..Told::default() },
            ),
        ] {
            assert_eq!(read::<Told>(&json).unwrap(), told, "{json}");
        }
        let any = json!({"a": [1, -1, 0.5, "b", null, true, {}]});
        assert_eq!(read::<Value>(&any).unwrap(), any);
    }

    #[test]
    fn half_a_character_is_read_as_none_and_nothing_else_is_changed() {
        for (json, text) in [
            (r#""a\ud83d""#, Some("a\u{fffd}")),
            (r#""\ud83d\ud83d\ude00\ude00b""#, Some("\u{fffd}\u{1f600}\u{fffd}b")),
            (r#""\uD83D\n\\ud83d""#, Some("\u{fffd}\n\\ud83d")),
            (r#""\u00e9 é""#, Some("é é")),
            (r#""\ud8"#, None),
            (r#""\ud83d"#, None),
            (r#""\"#, None),
        ] {
            let read = parse_cut(json.as_bytes()).ok();
            assert_eq!(read.as_ref().and_then(Value::as_str), text, "{json}");
        }
        assert!(parse(br#""\ud83d""#).is_err(), "callers of the socket are told");
    }

    #[test]
    fn complaints_are_those_of_serde() {
        for (json, what) in [
            (json!({}), "missing field `n`"),
            (json!({"n": "x"}), "invalid type: string \"x\", expected u32"),
            (json!({"n": -1}), "invalid value: integer `-1`, expected u32"),
            (json!({"n": null}), "invalid type: null, expected u32"),
            (json!({"n": 1, "way": "up"}), "unknown variant `up`, expected one of `out`, `through`, `back`"),
            (json!([7]), "invalid type: sequence, expected struct Told"),
        ] {
            assert_eq!(read::<Told>(&json).unwrap_err().to_string(), what, "{json}");
        }
        assert!(read_bytes::<Told>(b"{\"n\":").unwrap_err().to_string().starts_with("EOF"));
    }
}
