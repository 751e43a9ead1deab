//! Submissions as raw bytes: the body is the payload, and every other field of a submission stands
//! in a header of its own, as in `FlowFabric-Delay-Ms` for `delay_ms`.

use std::collections::BTreeMap;

use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderName};
use ff_api::headers;
use ff_api::problem::{HttpCode, Problem};
use ff_core::bytes::Base64;
use ff_core::contracts::CreateExecution;
use ff_core::error::EngineError;
use ff_core::policy::ExecutionPolicy;
use ff_core::types::IdempotencyKey;
use serde::de::value::MapDeserializer;
use serde::de::{Deserializer, IntoDeserializer, Visitor};
use utoipa::openapi::schema::{SchemaType, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::body::Kind;
use crate::extract::header;
use crate::refusal::Refusal;
use crate::route::{NamedSchema, Route, without_null};

/// Refuses bodies that are neither JSON nor announced as raw, and JSON that is announced as both.
pub(super) fn check(kind: Kind, headers: &HeaderMap) -> Result<(), Refusal> {
    let about_raw = headers.keys().find(|name| field_of(name).is_some());
    match (kind, about_raw) {
        (Kind::Json, None) => Ok(()),
        (Kind::Json, Some(name)) => {
            let rule = "is for raw bytes: send application/octet-stream, or say it in the JSON";
            Err(Refusal::invalid(name.as_str(), rule))
        }
        (Kind::Other | Kind::Unsaid, _) if headers.contains_key(headers::KIND) => Ok(()),
        (Kind::Other | Kind::Unsaid, _) => Err(Problem::new(
            HttpCode::UnsupportedMediaType,
            "send application/json, or application/octet-stream with a header FlowFabric-Kind",
        )
        .about("Content-Type")
        .into()),
    }
}

/// The submission that headers and body make.
pub(super) fn submission(headers: &HeaderMap, payload: Bytes) -> Result<CreateExecution, Refusal> {
    let mut fields: BTreeMap<String, HeaderText> = BTreeMap::new();
    for (name, field) in headers.keys().filter_map(|name| Some((name, field_of(name)?))) {
        let text = header(headers, name.as_str())?.unwrap_or_default().to_owned();
        if field == "policy" {
            ExecutionPolicy::from_json(text.as_bytes()).map_err(EngineError::from)?;
        }
        fields.insert(field, HeaderText(text));
    }
    let fields = MapDeserializer::<_, serde_json::Error>::new(fields.into_iter());
    let mut submission: CreateExecution =
        serde_path_to_error::deserialize(fields).map_err(|error| {
            let name = header_of(&error.path().to_string());
            Refusal::invalid(name, format!("is wrong: {}", error.into_inner()))
        })?;
    submission.payload_base64 = Some(Base64(payload.into()));
    Ok(submission)
}

/// The field that a header of ours stands for.
fn field_of(name: &HeaderName) -> Option<String> {
    name.as_str().strip_prefix(headers::PREFIX).map(|field| field.replace('-', "_"))
}

fn header_of(field: &str) -> String {
    format!("{}{}", headers::PREFIX, field.replace('_', "-"))
}

/// The text of a header, read as what the field wants: a text, a number, or JSON.
struct HeaderText(String);

impl<'de> IntoDeserializer<'de, serde_json::Error> for HeaderText {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for HeaderText {
    type Error = serde_json::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, serde_json::Error> {
        visitor.visit_string(self.0)
    }

    fn deserialize_option<V: Visitor<'de>>(
        self,
        visitor: V,
    ) -> Result<V::Value, serde_json::Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, serde_json::Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_u16<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, serde_json::Error> {
        let mut json = serde_json::Deserializer::from_reader(self.0.as_bytes());
        let value = json.deserialize_u16(visitor)?;
        json.end().map(|()| value)
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, serde_json::Error> {
        let mut json = serde_json::Deserializer::from_reader(self.0.as_bytes());
        let value = json.deserialize_u64(visitor)?;
        json.end().map(|()| value)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, serde_json::Error> {
        let mut json = serde_json::Deserializer::from_reader(self.0.as_bytes());
        let value = json.deserialize_map(visitor)?;
        json.end().map(|()| value)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u32 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct struct enum identifier ignored_any
    }
}

/// Fields that are the body itself, or have a header of their own.
const NO_HEADER: [&str; 4] = ["payload", "payload_text", "payload_base64", "idempotency_key"];

/// Documents the headers of raw submissions.
pub(super) fn with_headers(route: Route) -> Route {
    let key = "The same as idempotency_key.";
    let route = route.header::<IdempotencyKey>("Idempotency-Key", key);
    let RefOr::T(Schema::Object(submission)) = CreateExecution::schema() else { return route };
    let mut named = Vec::new();
    CreateExecution::schemas(&mut named);
    let fields = submission.properties.into_iter();
    fields.filter(|(field, _)| !NO_HEADER.contains(&field.as_str())).fold(
        route,
        |route, (field, schema)| {
            let schema = in_header(without_null(schema).1, &named);
            route.header_of(
                &spelled(&field),
                schema,
                &format!("The same as {field}, for raw bytes."),
            )
        },
    )
}

/// What is an object in JSON stands in a header as its text.
fn in_header(schema: RefOr<Schema>, named: &[NamedSchema]) -> RefOr<Schema> {
    let object = SchemaType::Type(Type::Object);
    let is_object = |schema: &RefOr<Schema>| match schema {
        RefOr::T(Schema::Object(it)) => it.schema_type == object,
        _ => false,
    };
    let refers = |of: &RefOr<Schema>| match of {
        RefOr::Ref(to) => named.iter().find(|(name, _)| to.ref_location.ends_with(name.as_str())),
        RefOr::T(_) => None,
    };
    let object = is_object(&schema) || refers(&schema).is_some_and(|(_, of)| is_object(of));
    if object { String::schema() } else { schema }
}

/// As in `FlowFabric-Delay-Ms`.
fn spelled(field: &str) -> String {
    field.split('_').fold("FlowFabric".to_owned(), |name, word| {
        format!("{name}-{}{}", word[..1].to_uppercase(), &word[1..])
    })
}
