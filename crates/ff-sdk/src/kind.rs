//! Kinds with types: what a handler takes and gives, known to those who submit, and how its
//! executions are retried, limited and kept.

mod policy;

use std::fmt;
use std::marker::PhantomData;

use ff_core::contracts::GraphTask;
use ff_core::policy::ExecutionPolicy;
use ff_core::types::ExecutionKind;
use serde::Serialize;

use crate::client::Submission;
use crate::error::SdkError;
use policy::Said;

/// A kind of execution: the types of its input and its result, and its policy. Clients and handlers
/// share one, so that a wrong type does not compile and nobody has to remember how often a charge
/// is tried.
///
/// ```
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use anyhow::Context as _;
/// use ff_sdk::{BackendConfig, Client, Connection, Context, Kind, Worker};
///
/// const SQUARE: Kind<i64, i64> = Kind::new("square").retries(5).timeout("30s");
///
/// async fn square(_: Context, number: i64) -> anyhow::Result<i64> {
///     number.checked_mul(number).context("too large")
/// }
///
/// let connection = Connection::open(BackendConfig::embedded_in_memory()).await?;
/// let worker = Worker::builder("calculator")
///     .connection(&connection)
///     .handle(&SQUARE, square)
///     .build()?;
/// let stop = worker.shutdown_handle();
/// let running = tokio::spawn(worker.run());
///
/// let result: i64 = Client::new(&connection).call(&SQUARE, 7).await?;
/// assert_eq!(result, 49);
///
/// stop.shutdown();
/// running.await??;
/// # Ok(())
/// # }
/// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
/// ```
///
/// An input of another type is found by the compiler:
///
/// ```compile_fail,E0308
/// # async fn example(client: ff_sdk::Client) {
/// # use ff_sdk::Kind;
/// const SQUARE: Kind<i64, i64> = Kind::new("square");
/// let _ = client.call(&SQUARE, "seven").await;
/// # }
/// ```
///
/// ```compile_fail,E0308
/// # async fn example(client: ff_sdk::Client) {
/// # use ff_sdk::Kind;
/// const SQUARE: Kind<i64, i64> = Kind::new("square");
/// let _ = client.submit(&SQUARE, "seven").await;
/// # }
/// ```
///
/// ```compile_fail,E0308
/// # async fn example(context: ff_sdk::Context) {
/// # use ff_sdk::Kind;
/// const SQUARE: Kind<i64, i64> = Kind::new("square");
/// let _ = context.submit(&SQUARE, "seven").await;
/// # }
/// ```
///
/// ```compile_fail,E0308
/// # use ff_sdk::Kind;
/// const SQUARE: Kind<i64, i64> = Kind::new("square");
/// let child = SQUARE.task("first", "seven");
/// ```
///
/// and so are a result that is taken for another, a handler that gives another, and a name that
/// cannot be one:
///
/// ```compile_fail,E0308
/// # async fn example(client: ff_sdk::Client) {
/// # use ff_sdk::Kind;
/// const SQUARE: Kind<i64, i64> = Kind::new("square");
/// let text: String = client.call(&SQUARE, 7).await.unwrap();
/// # }
/// ```
///
/// ```compile_fail,E0271
/// # use ff_sdk::{Kind, TaskError, Worker};
/// const SQUARE: Kind<i64, i64> = Kind::new("square");
/// async fn words(_: ff_sdk::Context, number: i64) -> Result<String, TaskError> {
///     Ok(number.to_string())
/// }
/// let worker = Worker::builder("calculator").handle(&SQUARE, words);
/// ```
///
/// ```compile_fail,E0080
/// # use ff_sdk::Kind;
/// const SQUARE: Kind<i64, i64> = Kind::new("a:b");
/// # let _ = SQUARE.name();
/// ```
pub struct Kind<I, O> {
    name: &'static str,
    said: Said,
    types: PhantomData<fn(I) -> O>,
}

impl<I, O> Kind<I, O> {
    /// A kind of this name, to be written as a constant.
    ///
    /// # Panics
    ///
    /// If it is no name of a kind: in a constant, when the program is compiled.
    pub const fn new(name: &'static str) -> Self {
        assert!(
            ExecutionKind::is_valid(name),
            "a kind is named by 1 to 128 printable characters: no braces, colons and outer blanks"
        );
        Self { name, said: Said::NOTHING, types: PhantomData }
    }

    /// Its name.
    pub const fn name(&self) -> &'static str {
        self.name
    }
}

impl<I: Serialize, O> Kind<I, O> {
    /// An execution of it as a task of a graph: a child, for
    /// [`Context::add_children`](crate::Context::add_children). `()` is no input.
    pub fn task(&self, name: impl Into<String>, input: &I) -> Result<GraphTask, SdkError> {
        let execution = Submission::to((), self, task_input(input)).into_request()?;
        Ok(GraphTask::new(name, execution))
    }
}

/// The input of a task as JSON; nothing if it is null, so that the only result that is passed to it
/// is its input.
pub(crate) fn task_input<I: Serialize>(input: &I) -> Result<Vec<u8>, serde_json::Error> {
    let nothing = |bytes: Vec<u8>| if bytes == b"null" { Vec::new() } else { bytes };
    serde_json::to_vec(input).map(nothing)
}

impl<I, O> Clone for Kind<I, O> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<I, O> Copy for Kind<I, O> {}

impl<I, O> fmt::Debug for Kind<I, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Kind").field(&self.name).finish()
    }
}

/// What names the handler of an input: a [`Kind`] that takes this type, or a text, which says
/// nothing about types.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not name a handler that takes `{I}`",
    label = "takes an input of another type"
)]
pub trait Takes<I: ?Sized> {
    /// The name of the kind.
    fn kind_name(&self) -> &str;

    /// The policy of the kind, if it is known.
    fn kind_policy(&self) -> Option<ExecutionPolicy> {
        None
    }
}

impl<I, O> Takes<I> for &Kind<I, O> {
    fn kind_name(&self) -> &str {
        self.name
    }

    fn kind_policy(&self) -> Option<ExecutionPolicy> {
        self.policy()
    }
}

impl<I: ?Sized> Takes<I> for &str {
    fn kind_name(&self) -> &str {
        self
    }
}

impl<I: ?Sized> Takes<I> for &String {
    fn kind_name(&self) -> &str {
        self
    }
}
