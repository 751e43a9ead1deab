//! The codes that only the HTTP layer has: one row each. All others are `ff_core::error::Code`.

use ff_core::error::ErrorClass;

macro_rules! http_codes {
    ($($variant:ident $text:literal $class:ident $status:literal $sentence:literal;)*) => {
        /// A problem that arises before or around a call of the engine.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum HttpCode {
            $(#[doc = $sentence] $variant,)*
        }

        impl HttpCode {
            /// Every code.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The stable word.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            /// What the caller should do.
            pub const fn class(self) -> ErrorClass {
                match self { $(Self::$variant => ErrorClass::$class,)* }
            }

            /// The status of the answer.
            pub const fn http_status(self) -> u16 {
                match self { $(Self::$variant => $status,)* }
            }

            /// What happened and what helps, for a person.
            pub const fn sentence(self) -> &'static str {
                match self { $(Self::$variant => $sentence,)* }
            }

            /// The code with this word.
            pub fn parse(text: &str) -> Option<Self> {
                match text { $($text => Some(Self::$variant),)* _ => None }
            }
        }
    };
}

http_codes! {
    MalformedJson "malformed_json" Terminal 400
        "The body is not JSON.";
    MalformedRequest "malformed_request" Terminal 400
        "The request breaks the rules of HTTP.";
    ForbiddenHost "forbidden_host" Terminal 403
        "A server without tokens answers only to names of its own.";
    ForbiddenOrigin "forbidden_origin" Terminal 403
        "Web pages of other sites may not use this server.";
    RouteNotFound "route_not_found" Terminal 404
        "There is no such path; /reference is a page with all of them, /openapi.json a document.";
    LinkNotFound "link_not_found" Terminal 404
        "This link leads nowhere: it is not whole, or not one of this server's.";
    MethodNotAllowed "method_not_allowed" Terminal 405
        "The path does not know this method; the Allow header lists those it does.";
    RequestTimeout "request_timeout" Retryable 408
        "The request was not received in time.";
    ExecutionNotEnded "execution_not_ended" Retryable 409
        "The execution has not ended, so it has no result yet; wait_ms waits for it.";
    ExecutionFailed "execution_failed" Terminal 409
        "The execution failed, so it has no result.";
    ExecutionCancelled "execution_cancelled" Terminal 409
        "The execution was cancelled, so it has no result.";
    ExecutionExpired "execution_expired" Terminal 409
        "The execution ran out of time, so it has no result.";
    ExecutionSkipped "execution_skipped" Terminal 409
        "The execution was skipped, so it has no result.";
    DecisionStands "decision_stands" Terminal 409
        "The approver has decided already, and the first decision stands.";
    NothingToApprove "nothing_to_approve" Terminal 409
        "The execution asks nobody for an approval.";
    BackupExists "backup_exists" Terminal 409
        "There is a backup of this name; choose another one.";
    NothingToBackUp "nothing_to_back_up" Terminal 409
        "Only an embedded store with a data directory is copied by its server; \
         Valkey is backed up by its own means.";
    LinkExpired "link_expired" Terminal 410
        "The link is no longer good; ask for another one.";
    ApprovalClosed "approval_closed" Terminal 410
        "This is no longer open to decisions.";
    NoPublicUrl "no_public_url" Terminal 409
        "Links need the server's address as people see it: set public_url.";
    BodyTooLarge "body_too_large" Terminal 413
        "The body is larger than this path accepts.";
    UriTooLong "uri_too_long" Terminal 414
        "The path and its query are longer than the server reads.";
    UnsupportedMediaType "unsupported_media_type" Terminal 415
        "The path does not accept bodies of this content type.";
    TooManyWaiting "too_many_waiting" Retryable 429
        "As many requests as the server allows are waiting; ask again without a wait or later.";
    HeadersTooLarge "headers_too_large" Terminal 431
        "There are more headers, or larger ones, than the server reads.";
    Internal "internal" Bug 500
        "Something is wrong inside the server.";
    Overloaded "overloaded" Retryable 503
        "The server has as much to do as it accepts; try again soon.";
    Draining "draining" Retryable 503
        "The server is shutting down; ask another one or try again soon.";
}
