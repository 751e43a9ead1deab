//! Creating executions.

use ff_conformance::{LANE, conformance};
use ff_script::host::Topic;

conformance! {
    async fn a_new_execution_is_claimable(d: &Deployment) {
        let mut ready = d.listen(Topic::Ready).await;
        let id = d.create_one().await;
        assert_eq!(ready.next().await, LANE);
        assert_eq!(d.claim(LANE).await.id, id);
        d.describe(id).await;
    }
}
