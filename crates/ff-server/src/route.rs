//! The route of an operation: its row makes the router's entry, the OpenAPI document's and the
//! series of its metrics, so that none of them can forget it.

use std::sync::Arc;

use axum::extract::State;
use axum::handler::Handler;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodRouter, get, post, put};
use ff_api::headers::{FORM, HTML, JSON, OCTET_STREAM};
use ff_api::problem::Problem;
use ff_core::engine_backend::{Answer as EngineAnswer, EngineBackend};
use ff_core::operation::{Input, Method, Operation};
use utoipa::openapi::path::{
    HttpMethod, OperationBuilder, ParameterBuilder, ParameterIn, PathItem,
};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, SchemaFormat, SchemaType, Type};
use utoipa::openapi::security::SecurityRequirement;
use utoipa::openapi::{Content, Ref, RefOr, Required, ResponseBuilder, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::answer::Json;
use crate::app::App;
use crate::extract::{Asked, On, Target};
use crate::refusal::Refusal;

/// A schema and its name in the document.
pub(crate) type NamedSchema = (String, RefOr<Schema>);

/// Refusals that any path may answer with.
const COMMON: [u16; 8] = [400, 401, 403, 408, 429, 500, 503, 504];
/// Refusals of paths that take a body.
const WITH_BODY: [u16; 2] = [413, 415];

/// How the requests of a path are treated.
#[derive(Clone, Copy, Default)]
pub(crate) struct Treatment {
    /// They are answered without a token, however much there is to do.
    pub(crate) open: bool,
    /// They may wait for work or for an end.
    pub(crate) waits: bool,
    /// They bring a credential of their own, and need no token.
    pub(crate) tokenless: bool,
    /// They may go on for as long as their client does.
    pub(crate) lasts: bool,
    /// Their answers are those of a link, which browsers show, refusals too.
    pub(crate) page: bool,
}

/// One route.
pub(crate) struct Route {
    pub(crate) path: &'static str,
    pub(crate) method: &'static str,
    pub(crate) handler: MethodRouter<Arc<App>>,
    pub(crate) treatment: Treatment,
    schemas: Vec<NamedSchema>,
    operation: OperationBuilder,
    refusals: Vec<u16>,
    body: Option<RequestBodyBuilder>,
    http_method: HttpMethod,
}

/// The route of an operation that is one call of the backend: this one.
pub(crate) fn direct<O: Operation, C>(call: C) -> Route
where
    C: for<'a> Fn(&'a dyn EngineBackend, O::Target, O::Request) -> EngineAnswer<'a, O::Reply>,
    C: Clone + Send + Sync + 'static,
    O::Target: Target,
    O::Request: ToSchema,
    O::Reply: ToSchema,
{
    let handler = |State(app): State<Arc<App>>,
                   On(target, name): On<O::Target>,
                   Asked(request, _room): Asked<O>| async move {
        match call(app.backend.as_ref(), target, request).await {
            Ok(reply) => Ok(answer::<O>(reply)),
            Err(error) => Err(Refusal::from(error).advise(name)),
        }
    };
    json::<O, _, _>(handler)
}

/// The answer of an operation.
pub(crate) fn answer<O: Operation>(reply: O::Reply) -> Response {
    let status = StatusCode::from_u16(O::STATUS).unwrap_or(StatusCode::OK);
    match status {
        StatusCode::NO_CONTENT => status.into_response(),
        _ => Json(status, reply).into_response(),
    }
}

/// The route of an operation that answers JSON, or nothing, with a handler of its own.
pub(crate) fn json<O: Operation, H, T>(handler: H) -> Route
where
    H: Handler<T, Arc<App>>,
    T: 'static,
    O::Target: Target,
    O::Request: ToSchema,
    O::Reply: ToSchema,
{
    let route = raw::<O, H, T>(handler);
    match O::STATUS {
        204 => route.answers_nothing(O::ANSWERS),
        status => route.answers::<O::Reply>(status, O::ANSWERS),
    }
}

