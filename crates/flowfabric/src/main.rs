//! FlowFabric in one binary.
fn main() {}
