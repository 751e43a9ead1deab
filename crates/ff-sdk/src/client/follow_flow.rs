//! Following what happens in a flow.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use ff_core::contracts::{FlowActivity, FlowActivityStream, FlowPosition};
use ff_core::types::FlowId;
use futures_core::Stream;

use super::Client;
use crate::error::SdkError;

/// What happens in a flow as it happens: an async [`Stream`], and [`next`](Self::next) for those
/// who have no use for one. Every event comes once and in order, across lost connections and
/// servers that are started again; it ends behind [`FlowActivity::End`] or an error.
pub struct FollowFlow {
    activity: FlowActivityStream,
    position: FlowPosition,
}

impl FollowFlow {
    /// The next piece; none behind the last one.
    pub async fn next(&mut self) -> Option<Result<FlowActivity, SdkError>> {
        std::future::poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }

    /// Where another one goes on that takes over: see [`Client::follow_flow_from`].
    pub fn position(&self) -> &FlowPosition {
        &self.position
    }
}

impl Stream for FollowFlow {
    type Item = Result<FlowActivity, SdkError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = self.activity.as_mut().poll_next(context);
        polled.map(|item| match item? {
            Ok(activity) => {
                self.position = FlowPosition::Behind(activity.cursor().clone());
                Some(Ok(activity))
            }
            Err(error) => Some(Err(error.in_context("follow_flow").into())),
        })
    }
}

impl fmt::Debug for FollowFlow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FollowFlow").field("position", &self.position).finish_non_exhaustive()
    }
}

impl Client {
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

    /// The same from a position on: that of [`FollowFlow::position`] for one who takes over,
    /// [`FlowPosition::End`] for what comes from now on.
    pub async fn follow_flow_from(
        &self,
        flow_id: &FlowId,
        position: FlowPosition,
    ) -> Result<FollowFlow, SdkError> {
        let activity = self.engine().follow_flow(*flow_id, position.clone()).await;
        let activity = activity.map_err(|error| error.in_context("follow_flow"))?;
        Ok(FollowFlow { activity, position })
    }
}
