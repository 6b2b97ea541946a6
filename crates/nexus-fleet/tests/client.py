"""A caller of the fleet, written from docs/reference/fleet-protocol.md alone.

Reads a job from standard input, runs one turn, and writes how it ended to standard output, both as JSON.

    {"server": "nats://127.0.0.1:4222", "caller": "alice", "pool": "builders", "backend": "codex-cli",
     "request": {"prompt": [{"type": "text", "text": "hello"}]}, "tools": [], "answers": {"weather": "rain"}}

Optional: "lane" (default "normal"), "seconds" (after which the turn is cancelled), "envelope" (further fields of the
message in the queue), "lose" (numbers of frames that are lost once).
"""

import asyncio
import hashlib
import json
import sys
import time
import uuid

import nats
from nats.js.errors import APIError

INLINE_BYTES = 256 * 1024
WRONG_LAST_SEQUENCE = 10071
HEARTBEAT = 10
SILENCE = 30
STOP_TIME = 15
LOOK = 5
TICK = 0.2


def random_name():
    return uuid.uuid4().hex


class Objects:
    """Documents within messages: as they are, or in the object store."""

    def __init__(self, js, owner):
        self.js, self.owner, self.stored = js, owner, []

    async def pack(self, document):
        text = json.dumps(document).encode()
        if len(text) <= INLINE_BYTES:
            return {"inline": document}
        name = f"{self.owner}.{random_name()}"
        store = await self.js.object_store("NEXUS_OBJECTS")
        await store.put(name, text)
        self.stored.append(name)
        return {"object": {"name": name, "bytes": len(text), "sha256": hashlib.sha256(text).hexdigest()}}

    async def unpack(self, payload):
        if "inline" in payload:
            return payload["inline"]
        wanted = payload["object"]
        for attempt in range(8):
            if attempt:
                await asyncio.sleep(0.05 * 2**attempt)
            try:
                store = await self.js.object_store("NEXUS_OBJECTS")
                text = (await store.get(wanted["name"])).data
            except Exception as error:  # A replica may lag behind.
                print(f"{wanted['name']}: {error!r}", file=sys.stderr)
                continue
            if len(text) == wanted["bytes"] and hashlib.sha256(text).hexdigest() == wanted["sha256"]:
                return json.loads(text)
        raise RuntimeError(f"the object {wanted['name']} cannot be read")

    async def discard(self):
        store = await self.js.object_store("NEXUS_OBJECTS")
        for name in self.stored:
            await store.delete(name)


