//! Following: the output of an execution, or what happens in a flow.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use ff_core::contracts::{FlowActivity, FlowPosition, Output, OutputCursor};
use ff_core::error::EngineError;
use ff_core::types::{ExecutionRef, FlowId};
use futures_core::Stream;

use super::Client;
use crate::error::SdkError;

/// What comes from an execution or a flow as it comes: an async [`Stream`], and
/// [`next`](Self::next) for those who have no use for one. Every piece comes once and in order,
/// across attempts, lost connections and servers that are started again; it ends behind
/// [`Output::End`] or [`FlowActivity::End`], or an error.
pub struct Follow<T: Followed = Output> {
    pieces: Pin<Box<dyn Stream<Item = Result<T, EngineError>> + Send>>,
    position: T::Position,
}

/// What happens in a flow, followed.
pub type FollowFlow = Follow<FlowActivity>;

/// What can be followed: each piece says where one goes on behind it.
pub trait Followed {
    /// Where one goes on.
    type Position: fmt::Debug + Unpin;
    /// What is being done, where that fails.
    const CONTEXT: &'static str;

    /// The position behind this piece.
    fn position(&self) -> Self::Position;
}

impl Followed for Output {
    type Position = OutputCursor;
    const CONTEXT: &'static str = "follow";

    fn position(&self) -> OutputCursor {
        self.cursor()
    }
}

impl Followed for FlowActivity {
    type Position = FlowPosition;
    const CONTEXT: &'static str = "follow_flow";

    fn position(&self) -> FlowPosition {
        FlowPosition::Behind(self.cursor().clone())
    }
}

impl<T: Followed> Follow<T> {
    /// The next piece; none behind the last one.
    pub async fn next(&mut self) -> Option<Result<T, SdkError>> {
        std::future::poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }

    /// Where another one goes on that takes over: see [`Client::follow_from`] and
    /// [`Client::follow_flow_from`].
    pub fn position(&self) -> &T::Position {
        &self.position
    }
}

impl Follow {
    /// The same, by value.
    pub fn cursor(&self) -> OutputCursor {
        self.position
    }
}

impl<T: Followed> Stream for Follow<T> {
    type Item = Result<T, SdkError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = self.pieces.as_mut().poll_next(context);
        polled.map(|item| match item? {
            Ok(piece) => {
                self.position = piece.position();
                Some(Ok(piece))
            }
            Err(error) => Some(Err(error.in_context(T::CONTEXT).into())),
        })
    }
}

impl<T: Followed> fmt::Debug for Follow<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Follow").field("position", &self.position).finish_non_exhaustive()
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
        let pieces = self.ask(execution, "follow", |engine, id| engine.follow_output(id, cursor));
        Ok(Follow { pieces: pieces.await?, position: cursor })
    }

    /// Follows what happens in a flow, to it and to its members, from its first event to its end.
    /// Where events are no longer in the log, which is bounded, [`FlowActivity::Gap`] tells how the
    /// flow stands instead.
    ///
    /// ```
    /// # async fn example(client: ff_sdk::Client, id: ff_sdk::FlowId)
    /// # -> Result<(), ff_sdk::SdkError> {
    /// use ff_sdk::FlowActivity;
    ///
    /// let mut activity = client.follow_flow(&id).await?;
    /// while let Some(piece) = activity.next().await {
    ///     match piece? {
    ///         FlowActivity::Event(event) => println!("{:?} {}", event.name, event.kind),
    ///         FlowActivity::Gap { flow, .. } => println!("some is not known: {:?}", flow.counts),
    ///         FlowActivity::End { flow, .. } => println!("{:?}", flow.public_flow_state),
    ///         _ => {}
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn follow_flow(&self, flow_id: &FlowId) -> Result<FollowFlow, SdkError> {
        self.follow_flow_from(flow_id, FlowPosition::Start).await
    }

    /// The same from a position on: that of [`Follow::position`] for one who takes over,
    /// [`FlowPosition::End`] for what comes from now on.
    pub async fn follow_flow_from(
        &self,
        flow_id: &FlowId,
        position: FlowPosition,
    ) -> Result<FollowFlow, SdkError> {
        let pieces = self.engine().follow_flow(*flow_id, position.clone()).await;
        let pieces = pieces.map_err(|error| error.in_context("follow_flow"))?;
        Ok(Follow { pieces, position })
    }
}
