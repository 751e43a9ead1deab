//! Edges: who waits for whom in a flow.

use ff_core::types::{EdgeId, ExecutionId, FlowId};

use crate::call::functions;

functions! {
    /// Adds an edge to a flow, and the downstream waits for it at once.
    write ff_add_dependency(AddDependency {
        flow_id: FlowId,
        edge_id: EdgeId,
        upstream_execution_id: ExecutionId,
        downstream_execution_id: ExecutionId,
        dependency_kind: Option<String>,
        data_passing_ref: String,
        expected_graph_revision: Option<u64>,
    })
    -> AddDependencyReply {
        "OK" => Added { edge_id: EdgeId, graph_revision: u64 },
        "ALREADY_SATISFIED" => AddedBefore { edge_id: EdgeId, graph_revision: u64 },
    }
    refuses [SelfReferencingEdge, FlowNotFound, FlowAlreadyTerminal, FlowCancelled, FlowSealed,
        StaleGraphRevision, ExecutionNotInFlow, CycleDetected, GraphTooLarge,
        DependencyAlreadyExists, NotRunnable];

    /// Adds an edge to a flow; the downstream waits for it once it is applied.
    write ff_stage_dependency_edge(StageDependencyEdge = AddDependency)
    refuses [SelfReferencingEdge, FlowNotFound, FlowAlreadyTerminal, FlowCancelled, FlowSealed,
        StaleGraphRevision, ExecutionNotInFlow, CycleDetected, GraphTooLarge,
        DependencyAlreadyExists];

    /// Lets the downstream of a staged edge wait for it.
    write ff_apply_dependency_to_child(ApplyDependencyToChild {
        flow_id: FlowId,
        edge_id: EdgeId,
        downstream_execution_id: ExecutionId,
    })
    -> ApplyDependencyToChildReply {
        "OK" => Applied { unsatisfied_count: u32 },
        "ALREADY_SATISFIED" => AppliedBefore {},
    }
    refuses [FlowNotFound, FlowAlreadyTerminal, FlowCancelled, FlowSealed, ExecutionNotFound,
        ExecutionAlreadyInFlow, InvalidDependency, NotRunnable];

    /// Tells the downstream of an edge how its upstream ended, if nobody did.
    write ff_resolve_dependency(ResolveDependency { flow_id: FlowId, edge_id: EdgeId })
    -> ResolveDependencyReply {
        "OK" => Resolved { edge_state: String },
        "ALREADY_SATISFIED" => ResolvedBefore { edge_state: String },
    }
    refuses [FlowNotFound, InvalidDependency, UpstreamNotTerminal, FlowCancelled];

    /// Says whether its upstreams allow an execution to run.
    read ff_evaluate_flow_eligibility(EvaluateFlowEligibility { execution_id: ExecutionId })
    -> EvaluateFlowEligibilityReply { "OK" => Eligibility { eligibility: String } }
    refuses [];

    /// Lets an execution run that is blocked although it waits for nobody.
    write ff_promote_blocked_to_eligible(PromoteBlockedToEligible { execution_id: ExecutionId })
    -> PromoteBlockedToEligibleReply { "OK" => Promoted {} }
    refuses [ExecutionNotFound, NotRunnable, NotBlockedByDeps, Terminal, DepsNotSatisfied,
        FlowCancelled];
}