class Turn:
    def __init__(self, connection, job):
        self.connection, self.job = connection, job
        self.js = connection.jetstream()
        self.turn, self.key, self.instance = random_name(), random_name(), random_name()
        self.caller = job["caller"]
        self.objects = Objects(self.js, f"{self.caller}.{self.turn}")
        self.worker = self.attempt = None
        self.taken = self.known = self.acknowledged = 0
        self.ahead = {}
        self.to_lose = set(job.get("lose", []))
        self.asked_at = self.spoke_at = 0.0
        self.heard_at = time.monotonic()
        self.answers = {}
        self.events, self.calls, self.resends, self.large = [], [], 0, 0

    async def run(self):
        frames = await self.connection.subscribe(f"nexus.event.{self.caller}.{self.instance}.*")
        # The server has the subscription before the turn is in the queue.
        await self.connection.flush()
        await self.put_into_queue()
        outcome = await self.follow(frames)
        await self.objects.discard()
        return {
            "outcome": outcome,
            "worker": self.worker,
            "frames": self.taken,
            "events": self.events,
            "calls": self.calls,
            "resends": self.resends,
            "large": self.large,
        }

    async def put_into_queue(self):
        body = {
            "request": self.job["request"],
            "participant": self.caller,
            "tools": self.job.get("tools", []),
            "has_approver": False,
        }
        queued = {
            "version": 1,
            "turn": self.turn,
            "key": self.key,
            "instance": self.instance,
            "backend": self.job["backend"],
            "sent_at": int(time.time() * 1000),
            "body": await self.objects.pack(body),
            **self.job.get("envelope", {}),
        }
        seconds = int(self.job.get("seconds", 24 * 3600)) + 1
        subject = f"nexus.queue.{self.job['pool']}.{self.job.get('lane', 'normal')}.{self.caller}"
        headers = {"Nats-Msg-Id": self.turn, "Nats-TTL": str(seconds)}
        await self.js.publish(subject, json.dumps(queued).encode(), headers=headers)

    async def follow(self, frames):
        deadline = time.monotonic() + self.job["seconds"] if "seconds" in self.job else None
        stop_until = looked_at = None
        while True:
            try:
                message = await frames.next_msg(timeout=TICK)
                if message.reply:
                    # A worker asks whether the turn is waited for.
                    await self.connection.publish(message.reply, b"")
                    continue
            except nats.errors.TimeoutError:
                message = None
            if message is not None:
                for item in self.take(json.loads(message.data)):
                    outcome = await self.take_item(item)
                    if outcome is not None:
                        await self.tell("done")
                        return outcome
            now = time.monotonic()
            if stop_until is None and deadline is not None and now >= deadline:
                stop_until = now + STOP_TIME
                if self.worker is None and await self.take_back():
                    return {"taken_back": True}
            if stop_until is not None:
                if now >= stop_until:
                    return {"error": {"kind": "cancelled"}}
                await self.tell("cancel")
            if self.worker is None:
                if looked_at is None or now >= looked_at + LOOK:
                    looked_at = now
                    await self.look_for_worker()
            elif now >= self.heard_at + SILENCE:
                return await self.after_silence()
            await self.speak(now)

    def take(self, frame):
        """The items that are now in order."""
        if frame["key"] != self.key:
            return []
        if self.worker is None:
            self.worker, self.attempt = frame["worker"], frame["attempt"]
        if (frame["worker"], frame["attempt"]) != (self.worker, self.attempt):
            return []
        self.heard_at = time.monotonic()
        number, items = frame["number"], frame.get("items", [])
        if number in self.to_lose and items:
            self.to_lose.remove(number)
            return []
        self.known = max(self.known, number)
        if items and number > self.taken:
            self.ahead.setdefault(number, items)
        in_order = []
        while self.taken + 1 in self.ahead:
            self.taken += 1
            in_order += self.ahead.pop(self.taken)
        return in_order

    async def speak(self, now):
        """Acknowledges what came, asks for what did not, and says that we are there."""
        if self.worker is None:
            return
        if self.taken > self.acknowledged or now >= self.spoke_at + HEARTBEAT:
            self.acknowledged = self.taken
            await self.tell({"ack": {"number": self.taken}})
        if self.taken < self.known and now >= self.asked_at + TICK:
            self.asked_at = now
            self.resends += 1
            await self.tell({"resend": {"from": self.taken + 1}})

    async def take_item(self, item):
        """The outcome, if the item is the end."""
        if "large" in item:
            self.large += 1
            self.objects.stored.append(item["large"]["object"]["name"])
            item = await self.objects.unpack(item["large"])
        if "event" in item:
            self.events.append(item["event"]["event"]["type"])
        elif "call" in item:
            await self.answer(item["call"]["id"], lambda: self.call(item["call"]["call"]))
        elif "approval" in item:
            nobody = {"reason": "not_approved", "tool": item["approval"]["request"]["tool"]}
            nobody["why"] = {"because": "nobody_asked"}
            await self.answer(item["approval"]["id"], lambda: {"denied": nobody})
        elif "end" in item:
            if "object" in item["end"]:
                self.large += 1
                self.objects.stored.append(item["end"]["object"]["name"])
            return await self.objects.unpack(item["end"])
        return None

    async def answer(self, id, work):
        # Each once; a repeat is answered from memory.
        if id not in self.answers:
            self.answers[id] = await self.objects.pack(work())
        await self.tell({"answer": {"id": id, "answer": self.answers[id]}})

    def call(self, call):
        self.calls.append(call)
        text = self.job.get("answers", {}).get(call["name"])
        if text is None:
            known = [tool["name"] for tool in self.job.get("tools", [])]
            return {"denied": {"reason": "unknown_tool", "name": call["name"], "nearest": None, "known": known, "more": 0}}
        return {"result": {"content": [{"type": "text", "text": text}], "is_error": False}}

    async def tell(self, command):
        if self.worker is None:
            return
        self.spoke_at = time.monotonic()
        message = {"turn": {"turn": self.turn, "key": self.key, "command": command}}
        await self.connection.publish(f"nexus.control.{self.job['pool']}.{self.worker}", json.dumps(message).encode())
        await self.connection.flush()

    async def take_back(self):
        """Whether nobody will start the turn."""
        ours = {"worker": None, "attempt": random_name(), "at": int(time.time() * 1000)}
        subject = f"nexus.started.{self.caller}.{self.turn}"
        headers = {"Nats-Expected-Last-Subject-Sequence": "0"}
        try:
            await self.js.publish(subject, json.dumps(ours).encode(), headers=headers)
            return True
        except APIError as error:
            if error.err_code != WRONG_LAST_SEQUENCE:
                raise
        await self.look_for_worker()
        return False

    async def look_for_worker(self):
        started = await self.last("NEXUS_STARTED", f"nexus.started.{self.caller}.{self.turn}")
        if started is not None and started["worker"] is not None and self.worker is None:
            self.worker, self.attempt = started["worker"], started["attempt"]
            self.heard_at = time.monotonic()

    async def after_silence(self):
        for _ in range(3):
            stored = await self.last("NEXUS_RESULTS", f"nexus.result.{self.caller}.{self.turn}.result")
            if stored is not None and stored["attempt"] == self.attempt:
                return await self.objects.unpack(stored["outcome"])
            await asyncio.sleep(1)
        await self.tell("abandon")
        effects = await self.last("NEXUS_RESULTS", f"nexus.result.{self.caller}.{self.turn}.effects")
        return {"error": {"kind": "crashed", "effects": effects["effects"] if effects else "unknown"}}

    async def last(self, stream, subject):
        """The last document on a subject."""
        reply = await self.connection.request(f"$JS.API.DIRECT.GET.{stream}.{subject}", b"", timeout=5)
        if (reply.headers or {}).get("Status") == "404":
            return None
        return json.loads(reply.data)


async def main():
    job = json.load(sys.stdin)
    options = {"inbox_prefix": f"_INBOX_{job['caller']}".encode()}
    if "user" in job:
        options |= {"user": job["user"], "password": job["password"]}
    connection = await nats.connect(job["server"], **options)
    try:
        json.dump(await Turn(connection, job).run(), sys.stdout)
    finally:
        await connection.close()


asyncio.run(main())
