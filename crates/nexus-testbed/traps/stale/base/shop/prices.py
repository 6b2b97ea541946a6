TABLE = {"bolt": 20, "nut": 5, "plate": 150}
RATES = {"EUR": 100, "USD": 110}
REDUCTIONS = {"retail": 0, "trade": 20}


def compute(item, quantity, currency, customer):
    price = TABLE[item] * quantity * RATES[currency]
    if quantity >= 100:
        price = price * 9 // 10
    return price * (100 - REDUCTIONS[customer]) // 10000


def quote(item, quantity, currency="EUR", customer="retail"):
    """The price of so many items, in whole units of the currency."""
    return compute(item, quantity, currency, customer)
