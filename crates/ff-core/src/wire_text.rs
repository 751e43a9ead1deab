//! Serde for values that have exactly one text form: what `Display` writes, `FromStr` accepts.

/// Serialises a type as its `Display` text and deserialises it through its strict `FromStr`, so
/// that nothing enters from outside without passing the type's own rules.
macro_rules! serde_as_text {
    ($type:ty, $expected:expr) => {
        impl ::serde::Serialize for $type {
            fn serialize<S: ::serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_str(self)
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $type {
            fn deserialize<D: ::serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                struct Text;

                impl ::serde::de::Visitor<'_> for Text {
                    type Value = $type;

                    fn expecting(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                        f.write_str($expected)
                    }

                    fn visit_str<E: ::serde::de::Error>(self, text: &str) -> Result<$type, E> {
                        text.parse().map_err(E::custom)
                    }
                }

                from.deserialize_str(Text)
            }
        }
    };
}

pub(crate) use serde_as_text;
