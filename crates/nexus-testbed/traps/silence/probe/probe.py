from service import secrets, settings

TEXTS = ["a=1", "a=1\nno pair", "", "=", "\n\n", "a=b=c"]

for number, text in enumerate(TEXTS):
    with open("probed", "w") as file:
        file.write(text)
    for module in (settings, secrets):
        try:
            print(number, module.__name__, sorted(module.load("probed").items()))
        except Exception as error:
            print(number, module.__name__, type(error).__name__)
