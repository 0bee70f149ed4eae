//! The process that listens on a port, for the message that it is in use.

use std::fs;

/// A listening process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortHolder {
    /// Process id.
    pub process: u32,
    pub name: String,
}

/// The process that listens on a TCP port. Only Linux provides it, and only for processes that this user may inspect.
pub fn holder(port: u16) -> Option<PortHolder> {
    let sockets: Vec<_> = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|table| fs::read_to_string(table).ok())
        .flat_map(|table| listening(&table, port))
        .map(|inode| format!("socket:[{inode}]"))
        .collect();
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let mut numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let process = numbers.find(|process| holds(*process, &sockets))?;
    let name = fs::read_to_string(format!("/proc/{process}/comm")).ok()?;
    Some(PortHolder { process, name: name.trim().to_owned() })
}

/// Inodes of the sockets that listen on a port, from a table of the kernel.
fn listening(table: &str, port: u16) -> Vec<String> {
    const LISTEN: &str = "0A";
    let inode = |line: &str| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let (local, state, inode) = (fields.get(1)?, fields.get(3)?, fields.get(9)?);
        let own = u16::from_str_radix(local.rsplit_once(':')?.1, 16).ok()?;
        (own == port && *state == LISTEN).then(|| (*inode).to_owned())
    };
    table.lines().skip(1).filter_map(inode).collect()
}

/// Whether a process has one of these sockets open.
fn holds(process: u32, sockets: &[String]) -> bool {
    let Ok(files) = fs::read_dir(format!("/proc/{process}/fd")) else { return false };
    let mut links = files.flatten().filter_map(|file| fs::read_link(file.path()).ok());
    links.any(|link| sockets.iter().any(|socket| link.as_os_str() == socket.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_that_listen_are_read_from_the_kernels_table() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
                     0: 0100007F:1CE8 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 x\n   \
                     1: 0100007F:1CE8 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 4712 1 x\n";
        assert_eq!(listening(table, 7400), ["4711"]);
        assert!(listening(table, 7401).is_empty() && listening("", 7400).is_empty());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_is_found_by_its_port() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let holder = holder(listener.local_addr().unwrap().port()).unwrap();
        assert_eq!(holder.process, std::process::id());
    }
}
