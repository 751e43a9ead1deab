//! What happens in a flow, as server-sent events.

use ff_core::contracts::{FlowActivity, FlowEvent, FlowSnapshot};
use ff_core::types::EventCursor;

use crate::events::{EventError, Told, json, malformed, parse};

impl Told for FlowActivity {
    fn position(&self) -> String {
        self.cursor().to_string()
    }

    fn is_last(&self) -> bool {
        matches!(self, Self::End { .. })
    }

    fn tell(&self) -> (&'static str, String) {
        match self {
            Self::Event(event) => ("event", json(event)),
            Self::Gap { flow, .. } => ("gap", json(flow)),
            Self::End { flow, .. } => ("end", json(flow)),
            // An event of a later version, which a client of this one does not know.
            _ => ("unknown", "{}".to_owned()),
        }
    }

    fn read(position: &str, event: &str, data: &str) -> Result<Option<Self>, EventError> {
        let cursor = || EventCursor::parse(position).map_err(|error| malformed(event, error));
        let flow = || parse::<FlowSnapshot>(event, data).map(Box::new);
        Ok(Some(match event {
            "event" => Self::Event(parse::<FlowEvent>(event, data)?),
            "gap" => Self::Gap { cursor: cursor()?, flow: flow()? },
            "end" => Self::End { cursor: cursor()?, flow: flow()? },
            _ => return Ok(None),
        }))
    }
}

#[cfg(test)]
mod tests {
    use ff_core::contracts::FlowState;
    use ff_core::types::{ExecutionKind, FlowId, Namespace, TimestampMs};

    use super::*;
    use crate::events::{Decoder, encode};

    fn told() -> Vec<FlowActivity> {
        let cursor = |text: &str| EventCursor::parse(text).expect("a cursor");
        let flow_id: FlowId = "00000000-0000-4000-8000-000000000007".parse().expect("an id");
        let (kind, at) = (ExecutionKind::new("media"), TimestampMs(1_800_000_000_000));
        let flow =
            FlowSnapshot::new(flow_id, kind, Namespace::default(), FlowState::Running, at, at);
        let event = FlowEvent {
            cursor: cursor("1-0"),
            kind: "ended".to_owned(),
            execution_id: None,
            name: Some("split".to_owned()),
            attempt_index: None,
            worker_instance_id: None,
            at,
            reason: Some("completed:completed:default".to_owned()),
        };
        vec![
            FlowActivity::Event(event),
            FlowActivity::Gap { cursor: cursor("7-0"), flow: Box::new(flow.clone()) },
            FlowActivity::End { cursor: cursor("8-1"), flow: Box::new(flow) },
        ]
    }

    #[test]
    fn what_happens_in_a_flow_survives_the_wire() {
        let sent: String = told().iter().map(encode).collect();
        let mut decoder = Decoder::default();
        decoder.push(sent.as_bytes());
        let mut read = Vec::new();
        while let Some(one) = decoder.next_told::<FlowActivity>().expect("an event") {
            read.push(one);
        }
        assert_eq!(read, told());
        assert_eq!(read.iter().map(Told::is_last).collect::<Vec<_>>(), [false, false, true]);
    }

    #[test]
    fn what_is_not_known_is_left_out() {
        let mut decoder = Decoder::default();
        decoder.push(b"id: 1-0\nevent: later\ndata: {}\n\n");
        assert_eq!(decoder.next_told::<FlowActivity>(), Ok(None));
    }
}
