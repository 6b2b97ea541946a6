def receipt(item, found):
    found.append("receipt: ok" if item["receipt"] else "receipt: bad")
    return bool(item["receipt"])


def age(item, found):
    found.append("age: ok" if item["days"] <= 30 else "age: bad")
    return item["days"] <= 30


CHECKS = [receipt, age]


def is_taken_back(item, found):
    """Whether an item is taken back. What each check found is written down for the customer."""
    results = [check(item, found) for check in CHECKS]
    return all(results)
