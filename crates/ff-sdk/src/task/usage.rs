//! What a task uses of budgets.

use ff_core::contracts::{ReportUsageResult, UsageDimensions};
use ff_core::error::{Code, EngineError};
use ff_core::types::BudgetId;
use ff_core::value::Value;

use super::{ClaimedTask, TaskCore, renewal};
use crate::error::{Context as _, SdkError};

impl TaskCore {
    async fn report(
        &self,
        budget_id: BudgetId,
        usage: UsageDimensions,
    ) -> Result<ReportUsageResult, SdkError> {
        self.check_held()?;
        let reported = self.engine().report_usage(self.handle(), budget_id, usage);
        let told = reported.await.context("report_usage")?;
        if !matches!(told, ReportUsageResult::AlreadyApplied) {
            let is_reached = matches!(told, ReportUsageResult::HardBreach { .. });
            self.lease.tell_standing(budget_id, is_reached);
        }
        Ok(told)
    }

    async fn reserve(&self, budget_id: BudgetId, usage: UsageDimensions) -> Result<(), SdkError> {
        self.check_held()?;
        let reserved = self.engine().reserve_usage(self.handle(), budget_id, usage);
        reserved.await.context("reserve_usage")
    }
}

impl ClaimedTask {
    /// The budgets that apply to the execution.
    pub fn budget_ids(&self) -> &[BudgetId] {
        &self.core.claimed.budget_ids
    }

    /// The budgets whose hard limit is reached, as far as reports and renewals of the lease told:
    /// finish up and stop.
    pub fn budgets_reached(&self) -> Vec<BudgetId> {
        self.core.lease.budgets_reached()
    }

    /// Counts what was used of a budget, whatever its limits say, and tells how it stands. The same
    /// key again, for the same execution and budget, counts once.
    pub async fn report_usage(
        &self,
        budget_id: &BudgetId,
        dimensions: &[(&str, u64)],
        dedup_key: Option<&str>,
    ) -> Result<ReportUsageResult, SdkError> {
        self.core.report(*budget_id, usage(dimensions, dedup_key)).await
    }

    /// Makes sure that so much of a budget may be used, or is refused with
    /// [`Code::BudgetExceeded`] and changes nothing. What is not used goes back at the end of the
    /// lease.
    pub async fn reserve_usage(
        &self,
        budget_id: &BudgetId,
        dimensions: &[(&str, u64)],
        dedup_key: Option<&str>,
    ) -> Result<(), SdkError> {
        self.core.reserve(*budget_id, usage(dimensions, dedup_key)).await
    }
}

fn usage(dimensions: &[(&str, u64)], dedup_key: Option<&str>) -> UsageDimensions {
    let usage: UsageDimensions = dimensions.iter().copied().collect();
    usage.dedup_key(dedup_key.unwrap_or_default())
}

/// What a handler uses of all budgets of its execution.
pub struct Usage<'a> {
    core: &'a TaskCore,
}

impl<'a> Usage<'a> {
    pub(crate) const fn new(core: &'a TaskCore) -> Self {
        Self { core }
    }

    /// The budgets that apply to the execution.
    pub fn budget_ids(&self) -> &'a [BudgetId] {
        &self.core.claimed.budget_ids
    }

    /// The budgets whose hard limit is reached, whoever reached it, as far as reports and renewals
    /// of the lease told. A handler that uses nothing itself hears of it within a third of its
    /// lease.
    pub fn reached(&self) -> Vec<BudgetId> {
        self.core.lease.budgets_reached()
    }

    /// Returns when the hard limit of one of the budgets is reached; never, if none is.
    pub async fn until_reached(&self) -> BudgetId {
        self.core.lease.budget_reached().await
    }

    /// Counts what was used, in every budget of the execution; gives the worst answer of them. A
    /// hard limit means: finish up and stop. Where the budget asks people what to do, the attempt
    /// is suspended by then, and that is the error: the handler ends, and is called again when
    /// they have decided.
    pub async fn report(&self, used: UsageDimensions) -> Result<ReportUsageResult, SdkError> {
        let mut worst = ReportUsageResult::Ok;
        for budget_id in self.budget_ids() {
            let told = self.core.report(*budget_id, used.clone()).await?;
            if weight(&told) > weight(&worst) {
                worst = told;
            }
        }
        if matches!(worst, ReportUsageResult::HardBreach { .. }) {
            self.check_suspended().await?;
        }
        Ok(worst)
    }

    /// An error if the lease is gone, which a renewal tells at once.
    async fn check_suspended(&self) -> Result<(), SdkError> {
        match renewal::renew(self.core, self.core.engine()).await {
            Err(error) if self.core.lease.loss().is_some() => Err(error).context("report_usage"),
            _ => Ok(()),
        }
    }

    /// Makes sure that so much may be used of every budget of the execution. The first that has no
    /// room refuses it; what others have promised by then goes back at the end of the lease.
    pub async fn reserve(&self, wanted: UsageDimensions) -> Result<(), SdkError> {
        for budget_id in self.budget_ids() {
            self.core.reserve(*budget_id, wanted.clone()).await?;
        }
        Ok(())
    }
}

