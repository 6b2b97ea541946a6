"""AWS's own signer as a judge of signatures. Reads lines {"method", "url", "headers", "body", "secret", "session"} from standard
input, `body` in base64, and answers each with a line {"expected", "found"}: the signature that botocore computes for the request
as it was sent, and the one in it."""

import base64
import json
import re
import sys

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

FORM = re.compile(
    r"AWS4-HMAC-SHA256 Credential=(?P<key>[^/]+)/\d{8}/(?P<region>[^/]+)/(?P<service>[^/]+)/aws4_request, "
    r"SignedHeaders=(?P<names>[^,]+), Signature=(?P<signature>[0-9a-f]{64})"
)

for line in sys.stdin:
    sent = json.loads(line)
    headers = {name.lower(): value for name, value in sent["headers"]}
    found = FORM.fullmatch(headers["authorization"])
    signed = {name: headers[name] for name in found["names"].split(";")}
    request = AWSRequest(sent["method"], sent["url"], headers=signed, data=base64.b64decode(sent["body"]))
    request.context["timestamp"] = headers["x-amz-date"]
    signer = SigV4Auth(Credentials(found["key"], sent["secret"], sent["session"]), found["service"], found["region"])
    canonical = signer.canonical_request(request)
    expected = signer.signature(signer.string_to_sign(request, canonical), request)
    print(json.dumps({"expected": expected, "found": found["signature"]}), flush=True)
