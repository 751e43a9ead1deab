//! The API as a page to read, made from the OpenAPI document. It needs no scripts and loads
//! nothing, so that it can be read without a network. It says what every server of this version can
//! do, and nothing about this one.

mod schema;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::OnceLock;

use axum::body::{Body, Bytes};
use axum::http::header::{CONTENT_SECURITY_POLICY, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use axum::http::{Response, StatusCode};
use ff_api::headers::HTML;
use ff_core::bytes::Base64;
use serde_json::{Map, Value};

use crate::answer::with_type;
use crate::approval::escaped;
use crate::openapi;
use schema::{fields, type_of};

/// The only thing beside the text, and allowed by its hash.
const STYLE: &str = "body{font:1rem/1.5 system-ui,sans-serif;margin:0;color:#1c2330;display:flex}\
nav{width:17rem;flex:none;height:100vh;overflow:auto;position:sticky;top:0;background:#f4f5f7;\
padding:1rem;box-sizing:border-box;font-size:.85rem}nav h2{font-size:.9rem;margin:1rem 0 .2rem}\
nav a{display:block;color:inherit;text-decoration:none;overflow-wrap:anywhere}\
main{max-width:60rem;padding:1rem 2rem;min-width:0}section{border-top:1px solid #dde1e7;\
padding:.5rem 0}h3{font-size:1.05rem}code{font-size:.9em;background:#f4f5f7;padding:.1em .3em}\
table{border-collapse:collapse;width:100%;margin:.4rem 0 1rem;font-size:.9rem}\
td,th{text-align:left;vertical-align:top;padding:.25rem .6rem .25rem 0;\
border-bottom:1px solid #eef1f6}a{color:#1f4fa3}.get{color:#1c7a3d}.post{color:#1f4fa3}\
.put{color:#8a5a00}";

/// The page.
pub(crate) fn page() -> Response<Body> {
    let mut response = with_type(StatusCode::OK, HTML, Body::from(rendered()));
    let headers = response.headers_mut();
    // The policy is made of printable ASCII.
    if let Ok(policy) = HeaderValue::from_str(&policy()) {
        headers.insert(CONTENT_SECURITY_POLICY, policy);
    }
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

fn policy() -> String {
    let hash = ring::digest::digest(&ring::digest::SHA256, STYLE.as_bytes());
    let text = serde_json::to_value(Base64(hash.as_ref().to_vec())).unwrap_or_default();
    let hash = text.as_str().unwrap_or_default();
    format!(
        "default-src 'none'; style-src 'sha256-{hash}'; frame-ancestors 'none'; \
         form-action 'none'; base-uri 'none'"
    )
}

fn rendered() -> Bytes {
    static PAGE: OnceLock<Bytes> = OnceLock::new();
    let render = || {
        let document = serde_json::from_slice(&openapi::served()).unwrap_or_default();
        Bytes::from(render(&document))
    };
    PAGE.get_or_init(render).clone()
}

/// One operation of the document.
struct Operation<'a> {
    method: &'a str,
    path: &'a str,
    told: &'a Value,
}

impl Operation<'_> {
    fn text(&self, name: &str) -> &str {
        self.told[name].as_str().unwrap_or_default()
    }
}

