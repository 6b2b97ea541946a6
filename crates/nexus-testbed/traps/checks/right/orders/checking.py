def passes(checks, subject, found):
    """Whether a subject passes all checks, each of which is run: what it found is written down."""
    passed = True
    for check in checks:
        passed = check(subject, found) and passed
    return passed
