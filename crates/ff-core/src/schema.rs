//! Schemas of ids, names, numbers and words, made from the same limits as their checks. What has a
//! type of its own is described by that; the other forms have a name here, and nothing is ever a
//! value of these.

use std::borrow::Cow;

use utoipa::openapi::schema::{
    AdditionalProperties, ArrayBuilder, ObjectBuilder, SchemaFormat, SchemaType, Type,
};
use utoipa::openapi::{KnownFormat, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::capability::CapabilitySet;
use crate::limits;
use crate::types;

/// Printable ASCII without braces and colon, and without blanks at the ends.
const NAME: &str = "^[!-9;-z|~]([ -9;-z|~]*[!-9;-z|~])?$";
/// Printable ASCII without blanks at the ends.
const PRINTABLE: &str = "^[!-~]([ -~]*[!-~])?$";
/// The same, and not `*`, which stands for any signal.
const SIGNAL_NAME: &str = "^([!-)+-~]|[!-~][ -~]*[!-~])$";
/// Printable ASCII without blanks at the ends, or nothing.
const PRINTABLE_OR_EMPTY: &str = "^([!-~]([ -~]*[!-~])?)?$";
/// A name, or nothing.
const NAME_OR_EMPTY: &str = "^([!-9;-z|~]([ -9;-z|~]*[!-9;-z|~])?)?$";
/// Text in lines: no control characters but tabs and ends of lines.
const LINES: &str = "^[^\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f-\\x9f]*$";
/// Text on one line.
const LINE: &str = "^[^\\x00-\\x1f\\x7f-\\x9f]*$";
/// Senders of these types are known to the engine alone.
const SOURCE_TYPE: &str = "^(?!(approver|system)$)";
const UUID: &str = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$";
const EXECUTION_ID: &str =
    "^\\{fp:(0|[1-9][0-9]{0,4})\\}:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$";
const EXECUTION_REF: &str = "^(\\{fp:(0|[1-9][0-9]{0,4})\\}:)?[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$";
const GRANT_KEY: &str =
    "^(claim|resume|reclaim)\\.[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$";
const BASE64: &str = "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$";
const CAPABILITY: &str = "^[^\\x00-\\x20,\\x7f]+$";
const EVENT_CURSOR: &str = "^(0|[1-9][0-9]{0,18})-(0|[1-9][0-9]{0,18})$";
const STREAM_CURSOR: &str = "^(start|end|[0-9]+(-[0-9]+)?)$";
const TAG_KEY: &str = "^[a-z][a-z0-9_]*\\.[^.\\x00-\\x1f\\x7f][^\\x00-\\x1f\\x7f]*$";

const DIMENSION: &str = "^[A-Za-z0-9_][A-Za-z0-9_.-]*$";
const TAG_FILTER: &str = "^[a-z][a-z0-9_]*\\.[^.=\\x00-\\x1f\\x7f][^=\\x00-\\x1f\\x7f]*(=.*)?$";

/// The largest number that every reader of JSON keeps whole.
const WHOLE_MAX: u64 = (1 << 53) - 1;

/// Gives types their schema: the name in the document, the description, and how it is built.
macro_rules! described {
    ($($name:literal $doc:literal for [$($type:ty),+] = $build:expr;)*) => {
        $($(described! { @one $type, $name, $doc, $build })+)*
    };
    (@one $type:ty, $name:expr, $doc:literal, $build:expr) => {
        impl PartialSchema for $type {
            fn schema() -> RefOr<Schema> {
                let schema: Schema = $build.description(Some($doc)).build().into();
                RefOr::T(schema)
            }
        }

        impl ToSchema for $type {
            fn name() -> Cow<'static, str> {
                Cow::Borrowed($name)
            }
        }
    };
}

/// Declares schemas of forms that have no type of their own.
macro_rules! forms {
    ($($name:ident $doc:literal = $build:expr;)*) => {$(
        #[doc = $doc]
        #[derive(Clone, Copy, Debug)]
        pub struct $name;

        described! { @one $name, stringify!($name), $doc, $build }
    )*};
}

fn text() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String)
}

fn name(bytes_max: u64) -> ObjectBuilder {
    text().min_length(Some(1)).max_length(Some(bytes_max as usize)).pattern(Some(NAME))
}

/// Text of a form that takes so many bytes.
fn form(pattern: &str, bytes_max: u64) -> ObjectBuilder {
    text().max_length(Some(bytes_max as usize)).pattern(Some(pattern))
}

fn number(min: u64, max: u64) -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(Type::Integer)
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)))
        .minimum(Some(min))
        .maximum(Some(max))
}

/// The same, or `null`.
fn number_or_none(min: u64, max: u64) -> ObjectBuilder {
    number(min, max).schema_type(SchemaType::from_iter([Type::Integer, Type::Null]))
}

