//! A host as Linux shows it, in `/proc` and the control groups; other Unix systems, as far as they show the same.

use std::fs;
use std::path::{Path, PathBuf};

/// The root of the control groups' file system.
const CGROUP_ROOT: &str = "/sys/fs/cgroup";

/// The memory that the kernel calls available, or the room in the tightest control group above this process, if that is
/// less. Where the kernel does not say, half of the physical memory.
pub fn available_bytes() -> u64 {
    let host = fs::read_to_string("/proc/meminfo").ok().and_then(|text| meminfo_bytes(&text, "MemAvailable:"));
    let host = host.unwrap_or_else(half_of_physical_bytes);
    cgroup_left_bytes().map_or(host, |left| left.min(host))
}

/// The machine's memory, or the tightest limit of a control group above this process, if that is less.
pub fn total_bytes() -> u64 {
    let host = fs::read_to_string("/proc/meminfo").ok().and_then(|text| meminfo_bytes(&text, "MemTotal:"));
    let host = host.unwrap_or_else(|| half_of_physical_bytes().saturating_mul(2));
    own_groups(group_limit_bytes).map_or(host, |limit| limit.min(host))
}

/// Free bytes at the end of one of glibc's arenas from which on they go back to the kernel: glibc's own default.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const TRIM_THRESHOLD_BYTES: i32 = 128 << 10;

/// Fixes the threshold, and so the one from which on blocks are mapped by themselves: glibc raises both as it runs, up
/// to 64 and 32 MiB, unless one is set.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn limit_freed_memory() {
    // SAFETY: mallopt takes the allocator's lock itself and changes nothing but its settings.
    unsafe { libc::mallopt(libc::M_TRIM_THRESHOLD, TRIM_THRESHOLD_BYTES) };
}

/// Gives free pages of every arena of glibc's heap back to the kernel, but for the free end of each.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn return_freed_memory() {
    // SAFETY: malloc_trim takes the arenas' locks itself and only touches memory that nobody owns.
    unsafe { libc::malloc_trim(0) };
}

/// The processor's model, as the kernel names it.
pub fn processor_name() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    text.lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':').map(|(_, name)| name.trim().to_owned()))
}

/// The host's name over restarts: its machine id. A container has none, and with each start another host name.
pub fn host_name() -> Option<String> {
    let text = fs::read_to_string("/etc/machine-id").ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// The value of a line like `MemAvailable:   123 kB`, in bytes.
fn meminfo_bytes(text: &str, key: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(key))?;
    rest.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

fn half_of_physical_bytes() -> u64 {
    // SAFETY: sysconf reads a constant of the system and has no preconditions.
    let (pages, size) = unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    u64::try_from(pages).unwrap_or(0).saturating_mul(u64::try_from(size).unwrap_or(0)) / 2
}

fn cgroup_left_bytes() -> Option<u64> {
    own_groups(group_left_bytes)
}

/// The least value of a figure over the control groups above this process.
fn own_groups(figure: impl Fn(&Path) -> Option<u64>) -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = own_group(&groups)?;
    own.ancestors().take_while(|path| path.starts_with(CGROUP_ROOT)).filter_map(figure).min()
}

/// The folder of the group that counts a process's memory, by its `/proc/PID/cgroup`: version 1, where that has memory,
/// else version 2.
fn own_group(groups: &str) -> Option<PathBuf> {
    let first = groups
        .lines()
        .find_map(|line| Some(Path::new(CGROUP_ROOT).join("memory").join(line.split_once(":memory:/")?.1)));
    first.or_else(|| groups.lines().find_map(|line| Some(Path::new(CGROUP_ROOT).join(line.strip_prefix("0::/")?))))
}

/// The limit of one control group in bytes; `None` for "max".
fn group_limit_bytes(group: &Path) -> Option<u64> {
    group_figure(group, "memory.max").or_else(|| group_figure(group, "memory.limit_in_bytes"))
}

fn group_figure(group: &Path, name: &str) -> Option<u64> {
    fs::read_to_string(group.join(name)).ok()?.trim().parse().ok()
}

/// Bytes left in one control group: its limit less its use; page cache that it could drop counts as left.
fn group_left_bytes(group: &Path) -> Option<u64> {
    let limit = group_limit_bytes(group)?;
    let used = group_figure(group, "memory.current").or_else(|| group_figure(group, "memory.usage_in_bytes"))?;
    let stat = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
    // Version 1 counts the groups below only here.
    let cache = ["total_inactive_file ", "inactive_file "]
        .into_iter()
        .find_map(|name| stat.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok()));
    Some(limit.saturating_sub(used.saturating_sub(cache.unwrap_or(0))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_figures_are_read_in_kilobytes() {
        let text = "MemTotal:       24683520 kB\nMemAvailable:   24460000 kB\n";
        assert_eq!(meminfo_bytes(text, "MemAvailable:"), Some(24_460_000 * 1024));
        assert_eq!(meminfo_bytes(text, "MemFree:"), None);
        assert_eq!(meminfo_bytes("MemAvailable: many kB", "MemAvailable:"), None);
    }

    #[test]
    fn memory_is_counted_by_one_version_of_groups() {
        let both = "12:cpu,cpuacct:/a\n4:memory:/docker/b\n1:name=systemd:/c\n0::/d\n";
        assert_eq!(own_group(both), Some("/sys/fs/cgroup/memory/docker/b".into()));
        assert_eq!(own_group("1:name=systemd:/c\n0::/d/e\n"), Some("/sys/fs/cgroup/d/e".into()));
        assert_eq!(own_group("0::/\n"), Some("/sys/fs/cgroup".into()));
        assert_eq!(own_group("1:name=systemd:/c\n"), None);
    }

    #[test]
    fn a_group_of_version_1_leaves_its_limit_less_its_use() {
        let group = std::env::temp_dir().join(format!("assay-cgroup-v1-{}", std::process::id()));
        fs::create_dir_all(&group).unwrap();
        fs::write(group.join("memory.limit_in_bytes"), "1000000\n").unwrap();
        fs::write(group.join("memory.usage_in_bytes"), "600000\n").unwrap();
        fs::write(group.join("memory.stat"), "inactive_file 1\ntotal_inactive_file 100000\n").unwrap();
        assert_eq!(group_left_bytes(&group), Some(500_000));
        fs::remove_dir_all(&group).unwrap();
    }

    #[test]
    fn a_group_leaves_its_limit_less_its_use() {
        let group = std::env::temp_dir().join(format!("assay-cgroup-{}", std::process::id()));
        fs::create_dir_all(&group).unwrap();
        fs::write(group.join("memory.max"), "1000000\n").unwrap();
        fs::write(group.join("memory.current"), "600000\n").unwrap();
        fs::write(group.join("memory.stat"), "anon 1\ninactive_file 100000\n").unwrap();
        assert_eq!(group_left_bytes(&group), Some(500_000));
        assert_eq!(group_limit_bytes(&group), Some(1_000_000));
        fs::write(group.join("memory.max"), "max\n").unwrap();
        assert_eq!(group_left_bytes(&group), None);
        fs::remove_dir_all(&group).unwrap();
    }
}
