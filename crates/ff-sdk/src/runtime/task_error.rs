//! How a handler says that it failed, and whether trying again makes sense.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use ff_core::backend::{FailureClass, FailureReason};
use ff_core::contracts::SuspendRequest;
use ff_core::limits;
use ff_core::types::{Moment, TimestampMs};

use crate::error::SdkError;
use crate::task::Outcome;

/// Why a handler failed, and what should follow.
///
/// Every error converts into one that may be retried, `anyhow::Error` included, so `?` just works;
/// whether and when it is retried is up to the execution's policy. What a handler returns may have
/// any such error: `anyhow::Result<T>` will do.
///
/// ```
/// use ff_sdk::TaskError;
///
/// fn charge(cents: i64) -> Result<(), TaskError> {
///     if cents < 0 {
///         return Err(TaskError::fail("a charge cannot be negative"));
///     }
///     let _ = "12".parse::<i64>()?;
///     Err(TaskError::retry("the bank is busy").with_category("bank_busy"))
/// }
/// assert_eq!(charge(1).unwrap_err().category(), "bank_busy");
/// assert_eq!(charge(-1).unwrap_err().category(), "permanent");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskError {
    message: String,
    class: FailureClass,
    detail: Option<Vec<u8>>,
    instead: Option<Instead>,
}

/// What a handler gives, unless its errors have a type of their own. A closure says so where
/// nothing else does: `async |_, number| -> TaskResult<u32> { Ok(number + 1) }`.
pub type TaskResult<T> = Result<T, TaskError>;

/// What is no failure: the execution is given back, and goes on when this has come, or is over.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Instead {
    Signals(Box<SuspendRequest>),
    Children,
    Delay(Moment),
    Cancel,
}

impl TaskError {
    fn new(class: FailureClass, message: impl fmt::Display) -> Self {
        Self { message: message.to_string(), class, detail: None, instead: None }
    }

    fn instead(what: Instead, message: impl fmt::Display) -> Self {
        Self { instead: Some(what), ..Self::fail(message) }
    }

    /// May work next time: category `transient`.
    pub fn retry(message: impl fmt::Display) -> Self {
        Self::new(FailureClass::Transient, message)
    }

    /// Will never work: not retried, whatever the policy says. Category `permanent` unless
    /// [`with_category`](Self::with_category) says otherwise.
    pub fn fail(message: impl fmt::Display) -> Self {
        Self::new(FailureClass::Permanent, message)
    }

    /// The same as [`TaskError::fail`].
    pub fn permanent(message: impl fmt::Display) -> Self {
        Self::fail(message)
    }

    /// A failure of a category of your own, which a policy's `retryable_categories` may list.
    pub fn of_category(category: impl Into<String>, message: impl fmt::Display) -> Self {
        Self::retry(message).with_category(category)
    }

    /// No failure: the execution is given back until it is signalled. Then the handler is run
    /// again, in the same attempt, and finds the signals in
    /// [`Context::resume_signals`](crate::Context::resume_signals).
    pub fn suspend(request: SuspendRequest) -> Self {
        Self::instead(Instead::Signals(Box::new(request)), "suspended")
    }

    /// No failure: the execution is given back until its children have ended, however they did.
    /// Then the handler is run again, in the same attempt, and finds them in
    /// [`Context::children`](crate::Context::children); at once if all have ended already.
    pub fn wait_children() -> Self {
        Self::instead(Instead::Children, "waiting for children")
    }

    /// No failure: the execution is given back for a while, by the store's clock. Then the handler
    /// is run again, in the same attempt.
    pub fn delay_for(pause: Duration) -> Self {
        let pause_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
        Self::instead(Instead::Delay(Moment::After(pause_ms)), "delayed")
    }

    /// The same until a time of the store's clock.
    pub fn delay_until(time: TimestampMs) -> Self {
        Self::instead(Instead::Delay(time.into()), "delayed")
    }

    /// No failure: the execution ends as cancelled, by its worker, for this reason.
    pub fn cancel(reason: impl fmt::Display) -> Self {
        Self::instead(Instead::Cancel, reason)
    }

    /// The signals that are waited for, if it is no failure.
    pub fn suspension(&self) -> Option<&SuspendRequest> {
        match &self.instead {
            Some(Instead::Signals(request)) => Some(request),
            _ => None,
        }
    }

    /// True if it is no failure, and children are waited for.
    pub fn waits_for_children(&self) -> bool {
        self.instead == Some(Instead::Children)
    }

    /// The same failure in a category of your own. One that no retry can mend stays so.
    #[must_use]
    pub fn with_category(mut self, category: impl Into<String>) -> Self {
        let category = category.into();
        self.class = match self.class.is_final() {
            true => FailureClass::Final(category),
            false => FailureClass::Custom(category),
        };
        self
    }

    /// More for whoever looks into it: a stack trace, an encoded error.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<Vec<u8>>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// What happened.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The category that the retry policy looks at.
    pub fn category(&self) -> &str {
        self.class.category()
    }

