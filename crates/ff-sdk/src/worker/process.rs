//! What tells a process from all others, and whether one of this machine is gone: a worker that is
//! started again need not wait until the registration of the process before it has run out.
//!
//! A process is named by the machine's boot, its namespace of process numbers, its number and when
//! it began, as Linux tells them; elsewhere nobody is named, and nobody is known to be gone.

use std::fs::{read_link, read_to_string};

/// This process; none where that cannot be told.
pub(super) fn own() -> Option<String> {
    let pid = std::process::id();
    Some(format!("{}:{pid}:{}", namespace()?, started(pid)?))
}

/// Is the process that this names certainly not there any more? Only one of the same machine, since
/// it was booted, and of the same namespace can be looked for.
pub(super) fn is_gone(named: &str) -> bool {
    let Some((rest, began)) = named.rsplit_once(':') else { return false };
    let Some((space, pid)) = rest.rsplit_once(':') else { return false };
    let Ok(pid) = pid.parse::<u32>() else { return false };
    // Where processes of others are hidden, what is not seen may be there: the first always is.
    let here = namespace().is_some_and(|own| own == space) && started(1).is_some();
    here && started(pid).is_none_or(|at| at != began)
}

/// The boot of this machine, and the namespace in which processes have their numbers.
fn namespace() -> Option<String> {
    let boot = read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let space = read_link("/proc/self/ns/pid").ok()?;
    let digits: String = space.to_str()?.chars().filter(char::is_ascii_digit).collect();
    Some(format!("{}:{digits}", boot.trim()))
}

/// When a process began, in ticks since the boot; none if there is no such process.
fn started(pid: u32) -> Option<String> {
    let line = read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name in brackets, which may contain anything.
    let (_, fields) = line.rsplit_once(") ")?;
    fields.split(' ').nth(19).map(str::to_owned)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_there() {
        let own = own().expect("Linux tells");
        assert_eq!(own.split(':').count(), 4, "{own}");
        assert!(own.len() <= ff_core::limits::PROCESS_BYTES_MAX as usize);
        assert!(!is_gone(&own));
    }

    #[test]
    fn a_process_that_ended_is_gone_although_its_number_may_be_used_again() {
        let mut child = std::process::Command::new("true").spawn().expect("there is a true");
        let named = format!("{}:{}:1", namespace().expect("Linux tells"), child.id());
        child.wait().expect("it ends");
        assert!(is_gone(&named));
        let (rest, began) = own().expect("Linux tells").rsplit_once(':').map(owned).expect("parts");
        assert!(is_gone(&format!("{rest}:{began}0")), "another process had this number");
    }

    fn owned((one, other): (&str, &str)) -> (String, String) {
        (one.to_owned(), other.to_owned())
    }

    #[test]
    fn nobody_of_another_machine_and_nothing_else_is_known_to_be_gone() {
        for named in ["", "a", "a:b", "boot:1:2:3", "boot:1:x:3"] {
            assert!(!is_gone(named), "{named}");
        }
    }
}
