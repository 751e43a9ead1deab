//! The OpenAPI document, made from the same rows as the router.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use axum::body::Bytes;
use ff_api::headers::PROBLEM_JSON;
use ff_api::problem::Problem;
use utoipa::ToSchema;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{
    Components, ComponentsBuilder, Content, InfoBuilder, LicenseBuilder, OpenApi, OpenApiBuilder,
    Paths, Ref, RefOr, Response, ResponseBuilder, Schema,
};

use crate::routes;

const ABOUT: &str = "A durable execution engine. Times are milliseconds since the Unix epoch by the \
    store's clock. Integers are written without a point or an exponent. Bytes travel raw, or as \
    base64 in JSON. Every error is a problem document (RFC 9457) with a stable code, a class that \
    says what to do, and retryable. Requests refuse fields they do not know; answers may grow new \
    ones.";

/// The statuses of refusals, and what they mean in general.
const REFUSALS: [(u16, &str); 14] = [
    (400, "The request breaks a rule; field names the part."),
    (401, "The bearer token is missing or wrong."),
    (403, "The server does not answer to this host, or not to a page of another site."),
    (404, "It does not exist, or no longer."),
    (405, "The path does not know this method."),
    (408, "The request was not received in time."),
    (409, "The state does not allow it; code says why."),
    (410, "The link is no longer good, or what it leads to no longer open."),
    (413, "The body, the payload or the result is too large."),
    (415, "The path does not accept this content type."),
    (429, "Too many requests wait, or a quota is used up."),
    (500, "Something is wrong inside the server."),
    (503, "The server is overloaded or shutting down, or the store has trouble."),
    (504, "The store did not answer in time; the request may have been done."),
];

/// The document as pretty JSON with a line's end.
pub fn openapi_json() -> String {
    // The document is made of maps and texts, which always have a JSON form.
    let mut json = serde_json::to_string_pretty(&document()).unwrap_or_default();
    json.push('\n');
    json
}

/// The document as it is served.
pub(crate) fn served() -> Bytes {
    static SERVED: OnceLock<Bytes> = OnceLock::new();
    SERVED.get_or_init(|| openapi_json().into()).clone()
}

fn document() -> OpenApi {
    let (mut paths, mut schemas) = (Paths::new(), BTreeMap::new());
    for route in routes::all() {
        let path = route.path.to_owned();
        let (item, named) = route.document();
        schemas.extend(named);
        match paths.paths.get_mut(&path) {
            Some(before) => before.merge_operations(item),
            None => drop(paths.paths.insert(path, item)),
        }
    }
    let license = LicenseBuilder::new().name("Apache-2.0").identifier(Some("Apache-2.0"));
    let info = InfoBuilder::new()
        .title("FlowFabric")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(ABOUT))
        .license(Some(license.build()));
    let parts = OpenApiBuilder::new().info(info.build()).paths(paths);
    parts.components(Some(components(schemas))).build()
}

fn components(schemas: BTreeMap<String, RefOr<Schema>>) -> Components {
    let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
    let named = |(status, about)| (format!("Problem{status}"), problem(status, about));
    ComponentsBuilder::new()
        .schemas_from_iter(schemas)
        .responses_from_iter(REFUSALS.map(named))
        .security_scheme("bearer", SecurityScheme::Http(bearer))
        .build()
}

fn problem(status: u16, about: &str) -> Response {
    let content = Content::new(Some(Ref::from_schema_name(Problem::name())));
    let response = ResponseBuilder::new().description(about).content(PROBLEM_JSON, content);
    if !matches!(status, 408 | 429 | 503 | 504) {
        return response.build();
    }
    let retry_after = HeaderBuilder::new()
        .schema(utoipa::schema!(u64))
        .description(Some("Seconds to wait before trying again."));
    response.header("Retry-After", retry_after.build()).build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_schemas_share_a_name() {
        let mut known: BTreeMap<String, RefOr<Schema>> = BTreeMap::new();
        for (name, schema) in routes::all().into_iter().flat_map(|route| route.document().1) {
            let before = known.entry(name.clone()).or_insert_with(|| schema.clone());
            assert!(*before == schema, "{name} means two things");
        }
    }
}
