//! The OpenAPI document: checked in, whole, and true.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use crate::server::in_memory;

fn document() -> Value {
    serde_json::from_str(&ff_server::openapi_json()).expect("json")
}

#[test]
fn the_checked_in_document_is_the_servers_own() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("openapi.json");
    let current = ff_server::openapi_json();
    if std::env::var_os("FF_UPDATE").is_some() {
        std::fs::write(&path, &current).expect("written");
    }
    let checked_in = std::fs::read_to_string(&path).unwrap_or_default();
    let advice = "run `FF_UPDATE=1 cargo test -p ff-server document` and commit the file";
    assert!(checked_in == current, "{} is stale: {advice}", path.display());
    let server = in_memory(|_| {});
    let served = server.client().get("/openapi.json").expect(200);
    assert_eq!(served.header("content-type"), Some("application/json"));
    assert!(served.body == current.as_bytes());
}

#[test]
fn it_is_openapi_3_1_and_every_reference_leads_somewhere() {
    let document = document();
    assert!(document["openapi"].as_str().expect("a version").starts_with("3.1"));
    let mut references = BTreeSet::new();
    collect(&document, &mut references);
    assert!(references.len() > 30, "{references:?}");
    for reference in references {
        let pointer = reference.strip_prefix('#').expect("a local reference");
        assert!(document.pointer(pointer).is_some(), "{reference} leads nowhere");
    }
}

fn collect(value: &Value, references: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (name, inner) in fields {
                match inner.as_str() {
                    Some(reference) if name == "$ref" => drop(references.insert(reference.into())),
                    _ => collect(inner, references),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, references)),
        _ => {}
    }
}

#[test]
fn every_operation_has_a_name_a_group_answers_and_refusals() {
    let document = document();
    let mut names = BTreeSet::new();
    for (path, operations) in document["paths"].as_object().expect("paths") {
        for (method, operation) in operations.as_object().expect("operations") {
            let what = format!("{method} {path}");
            let name = operation["operationId"].as_str().expect(&what).to_owned();
            assert!(names.insert(name), "{what}: the name is taken");
            assert!(
                operation["summary"].as_str().is_some_and(|text| text.ends_with('.')),
                "{what}"
            );
            assert!(operation["tags"][0].is_string(), "{what}");
            let responses = operation["responses"].as_object().expect(&what);
            assert!(responses.keys().any(|status| status.starts_with('2')), "{what}");
            for status in ["400", "401", "500", "503"] {
                assert!(responses.contains_key(status), "{what} lacks {status}");
            }
            let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
            let in_path = parameters.iter().filter(|parameter| parameter["in"] == "path").count();
            assert_eq!(in_path, path.matches('{').count(), "{what}");
        }
    }
}

#[test]
fn every_path_of_the_document_is_served_and_says_so() {
    let server = in_memory(|_| {});
    let client = server.client();
    let id = "%7Bfp:1%7D:550e8400-e29b-41d4-a716-446655440000";
    for (path, operations) in document()["paths"].as_object().expect("paths") {
        let path =
            path.replace("{execution_id}", id).replace("{worker}", "w").replace("{link}", "x");
        for (method, operation) in operations.as_object().expect("operations") {
            let answer = client.send(&method.to_uppercase(), &path, &[], b"");
            let status = answer.status.to_string();
            assert!(
                operation["responses"].get(&status).is_some(),
                "{method} {path} answered {status}, which it does not declare"
            );
            if answer.status >= 400 {
                assert_ne!(answer.json()["code"], "route_not_found", "{method} {path}");
            }
        }
    }
}

#[test]
fn request_schemas_refuse_unknown_fields_and_answer_schemas_do_not() {
    let document = document();
    let closed = |name: &str| {
        let schema = &document["components"]["schemas"][name];
        assert!(schema.is_object(), "{name}");
        schema["additionalProperties"] == false
    };
    for request in ["CreateExecution", "Claim", "CompleteTask", "RegisterWorker"] {
        assert!(closed(request), "{request}");
    }
    for answer in ["Execution", "Task", "Problem", "CreatedExecution"] {
        assert!(!closed(answer), "{answer}");
    }
}

#[test]
fn the_reference_is_a_page_that_needs_no_token_and_no_network() {
    let server = in_memory(|config| {
        config.tokens = vec![ff_server::Token("a-long-enough-token".to_owned())];
    });
    let page = server.client().get("/reference").expect(200);
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    let policy = page.header("content-security-policy").expect("a policy");
    assert!(policy.starts_with("default-src 'none'; style-src 'sha256-"), "{policy}");
    let text = String::from_utf8(page.body).expect("text");
    assert!(text.contains("<code>/v1/executions/{execution_id}/replay</code>"), "{text}");
    assert!(server.client().get("/openapi.json").status == 401, "the document wants one");
}
