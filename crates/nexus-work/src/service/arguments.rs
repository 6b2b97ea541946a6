//! Argument checks that all services share.

use std::collections::BTreeMap;

use nexus_core::{ServiceError, ServiceErrorKind};

/// Maximum number of labels of a piece of work. Source: our own bound.
const MAX_LABELS: usize = 16;

/// Checks that a text is not blank and has at most `max_bytes` bytes.
///
/// # Errors
///
/// Invalid, with the name of the field.
pub fn check_text<K: ServiceErrorKind>(
    field: &str,
    text: &str,
    max_bytes: usize,
) -> Result<(), ServiceError<K>> {
    if text.trim().is_empty() {
        return Err(ServiceError::invalid(format!("`{field}` is empty"), "say what it is"));
    }
    if text.len() > max_bytes {
        let message = format!("`{field}` has {} bytes, more than {max_bytes}", text.len());
        return Err(ServiceError::invalid(message, "say it in fewer words"));
    }
    Ok(())
}

/// Checks the labels of new work: at most 16. Each name and each value must be one line of at most `max_bytes` bytes.
///
/// # Errors
///
/// Invalid, with the limits.
pub fn check_labels<K: ServiceErrorKind>(
    labels: &BTreeMap<String, String>,
    max_bytes: usize,
) -> Result<(), ServiceError<K>> {
    let fits = |text: &String| text.len() <= max_bytes && !text.chars().any(char::is_control);
    let is_good = labels.len() <= MAX_LABELS
        && labels.iter().all(|(name, value)| !name.is_empty() && fits(name) && fits(value));
    match is_good {
        true => Ok(()),
        false => Err(ServiceError::invalid(
            "`labels` are too many or too long",
            format!("name at most {MAX_LABELS}, of at most {max_bytes} bytes in one line each"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use nexus_core::ServiceFault;

    use super::*;

    #[derive(Debug, Clone, Copy, PartialEq)]
    struct Kind(ServiceFault);

    impl ServiceErrorKind for Kind {
        const FIND: &'static str = "list them";
        const RESTORE: &'static str = "restore it";

        fn of(fault: ServiceFault) -> Self {
            Self(fault)
        }
    }

    #[test]
    fn a_text_that_is_empty_or_too_long_is_refused_by_its_field() {
        assert_eq!(check_text::<Kind>("goal", "say", 3), Ok(()));
        for (text, says) in
            [("", "`goal` is empty"), (" \n", "`goal` is empty"), ("word", "has 4 bytes, more than 3")]
        {
            let error = check_text::<Kind>("goal", text, 3).unwrap_err();
            assert!(error.kind == Kind(ServiceFault::Invalid) && error.message.contains(says), "{error}");
        }
    }

    #[test]
    fn labels_are_few_short_lines_with_a_name() {
        let check = |labels: &[(&str, &str)]| {
            let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            check_labels::<Kind>(&labels.collect(), 4).is_ok()
        };
        for good in [&[][..], &[("a", "")], &[("name", "four")]] {
            assert!(check(good), "{good:?}");
        }
        for bad in [&[("", "a")][..], &[("a", "fives")], &[("names", "a")], &[("a", "1\n2")]] {
            assert!(!check(bad), "{bad:?}");
        }
        let many: Vec<String> = (0..17).map(|number| number.to_string()).collect();
        let many: Vec<(&str, &str)> = many.iter().map(|name| (name.as_str(), "")).collect();
        assert!(check(&many[..16]) && !check(&many));
    }
}
