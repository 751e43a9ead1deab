//! One row for each route: the same row makes the router, the OpenAPI document and the series of
//! its metrics, so that none of them can forget it.

use std::sync::Arc;

use axum::handler::Handler;
use axum::routing::{MethodRouter, get, post, put};
use ff_api::headers::{JSON, OCTET_STREAM};
use ff_api::problem::Problem;
use utoipa::openapi::path::{
    HttpMethod, OperationBuilder, Parameter, ParameterBuilder, ParameterIn, PathItem,
};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, SchemaFormat, Type};
use utoipa::openapi::security::SecurityRequirement;
use utoipa::openapi::{Content, Ref, RefOr, Required, Response, ResponseBuilder, Schema};
use utoipa::{IntoParams, PartialSchema, ToSchema};

use crate::app::App;

/// A schema and its name in the document.
pub(crate) type NamedSchema = (String, RefOr<Schema>);

/// Refusals that any path may answer with.
const COMMON: [u16; 8] = [400, 401, 403, 408, 429, 500, 503, 504];
/// Refusals of paths that take a body.
const WITH_BODY: [u16; 2] = [413, 415];

/// One route.
pub(crate) struct Route {
    pub(crate) path: &'static str,
    pub(crate) method: &'static str,
    pub(crate) handler: MethodRouter<Arc<App>>,
    /// True for a path that answers without a token, however much there is to do.
    pub(crate) open: bool,
    /// True for a path that may wait for work or for an end.
    pub(crate) waits: bool,
    schemas: Vec<NamedSchema>,
    operation: OperationBuilder,
    refusals: Vec<u16>,
    body: Option<RequestBodyBuilder>,
    http_method: HttpMethod,
}

