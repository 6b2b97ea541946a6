from orders.accept import is_accepted
from orders.returns import is_taken_back

found = []
print("accept", is_accepted({"amount": -1, "address": "", "stock": 2}, found), found)
found = []
print("return", is_taken_back({"receipt": "", "days": 31}, found), found)
found = []
print("fine", is_accepted({"amount": 1, "address": "x", "stock": 1}, found), found)
