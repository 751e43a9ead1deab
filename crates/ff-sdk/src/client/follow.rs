//! Following the output of an execution.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use ff_core::contracts::{Output, OutputCursor, OutputStream};
use ff_core::types::ExecutionRef;
use futures_core::Stream;

use super::Client;
use crate::error::SdkError;

/// The output of an execution as it comes: an async [`Stream`], and [`next`](Self::next) for those
/// who have no use for one. Every frame comes once and in order, across attempts, lost connections
/// and servers that are started again; it ends behind [`Output::End`] or an error.
pub struct Follow {
    output: OutputStream,
    cursor: OutputCursor,
}

impl Follow {
    /// The next piece; none behind the last one.
    pub async fn next(&mut self) -> Option<Result<Output, SdkError>> {
        std::future::poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }

    /// Where another one goes on that takes over: see [`Client::follow_from`].
    pub fn cursor(&self) -> OutputCursor {
        self.cursor
    }
}

impl Stream for Follow {
    type Item = Result<Output, SdkError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = self.output.as_mut().poll_next(context);
        polled.map(|item| match item? {
            Ok(output) => {
                self.cursor = output.cursor();
                Some(Ok(output))
            }
            Err(error) => Some(Err(error.in_context("follow").into())),
        })
    }
}

impl fmt::Debug for Follow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Follow").field("cursor", &self.cursor).finish_non_exhaustive()
    }
}

impl Client {
    /// Follows what an execution puts out, from the first frame to its end. When another attempt
    /// begins, [`Output::Attempt`] says that its output replaces all before.
    ///
    /// ```
    /// # async fn example(client: ff_sdk::Client, id: ff_sdk::ExecutionId)
    /// # -> Result<(), ff_sdk::SdkError> {
    /// use ff_sdk::Output;
    ///
    /// let mut text = Vec::new();
    /// let mut output = client.follow(&id).await?;
    /// while let Some(piece) = output.next().await {
    ///     match piece? {
    ///         Output::Attempt { .. } => text.clear(),
    ///         Output::Frame { frame, .. } => text.extend_from_slice(&frame.payload()),
    ///         _ => {}
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn follow(&self, execution: impl Into<ExecutionRef>) -> Result<Follow, SdkError> {
        self.follow_from(execution, OutputCursor::Start).await
    }

    /// The same from a position on: that of [`Follow::cursor`] for one who takes over,
    /// [`OutputCursor::End`] for what comes from now on.
    pub async fn follow_from(
        &self,
        execution: impl Into<ExecutionRef>,
        cursor: OutputCursor,
    ) -> Result<Follow, SdkError> {
        let name = execution.into();
        let id = self.connection.resolve(name)?;
        let output = self.engine().follow_output(id, cursor).await;
        let output = output.map_err(|error| name.advise(error).in_context("follow"))?;
        Ok(Follow { output, cursor })
    }
}