impl Route {
    /// A route that reads.
    pub(crate) fn get<H, T>(path: &'static str, handler: H) -> Self
    where
        H: Handler<T, Arc<App>>,
        T: 'static,
    {
        Self::new(path, "GET", HttpMethod::Get, get(handler))
    }

    /// A route that does something.
    pub(crate) fn post<H, T>(path: &'static str, handler: H) -> Self
    where
        H: Handler<T, Arc<App>>,
        T: 'static,
    {
        Self::new(path, "POST", HttpMethod::Post, post(handler))
    }

    /// A route that sets something.
    pub(crate) fn put<H, T>(path: &'static str, handler: H) -> Self
    where
        H: Handler<T, Arc<App>>,
        T: 'static,
    {
        Self::new(path, "PUT", HttpMethod::Put, put(handler))
    }

    fn new(
        path: &'static str,
        method: &'static str,
        http_method: HttpMethod,
        handler: MethodRouter<Arc<App>>,
    ) -> Self {
        let mut route = Self {
            path,
            method,
            handler,
            open: false,
            waits: false,
            schemas: Vec::new(),
            operation: OperationBuilder::new(),
            refusals: COMMON.to_vec(),
            body: None,
            http_method,
        };
        route.collect::<Problem>();
        route
    }

    /// Its name for generated clients, its group, and what it does.
    pub(crate) fn says(mut self, id: &str, tag: &str, summary: &str) -> Self {
        self.operation =
            self.operation.operation_id(Some(id)).tag(tag).summary(Some(summary.to_owned()));
        self
    }

    /// More about it.
    pub(crate) fn explains(mut self, text: &str) -> Self {
        self.operation = self.operation.description(Some(text.to_owned()));
        self
    }

    /// Answers without a token, and however busy the server is.
    pub(crate) fn open(mut self) -> Self {
        self.open = true;
        self
    }

    /// May wait for work or for an end.
    pub(crate) fn waits(mut self) -> Self {
        self.waits = true;
        self
    }

    /// The parameter in its path.
    pub(crate) fn path_parameter<S: ToSchema>(mut self, name: &str, about: &str) -> Self {
        self.collect::<S>();
        let parameter = ParameterBuilder::new()
            .name(name)
            .parameter_in(ParameterIn::Path)
            .required(Required::True)
            .description(Some(about.to_owned()))
            .schema(Some(reference::<S>()));
        self.operation = self.operation.parameter(parameter);
        self
    }

    /// Its query parameters.
    pub(crate) fn query<Q: IntoParams>(mut self) -> Self {
        for parameter in Q::into_params(|| Some(ParameterIn::Query)) {
            self.operation = self.operation.parameter(parameter);
        }
        self
    }

    /// A schema that query parameters refer to.
    pub(crate) fn uses<S: ToSchema>(mut self) -> Self {
        self.collect::<S>();
        self
    }

    /// An optional header.
    pub(crate) fn header<S: ToSchema>(mut self, name: &str, about: &str) -> Self {
        self.collect::<S>();
        let parameter: Parameter = ParameterBuilder::new()
            .name(name)
            .parameter_in(ParameterIn::Header)
            .required(Required::False)
            .description(Some(about.to_owned()))
            .schema(Some(reference::<S>()))
            .build();
        self.operation = self.operation.parameter(parameter);
        self
    }

    /// A JSON body that must be there.
    pub(crate) fn takes<B: ToSchema>(mut self) -> Self {
        self.collect::<B>();
        self.refusals.extend(WITH_BODY);
        self.body = Some(
            RequestBodyBuilder::new()
                .required(Some(Required::True))
                .content(JSON, Content::new(Some(reference::<B>()))),
        );
        self
    }

    /// A JSON body that may be left out.
    pub(crate) fn may_take<B: ToSchema>(self) -> Self {
        let mut route = self.takes::<B>();
        route.body = route.body.map(|body| body.required(Some(Required::False)));
        route
    }

    /// Raw bytes as another form of the body.
    pub(crate) fn or_bytes(mut self) -> Self {
        let body = self.body.unwrap_or_default();
        self.body = Some(body.content(OCTET_STREAM, Content::new(Some(bytes()))));
        self
    }

    /// A JSON answer.
    pub(crate) fn answers<A: ToSchema>(mut self, status: u16, about: &str) -> Self {
        self.collect::<A>();
        let content = Content::new(Some(reference::<A>()));
        let response = ResponseBuilder::new().description(about).content(JSON, content).build();
        self.operation = self.operation.response(status.to_string(), response);
        self
    }

    /// An answer of raw bytes or text.
    pub(crate) fn answers_raw(mut self, content_type: &str, about: &str) -> Self {
        let schema = if content_type == OCTET_STREAM { bytes() } else { text() };
        let content = Content::new(Some(schema));
        let response =
            ResponseBuilder::new().description(about).content(content_type, content).build();
        self.operation = self.operation.response("200", response);
        self
    }

    /// An answer without a body.
    pub(crate) fn answers_nothing(mut self, about: &str) -> Self {
        self.operation = self.operation.response("204", Response::new(about));
        self
    }

    /// Refusals besides those that every path has.
    pub(crate) fn refuses(mut self, statuses: &[u16]) -> Self {
        self.refusals.extend(statuses);
        self
    }

    /// Its entry in the document, and the schemas that the entry refers to.
    pub(crate) fn document(self) -> (PathItem, Vec<NamedSchema>) {
        let body = self.body.map(RequestBodyBuilder::build);
        let mut operation = self.operation.request_body(body);
        for status in self.refusals {
            let name = format!("Problem{status}");
            operation = operation.response(status.to_string(), Ref::from_response_name(name));
        }
        if !self.open {
            operation = operation.security(SecurityRequirement::new("bearer", [""; 0]));
        }
        (PathItem::new(self.http_method, operation.build()), self.schemas)
    }

    fn collect<S: ToSchema>(&mut self) {
        self.schemas.push((S::name().into_owned(), S::schema()));
        S::schemas(&mut self.schemas);
    }
}

fn reference<S: ToSchema>() -> RefOr<Schema> {
    Ref::from_schema_name(S::name()).into()
}

fn bytes() -> RefOr<Schema> {
    let binary = SchemaFormat::KnownFormat(KnownFormat::Binary);
    let schema = ObjectBuilder::new().schema_type(Type::String).format(Some(binary));
    RefOr::T(schema.build().into())
}

fn text() -> RefOr<Schema> {
    String::schema()
}
