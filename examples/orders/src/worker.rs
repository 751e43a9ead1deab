//! The handlers. Their errors are those of `anyhow`; what a retry cannot mend they say themselves.

use anyhow::bail;
use ff_sdk::{Connection, Context, SdkError, TaskError, Worker};

use crate::kinds::{CHARGE, MAIL, Order, Receipt};

/// A worker with both handlers, four at a time.
pub fn worker(connection: &Connection) -> Result<Worker, SdkError> {
    Worker::builder("orders")
        .connection(connection)
        .concurrency(4)
        .handle(&CHARGE, charge)
        .handle(&MAIL, mail)
        .build()
}

async fn charge(context: Context, order: Order) -> anyhow::Result<Receipt> {
    if order.cents < 0 {
        let wrong = format!("{} costs {} cents", order.item, order.cents);
        context.fail(TaskError::fail(wrong).with_category("bad_order")).await;
    }
    if context.attempt() == 1 {
        bail!("the bank is busy");
    }
    let text = format!("{}, {} cents, attempt {}", order.item, order.cents, context.attempt());
    let receipt = Receipt { number: order.number, text };
    // Another attempt may come here again: the key makes it the same mail.
    let key = format!("receipt-of-{}", context.execution_id().uuid());
    context.submit(&MAIL, &receipt).idempotency_key(key).await?;
    Ok(receipt)
}

async fn mail(_: Context, receipt: Receipt) -> anyhow::Result<()> {
    eprintln!("mail: order {} is paid", receipt.number);
    Ok(())
}