const fn weight(result: &ReportUsageResult) -> u8 {
    match result {
        ReportUsageResult::HardBreach { .. } => 3,
        ReportUsageResult::SoftBreach { .. } => 2,
        ReportUsageResult::AlreadyApplied => 1,
        _ => 0,
    }
}

/// Reads what `ff_report_usage_and_check` answered, for those who call it themselves. A number that
/// is missing, negative or none is an error: nothing is made up.
pub fn parse_report_usage_result(raw: &Value) -> Result<ReportUsageResult, SdkError> {
    let Value::Array(parts) = raw else { return Err(unreadable("reply", "no list")) };
    let status = parts.first().and_then(number);
    let word = parts.get(1).and_then(Value::as_text);
    match (status, word) {
        (Some(1), Some(word)) => outcome(word, parts),
        (Some(0), Some(code)) => Err(refused(code, parts)),
        _ => Err(unreadable("reply", "neither done nor refused")),
    }
}

fn outcome(word: &str, parts: &[Value]) -> Result<ReportUsageResult, SdkError> {
    let dimension = || {
        let text = parts.get(2).and_then(Value::as_text).map(str::to_owned);
        text.ok_or_else(|| unreadable(word, "dimension at position 2 is no text"))
    };
    let amount = |at: usize, name: &str| {
        let wrong = || unreadable(word, &format!("{name} at position {at} is no number"));
        parts.get(at).and_then(number).ok_or_else(wrong)
    };
    Ok(match word {
        "OK" => ReportUsageResult::Ok,
        "ALREADY_APPLIED" => ReportUsageResult::AlreadyApplied,
        "SOFT_BREACH" => ReportUsageResult::SoftBreach {
            dimension: dimension()?,
            current_usage: amount(3, "current usage")?,
            soft_limit: amount(4, "soft limit")?,
        },
        "HARD_BREACH" => ReportUsageResult::HardBreach {
            dimension: dimension()?,
            current_usage: amount(3, "current usage")?,
            hard_limit: amount(4, "hard limit")?,
        },
        other => return Err(unreadable(other, "no outcome of a report")),
    })
}

/// A number of at least zero, as an integer or in digits.
fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Int(number) => u64::try_from(*number).ok(),
        _ => value.as_text()?.parse().ok(),
    }
}

fn refused(code: &str, parts: &[Value]) -> SdkError {
    let details = parts.iter().skip(2);
    let details = details.map(|part| part.as_text().unwrap_or_default().to_owned()).collect();
    match Code::parse(code) {
        Ok(code) => EngineError::Refused { code, details }.into(),
        Err(_) => unreadable(code, "no code of ours"),
    }
}

fn unreadable(what: &str, why: &str) -> SdkError {
    EngineError::corrupt("reply of ff_report_usage_and_check", what, why).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Value {
        Value::Bytes(text.as_bytes().to_vec())
    }

    fn read(parts: &[Value]) -> Result<ReportUsageResult, String> {
        let raw = Value::Array(parts.to_vec());
        parse_report_usage_result(&raw).map_err(|error| error.to_string())
    }

    #[test]
    fn every_outcome_is_read() {
        let one = Value::Int(1);
        assert_eq!(read(&[one.clone(), bytes("OK")]), Ok(ReportUsageResult::Ok));
        let applied = read(&[one.clone(), bytes("ALREADY_APPLIED")]);
        assert_eq!(applied, Ok(ReportUsageResult::AlreadyApplied));
        let soft = [one.clone(), bytes("SOFT_BREACH"), bytes("tokens"), bytes("7"), Value::Int(5)];
        let dimension = "tokens".to_owned();
        let (current_usage, soft_limit) = (7, 5);
        assert_eq!(
            read(&soft),
            Ok(ReportUsageResult::SoftBreach { dimension, current_usage, soft_limit })
        );
        let hard = [one, bytes("HARD_BREACH"), bytes("tokens"), Value::Int(9), bytes("8")];
        let dimension = "tokens".to_owned();
        let (current_usage, hard_limit) = (9, 8);
        assert_eq!(
            read(&hard),
            Ok(ReportUsageResult::HardBreach { dimension, current_usage, hard_limit })
        );
    }

    #[test]
    fn what_is_missing_or_wrong_is_named_and_never_made_up() {
        let one = Value::Int(1);
        let hard = bytes("HARD_BREACH");
        for (parts, says) in [
            (vec![one.clone(), hard.clone(), bytes("t"), Value::Int(-1), bytes("8")], "position 3"),
            (vec![one.clone(), hard.clone(), bytes("t"), bytes("1.5"), bytes("8")], "position 3"),
            (vec![one.clone(), hard.clone(), bytes("t"), bytes("1")], "hard limit at position 4"),
            (vec![one.clone(), hard], "dimension at position 2"),
            (vec![one.clone(), bytes("MAYBE")], "MAYBE"),
            (vec![Value::Int(0), bytes("budget_not_found")], "The budget does not exist"),
            (vec![Value::Int(0), bytes("no_such_code")], "no_such_code"),
            (vec![Value::Nil], "neither done nor refused"),
        ] {
            let error = read(&parts).expect_err(says);
            assert!(error.contains(says), "{error}");
        }
        assert!(parse_report_usage_result(&Value::Nil).is_err());
    }
}
