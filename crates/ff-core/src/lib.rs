//! FlowFabric's vocabulary: ids, partitions, the state vector, policies, contracts, errors and the
//! traits every backend implements. No I/O, no clock, no randomness: those come in from outside.

pub mod backend_error;
pub mod clock;
pub mod partition;