/// The operations by their groups, in the order of the document.
fn groups(document: &Value) -> Vec<(&str, Vec<Operation<'_>>)> {
    let mut groups: Vec<(&str, Vec<Operation<'_>>)> = Vec::new();
    for (path, methods) in entries(&document["paths"]) {
        for (method, told) in entries(methods) {
            let group = told["tags"][0].as_str().unwrap_or_default();
            let operation = Operation { method, path, told };
            match groups.iter_mut().find(|(name, _)| *name == group) {
                Some((_, operations)) => operations.push(operation),
                None => groups.push((group, vec![operation])),
            }
        }
    }
    groups
}

fn entries(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

fn render(document: &Value) -> String {
    let groups = groups(document);
    let (mut nav, mut main) = (String::new(), String::new());
    // Writing to a text cannot fail.
    for (group, operations) in &groups {
        let _ = write!(nav, "<h2>{}</h2>", escaped(group));
        let _ = write!(main, "<h2>{}</h2>", escaped(group));
        for one in operations {
            let (id, method) = (escaped(one.text("operationId")), one.method.to_uppercase());
            let path = escaped(one.path.trim_start_matches("/v1"));
            let _ = write!(nav, "<a href=\"#{id}\">{method} {path}</a>");
            main.push_str(&section(one, document));
        }
    }
    main.push_str(&schemas(document));
    let about = escaped(document["info"]["description"].as_str().unwrap_or_default());
    let version = escaped(document["info"]["version"].as_str().unwrap_or_default());
    format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width\"><title>FlowFabric API</title><style>{STYLE}</style>\
         <nav><b>FlowFabric API {version}</b>{nav}<h2><a href=\"#schemas\">schemas</a></h2></nav>\
         <main><h1>FlowFabric API {version}</h1><p>{about}</p><p>The same for programs: \
         <a href=\"openapi.json\">openapi.json</a>.</p>{main}</main></html>\n"
    )
}

fn section(one: &Operation<'_>, document: &Value) -> String {
    let (id, method) = (escaped(one.text("operationId")), escaped(one.method));
    let mut text = format!(
        "<section id=\"{id}\"><h3><code class=\"{method}\">{}</code> <code>{}</code></h3>\
         <p>{} {}</p>",
        method.to_uppercase(),
        escaped(one.path),
        escaped(one.text("summary")),
        escaped(one.text("description")),
    );
    text.push_str(&parameters(&one.told["parameters"]));
    for (kind, content) in entries(&one.told["requestBody"]["content"]) {
        let _ = write!(text, "<h4>Body: <code>{}</code></h4>", escaped(kind));
        text.push_str(&body(&content["schema"], document));
    }
    text.push_str(&answers(&one.told["responses"], document));
    text + "</section>"
}

fn parameters(list: &Value) -> String {
    let rows = list.as_array().into_iter().flatten().map(|one| {
        let must = if one["required"] == true { "required" } else { "" };
        let name = escaped(one["name"].as_str().unwrap_or_default());
        let place = escaped(one["in"].as_str().unwrap_or_default());
        let about = escaped(one["description"].as_str().unwrap_or_default());
        let kind = type_of(&one["schema"]);
        format!("<tr><td><code>{name}</code><td>{place} {must}<td>{kind}<td>{about}")
    });
    table(&["parameter", "where", "what", ""], rows.collect())
}

/// The fields of a body, or what it is if it has none.
fn body(schema: &Value, document: &Value) -> String {
    match resolved(schema, document) {
        object if object["properties"].is_object() => {
            table(&["field", "", "what", ""], fields(object))
        }
        _ => format!("<p>{}</p>", type_of(schema)),
    }
}

/// What a reference leads to.
fn resolved<'a>(schema: &'a Value, document: &'a Value) -> &'a Value {
    let name = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next());
    name.map_or(schema, |name| &document["components"]["schemas"][name])
}

fn answers(responses: &Value, document: &Value) -> String {
    let mut refusals: BTreeMap<&str, &str> = BTreeMap::new();
    let mut rows = String::new();
    for (status, told) in entries(responses) {
        if let Some(name) = told["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
            let about = &document["components"]["responses"][name]["description"];
            refusals.insert(status, about.as_str().unwrap_or_default());
            continue;
        }
        let kinds = entries(&told["content"]).map(|(kind, content)| {
            format!("<code>{}</code> {}", escaped(kind), type_of(&content["schema"]))
        });
        let kinds = kinds.collect::<Vec<_>>().join("<br>");
        let about = escaped(told["description"].as_str().unwrap_or_default());
        let _ = write!(rows, "<tr><td>{}<td>{kinds}<td>{about}", escaped(status));
    }
    for (status, about) in refusals {
        let problem = "<a href=\"#schema-Problem\">Problem</a>";
        let _ = write!(rows, "<tr><td>{}<td>{problem}<td>{}", escaped(status), escaped(about));
    }
    table(&["status", "answer", ""], rows)
}

fn schemas(document: &Value) -> String {
    let mut text = "<h2 id=\"schemas\">schemas</h2>".to_owned();
    for (name, schema) in entries(&document["components"]["schemas"]) {
        let name = escaped(name);
        let about = escaped(schema["description"].as_str().unwrap_or_default());
        let _ = write!(text, "<section id=\"schema-{name}\"><h3>{name}</h3><p>{about}</p>");
        match schema["properties"].is_object() {
            true => text.push_str(&table(&["field", "", "what", ""], fields(schema))),
            false => drop(write!(text, "<p>{}</p>", type_of(schema))),
        }
        text.push_str("</section>");
    }
    text
}

fn table(head: &[&str], rows: String) -> String {
    if rows.is_empty() {
        return rows;
    }
    let head: String = head.iter().map(|name| format!("<th>{name}")).collect();
    format!("<table><tr>{head}{rows}</table>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_and_every_schema_is_on_the_page_and_every_link_leads_somewhere() {
        let document: Value = serde_json::from_slice(&openapi::served()).expect("JSON");
        let page = render(&document);
        for (path, methods) in entries(&document["paths"]) {
            assert!(page.contains(&format!("<code>{}</code></h3>", escaped(path))), "{path}");
            for (_, told) in entries(methods) {
                let id = told["operationId"].as_str().expect("a name");
                assert!(page.contains(&format!("<section id=\"{id}\">")), "{id}");
            }
        }
        for link in page.split("href=\"#").skip(1).filter_map(|rest| rest.split('"').next()) {
            assert!(page.contains(&format!("id=\"{link}\"")), "{link}");
        }
    }

    #[test]
    fn the_page_loads_nothing_and_runs_nothing() {
        let document = serde_json::from_slice(&openapi::served()).expect("JSON");
        let page = render(&document);
        for forbidden in ["<script", "src=", "http://", "https://", "@import", "url("] {
            assert!(!page.contains(forbidden), "{forbidden}");
        }
    }
}
