//! `flow schema`: the format of a flow's file, for editors and other programs. What a file shares
//! with the HTTP API is taken from that one's document, so that it is said once.

use serde_json::{Map, Value};

use crate::failure::Failure;

/// What only a file has.
const OWN: &str = include_str!("schema.json");

/// Where the document of the HTTP API, and where a schema, has the types it refers to.
const THEIRS: &str = "#/components/schemas/";
const OURS: &str = "#/$defs/";

pub(super) fn print(json: bool) -> Result<(), Failure> {
    if json {
        say!("{}", document()?);
    } else {
        say!("{:#}", document()?);
    }
    Ok(())
}

/// The whole schema.
fn document() -> Result<Value, Failure> {
    let mut schema: Value = serde_json::from_str(OWN)?;
    let api: Value = serde_json::from_str(&ff_server::openapi_json())?;
    let mut types = schema["$defs"].as_object().cloned().unwrap_or_default();
    let mut missing = references(&schema);
    while let Some(name) = missing.pop() {
        if types.contains_key(&name) {
            continue;
        }
        let shared = local(&api["components"]["schemas"][&name]);
        if shared.is_null() {
            return Err(format!("the schema refers to {name}, which is nowhere").into());
        }
        missing.extend(references(&shared));
        types.insert(name, shared);
    }
    schema["$defs"] = Value::Object(types);
    Ok(schema)
}

/// The names of all types that a schema refers to.
fn references(schema: &Value) -> Vec<String> {
    match schema {
        Value::Object(fields) => {
            let own = fields.get("$ref").and_then(Value::as_str);
            let own = own.and_then(|text| text.strip_prefix(OURS)).map(str::to_owned);
            own.into_iter().chain(fields.values().flat_map(references)).collect()
        }
        Value::Array(items) => items.iter().flat_map(references).collect(),
        _ => Vec::new(),
    }
}

