from orders.checking import passes


def amount(order, found):
    found.append("amount: ok" if order["amount"] > 0 else "amount: bad")
    return order["amount"] > 0


def address(order, found):
    found.append("address: ok" if order["address"] else "address: bad")
    return bool(order["address"])


def stock(order, found):
    found.append("stock: ok" if order["stock"] else "stock: bad")
    return bool(order["stock"])


CHECKS = [amount, address, stock]


def is_accepted(order, found):
    """Whether an order is accepted. What each check found is written down for the customer."""
    return passes(CHECKS, order, found)
