//! The random model test: seeded sequences of calls with everything that goes wrong between a
//! worker and a store — repeated, late and stale calls, lost answers, workers that come back from
//! the dead, clocks that jump — and rules that hold after every single call.
//!
//! * [`Plan`] is a sequence: what is tried, in which order. It follows from a seed.
//! * [`Store`] is what it is tried on: an embedded store with any library, in memory or on a disk,
//!   where it crashes now and then, or a shared server.
//! * [`play`] plays a plan on a store and checks the rules after every call; given further stores,
//!   it plays the same on each and compares answers and contents.
//! * [`shrink`] drops steps of a plan that fails while it still fails.

mod dice;
mod plan;

mod sent;
mod view;
mod world;

mod admission;
mod budgets;
mod choose;
mod create;
mod debts;
mod eligible;
mod flows;
mod graph;
mod output;
mod quotas;
mod wait;
mod workers;

mod rules;

mod disk;
mod play;
mod settle;
mod shrink;
mod store;
mod tally;
mod trace;

pub use dice::Dice;
pub use disk::OnDisk;
pub use plan::{Op, Plan, Step, Theme};
pub use play::{Failure, Played, play};
pub use shrink::shrink;
pub use store::Store;
pub use tally::{Tally, play_all};
