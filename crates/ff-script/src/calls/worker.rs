//! The registry of workers, the leases a leaving one hands back, and what waits for them.

use ff_core::capability::CapabilitySet;
use ff_core::types::{
    ExecutionId, ExecutionKind, LaneId, Namespace, TimestampMs, WorkerId, WorkerInstanceId,
    WorkerSession,
};

use crate::call::functions;
use crate::value::Value;
use crate::wire::{Joined, List, Rest};

functions! {
    /// Makes a worker process known, or renews that; it may replace one that its caller saw go.
    write ff_register_worker(RegisterWorker {
        worker_id: WorkerId,
        worker_instance_id: WorkerInstanceId,
        session: WorkerSession,
        capabilities: CapabilitySet,
        ttl_ms: u64,
        kinds: Joined<ExecutionKind>,
        running: Option<u32>,
        capacity: Option<u32>,
        process: String,
        replaces: String,
        namespaces: Joined<Namespace>,
        lanes: Rest<LaneId>,
    })
    -> RegisterWorkerReply { "OK" => Registered { expires_at: TimestampMs, replaced: bool } }
    refuses [WorkerInstanceInUse, InvalidCapabilities];

    /// Extends the registration of a worker process, which may say how many tasks it runs.
    write ff_heartbeat_worker(HeartbeatWorker {
        worker_instance_id: WorkerInstanceId,
        session: WorkerSession,
        ttl_ms: u64,
        running: Option<u32>,
    })
    -> HeartbeatWorkerReply { "OK" => Extended { expires_at: TimestampMs, at_capacity: bool } }
    refuses [WorkerNotFound, WorkerInstanceInUse];

    /// Takes a worker process off the list.
    write ff_unregister_worker(UnregisterWorker {
        worker_instance_id: WorkerInstanceId,
        session: WorkerSession,
    })
    -> UnregisterWorkerReply { "OK" => Unregistered {}, "ALREADY_SATISFIED" => Unknown {} }
    refuses [WorkerInstanceInUse];

    /// Lists the worker processes that are registered in a partition, sorted by instance.
    read ff_list_workers(ListWorkers {})
    -> ListWorkersReply { "OK" => Workers { workers: List<Value> } }
    refuses [];

    /// Hands back leases of a leaving worker, which it names by their executions.
    write ff_hand_back_leases(HandBackLeases {
        worker_instance_id: WorkerInstanceId,
        execution_ids: Rest<ExecutionId>,
    })
    -> HandBackLeasesReply { "OK" => HandedBack { released: u32 } }
    refuses [];

    /// Hands back the leases of a leaving worker; their attempts go on with any other worker.
    /// Looks at a bounded number of live executions: `next_skip` is where to go on.
    write ff_release_worker_leases(ReleaseWorkerLeases {
        worker_instance_id: WorkerInstanceId,
        skip: u32,
    })
    -> ReleaseWorkerLeasesReply { "OK" => Released { released: u32, next_skip: Option<u32> } }
    refuses [];

    /// Lists the queues of lanes that are not empty, each with its head and its length. Looks at a
    /// bounded number of them: all is told of the first `lanes_listed` lanes.
    write ff_list_needs(ListNeeds { lanes: Rest<LaneId> })
    -> ListNeedsReply { "OK" => Needs { needs: List<Value>, lanes_listed: usize } }
    refuses [];

    /// Tells how much waits in lanes of a partition and in their longest queues, and since when.
    read ff_lane_depths(LaneDepths { lanes: Rest<LaneId> })
    -> LaneDepthsReply { "OK" => Depths { depths: List<Value>, needs: List<Value> } }
    refuses [];
}
