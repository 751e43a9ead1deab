//! The keys that waitpoint tokens are signed with. A token is checked in the partition that made
//! it, so each partition has its keys by itself. All are given one when a program opens the store,
//! and one that was missed when it first needs one.

use std::sync::Arc;

use ff_core::contracts::{
    RotateWaitpointSecretRequest, RotateWaitpointSecretResponse, WAITPOINT_GRACE_MS_DEFAULT,
};
use ff_core::error::{Code, EngineError};
use ff_core::limits;
use ff_core::partition::{Partition, PartitionConfig};
use ff_core::types::ExecutionId;

use super::ScriptBackend;
use super::everywhere::{Failed, failures, in_each};
use crate::call::Call;
use crate::calls::secret::{
    RotateWaitpointHmacSecret, RotateWaitpointHmacSecretReply as Reply, SecretHex,
};
use crate::host::Host;
use crate::ids::{IdSource, SystemIds};

/// The id of a partition's first key.
const FIRST_KID: &str = "k1";

/// How keys of waitpoint tokens are made and replaced.
#[derive(Clone, Debug)]
pub struct WaitpointSecrets {
    /// The first key of partitions that have none.
    pub first: FirstSecret,
    /// How long a replaced key is accepted unless a rotation says otherwise.
    pub grace_ms: u64,
}

impl Default for WaitpointSecrets {
    fn default() -> Self {
        Self { first: FirstSecret::random(), grace_ms: WAITPOINT_GRACE_MS_DEFAULT }
    }
}

/// The first key of partitions that have none. Never shown.
#[derive(Clone, Debug)]
pub struct FirstSecret(pub(super) SecretHex);

impl FirstSecret {
    /// This secret, in hex digits. Answers what is wrong with it, without showing it.
    pub fn parse(hex: &str) -> Result<Self, String> {
        let (min, max) = (limits::SECRET_BYTES_MIN, limits::SECRET_BYTES_MAX);
        let fits = (2 * min..=2 * max).contains(&(hex.len() as u64)) && hex.len().is_multiple_of(2);
        if fits && hex.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Ok(Self(SecretHex(hex.to_owned())));
        }
        Err(format!("must be {min} to {max} bytes in hex digits, two for each"))
    }

    /// A secret that nobody can guess.
    pub fn random() -> Self {
        let half = || SystemIds.random().simple().to_string();
        // Six bits of each part are fixed; what is left is more than the digest has.
        Self(SecretHex(half() + &half() + &half()))
    }
}

impl<H: Host + ?Sized> ScriptBackend<H> {
    /// Makes and replaces keys of waitpoint tokens in this way.
    #[must_use]
    pub fn with_waitpoint_secrets(mut self, secrets: WaitpointSecrets) -> Self {
        self.secrets = secrets;
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
                self.call(id.partition(), self.first_key()).await?;
                self.call_on(id, call).await
            }
            answer => answer,
        }
    }

    /// Gives those of these partitions that have no key their first one. It can be repeated:
    /// where there is a key it has no effect.
    pub async fn install_first_secret(
        &self,
        partitions: impl IntoIterator<Item = Partition>,
    ) -> Installed {
        let mut installed = Installed::default();
        let calls = partitions.into_iter().map(|partition| (partition, self.first_key()));
        in_each(&self.host, calls, |partition, answer| match answer {
            Ok(Reply::Rotated { .. }) => installed.new += 1,
            Ok(Reply::RotatedBefore { .. }) => {}
            Err(error) => installed.failed.push((partition, error)),
        })
        .await;
        installed
    }

    /// Has no effect where there is a key.
    fn first_key(&self) -> RotateWaitpointHmacSecret {
        let FirstSecret(new_secret_hex) = self.secrets.first.clone();
        let new_kid = FIRST_KID.to_owned();
        RotateWaitpointHmacSecret { new_kid, new_secret_hex, grace_ms: 0, only_first: true }
    }
}

/// What became of first keys.
#[derive(Debug, Default)]
pub struct Installed {
    /// In how many partitions there was none.
    pub new: u32,
    /// Where it could not be seen to, and why.
    pub failed: Vec<(Partition, EngineError)>,
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
    let (mut rotated, mut failed) = (0, Vec::new());
    let calls = config.flow_partitions().map(|partition| (partition, rotate.clone()));
    in_each(&host, calls, |partition, answer| match answer {
        Ok(_) => rotated += 1,
        Err(error) => failed.push((partition, error)),
    })
    .await;
    failed.sort_unstable_by_key(|(partition, _)| partition.index);
    tell(&request.new_kid, rotated, &failed);
    let response = RotateWaitpointSecretResponse {
        rotated,
        failed: failed.iter().map(|(partition, _)| partition.index).collect(),
        errors: failures(&failed),
        new_kid: request.new_kid,
    };
    match failed.into_iter().next() {
        Some((_, error)) if rotated == 0 => Err(error),
        _ => Ok(response),
    }
}

/// One line for each partition that was missed, and one for all.
fn tell(new_kid: &str, rotated: u16, failed: &[Failed]) {
    // A key id that the library refused may be anything, a secret in the wrong place too.
    let kid = if rotated > 0 { new_kid } else { "" };
    for (partition, error) in failed {
        let partition = partition.index;
        tracing::warn!(partition, %error, "the waitpoint secret was not rotated here");
    }
    match failed.len() {
        0 => tracing::info!(kid, rotated, "the waitpoint secret was rotated"),
        failed => tracing::warn!(
            kid,
            rotated,
            failed,
            "the waitpoint secret was not rotated everywhere: repeat the same rotation"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_secret_is_16_to_128_bytes_in_hex_digits() {
        for right in ["cafe".repeat(8), "CAFE".repeat(64)] {
            assert!(FirstSecret::parse(&right).is_ok(), "{right}");
        }
        let long = "ca".repeat(129);
        for wrong in ["", "cafe", "cafe0".repeat(7).as_str(), "caf\n".repeat(8).as_str(), &long] {
            let said = FirstSecret::parse(wrong).expect_err(wrong);
            assert!(!said.contains("caf"), "{said}");
        }
    }

    #[test]
    fn a_first_secret_is_not_shown() {
        let secrets = WaitpointSecrets {
            first: FirstSecret::parse(&"cafe".repeat(8)).expect("a secret"),
            ..WaitpointSecrets::default()
        };
        assert!(!format!("{secrets:?}").contains("cafe"));
    }
}
