//! The scenarios, one file each: a function that takes its options and answers a report.

pub(crate) mod lifecycle;
