//! What upstreams pass, read with a budget of bytes.

use ff_conformance::{Deployment, Flow, conformance};
use ff_core::error::Code;
use ff_core::limits;
use ff_script::calls::inputs::{ReadInputs, ReadInputsReply};

/// The names of a page and their sizes, as `a 3, b gone`, and where to go on.
async fn page(d: &Deployment, flow: &Flow, from: u64, bytes_max: u64) -> (String, Option<u64>) {
    let call = ReadInputs { execution_id: flow.id("join"), from, bytes_max };
    let ReadInputsReply::Inputs { inputs, next_from, .. } = d.call(call).await;
    let line = |input: ff_core::contracts::PassedInput| match input.bytes_base64 {
        Some(bytes) => format!("{} {}", input.name, bytes.0.len()),
        None => format!("{} gone", input.name),
    };
    (inputs.0.into_iter().map(line).collect::<Vec<_>>().join(", "), next_from)
}

conformance! {
    async fn inputs_are_read_within_a_budget_of_bytes(d: &Deployment) {
        let flow = d.flow("a => join, b => join, c => join").await;
        for (name, size) in [("a", 300), ("b", 1000), ("c", 200)] {
            let held = d.take(&flow, name).await;
            d.call(held.complete(&vec![b'x'; size])).await;
        }
        let right = "a 300, b 1000, c 200".to_owned();
        assert_eq!(page(d, &flow, 0, 10_000).await, (right, None));
        assert_eq!(page(d, &flow, 0, 1299).await, ("a 300".to_owned(), Some(1)));
        assert_eq!(page(d, &flow, 1, 1).await, ("b 1000".to_owned(), Some(2)));
        assert_eq!(page(d, &flow, 2, 200).await, ("c 200".to_owned(), None));
        assert_eq!(page(d, &flow, 3, 200).await, (String::new(), None));
        let nobody = ReadInputs { execution_id: d.new_id(), from: 0, bytes_max: 1 };
        assert_eq!(d.refused(nobody).await, Code::ExecutionNotFound);
    }

    async fn as_many_as_a_claim_names_come_in_one_read(d: &Deployment) {
        d.host().watch(false);
        let count = limits::CLAIM_INPUTS_MAX + 1;
        let edges: Vec<String> = (0..count).map(|number| format!("n{number} => join")).collect();
        let flow = d.flow(&edges.join(", ")).await;
        for number in 0..count {
            d.complete(&flow, &format!("n{number}")).await;
        }
        let call = ReadInputs { execution_id: flow.id("join"), from: 0, bytes_max: 1000 };
        let ReadInputsReply::Inputs { input_count, inputs, next_from } = d.call(call).await;
        assert_eq!((input_count, inputs.0.len() as u64), (count, limits::CLAIM_INPUTS_MAX));
        let (last, next) = page(d, &flow, next_from.expect("there is more"), 1000).await;
        assert_eq!((last.is_empty(), next), (false, None));
        d.audit().await;
    }

    async fn who_is_passed_nothing_has_no_inputs(d: &Deployment) {
        let flow = d.flow("a -> join").await;
        d.complete(&flow, "a").await;
        assert_eq!(page(d, &flow, 0, 1000).await, (String::new(), None));
    }
}