/// One of these words.
pub(crate) fn words(all: impl Iterator<Item = &'static str>) -> ObjectBuilder {
    text().enum_values(Some(all))
}

fn token() -> ObjectBuilder {
    let bytes_max = limits::CAPABILITIES_BYTES_MAX as usize;
    text().min_length(Some(1)).max_length(Some(bytes_max)).pattern(Some(CAPABILITY))
}

fn tags() -> ObjectBuilder {
    let key = text().pattern(Some(TAG_KEY)).max_length(Some(limits::TAG_KEY_BYTES_MAX as usize));
    let value = text().max_length(Some(limits::TAG_VALUE_BYTES_MAX as usize));
    ObjectBuilder::new()
        .schema_type(Type::Object)
        .property_names(Some(Schema::from(key)))
        .max_properties(Some(limits::TAGS_MAX as usize))
        .additional_properties(Some(AdditionalProperties::RefOr(RefOr::T(value.into()))))
}

fn dimension() -> ObjectBuilder {
    let bytes_max = limits::DIMENSION_BYTES_MAX as usize;
    text().min_length(Some(1)).max_length(Some(bytes_max)).pattern(Some(DIMENSION))
}

/// Values by dimension.
fn by_dimension(value: impl Into<Schema>) -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(Type::Object)
        .property_names(Some(Schema::from(dimension())))
        .max_properties(Some(limits::DIMENSIONS_MAX as usize))
        .additional_properties(Some(AdditionalProperties::RefOr(RefOr::T(value.into()))))
}

fn limits_of_dimensions() -> ObjectBuilder {
    let one = ObjectBuilder::new()
        .schema_type(Type::Object)
        .property("hard", number_or_none(1, limits::USAGE_MAX))
        .property("soft", number_or_none(1, limits::USAGE_MAX))
        .additional_properties(Some(AdditionalProperties::FreeForm(false)));
    by_dimension(one)
}

described! {
    "ExecutionId" "The id of an execution: its partition and a UUID, as in {fp:7}:550e8400-e29b-41d4-a716-446655440000."
        for [types::ExecutionId] = text().pattern(Some(EXECUTION_ID));
    "ExecutionRef" "Names an execution: the UUID of its id, or the whole id for one that does not live where its UUID hashes to."
        for [types::ExecutionRef] = text().pattern(Some(EXECUTION_REF));
    "Id" "A hyphenated lower-case UUID."
        for [
            types::AttemptId, types::BudgetId, types::EdgeId, types::FlowId, types::GrantId,
            types::LeaseId, types::QuotaPolicyId, types::RequestId, types::SignalId,
            types::SuspensionId, types::WaitpointId,
            types::WorkerSession
        ] = text().pattern(Some(UUID));
    "WaitpointToken" "The right to signal a waitpoint."
        for [types::WaitpointToken, types::WaitpointHmac]
        = text().max_length(Some(limits::TOKEN_BYTES_MAX as usize));
    "Approver" "Who decides: an address or an id of another system."
        for [types::Approver] = text()
            .min_length(Some(1))
            .max_length(Some(limits::APPROVER_BYTES_MAX as usize))
            .pattern(Some(PRINTABLE));
    "Kind" "The name of the handler that runs an execution."
        for [types::ExecutionKind] = name(limits::KIND_BYTES_MAX);
    "Lane" "The name of a queue."
        for [types::LaneId] = name(limits::LANE_BYTES_MAX);
    "Namespace" "The name of a tenant or environment."
        for [types::Namespace] = name(limits::NAMESPACE_BYTES_MAX);
    "WorkerName" "The name of a kind of worker, or of a worker process."
        for [types::WorkerId, types::WorkerInstanceId] = name(limits::WORKER_BYTES_MAX);
    "ThrottleKey" "What submissions have in common that are held together or apart."
        for [types::ThrottleKey] = name(limits::THROTTLE_KEY_BYTES_MAX);
    "IdempotencyKey" "The client's own name for a submission."
        for [types::IdempotencyKey] = name(limits::IDEMPOTENCY_KEY_BYTES_MAX);
    "TimestampMs" "Milliseconds since the Unix epoch."
        for [types::TimestampMs] = number(0, limits::TIMESTAMP_MS_MAX);
    "LeaseEpoch" "Grows with every new lease of an execution."
        for [types::LeaseEpoch] = number(0, WHOLE_MAX);
    "AttemptIndex" "The number of an attempt, from 0."
        for [types::AttemptIndex] = number(0, u32::MAX.into());
    "EventCursor" "A position in a partition's event log, as received."
        for [types::EventCursor] = text().pattern(Some(EVENT_CURSOR));
    "StreamCursor" "A position in the output of an attempt: start, end, or the id of a frame, as 7-0."
        for [types::StreamCursor] = text().pattern(Some(STREAM_CURSOR))
            .max_length(Some(limits::EVENT_CURSOR_BYTES_MAX as usize));
    "Capabilities" "Tokens without blanks and commas that route work to workers."
        for [CapabilitySet]
        = ArrayBuilder::new().items(token()).max_items(Some(limits::CAPABILITIES_MAX as usize));
}

