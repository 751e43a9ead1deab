//! Schemas of the ids, names and words that wire types share with the domain, made from the same
//! limits. They describe; nothing is ever a value of these types.

use std::borrow::Cow;

use ff_core::limits;
use utoipa::openapi::schema::{
    AdditionalProperties, ArrayBuilder, ObjectBuilder, SchemaFormat, Type,
};
use utoipa::openapi::{KnownFormat, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// Printable ASCII without braces and colon, and without blanks at the ends.
const NAME: &str = "^[!-9;-z|~]([ -9;-z|~]*[!-9;-z|~])?$";
const UUID: &str = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$";
const EXECUTION_ID: &str =
    "^\\{fp:(0|[1-9][0-9]{0,4})\\}:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$";
const GRANT_KEY: &str =
    "^(claim|resume|reclaim)\\.[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$";
const BASE64: &str = "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$";
const CAPABILITY: &str = "^[^\\x00-\\x20,\\x7f]+$";
const EVENT_CURSOR: &str = "^(0|[1-9][0-9]{0,18})-(0|[1-9][0-9]{0,18})$";
const TAG_KEY: &str = "^[a-z][a-z0-9_]*\\.[^.\\x00-\\x1f\\x7f][^\\x00-\\x1f\\x7f]*$";

/// Declares a schema: its name in the document, its description, and how it is built.
macro_rules! schemas {
    ($($name:ident $doc:literal = $build:expr;)*) => {$(
        #[doc = $doc]
        #[derive(Clone, Copy, Debug)]
        pub struct $name;

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                let schema: Schema = $build.description(Some($doc)).build().into();
                RefOr::T(schema)
            }
        }

        impl ToSchema for $name {
            fn name() -> Cow<'static, str> {
                Cow::Borrowed(stringify!($name))
            }
        }
    )*};
}

fn text() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String)
}

fn name(bytes_max: u64) -> ObjectBuilder {
    text().min_length(Some(1)).max_length(Some(bytes_max as usize)).pattern(Some(NAME))
}

fn number(min: u64, max: u64) -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(Type::Integer)
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)))
        .minimum(Some(min))
        .maximum(Some(max))
}

