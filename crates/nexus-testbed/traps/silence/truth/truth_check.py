import os

from service import secrets, settings


def outcome(module, path):
    try:
        return module.load(path)
    except Exception as error:
        return type(error).__name__


with open("held_out", "wb") as file:
    file.write(b"retries=7\nhost example.org\n")
print("settings", outcome(settings, "held_out"))
with open("held_out", "wb") as file:
    file.write(b"name=\xff\xfe\n")
print("settings", "ValueError" if outcome(settings, "held_out") in ("UnicodeDecodeError", "ValueError") else "none")
with open("held_out", "wb") as file:
    file.write(b"token\n")
print("secrets", outcome(secrets, "held_out"))
os.mkdir("held_out_folder")
print("settings", outcome(settings, "held_out_folder"))
print("missing", outcome(settings, "held_out_nowhere"), outcome(secrets, "held_out_nowhere"))
