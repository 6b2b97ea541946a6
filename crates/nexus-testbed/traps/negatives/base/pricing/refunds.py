def _normalize(amount):
    return round(amount, 2)


def balance(paid, refunded):
    return _normalize(paid - refunded)
