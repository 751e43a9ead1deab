//! Serde for structs that are JSON objects and nothing else.

/// Derived structs also accept an array of their fields in order, which would let a mistyped
/// policy through. A type that derives with `#[serde(remote = "Self")]` gets its traits from here,
/// and takes objects only.
macro_rules! serde_as_object {
    ($($type:ty),+ $(,)?) => {$(
        impl ::serde::Serialize for $type {
            fn serialize<S: ::serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                <$type>::serialize(self, to)
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $type {
            fn deserialize<D: ::serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                struct Object;

                impl<'de> ::serde::de::Visitor<'de> for Object {
                    type Value = $type;

                    fn expecting(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                        f.write_str("an object")
                    }

                    fn visit_map<A: ::serde::de::MapAccess<'de>>(
                        self,
                        fields: A,
                    ) -> Result<$type, A::Error> {
                        <$type>::deserialize(::serde::de::value::MapAccessDeserializer::new(fields))
                    }
                }

                from.deserialize_map(Object)
            }
        }
    )+};
}

pub(crate) use serde_as_object;
