//! Budgets whose hard limits were reached, by dimension.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::text::Text;

/// Dimensions with a series of their own; the others share one.
const DIMENSIONS_MAX: usize = 100;

/// How often a hard limit was told to a worker, by dimension.
#[derive(Default)]
pub(super) struct Budgets(Mutex<BTreeMap<String, u64>>);

impl Budgets {
    /// A report was answered with a hard limit.
    pub(super) fn hit(&self, dimension: &str) {
        let mut hits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let full = hits.len() >= DIMENSIONS_MAX && !hits.contains_key(dimension);
        let name = if full { "other" } else { dimension };
        *hits.entry(name.to_owned()).or_default() += 1;
    }

    pub(super) fn render(&self, text: &mut Text) {
        let about = "Reports that were answered with a budget's hard limit, by dimension.";
        text.family("ff_budget_hit_total", "counter", about);
        for (dimension, hits) in &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            text.sample("ff_budget_hit_total", &[("dimension", dimension)], hits);
        }
    }
}
