def _normalize(amount):
    return max(0.0, round(amount, 2))


def discounted(price, discount):
    return _normalize(price - discount)