forms! {
    GrantKey "The key of a grant, as received."
        = text().pattern(Some(GRANT_KEY));
    Category "A word that retry policies list."
        = text().min_length(Some(1)).max_length(Some(limits::CATEGORY_BYTES_MAX as usize))
            .pattern(Some("^[!-+.-9;-z|~-]+$"));
    SignalName "What a signal says: a name that conditions list."
        = form(SIGNAL_NAME, limits::SIGNAL_NAME_BYTES_MAX).min_length(Some(1));
    SignalMatcher "The name of a signal that is waited for; * stands for any."
        = form(PRINTABLE, limits::SIGNAL_NAME_BYTES_MAX).min_length(Some(1));
    SourceType "What kind of sender a signal comes from; approver and system are the engine's own."
        = form(SOURCE_TYPE, limits::CATEGORY_BYTES_MAX);
    RequiredSource "The only kind of sender whose signals count."
        = form(PRINTABLE, limits::CATEGORY_BYTES_MAX).min_length(Some(1));
    WaitpointKey "The name that senders know a waitpoint by."
        = form(PRINTABLE, limits::WAITPOINT_KEY_BYTES_MAX).min_length(Some(1));
    CloseReason "Why a waitpoint is closed, in a word."
        = form(PRINTABLE_OR_EMPTY, limits::CATEGORY_BYTES_MAX);
    FrameType "A word of the writer's own for what a frame is."
        = form(NAME_OR_EMPTY, limits::FRAME_TYPE_BYTES_MAX);
    ApprovalText "What approvers read."
        = form(LINES, limits::APPROVAL_TEXT_BYTES_MAX);
    ButtonLabel "What stands on a button."
        = form(LINE, limits::APPROVAL_LABEL_BYTES_MAX);
    Priority "Higher runs first."
        = number(0, limits::PRIORITY_MAX);
    Moment "A time to come, in milliseconds since the Unix epoch."
        = number(1, limits::TIMESTAMP_MS_MAX);
    DelayMs "A pause in milliseconds."
        = number(0, limits::DELAY_MS_MAX);
    TtlMs "How long something lasts, in milliseconds."
        = number(limits::LEASE_TTL_MS_MIN, limits::LEASE_TTL_MS_MAX);
    GrantTtlMs "How long a reservation lasts, in milliseconds."
        = number(1, limits::GRANT_TTL_MS_MAX);
    WaitMs "How long to wait, in milliseconds."
        = number(0, limits::CLAIM_WAIT_MS_MAX);
    PageLimit "How many at most."
        = number(1, limits::LIST_LIMIT_MAX);
    GraphCursor "Where a page of a graph ended."
        = text().pattern(Some(r"^[0-9]{1,15}:[0-9]{1,15}$"));
    PartitionIndex "A partition, by its index."
        = number(0, u16::MAX.into());
    MemberName "The name of a member of a flow, or of an input."
        = name(limits::MEMBER_NAME_BYTES_MAX);
    TagFilter "A label to look for: its name, or name=value."
        = form(TAG_FILTER, limits::TAG_KEY_BYTES_MAX);
    SomeTags "At least one label."
        = tags().min_properties(Some(1));
    Base64 "Bytes as base64 with padding."
        = text().pattern(Some(BASE64))
            .format(Some(SchemaFormat::Custom("byte".to_owned())));
    BudgetLimits "The limits of a budget, by dimension: its hard limit, its soft one, or both."
        = limits_of_dimensions();
    Tags "Labels. A key is a lower-case word, a dot and a name, as in team.owner."
        = tags();
    Reservation "How much of what is reserved, by dimension."
        = by_dimension(number(0, limits::USAGE_MAX));
    Amounts "How much of what, by dimension."
        = by_dimension(number(0, limits::USAGE_MAX)).min_properties(Some(1));
    AnyJson "Any JSON value."
        = ObjectBuilder::new().schema_type(utoipa::openapi::schema::SchemaType::AnyValue);
}

/// The pause before a retry: one of the forms of [`crate::policy::Backoff`], without other fields.
#[derive(Clone, Copy, Debug)]
pub struct Backoff;

impl PartialSchema for Backoff {
    fn schema() -> RefOr<Schema> {
        let mut schema = crate::policy::Backoff::schema();
        let RefOr::T(Schema::OneOf(forms)) = &mut schema else { return schema };
        for form in &mut forms.items {
            if let RefOr::T(Schema::Object(form)) = form {
                form.additional_properties = Some(Box::new(AdditionalProperties::FreeForm(false)));
            }
        }
        schema
    }
}

impl ToSchema for Backoff {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("Backoff")
    }
}