    /// What is told to the store, within its limits: a report that is cut is better than one that
    /// is refused.
    pub(super) fn into_outcome(self) -> Outcome {
        let message = cut(self.message, limits::REASON_BYTES_MAX as usize);
        match self.instead {
            Some(Instead::Signals(request)) => Outcome::suspend(*request),
            Some(Instead::Children) => Outcome::WaitChildren,
            Some(Instead::Delay(until)) => Outcome::Delay(until),
            Some(Instead::Cancel) => Outcome::Cancel(message),
            None => {
                let mut detail = self.detail;
                if let Some(detail) = &mut detail {
                    detail.truncate(limits::FAILURE_DETAIL_BYTES_MAX as usize);
                }
                Outcome::Fail(FailureReason { message, detail }, reportable(self.class))
            }
        }
    }
}

/// A word that no policy could list is left out, and one that has a class of its own gets it.
fn reportable(class: FailureClass) -> FailureClass {
    let named = FailureClass::from_category(class.category());
    match (named, class.is_final()) {
        (Ok(FailureClass::Custom(category)), true) => FailureClass::Final(category),
        (Ok(FailureClass::Permanent) | Err(_), true) => FailureClass::Permanent,
        (Ok(_), true) => class,
        (Ok(named), false) => named,
        (Err(_), false) => FailureClass::Transient,
    }
}

fn cut(mut text: String, bytes_max: usize) -> String {
    let end = (0..=bytes_max.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    text.truncate(end.unwrap_or(0));
    text
}

impl fmt::Display for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.category(), self.message)
    }
}

/// Any error may be retried, and so may what becomes one: `anyhow::Error`, a text. Only what the
/// SDK itself knows to be wrong for good is final. (This is why `TaskError` is no
/// `std::error::Error` itself.)
impl<E: Into<Box<dyn Error + Send + Sync>>> From<E> for TaskError {
    fn from(error: E) -> Self {
        let error: Box<dyn Error + Send + Sync> = error.into();
        let message = with_causes(error.as_ref());
        match error.downcast_ref() {
            Some(SdkError::Config { .. } | SdkError::WrongInput { .. }) => Self::fail(message),
            _ => Self::retry(message),
        }
    }
}

/// An error and what is behind it, as far as it does not tell that itself.
fn with_causes(error: &dyn Error) -> String {
    let mut message = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let told = cause.to_string();
        if !message.ends_with(&told) {
            message = format!("{message}: {told}");
        }
        source = cause.source();
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(error: TaskError) -> (FailureReason, FailureClass) {
        match error.into_outcome() {
            Outcome::Fail(reason, class) => (reason, class),
            _ => panic!("it is a failure"),
        }
    }

    #[test]
    fn long_reasons_are_cut_at_a_character() {
        let (reason, class) = report(TaskError::fail("é".repeat(4096)));
        assert_eq!((reason.message.len(), class), (4096, FailureClass::Permanent));
        let (reason, _) = report(TaskError::retry(format!("x{}", "é".repeat(4096))));
        assert_eq!(reason.message.len(), 4095);
        assert_eq!(reason.validate(), Ok(()));
    }

    #[test]
    fn a_category_that_no_policy_could_list_counts_as_transient() {
        let (_, class) = report(TaskError::of_category("two words", "x"));
        assert_eq!(class, FailureClass::Transient);
        let (_, class) = report(TaskError::fail("x").with_category("two words"));
        assert_eq!(class, FailureClass::Permanent);
        let (_, class) = report(TaskError::of_category("timeout", "x"));
        assert_eq!(class, FailureClass::Timeout);
    }

    #[test]
    fn what_no_retry_can_mend_stays_so_in_any_category() {
        let (_, class) = report(TaskError::fail("x").with_category("bad_card"));
        assert_eq!(class, FailureClass::Final("bad_card".to_owned()));
        let (_, class) = report(TaskError::retry("x").with_category("bank_busy"));
        assert_eq!(class, FailureClass::Custom("bank_busy".to_owned()));
    }

    #[test]
    fn an_error_brings_its_causes() {
        #[derive(Debug, thiserror::Error)]
        #[error("could not read the order")]
        struct Outer(#[source] std::num::ParseIntError);
        let error = TaskError::from(Outer("x".parse::<i32>().expect_err("no number")));
        assert_eq!(
            error.to_string(),
            "transient: could not read the order: invalid digit found in string"
        );
    }

    #[test]
    fn what_becomes_an_error_is_one_too() {
        let order = anyhow::Context::context("x".parse::<i32>(), "could not read the order");
        let error = TaskError::from(order.expect_err("no number"));
        let message = "could not read the order: invalid digit found in string";
        assert_eq!((error.message(), error.category()), (message, "transient"));
        assert_eq!(TaskError::from("no paper").message(), "no paper");
        let wrong = TaskError::from(SdkError::wrong_input("nothing is passed as text"));
        assert_eq!((wrong.message(), wrong.category()), ("nothing is passed as text", "permanent"));
        let boxed: Box<dyn Error + Send + Sync> = "no ink".into();
        assert_eq!(TaskError::from(boxed).message(), "no ink");
    }
}