/// The route of an operation whose handler and answer are its own.
pub(crate) fn raw<O: Operation, H, T>(handler: H) -> Route
where
    H: Handler<T, Arc<App>>,
    T: 'static,
    O::Target: Target,
    O::Request: ToSchema,
{
    let (http_method, handler) = match O::METHOD {
        Method::Get => (HttpMethod::Get, get(handler)),
        Method::Post => (HttpMethod::Post, post(handler)),
        Method::Put => (HttpMethod::Put, put(handler)),
    };
    let about = (!O::ABOUT.is_empty()).then_some(O::ABOUT);
    let operation = OperationBuilder::new()
        .operation_id(Some(O::NAME))
        .tag(O::GROUP)
        .summary(Some(O::SUMMARY))
        .description(about);
    let mut route = Route {
        path: O::PATH,
        method: O::METHOD.as_str(),
        handler,
        treatment: Treatment { waits: O::WAITS, ..Treatment::default() },
        schemas: Vec::new(),
        operation,
        refusals: [&COMMON, O::REFUSES].concat(),
        body: None,
        http_method,
    };
    route.collect::<Problem>();
    if let Some(about) = O::Target::ABOUT {
        let name = O::PATH.split(['{', '}']).nth(1).unwrap_or_default();
        route = route.path_parameter::<<O::Target as Target>::Schema>(name, about);
    }
    route.takes::<O>()
}

impl Route {
    /// Answers without a token, and however busy the server is.
    pub(crate) fn open(mut self) -> Self {
        self.treatment.open = true;
        self
    }

    /// Takes requests that bring a credential of their own.
    pub(crate) fn tokenless(mut self) -> Self {
        self.treatment.tokenless = true;
        self
    }

    /// Its request may go on for as long as its client does, in a place of those that wait.
    pub(crate) fn lasting(mut self) -> Self {
        (self.treatment.waits, self.treatment.lasts) = (true, true);
        self
    }

    /// A body of text.
    pub(crate) fn takes_text(mut self, content_type: &str) -> Self {
        let content = Content::new(Some(text()));
        let body = RequestBodyBuilder::new().required(Some(Required::True));
        self.body = Some(body.content(content_type, content));
        self
    }

    /// What the operation is asked with.
    fn takes<O: Operation>(mut self) -> Self
    where
        O::Request: ToSchema,
    {
        let required = match O::INPUT {
            Input::Nothing => return self,
            Input::Query => return self.query::<O::Request>(),
            Input::Body => Required::True,
            Input::OptionalBody => Required::False,
        };
        self.collect::<O::Request>();
        self.refusals.extend(WITH_BODY);
        let content = Content::new(Some(reference::<O::Request>()));
        let body = RequestBodyBuilder::new().required(Some(required)).content(JSON, content);
        self.body = Some(body);
        self
    }

    /// Every field is a parameter behind the question mark, given or left out but never null.
    fn query<Q: ToSchema>(mut self) -> Self {
        Q::schemas(&mut self.schemas);
        let RefOr::T(Schema::Object(fields)) = Q::schema() else { return self };
        for (name, schema) in fields.properties {
            let required = fields.required.contains(&name);
            let (about, schema) = without_null(schema);
            self = self.parameter(ParameterIn::Query, &name, required, about.as_deref(), schema);
        }
        self
    }

    fn parameter(
        mut self,
        place: ParameterIn,
        name: &str,
        required: bool,
        about: Option<&str>,
        schema: RefOr<Schema>,
    ) -> Self {
        let parameter = ParameterBuilder::new()
            .name(name)
            .parameter_in(place)
            .required(if required { Required::True } else { Required::False })
            .description(about)
            .schema(Some(schema));
        self.operation = self.operation.parameter(parameter);
        self
    }

    /// A parameter of the path.
    pub(crate) fn path_parameter<S: ToSchema>(mut self, name: &str, about: &str) -> Self {
        self.collect::<S>();
        self.parameter(ParameterIn::Path, name, true, Some(about), reference::<S>())
    }

