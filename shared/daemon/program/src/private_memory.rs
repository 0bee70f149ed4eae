//! Keeps the memory of a process with a secret key to itself.

use crate::exit::{Exit, Failure};

/// Has the system write no core dump of this process, and let no other one of the same user read its memory, by ptrace
/// or `/proc`. A process that it starts begins without this.
///
/// # Errors
/// [`Failure`]: the system refuses, so that the key is not safe here.
pub fn keep() -> Result<(), Failure> {
    system::keep()
        .map_err(|error| Failure::because(Exit::Internal, "cannot keep other processes off the memory", error))
}

#[cfg(target_os = "linux")]
mod system {
    use rustix::process::{DumpableBehavior, set_dumpable_behavior};

    pub(super) fn keep() -> std::io::Result<()> {
        Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
    }
}

/// Elsewhere core dumps can be switched off; on macOS only root can read the memory of a program without a debugger's
/// entitlement.
#[cfg(all(unix, not(target_os = "linux")))]
mod system {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    pub(super) fn keep() -> std::io::Result<()> {
        let Rlimit { maximum, .. } = getrlimit(Resource::Core);
        Ok(setrlimit(Resource::Core, Rlimit { current: Some(0), maximum })?)
    }
}

/// Windows has no such switch: users that may debug this user's processes can read them.
#[cfg(not(unix))]
mod system {
    pub(super) fn keep() -> std::io::Result<()> {
        Ok(())
    }
}
