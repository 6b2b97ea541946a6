from itertools import product

from orders.accept import is_accepted
from orders.returns import is_taken_back

for amount, address, stock in product([0, 5], ["", "Main St 1"], [0, 3]):
    found = []
    print(is_accepted({"amount": amount, "address": address, "stock": stock}, found), found)
for receipt, days in product([0, 1], [3, 90]):
    found = []
    print(is_taken_back({"receipt": receipt, "days": days}, found), found)
