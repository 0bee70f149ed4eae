//! Addresses of pages.

/// A path with the parameters that are not empty.
pub(crate) fn with(path: &str, parameters: &[(&str, &str)]) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    for (name, value) in parameters.iter().filter(|(_, value)| !value.is_empty()) {
        query.append_pair(name, value);
    }
    let query = query.finish();
    if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_stays_one_whatever_is_in_it() {
        assert_eq!(with("/", &[("text", ""), ("state", "")]), "/");
        assert_eq!(with("/", &[("text", "a&b=\"<ü"), ("state", "failed")]), "/?text=a%26b%3D%22%3C%C3%BC&state=failed");
    }
}
