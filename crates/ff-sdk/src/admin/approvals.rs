//! Approval links: making them, and deciding by one.

use ff_api::approval::{
    ApprovalLinks, DecideByLink, LinkText, LinkView, MakeApprovalLinks, ReadLink, RotateLinkKey,
};
use ff_core::operation::Nothing;
use ff_core::types::ExecutionRef;

use super::FlowFabricAdminClient;
use crate::error::SdkError;

impl FlowFabricAdminClient {
    /// Makes a link for each approver of an execution: all that its suspension names, or those of
    /// the request.
    pub async fn approval_links(
        &self,
        execution: impl Into<ExecutionRef>,
        request: MakeApprovalLinks,
    ) -> Result<ApprovalLinks, SdkError> {
        self.operate::<MakeApprovalLinks>(execution.into(), &request).await
    }

    /// What a link asks its approver, or what that has decided. Never decides.
    pub async fn read_link(&self, url: &str) -> Result<LinkView, SdkError> {
        self.operate::<ReadLink>(link(url), &Nothing {}).await
    }

    /// Decides as the approver of a link. The first decision stands: another one is refused with
    /// `decision_stands`.
    pub async fn decide_by_link(&self, url: &str, choice: &str) -> Result<LinkView, SdkError> {
        let request = DecideByLink { choice: choice.to_owned() };
        self.operate::<DecideByLink>(link(url), &request).await
    }

    /// Makes a new key the one that signs links, and answers its id.
    pub async fn rotate_link_key(&self, request: RotateLinkKey) -> Result<String, SdkError> {
        let rotated = self.operate::<RotateLinkKey>(Nothing {}, &request).await?;
        Ok(rotated.kid)
    }
}

/// What is behind the last slash: wherever people reach the server, this client reaches it by its
/// own address.
fn link(url: &str) -> LinkText {
    LinkText(url.rsplit('/').next().unwrap_or_default().to_owned())
}
