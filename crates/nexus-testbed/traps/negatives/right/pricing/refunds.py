from pricing.amounts import normalize


def balance(paid, refunded):
    return normalize(paid - refunded)