    /// An optional header.
    pub(crate) fn header<S: ToSchema>(mut self, name: &str, about: &str) -> Self {
        self.collect::<S>();
        self.header_of(name, reference::<S>(), about)
    }

    /// An optional header with this schema.
    pub(crate) fn header_of(self, name: &str, schema: RefOr<Schema>, about: &str) -> Self {
        self.parameter(ParameterIn::Header, name, false, Some(about), schema)
    }

    /// Raw bytes as another form of the body.
    pub(crate) fn or_bytes(mut self) -> Self {
        let body = self.body.unwrap_or_default();
        self.body = Some(body.content(OCTET_STREAM, Content::new(Some(bytes()))));
        self
    }

    /// Text as another form of the body.
    pub(crate) fn or_text(mut self, content_type: &str) -> Self {
        let body = self.body.unwrap_or_default();
        self.body = Some(body.content(content_type, Content::new(Some(text()))));
        self
    }

    /// The form of a page as another form of the body.
    pub(crate) fn or_form(mut self) -> Self {
        if let Some(body) = self.body.take() {
            let json = body.build();
            let schema = json.content.get(JSON).and_then(|content| content.schema.clone());
            self.body = Some(RequestBodyBuilder::from(json).content(FORM, Content::new(schema)));
        }
        self
    }

    /// A JSON answer, or a page for those who accept one.
    pub(crate) fn answers_page<A: ToSchema>(mut self, about: &str) -> Self {
        self.treatment.page = true;
        self.collect::<A>();
        self.response(200, about, [(JSON, reference::<A>()), (HTML, text())])
    }

    /// A JSON answer.
    pub(crate) fn answers<A: ToSchema>(mut self, status: u16, about: &str) -> Self {
        self.collect::<A>();
        self.response(status, about, [(JSON, reference::<A>())])
    }

    /// An answer of raw bytes or text.
    pub(crate) fn answers_raw(self, content_type: &str, about: &str) -> Self {
        let schema = if content_type == OCTET_STREAM { bytes() } else { text() };
        self.response(200, about, [(content_type, schema)])
    }

    /// An answer without a body.
    pub(crate) fn answers_nothing(self, about: &str) -> Self {
        self.response(204, about, [])
    }

    fn response<const N: usize>(
        mut self,
        status: u16,
        about: &str,
        forms: [(&str, RefOr<Schema>); N],
    ) -> Self {
        let mut response = ResponseBuilder::new().description(about);
        for (content_type, schema) in forms {
            response = response.content(content_type, Content::new(Some(schema)));
        }
        self.operation = self.operation.response(status.to_string(), response.build());
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
        if !self.treatment.open && !self.treatment.tokenless {
            operation = operation.security(SecurityRequirement::new("bearer", [""; 0]));
        }
        (PathItem::new(self.http_method, operation.build()), self.schemas)
    }

    fn collect<S: ToSchema>(&mut self) {
        self.schemas.push((S::name().into_owned(), S::schema()));
        S::schemas(&mut self.schemas);
    }
}

/// A field's description, and its schema without the null that stands for leaving it out.
pub(crate) fn without_null(schema: RefOr<Schema>) -> (Option<String>, RefOr<Schema>) {
    match schema {
        RefOr::T(Schema::OneOf(mut forms)) => {
            forms.items.retain(|form| !is_null(form));
            let only = if forms.items.len() == 1 { forms.items.pop() } else { None };
            (forms.description.take(), only.unwrap_or(RefOr::T(Schema::OneOf(forms))))
        }
        RefOr::T(Schema::Object(mut object)) => {
            if let SchemaType::Array(types) = &object.schema_type {
                let kept = types.iter().find(|kept| **kept != Type::Null).cloned();
                object.schema_type = kept.map_or(SchemaType::AnyValue, SchemaType::Type);
            }
            (object.description.take(), RefOr::T(Schema::Object(object)))
        }
        other => (None, other),
    }
}

fn is_null(schema: &RefOr<Schema>) -> bool {
    let null = SchemaType::Type(Type::Null);
    matches!(schema, RefOr::T(Schema::Object(object)) if object.schema_type == null)
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
