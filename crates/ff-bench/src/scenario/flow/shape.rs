//! The graphs that are measured.

use clap::ValueEnum;
use ff_core::bytes::Base64;
use ff_core::types::{ExecutionKind, LaneId};
use ff_sdk::{CreateExecution, CreateFlow, GraphDependency, GraphTask, SubmitGraph};

/// How the members of a flow wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shape {
    /// Each waits for the one before it.
    Chain,
    /// All wait for the first.
    Fanout,
    /// The last waits for all others.
    Fanin,
    /// All but the ends wait for the first, and the last for them.
    Diamond,
    /// Each waits for up to five of those before it, and not for its neighbour alone.
    Random,
    /// Nobody waits.
    #[value(skip)]
    Loose,
}

/// Upstreams of a member of a random graph.
const UPSTREAMS: u32 = 5;
/// How far back they lie at most.
const REACH: u32 = 100;

impl Shape {
    /// For whom a member waits, by their places.
    pub(super) fn upstreams(self, place: u32, nodes: u32) -> Vec<u32> {
        let is_last = place + 1 == nodes;
        match self {
            Self::Chain => place.checked_sub(1).into_iter().collect(),
            Self::Fanout => (place > 0).then_some(0).into_iter().collect(),
            Self::Fanin if is_last => (0..place).collect(),
            Self::Diamond if is_last && place > 1 => (1..place).collect(),
            Self::Diamond => (place > 0).then_some(0).into_iter().collect(),
            Self::Random => (0..UPSTREAMS.min(place)).map(|nth| back(place, nth)).collect(),
            Self::Fanin | Self::Loose => Vec::new(),
        }
    }

    /// How many edges a flow of so many members has.
    pub(super) fn edges(self, nodes: u32) -> u64 {
        (0..nodes).map(|place| self.upstreams(place, nodes).len() as u64).sum()
    }
}

/// The nth upstream of a random graph: each from a part of its own of those within reach, the same
/// in every run.
fn back(place: u32, nth: u32) -> u32 {
    let reach = place.min(REACH);
    let (from, to) = (reach * nth / UPSTREAMS.min(place), reach * (nth + 1) / UPSTREAMS.min(place));
    let step = place.wrapping_mul(0x9E37_79B9).rotate_left(nth * 5) % (to - from);
    place - 1 - (from + step)
}

/// What the members of a flow are made from.
#[derive(Clone, Debug)]
pub(super) struct Graphs {
    pub(super) shape: Shape,
    pub(super) nodes: u32,
    pub(super) lane: LaneId,
}

impl Graphs {
    /// A graph whose members all have this input.
    pub(super) fn graph(&self, payload: &[u8]) -> SubmitGraph {
        let kind = ExecutionKind::new("bench");
        let tasks = (0..self.nodes).map(|place| {
            let execution = CreateExecution {
                lane: Some(self.lane.clone()),
                payload_base64: Some(Base64(payload.to_vec())),
                ..CreateExecution::new(kind.clone())
            };
            let upstreams = self.shape.upstreams(place, self.nodes).into_iter();
            let after = upstreams.map(|up| GraphDependency::on_success(name(up))).collect();
            GraphTask { after, ..GraphTask::new(name(place), execution) }
        });
        SubmitGraph::new(CreateFlow::new(kind.clone()), tasks.collect())
    }
}

fn name(place: u32) -> String {
    format!("n{place}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPES: [Shape; 6] =
        [Shape::Chain, Shape::Fanout, Shape::Fanin, Shape::Diamond, Shape::Random, Shape::Loose];

    #[test]
    fn nobody_waits_for_one_behind_it_or_twice_for_the_same() {
        for shape in SHAPES {
            for nodes in [1, 2, 3, 7, 300] {
                for place in 0..nodes {
                    let mut upstreams = shape.upstreams(place, nodes);
                    let count = upstreams.len();
                    assert!(upstreams.iter().all(|up| *up < place), "{shape:?} {place}");
                    upstreams.sort_unstable();
                    upstreams.dedup();
                    assert_eq!(upstreams.len(), count, "{shape:?} {place}");
                }
            }
        }
    }

    #[test]
    fn a_shape_has_its_edges() {
        let edges = SHAPES.map(|shape| shape.edges(10));
        assert_eq!(edges, [9, 9, 9, 16, 35, 0]);
        assert_eq!(Shape::Random.edges(10_000), 49_985);
    }
}
