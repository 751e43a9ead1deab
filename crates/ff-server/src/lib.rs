//! FlowFabric's HTTP server.