fn words<T: Copy + std::fmt::Display>(all: &[T]) -> ObjectBuilder {
    text().enum_values(Some(all.iter().map(ToString::to_string)))
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

schemas! {
    ExecutionId "The id of an execution: its partition and a UUID, as in {fp:7}:550e8400-e29b-41d4-a716-446655440000."
        = text().pattern(Some(EXECUTION_ID));
    Id "A hyphenated lower-case UUID."
        = text().pattern(Some(UUID));
    GrantKey "The key of a grant, as received."
        = text().pattern(Some(GRANT_KEY));
    Kind "The name of the handler that runs an execution."
        = name(limits::KIND_BYTES_MAX);
    Lane "The name of a queue."
        = name(limits::LANE_BYTES_MAX);
    Namespace "The name of a tenant or environment."
        = name(limits::NAMESPACE_BYTES_MAX);
    WorkerName "The name of a kind of worker, or of a worker process."
        = name(limits::WORKER_BYTES_MAX);
    IdempotencyKey "The client's own name for a submission."
        = name(limits::IDEMPOTENCY_KEY_BYTES_MAX);
    Category "A word that retry policies list."
        = text().min_length(Some(1)).max_length(Some(limits::CATEGORY_BYTES_MAX as usize))
            .pattern(Some("^[!-+.-9;-z|~-]+$"));
    Priority "Higher runs first."
        = number(0, limits::PRIORITY_MAX);
    TimestampMs "Milliseconds since the Unix epoch."
        = number(1, limits::TIMESTAMP_MS_MAX);
    DelayMs "A pause in milliseconds."
        = number(0, limits::DELAY_MS_MAX);
    TtlMs "How long something lasts, in milliseconds."
        = number(limits::LEASE_TTL_MS_MIN, limits::LEASE_TTL_MS_MAX);
    GrantTtlMs "How long a reservation lasts, in milliseconds."
        = number(1, limits::GRANT_TTL_MS_MAX);
    WaitMs "How long to wait, in milliseconds."
        = number(0, limits::CLAIM_WAIT_MS_MAX);
    EventCursor "A position in a partition's event log, as received."
        = text().pattern(Some(EVENT_CURSOR));
    Base64 "Bytes as base64 with padding."
        = text().pattern(Some(BASE64))
            .format(Some(SchemaFormat::Custom("byte".to_owned())));
    Tags "Labels. A key is a lower-case word, a dot and a name, as in team.owner."
        = tags();
    Capabilities "Tokens without blanks and commas that route work to workers."
        = ArrayBuilder::new().items(token()).max_items(Some(limits::CAPABILITIES_MAX as usize));
    AnyJson "Any JSON value."
        = ObjectBuilder::new().schema_type(utoipa::openapi::schema::SchemaType::AnyValue);

    ErrorClass "What a caller should do about an error."
        = words(ff_core::error::ErrorClass::ALL);
    PublicState "Where an execution stands, in one word."
        = words(ff_core::state::PublicState::ALL);
    LifecyclePhase "The large step of an execution's life."
        = words(ff_core::state::LifecyclePhase::ALL);
    OwnershipState "Who holds an execution."
        = words(ff_core::state::OwnershipState::ALL);
    EligibilityState "Whether an execution may be claimed."
        = words(ff_core::state::EligibilityState::ALL);
    BlockingReason "What an execution waits for."
        = words(ff_core::state::BlockingReason::ALL);
    TerminalOutcome "How an execution ended."
        = words(ff_core::state::TerminalOutcome::ALL);
    AttemptState "What the current or next attempt is doing."
        = words(ff_core::state::AttemptState::ALL);
    AttemptLifecycle "The state of one attempt."
        = words(ff_core::state::AttemptLifecycle::ALL);
    AttemptType "Why an attempt was started."
        = words(ff_core::state::AttemptType::ALL);
    HandleKind "How a lease came about."
        = words(&[
            ff_core::backend::HandleKind::Fresh,
            ff_core::backend::HandleKind::Resumed,
            ff_core::backend::HandleKind::Reclaimed,
        ]);
}

/// Where an execution stands, in all seven dimensions.
#[derive(ToSchema)]
#[allow(dead_code, reason = "describes ff_core::state::StateVector")]
pub struct StateVector {
    lifecycle_phase: LifecyclePhase,
    ownership_state: OwnershipState,
    eligibility_state: EligibilityState,
    blocking_reason: BlockingReason,
    terminal_outcome: TerminalOutcome,
    attempt_state: AttemptState,
    public_state: PublicState,
}

/// What an execution's submitter decides about retries, time, routing and keeping.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "describes ff_core::policy::ExecutionPolicy")]
pub struct ExecutionPolicy {
    /// How failures are retried; absent means not at all.
    #[schema(required = false)]
    retry_policy: Option<RetryPolicy>,
    /// How long things may take.
    #[schema(required = false)]
    timeout_policy: Option<TimeoutPolicy>,
    /// How often a lost worker's execution is taken over before it fails.
    #[schema(required = false, maximum = 1000)]
    max_reclaim_count: Option<u64>,
    /// How often it may be replayed.
    #[schema(required = false, maximum = 1000)]
    max_replay_count: Option<u64>,
    /// How long it is kept after its end.
    #[schema(required = false, maximum = 31_622_400_000u64)]
    retention_ms: Option<u64>,
    /// Which workers may run it.
    #[schema(required = false)]
    routing_requirements: Option<RoutingRequirements>,
    /// One step of priority is worth this much waiting.
    #[schema(required = false, maximum = 34_560_000_000u64)]
    ageing_ms: Option<u64>,
    /// How long its idempotency key is remembered.
    #[schema(required = false, minimum = 1, maximum = 2_592_000_000u64)]
    dedup_window_ms: Option<u64>,
}

/// How failures are retried.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "describes ff_core::policy::RetryPolicy")]
pub struct RetryPolicy {
    /// How many retries follow the first attempt; 3 if absent.
    #[schema(required = false, maximum = 1000)]
    max_retries: u64,
    /// The pause before each retry.
    #[schema(required = false)]
    backoff: Backoff,
    /// Only failures of these categories are retried; empty means all but the permanent ones.
    #[schema(required = false, max_items = 64)]
    retryable_categories: Vec<Category>,
}

/// The pause before a retry: one of [`BackoffForms`], without any other field.
#[derive(Clone, Copy, Debug)]
pub struct Backoff;

impl PartialSchema for Backoff {
    fn schema() -> RefOr<Schema> {
        let mut schema = BackoffForms::schema();
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

/// The pause before a retry.
#[derive(ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[allow(dead_code, reason = "describes ff_core::policy::Backoff")]
pub enum BackoffForms {
    /// Always the same.
    Fixed {
        /// The pause; 1000 if absent.
        #[schema(required = false, maximum = 34_560_000_000u64)]
        delay_ms: u64,
    },
    /// Growing with every retry.
    Exponential {
        /// The pause before the first retry; 1000 if absent.
        #[schema(required = false, maximum = 34_560_000_000u64)]
        initial_delay_ms: u64,
        /// The longest pause; 60000 if absent.
        #[schema(required = false, maximum = 34_560_000_000u64)]
        max_delay_ms: u64,
        /// Each pause is this many times the one before; 2 if absent.
        #[schema(required = false, minimum = 1, maximum = 100)]
        multiplier: f64,
        /// Spreads the pause; false if absent.
        #[schema(required = false)]
        jitter: bool,
    },
}

/// How long things may take.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "describes ff_core::policy::TimeoutPolicy")]
pub struct TimeoutPolicy {
    /// How long one attempt may run.
    #[schema(required = false, minimum = 1, maximum = 34_560_000_000u64)]
    attempt_timeout_ms: Option<u64>,
    /// How long the whole execution may take from its creation.
    #[schema(required = false, minimum = 1, maximum = 34_560_000_000u64)]
    execution_deadline_ms: Option<u64>,
    /// The same as the policy's own field; the smaller of the two counts.
    #[schema(required = false, maximum = 1000)]
    max_reclaim_count: Option<u64>,
}

/// Which workers may run an execution.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "describes ff_core::policy::RoutingRequirements")]
pub struct RoutingRequirements {
    /// What a worker must be able to do; empty means any worker.
    #[schema(required = false)]
    required_capabilities: Capabilities,
}
