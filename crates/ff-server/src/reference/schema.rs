//! Schemas in words.

use serde_json::Value;

use super::entries;
use crate::approval::escaped;

/// The rows of an object's fields.
pub(super) fn fields(object: &Value) -> String {
    let required = |name: &str| {
        object["required"].as_array().is_some_and(|list| list.iter().any(|one| one == name))
    };
    let rows = entries(&object["properties"]).map(|(name, schema)| {
        let must = if required(name) { "required" } else { "" };
        let about = escaped(schema["description"].as_str().unwrap_or_default());
        let (name, kind) = (escaped(name), type_of(schema));
        format!("<tr><td><code>{name}</code><td>{must}<td>{kind}<td>{about}")
    });
    rows.collect()
}

/// What a value is.
pub(super) fn type_of(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        let name = escaped(name);
        return format!("<a href=\"#schema-{name}\">{name}</a>");
    }
    for forms in ["oneOf", "anyOf", "allOf"] {
        if let Some(forms) = schema[forms].as_array() {
            let forms = forms.iter().filter(|form| form["type"] != "null");
            return forms.map(type_of).collect::<Vec<_>>().join(" or ");
        }
    }
    if let Some(words) = schema["enum"].as_array() {
        let words = words
            .iter()
            .filter_map(Value::as_str)
            .map(|word| format!("<code>{}</code>", escaped(word)));
        return words.collect::<Vec<_>>().join(" ");
    }
    of_type(word(&schema["type"]), schema)
}

/// The type, without the null that stands for an absent value.
fn word(kind: &Value) -> &str {
    let several = kind.as_array().into_iter().flatten().filter_map(Value::as_str);
    kind.as_str().or_else(|| several.into_iter().find(|it| *it != "null")).unwrap_or("any value")
}

fn of_type(kind: &str, schema: &Value) -> String {
    match kind {
        "array" => format!("list of {}", type_of(&schema["items"])),
        "object" if schema["properties"].is_object() => {
            let parts = entries(&schema["properties"])
                .map(|(name, value)| format!("<code>{}</code>: {}", escaped(name), type_of(value)));
            format!("{{ {} }}", parts.collect::<Vec<_>>().join(", "))
        }
        "object" if schema["additionalProperties"].is_object() => {
            format!("object of {}", type_of(&schema["additionalProperties"]))
        }
        "integer" | "number" => format!("{kind}{}", range(schema, "minimum", "maximum", "")),
        "string" => format!("text{}", range(schema, "minLength", "maxLength", " long")),
        other => escaped(other),
    }
}

fn range(schema: &Value, least: &str, most: &str, what: &str) -> String {
    match (schema[least].as_u64(), schema[most].as_u64()) {
        (Some(least), Some(most)) => format!(", {least} to {most}{what}"),
        (None, Some(most)) => format!(", up to {most}{what}"),
        (Some(least), None) => format!(", from {least}{what}"),
        (None, None) => String::new(),
    }
}
