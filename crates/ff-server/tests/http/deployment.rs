//! Real Valkey servers and clusters.

use ff_test_valkey::{Valkey, ValkeyCluster, ValkeyOptions};

pub(crate) fn valkey() -> Valkey {
    Valkey::start(ValkeyOptions::default()).expect("valkey starts")
}

pub(crate) fn cluster() -> ValkeyCluster {
    ValkeyCluster::start(3, 0).expect("the cluster starts")
}
