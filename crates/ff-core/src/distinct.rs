//! Maps that name nothing twice: of two values under one name, nobody could say which is meant.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Reads a map, and refuses a name that is given twice.
pub fn distinct<'de, D, V>(from: D) -> Result<BTreeMap<String, V>, D::Error>
where
    D: Deserializer<'de>,
    V: Deserialize<'de>,
{
    from.deserialize_map(Distinct(PhantomData))
}

struct Distinct<V>(PhantomData<V>);

impl<'de, V: Deserialize<'de>> Visitor<'de> for Distinct<V> {
    type Value = BTreeMap<String, V>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Self::Value, A::Error> {
        let mut all = BTreeMap::new();
        while let Some((name, value)) = fields.next_entry::<String, V>()? {
            if all.contains_key(&name) {
                return Err(A::Error::custom(format_args!("{name} is given twice")));
            }
            all.insert(name, value);
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<BTreeMap<String, u64>, serde_json::Error> {
        distinct(&mut serde_json::Deserializer::from_str(text))
    }

    #[test]
    fn a_name_that_is_given_twice_is_refused() {
        let expected = [("a".to_owned(), 1), ("b".to_owned(), 2)].into();
        assert_eq!(read(r#"{"a":1,"b":2}"#).expect("a map"), expected);
        for text in [r#"{"a":1,"a":2}"#, r#"{"a":1,"b":2,"\u0061":1}"#] {
            let error = read(text).expect_err("of two values, which?");
            assert!(error.to_string().contains("a is given twice"), "{error}");
        }
    }
}
