//! Lanes and kinds: settings and defaults that every partition knows.

use ff_core::contracts::{
    DescribeKind, DescribeLane, LaneQuery, ListKinds, PauseLane, RegisterKinds, ResumeLane,
    SetDefaults, SetKind, SetLane,
};

use crate::route::{Route, direct};

pub(super) fn routes() -> Vec<Route> {
    vec![
        direct::<LaneQuery, _>(|engine, _, query| engine.list_lanes(query)),
        direct::<DescribeLane, _>(|engine, lane, _| engine.describe_lane(lane)),
        direct::<SetLane, _>(|engine, lane, it| engine.set_lane(lane, it)),
        direct::<PauseLane, _>(|engine, lane, _| engine.set_lane(lane, SetLane::paused(true))),
        direct::<ResumeLane, _>(|engine, lane, _| engine.set_lane(lane, SetLane::paused(false))),
        direct::<ListKinds, _>(|engine, _, _| engine.list_kinds()),
        direct::<RegisterKinds, _>(|engine, _, it| engine.register_kinds(it)),
        direct::<DescribeKind, _>(|engine, kind, _| engine.describe_kind(kind)),
        direct::<SetKind, _>(|engine, kind, it| engine.set_kind(kind, it)),
        direct::<SetDefaults, _>(|engine, _, it| engine.set_defaults(it)),
    ]
}
