//! How an operation of the deployment is reached over HTTP. One row each: the server's route, its
//! entry in the document, its metrics and the client's call are all made from it.

use std::fmt::{self, Display};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::ToSchema;

/// The largest body of requests that carry neither a payload nor long lists.
pub const PLAIN_BODY_BYTES: usize = 64 * 1024;

/// One operation.
pub trait Operation: Send + Sync + 'static {
    /// What the path names: an execution, a worker, or nothing.
    type Target: Display + Send;
    /// What is asked for: the query of a read, the body of anything else.
    type Request: Serialize + DeserializeOwned + Send;
    /// What is answered.
    type Reply: Serialize + DeserializeOwned + Send;

    /// Whether it reads, does or sets something.
    const METHOD: Method = Method::Post;
    /// Where it is, with the target in braces.
    const PATH: &'static str;
    /// Its name for generated clients.
    const NAME: &'static str;
    /// The group that the document lists it in: by its path, if nothing else is said.
    const GROUP: &'static str = first_word(Self::PATH);
    /// What it does, in a sentence.
    const SUMMARY: &'static str;
    /// What a success means, in a sentence.
    const ANSWERS: &'static str;
    /// More about it.
    const ABOUT: &'static str = "";
    /// How the request travels, if not as every one does.
    const INPUT: Input = Input::of::<Self::Request>(Self::METHOD);
    /// The largest body.
    const BODY_BYTES_MAX: usize = PLAIN_BODY_BYTES;
    /// The status of a success; 204 for one that says no more than that.
    const STATUS: u16 = if size_of::<Self::Reply>() == 0 { 204 } else { 200 };
    /// True if it may wait for work or for an end.
    const WAITS: bool = false;
    /// The statuses of its own refusals, besides those that every path has.
    const REFUSES: &'static [u16] = refusals(Self::METHOD, Self::PATH);

    /// Where the operation on this target is.
    fn path(target: Self::Target) -> String {
        fill(Self::PATH, target)
    }
}

/// The word behind the version in a path.
const fn first_word(path: &str) -> &str {
    let (_, rest) = path.split_at("/v1/".len());
    let mut end = 0;
    while end < rest.len() && rest.as_bytes()[end] != b'/' {
        end += 1;
    }
    rest.split_at(end).0
}

/// What a path or a task's token names may not be there, and what is changed may not allow it.
const fn refusals(method: Method, path: &str) -> &'static [u16] {
    let is_of_task = matches!(first_word(path).as_bytes(), b"tasks");
    let names_nothing = first_brace(path) == path.len() && !is_of_task;
    match (method, names_nothing) {
        (Method::Get, true) => &[],
        (Method::Get, false) => &[404],
        (_, true) => &[409],
        (_, false) => &[404, 409],
    }
}

const fn first_brace(path: &str) -> usize {
    let mut at = 0;
    while at < path.len() && path.as_bytes()[at] != b'{' {
        at += 1;
    }
    at
}

/// Whether an operation reads, does or sets something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// It reads.
    Get,
    /// It does something.
    Post,
    /// It sets something.
    Put,
}

impl Method {
    /// The word of HTTP.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
        }
    }
}

/// How a request travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// There is none.
    Nothing,
    /// Behind the question mark.
    Query,
    /// As a JSON body.
    Body,
    /// As a JSON body that may be left out.
    OptionalBody,
}

impl Input {
    /// The request of a read is its query, that of anything else its body; an empty one is nothing.
    const fn of<R>(method: Method) -> Self {
        match method {
            _ if size_of::<R>() == 0 => Self::Nothing,
            Method::Get => Self::Query,
            Method::Post | Method::Put => Self::Body,
        }
    }
}

/// There is nothing to say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Nothing {}

impl Display for Nothing {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }
}

/// A path with its first parameter filled in, percent-encoded.
pub fn fill(path: &str, parameter: impl Display) -> String {
    let value = encode(&parameter.to_string());
    match (path.find('{'), path.find('}')) {
        (Some(start), Some(end)) => format!("{}{value}{}", &path[..start], &path[end + 1..]),
        _ => path.to_owned(),
    }
}

/// Percent-encodes everything but the characters that never need it.
pub fn encode(text: &str) -> String {
    text.bytes().fold(String::with_capacity(text.len()), |mut encoded, byte| {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                encoded.push(char::from(byte));
            }
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
        encoded
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_encoded_into_its_place() {
        let id = "{fp:7}:550e8400-e29b-41d4-a716-446655440000";
        assert_eq!(
            fill("/v1/executions/{execution_id}/result", id),
            "/v1/executions/%7Bfp%3A7%7D%3A550e8400-e29b-41d4-a716-446655440000/result"
        );
        let path = "/v1/workers/{worker}/heartbeat";
        assert_eq!(fill(path, "eu/1 é"), "/v1/workers/eu%2F1%20%C3%A9/heartbeat");
        assert_eq!(fill("/v1/executions", id), "/v1/executions");
    }
}
