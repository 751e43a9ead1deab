//! The keys that waitpoint tokens are signed with. A token is checked in the partition that made
//! it, so each partition can be given its keys by itself: a new one is when it first needs one.

use std::sync::Arc;

use ff_core::contracts::{RotateWaitpointSecretRequest, RotateWaitpointSecretResponse};
use ff_core::error::{Code, EngineError};
use ff_core::partition::{Partition, PartitionConfig};
use ff_core::types::ExecutionId;
use tokio::task::JoinSet;

use super::{ScriptBackend, call};
use crate::call::Call;
use crate::calls::secret::{RotateWaitpointHmacSecret, SecretHex};
use crate::host::Host;
use crate::ids::{IdSource, SystemIds};

/// Partitions that are called at the same time.
const AT_ONCE_MAX: usize = 16;

/// The id of a partition's first key.
const FIRST_KID: &str = "k1";

/// The first key of partitions that have none: one that was given, or, if none was, a random one
/// for each.
#[derive(Clone, Debug)]
pub struct FirstSecret(pub(super) SecretHex);

impl FirstSecret {
    /// This secret, in hex digits.
    pub fn new(hex: impl Into<String>) -> Self {
        Self(SecretHex(hex.into()))
    }

    /// A secret that nobody can guess.
    pub(super) fn random() -> Self {
        let half = || SystemIds.random().simple().to_string();
        // Six bits of each half are fixed; what is left is more than the digest has.
        Self::new(half() + &half() + &half())
    }
}

impl<H: Host + ?Sized> ScriptBackend<H> {
    /// Uses this secret where a partition has none yet.
    #[must_use]
    pub fn with_first_secret(mut self, secret: FirstSecret) -> Self
    where
        H: Sized,
    {
        self.first_secret = Some(secret);
        self
    }

    /// A call on one execution that makes tokens. A partition that has no key yet is given one.
    pub(super) async fn call_signed<C: Call + Clone>(
        &self,
        id: ExecutionId,
        call: C,
    ) -> Result<C::Reply, EngineError> {
        match self.call_on(id, call.clone()).await {
            Err(error) if error.code() == Some(Code::HmacSecretNotInitialized) => {
                self.install_first_secret(id.partition()).await?;
                self.call_on(id, call).await
            }
            answer => answer,
        }
    }

    /// Has no effect where there is a key.
    async fn install_first_secret(&self, partition: Partition) -> Result<(), EngineError> {
        let FirstSecret(new_secret_hex) =
            self.first_secret.clone().unwrap_or_else(FirstSecret::random);
        let install = RotateWaitpointHmacSecret {
            new_kid: FIRST_KID.to_owned(),
            new_secret_hex,
            grace_ms: 0,
            only_first: true,
        };
        self.call(partition, install).await.map(drop)
    }
}

/// Makes a key the one that signs tokens in all partitions. Where it was done before it has no
/// effect, so a repetition carries on where something failed. Refused everywhere, it is refused.
pub async fn rotate_waitpoint_hmac_secret_all_partitions<H: Host + ?Sized>(
    host: Arc<H>,
    config: &PartitionConfig,
    request: RotateWaitpointSecretRequest,
    grace_ms: u64,
) -> Result<RotateWaitpointSecretResponse, EngineError> {
    let rotate = RotateWaitpointHmacSecret {
        new_kid: request.new_kid.clone(),
        new_secret_hex: SecretHex(request.new_secret_hex),
        grace_ms,
        only_first: false,
    };
    let mut response =
        RotateWaitpointSecretResponse { new_kid: request.new_kid, ..Default::default() };
    let (mut partitions, mut rotating) = (config.flow_partitions(), JoinSet::new());
    let mut refused = None;
    loop {
        for partition in partitions.by_ref().take(AT_ONCE_MAX - rotating.len()) {
            rotating.spawn(rotate_one(Arc::clone(&host), partition, rotate.clone()));
        }
        let Some(answer) = rotating.join_next().await else { break };
        match answer.map_err(|_| EngineError::Unavailable { op: "rotate_waitpoint_secret" })? {
            (_, Ok(())) => response.rotated += 1,
            (partition, Err(error)) => {
                response.failed.push(partition.index);
                refused.get_or_insert(error);
            }
        }
    }
    response.failed.sort_unstable();
    match refused {
        Some(error) if response.rotated == 0 => Err(error),
        _ => Ok(response),
    }
}

async fn rotate_one<H: Host + ?Sized>(
    host: Arc<H>,
    partition: Partition,
    rotate: RotateWaitpointHmacSecret,
) -> (Partition, Result<(), EngineError>) {
    (partition, call(host.as_ref(), partition, rotate).await.map(drop))
}
