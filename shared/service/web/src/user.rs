//! Names of this machine's users.

use std::fs;

/// File with the local users. Users of a directory service are shown by their ids.
const USERS: &str = "/etc/passwd";

/// The name of a listed user.
pub fn name(uid: u32) -> Option<String> {
    find(&fs::read_to_string(USERS).ok()?, uid)
}

/// passwd(5): the name, the password, the user id, and further fields.
fn find(users: &str, uid: u32) -> Option<String> {
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, number) = (fields.next()?, fields.nth(1)?);
        (number.parse() == Ok(uid) && !name.is_empty()).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_their_numbers() {
        let users = "root:x:0:0:root:/root:/bin/sh\nbroken\n:x:7:7\nassay:x:999:999::/var/lib/assay:/bin/false\n";
        assert_eq!(find(users, 0).as_deref(), Some("root"));
        assert_eq!(find(users, 999).as_deref(), Some("assay"));
        assert_eq!([7, 1000].map(|uid| find(users, uid)), [None, None]);
    }
}
