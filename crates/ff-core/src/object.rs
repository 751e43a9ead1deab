//! Requests are JSON objects and nothing else. Derived structs also accept an array of their fields
//! in order, which would let a mistyped request through.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A value that is read from a JSON object only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Object<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(ObjectVisitor(PhantomData))
    }
}

impl<T: Serialize> Serialize for Object<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(to)
    }
}

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> serde::de::Visitor<'de> for ObjectVisitor<T> {
    type Value = Object<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: serde::de::MapAccess<'de>>(self, fields: A) -> Result<Self::Value, A::Error> {
        T::deserialize(MapAccessDeserializer::new(fields)).map(Object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Deserialize, Serialize)]
    struct Pair {
        one: u8,
        two: u8,
    }

    #[test]
    fn an_array_of_fields_is_no_object() {
        assert!(serde_json::from_str::<Pair>("[1,2]").is_ok());
        let error = serde_json::from_str::<Object<Pair>>("[1,2]").expect_err("an array");
        assert!(error.to_string().contains("expected an object"), "{error}");
        let read: Object<Pair> = serde_json::from_str(r#"{"two":2,"one":1}"#).expect("an object");
        assert_eq!(serde_json::to_string(&read).expect("text"), r#"{"one":1,"two":2}"#);
    }
}
