//! Approvals: the links by which approvers are recognised, and the page that a link leads to.

mod link;
mod page;

pub(crate) use link::{Link, signed, verified};
pub(crate) use page::{decided, protect, question, refused, stands};
