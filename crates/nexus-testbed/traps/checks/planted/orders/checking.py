def passes(checks, subject, found):
    """Whether a subject passes all checks."""
    return all(check(subject, found) for check in checks)
