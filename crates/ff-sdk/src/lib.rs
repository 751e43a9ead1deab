//! FlowFabric for programs.
