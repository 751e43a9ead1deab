//! What the shop and its workers agree on: the kinds of work, their types and their policies.

use ff_sdk::Kind;
use serde::{Deserialize, Serialize};

/// Charges a card. The bank is often busy, and sometimes hangs.
pub const CHARGE: Kind<Order, Receipt> =
    Kind::new("charge").retries(5).backoff("100ms", "10s").timeout("30s").deadline("1h");

/// Sends a receipt to whoever ordered.
pub const MAIL: Kind<Receipt, ()> = Kind::new("mail").retries(20).retention("7d");

/// What somebody wants.
#[derive(Debug, Serialize, Deserialize)]
pub struct Order {
    /// The shop's own number.
    pub number: u32,
    /// What is wanted.
    pub item: String,
    /// What it costs.
    pub cents: i64,
}

/// What became of an order.
#[derive(Debug, Serialize, Deserialize)]
pub struct Receipt {
    /// The order's number.
    pub number: u32,
    /// For the customer.
    pub text: String,
}
