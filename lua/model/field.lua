-- The fields of an execution's record: long names in the code, short ones in the store. A field
-- without a value is absent. A hash stays compact while no value exceeds 64 bytes, so long values
-- are cut into pieces or moved to keys of their own (model/blob.lua).

return {
  state = 'st',              -- waiting delayed running …, or the outcome (model/state.lua)
  lane = 'la',
  kind = 'ki',
  namespace = 'ns',
  created_at = 'ct',
  priority = 'pr',
  ageing_ms = 'ag',
  fair_rank = 'fq',          -- its score in the queue of a fair lane, until it is claimed
  creator = 'by',
  correlation_id = 'co',     -- the submitter's own name for what it belongs to
  capabilities = 'ca',       -- sorted, comma-joined
  marked = 'xm',             -- 1 if it has fields that most have not (model/record.lua)
  tagged = 'tg',             -- 1 if there is a tags record
  transition_at = 'mt',      -- last change of state that no other time tells
  mutation_at = 'lm',        -- last other write
  next_attempt = 'nx',       -- what the next claim starts: retry replay resume; absent: initial
  park_reason = 'kr',        -- why it must not be claimed (model/parking.lua)
  parked_at = 'kt',          -- since when
  parked_by = 'kb',          -- who said so
  park_note = 'kn',          -- and what for
  quota_id = 'qi',           -- the policy under whose limits it runs (model/gate.lua)
  quota_key = 'qk',          -- and its key there; absent: the empty one
  passes = 'ps',             -- 1 if a closed gate let it pass, until it is claimed
  delay_until = 'du',
  delay_reason = 'dr',       -- delay retry_backoff resume
  deadline_at = 'dl',
  deadline_given = 'dg',     -- what the submission gave, if the policy's comes first
  deadline_ms = 'dm',        -- from the policy: a replay gets as much time again
  attempt_timeout_ms = 'at', -- from the policy
  timeout_at = 'ta',         -- when the running attempt times out
  timeout_left_ms = 'tl',    -- what a paused attempt has left
  retry_rule = 'rr',         -- compiled retry policy (model/retry.lua)
  reclaims_max = 'mc',
  replays_max = 'mp',
  retention_ms = 're',
  remembered_until = 'iu',   -- when the idempotency key stops to count; it is kept until then
  budgets = 'bg',            -- how many budgets it has (model/gate.lua)
  budget_awaited = 'ba',     -- the one it waits for, or waited for last
  budgets_reached = 'br',    -- what budgets told the latest lease (model/reached.lua)
  debounce_until = 'db',     -- when a debounced execution runs at the latest
  awaits_turn = 'aw',        -- 1 while another one has its singleton key (model/throttle.lua)
  attempt_count = 'ac',
  attempt_id = 'ai',         -- absent: the id of the lease that began it
  attempt_type = 'ty',       -- absent: initial
  attempt_cause = 'ay',      -- why a reclaim or replay came about
  attempt_started_at = 'as',
  attempt_ended_at = 'ae',
  attempt_end = 'ax',        -- fail timeout lapse revoke: ended while the execution went on;
                             -- done final cancel: ended it, before a replay
  pause_kind = 'pk',         -- delay children suspend release: how the latest lease was given back
  previous_lease = 'pl',     -- the lease before the latest, and how it ended (model/lease.lua)
  requests = 'rq',           -- the latest changes from outside (model/request.lua)
  waitpoint_id = 'wp',       -- what it is suspended on, or what ended its latest wait
  suspend_reason = 'sw',     -- why it is suspended
  suspend_until = 'su',      -- when the wait ends by itself
  suspend_timeout_ms = 'sm', -- from the policy
  suspend_behavior = 'sb',   -- from the policy: what happens then
  waitpoint_count = 'wn',    -- how many it ever had
  pending_waitpoints = 'pw', -- how many are open although it is not suspended
  signal_count = 'sc',
  signals_max = 'sx',
  gone = 'go',               -- all that is left of an execution purged early (model/purge.lua)
  lease_id = 'li',
  lease_epoch = 'ep',
  lease_expires_at = 'le',
  renewed_at = 'lr',
  resumed_at = 'ra',         -- the lease continues a paused attempt
  worker_id = 'wo',
  worker_instance_id = 'wi',
  grant_id = 'gi',
  grant_kind = 'gk',         -- claim or reclaim
  grant_worker_id = 'gw',
  grant_instance_id = 'gn',
  grant_expires_at = 'gx',
  started_at = 'sa',         -- first attempt's begin; absent while that is the latest
  ended_at = 'et',
  retry_count = 'rc',
  reclaim_count = 'rl',
  replay_count = 'rp',
  failure_reason = 'fr',
  failure_category = 'fc',
  cancel_reason = 'cr',
  cancelled_by = 'cb',
  revoke_reason = 'vr',
  replay_reason = 'py',
  replay_requested_by = 'pb',
  progress_pct = 'pp',
  progress_message = 'pm',
  progress_at = 'pt',
  flow_id = 'fl',
  member_name = 'nm',        -- its name in the flow
  ordinal = 'on',            -- its number in the flow
  optional = 'op',           -- 1 if its failure is not the flow's
  held = 'hd',               -- 1 while the flow is not sealed
  dependencies = 'dp',       -- needed:edges:satisfied:impossible (model/edge.lua)
  rank = 'rk',               -- edges go from a lower one to a higher one; absent: 0
  edges_out = 'eo',          -- how many edges begin here
  edges_resolved = 'er',     -- how many of them were told of its end
  inputs = 'ic',             -- how many inputs upstreams passed to it
  parent = 'pa',             -- whose child it is (model/children.lua)
  content = 'cd',            -- digest of what a child was asked for
  children = 'ch',           -- how many children it has
  open_children = 'oc',      -- how many of them are not over
  waits_again = 'wg',        -- 1 if it began, and a replay lets it wait for its upstreams again
  cancel_rest = 'cx',        -- 1 if upstreams that nobody needs are cancelled when it is freed
  rest_from = 'rf',          -- from which of its edges on that is still to be done
  kept = 'kp',               -- 1 if it makes up for a failure, which ends the others
  stream_rule = 'sr',        -- compiled stream policy (model/stream.lua)
  frames = 'fm',             -- what the latest attempt's stream holds (model/stream.lua)
  kept_from = 'kf',          -- the first earlier attempt whose stream may be there
  payload = 'in', payload2 = 'in2', payload3 = 'in3', payload4 = 'in4', -- model/blob.lua
  result = 'out', result2 = 'out2', result3 = 'out3', result4 = 'out4',
  detail = 'de', detail2 = 'de2', detail3 = 'de3', detail4 = 'de4',
  policy = 'po', policy2 = 'po2', policy3 = 'po3', policy4 = 'po4',
  throttle = 'th', throttle2 = 'th2', throttle3 = 'th3', throttle4 = 'th4',
  idempotency = 'id', idempotency2 = 'id2', idempotency3 = 'id3', idempotency4 = 'id4',
}
