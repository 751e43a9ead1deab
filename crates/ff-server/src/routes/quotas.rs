//! Quotas: how many may begin within a window, and how many may run at a time.

use ff_core::contracts::{
    CreateQuota, DeleteQuota, DescribeQuota, ListQuotaHolders, ListQuotas, UpdateQuota,
};

use crate::route::{Route, direct};

pub(super) fn routes() -> Vec<Route> {
    vec![
        direct::<CreateQuota, _>(|engine, _, it| engine.create_quota(it)),
        direct::<ListQuotas, _>(|engine, _, _| engine.list_quotas()),
        direct::<DescribeQuota, _>(|engine, id, query| engine.describe_quota(id, query)),
        direct::<UpdateQuota, _>(|engine, id, it| engine.update_quota(id, it)),
        direct::<DeleteQuota, _>(|engine, id, _| engine.delete_quota(id)),
        direct::<ListQuotaHolders, _>(|engine, id, query| engine.list_quota_holders(id, query)),
    ]
}
