//! The name of a user, from the file of this machine's users.

use std::fs;

/// Where they are listed. Users of a directory service are not; they are known by their numbers.
const USERS: &str = "/etc/passwd";

/// The name of the user with this number, where it is listed.
#[must_use]
pub fn name(uid: u32) -> Option<String> {
    find(&fs::read_to_string(USERS).ok()?, uid)
}

/// passwd(5): the name, the password, the number, and more.
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