/// The same, with references into this schema.
fn local(theirs: &Value) -> Value {
    match theirs {
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| (name.clone(), local(value)));
            Value::Object(fields.collect::<Map<_, _>>())
        }
        Value::Array(items) => Value::Array(items.iter().map(local).collect()),
        Value::String(text) => match text.strip_prefix(THEIRS) {
            Some(name) => Value::String(format!("{OURS}{name}")),
            None => theirs.clone(),
        },
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::file;
    use super::*;

    fn schema() -> Value {
        document().unwrap_or_else(|failure| panic!("{}", failure.message))
    }

    /// Whether a value is as a schema says, as far as our schema goes.
    fn fits(root: &Value, rule: &Value, value: &Value) -> bool {
        let each = |rule: Option<&Value>, values: &[Value]| {
            rule.is_none_or(|rule| values.iter().all(|value| fits(root, rule, value)))
        };
        let referred = rule["$ref"].as_str().is_none_or(|text| {
            let rule = root.pointer(text.trim_start_matches('#')).expect("it leads somewhere");
            fits(root, rule, value)
        });
        let one = rule["oneOf"]
            .as_array()
            .is_none_or(|rules| rules.iter().filter(|rule| fits(root, rule, value)).count() == 1);
        let listed = rule["enum"].as_array().is_none_or(|values| values.contains(value));
        let typed = has_type(&rule["type"], value) && in_range(rule, value);
        let items = value.as_array().is_none_or(|items| {
            each(rule.get("items"), items)
                && (rule["uniqueItems"] != true
                    || items.iter().all(|one| items.iter().filter(|it| *it == one).count() == 1))
        });
        let fields = value.as_object().is_none_or(|fields| {
            let required = rule["required"].as_array().into_iter().flatten();
            let known = |name: &str| rule["properties"].get(name);
            let names: Vec<Value> = fields.keys().map(|name| name.as_str().into()).collect();
            required.into_iter().all(|name| fields.contains_key(name.as_str().expect("a name")))
                && fields.len() as u64 >= rule["minProperties"].as_u64().unwrap_or(0)
                && each(rule.get("propertyNames"), &names)
                && fields.iter().all(|(name, value)| {
                    match (known(name), &rule["additionalProperties"]) {
                        (Some(rule), _) => fits(root, rule, value),
                        (None, Value::Bool(allowed)) => *allowed,
                        (None, Value::Null) => true,
                        (None, rule) => fits(root, rule, value),
                    }
                })
        });
        referred && one && listed && typed && items && fields
    }

    fn has_type(types: &Value, value: &Value) -> bool {
        let is = |name: &Value| match name.as_str().expect("a type") {
            "object" => value.is_object(),
            "array" => value.is_array(),
            "string" => value.is_string(),
            "integer" => value.is_u64() || value.is_i64(),
            "boolean" => value.is_boolean(),
            "null" => value.is_null(),
            other => panic!("{other} is no type of ours"),
        };
        match types {
            Value::Null => true,
            Value::Array(types) => types.iter().any(is),
            one => is(one),
        }
    }

    fn in_range(rule: &Value, value: &Value) -> bool {
        let number = value.as_i64().is_none_or(|number| {
            rule["minimum"].as_i64().is_none_or(|least| number >= least)
                && rule["maximum"].as_i64().is_none_or(|most| number <= most)
        });
        let text = value.as_str().is_none_or(|text| {
            let length = text.chars().count() as u64;
            length >= rule["minLength"].as_u64().unwrap_or(0)
                && rule["maxLength"].as_u64().is_none_or(|most| length <= most)
        });
        number && text
    }

    #[test]
    fn the_checked_in_schema_is_our_own() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/flow.schema.json");
        let current = format!("{:#}\n", schema());
        if std::env::var_os("FF_UPDATE").is_some() {
            std::fs::write(&path, &current).expect("written");
        }
        let advice = "run `FF_UPDATE=1 cargo test -p flowfabric schema` and commit the file";
        let checked_in = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(checked_in == current, "{} is stale: {advice}", path.display());
    }

    /// Files that are taken, and files that are not, each with one fault.
    const TAKEN: &[&str] = &[
        r#"{"flow": "x", "tasks": {"a": {}}}"#,
        r#"{"flow": "x", "tasks": {"a": null, "b b": {"kind": "k"}}}"#,
        r#"{"$schema": "flow.schema.json", "flow": "x", "key": "k", "namespace": "n",
            "on_failure": "fail_fast", "retention_ms": 0, "deadline_at": "2030-01-01",
            "tags": {"team.owner": "ann"}, "tasks": {"a": {}}}"#,
        r#"{"flow": "x", "deadline_at": 1900000000000,
            "tasks": {"a": {"input": [1, {"b": null}]}}}"#,
        r#"{"flow": "x", "tasks": {"a": {"input": "t", "lane": "l", "priority": 9000,
            "tags": {"team.owner": "ann"}, "optional": true,
            "policy": {"retry_policy": {"max_retries": 3}}}}}"#,
        r#"{"flow": "x", "retention": "7d", "tasks": {"a": {"retries": 3, "backoff": "1s..5m",
            "timeout": "30s", "deadline": "2h", "retention": "30d"}}}"#,
        r#"{"flow": "x", "tasks": {"a": {}, "b": {"after": ["a"], "pass": ["a"], "on": "any"}}}"#,
        r#"{"flow": "x", "tasks": {"a": {}, "b": {"after": {"all": ["a"]}, "pass": {"a": "in"}}}}"#,
        r#"{"flow": "x", "tasks": {"a": {}, "b": {"after": {"any": ["a"]}, "on": "failure"}}}"#,
        r#"{"flow": "x", "tasks": {"a": {}, "b": {"after": {"count": 1, "of": ["a"]}}}}"#,
    ];
    const REFUSED: &[&str] = &[
        r#"[]"#,
        r#"{"tasks": {"a": {}}}"#,
        r#"{"flow": "x"}"#,
        r#"{"flow": "x", "tasks": {}}"#,
        r#"{"flow": "", "tasks": {"a": {}}}"#,
        r#"{"flow": "x", "tasks": [{"name": "a"}]}"#,
        r#"{"flow": "x", "task": {"a": {}}, "tasks": {"a": {}}}"#,
        r#"{"flow": "x", "key": "", "tasks": {"a": {}}}"#,
        r#"{"flow": "x", "on_failure": "stop", "tasks": {"a": {}}}"#,
        r#"{"flow": "x", "retention_ms": -1, "tasks": {"a": {}}}"#,
        r#"{"flow": "x", "deadline_at": true, "tasks": {"a": {}}}"#,
        r#"{"flow": "x", "tasks": {"": {}}}"#,
        r#"{"flow": "x", "tasks": {"a": {"kind": ""}}}"#,
        r#"{"flow": "x", "tasks": {"a": {"aftre": []}}}"#,
        r#"{"flow": "x", "tasks": {"a": {"priority": "high"}}}"#,
        r#"{"flow": "x", "tasks": {"a": {"priority": 9001}}}"#,
        r#"{"flow": "x", "tasks": {"a": {"optional": 1}}}"#,
        r#"{"flow": "x", "tasks": {"a": {"timeout": 30}}}"#,
        r#"{"flow": "x", "tasks": {"a": {"retries": 1001}}}"#,
        r#"{"flow": "x", "tasks": {"a": {"policy": {"max_retries": 3}}}}"#,
        r#"{"flow": "x", "tasks": {"a": {}, "b": {"after": "a"}}}"#,
        r#"{"flow": "x", "tasks": {"a": {}, "b": {"after": ["a", "a"]}}}"#,
        r#"{"flow": "x", "tasks": {"a": {}, "b": {"after": {"all": ["a"], "any": ["a"]}}}}"#,
        r#"{"flow": "x", "tasks": {"a": {}, "b": {"after": {"count": 1}}}}"#,
        r#"{"flow": "x", "tasks": {"a": {}, "b": {"after": {"count": 0, "of": ["a"]}}}}"#,
        r#"{"flow": "x", "tasks": {"a": {}, "b": {"after": ["a"], "on": "sometimes"}}}"#,
        r#"{"flow": "x", "tasks": {"a": {}, "b": {"after": ["a"], "pass": "a"}}}"#,
    ];

    #[test]
    fn the_schema_and_the_parser_agree() {
        let schema = schema();
        for (texts, taken) in [(TAKEN, true), (REFUSED, false)] {
            for text in texts {
                let value: Value = serde_json::from_str(text).expect("json");
                let parsed = file::read(text.as_bytes()).map(drop);
                assert_eq!(parsed.is_ok(), taken, "the parser: {text}: {parsed:?}");
                assert_eq!(fits(&schema, &schema, &value), taken, "the schema: {text}");
            }
        }
    }

    #[test]
    fn the_schema_and_the_parser_know_the_same_fields() {
        let schema = schema();
        let fields = |rule: &Value| -> Vec<String> {
            rule["properties"].as_object().expect("fields").keys().cloned().collect()
        };
        let parsed = |text: &str| -> Vec<String> {
            let told = file::read(text.as_bytes()).map(drop).expect_err("refused").message;
            let mut names: Vec<String> =
                told.split('`').skip(3).step_by(2).map(str::to_owned).collect();
            names.sort_unstable();
            names
        };
        assert_eq!(parsed("flow: x\nbogus: 1"), fields(&schema));
        let task = "flow: x\ntasks: { a: { bogus: 1 } }";
        assert_eq!(parsed(task), fields(&schema["$defs"]["Task"]));
    }
}
