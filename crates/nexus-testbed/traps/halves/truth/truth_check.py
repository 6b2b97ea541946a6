from billing.fees import fee
from billing.tax import tax

print("tax", tax(250, 5), tax(750, 5), tax(4, 10), tax(10, 5))
print("fee", fee(25), fee(75), fee(125))
print("large", tax(9007199254740993499, 10))
