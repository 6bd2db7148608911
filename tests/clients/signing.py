"""Requests that no SDK sends: signed by hand, in chunks, with trailers, or spoilt on purpose."""

import base64
import datetime
import hashlib
import hmac
import http.client
import urllib.parse
import zlib

EMPTY = hashlib.sha256(b"").hexdigest()
REGION = "us-east-1"


def crc32(body):
    return base64.b64encode(zlib.crc32(body).to_bytes(4, "big")).decode()


class Signer:
    """One endpoint, one key pair. `send` answers (status, headers, body)."""

    def __init__(self, endpoint, access_key, secret_key):
        self.host = urllib.parse.urlsplit(endpoint).netloc
        self.access_key, self.secret_key = access_key, secret_key

    def send(self, method, path, query="", headers=None, body=b"", payload=None, sign=True):
        """`path` is sent as it is; `payload` stands for the body's digest in the signature."""
        headers = {name.lower(): value for name, value in (headers or {}).items()}
        headers["host"] = self.host
        if sign:
            payload = payload or hashlib.sha256(body).hexdigest()
            headers.update(self._signature(method, path, query, headers, payload)[0])
        return self._exchange(method, path, query, headers, body)

    def send_chunks(self, path, body, *, signed, trailer=None, spoil=None, size=65536, headers=None):
        """PUTs `body` as aws-chunked. `trailer` is (name, value); `spoil` is "chunk" or "trailer"."""
        payload = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD" if signed else "STREAMING-UNSIGNED-PAYLOAD"
        payload += "-TRAILER" if trailer else ""
        headers = {name.lower(): value for name, value in (headers or {}).items()}
        headers.update({"host": self.host, "content-encoding": "aws-chunked",
                        "x-amz-decoded-content-length": str(len(body))})
        if trailer:
            headers["x-amz-trailer"] = trailer[0]
        added, scope, stamp = self._signature("PUT", path, "", headers, payload)
        headers.update(added)
        previous = added["authorization"].rsplit("Signature=", 1)[1]
        framed = b""
        for start in list(range(0, len(body), size)) + [len(body)]:
            chunk = body[start:start + size]
            line = f"{len(chunk):x}"
            if signed:
                parts = ("AWS4-HMAC-SHA256-PAYLOAD", stamp, scope, previous, EMPTY,
                         hashlib.sha256(chunk).hexdigest())
                previous = self._sign(stamp, "\n".join(parts))
                wrong = spoil == "chunk" and start == 0
                line += ";chunk-signature=" + (previous[::-1] if wrong else previous)
            framed += line.encode() + b"\r\n" + chunk
            framed += b"\r\n" if chunk else b""
        if trailer:
            text = f"{trailer[0]}:{trailer[1]}"
            framed += text.encode() + b"\r\n"
            if signed:
                parts = ("AWS4-HMAC-SHA256-TRAILER", stamp, scope, previous,
                         hashlib.sha256(text.encode() + b"\n").hexdigest())
                last = self._sign(stamp, "\n".join(parts))
                last = last[::-1] if spoil == "trailer" else last
                framed += f"x-amz-trailer-signature:{last}\r\n".encode()
        framed += b"\r\n"
        return self._exchange("PUT", path, "", headers, framed)

    def _signature(self, method, path, query, headers, payload):
        stamp = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
        scope = f"{stamp[:8]}/{REGION}/s3/aws4_request"
        signed = {**headers, "x-amz-date": stamp, "x-amz-content-sha256": payload}
        names = sorted(signed)
        pairs = sorted(pair if "=" in pair else pair + "=" for pair in query.split("&") if pair)
        lines = [method, path, "&".join(pairs)]
        lines += [f"{name}:{' '.join(signed[name].split())}" for name in names]
        request = "\n".join(lines + ["", ";".join(names), payload])
        digest = hashlib.sha256(request.encode()).hexdigest()
        signature = self._sign(stamp, "\n".join(("AWS4-HMAC-SHA256", stamp, scope, digest)))
        authorization = (f"AWS4-HMAC-SHA256 Credential={self.access_key}/{scope}, "
                         f"SignedHeaders={';'.join(names)}, Signature={signature}")
        added = {"x-amz-date": stamp, "x-amz-content-sha256": payload, "authorization": authorization}
        return added, scope, stamp

    def _sign(self, stamp, text):
        key = ("AWS4" + self.secret_key).encode()
        for part in (stamp[:8], REGION, "s3", "aws4_request", text):
            key = hmac.new(key, part.encode(), hashlib.sha256).digest()
        return key.hex()

    def _exchange(self, method, path, query, headers, body):
        connection = http.client.HTTPConnection(self.host, timeout=60)
        try:
            target = path + ("?" + query if query else "")
            connection.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
            for name, value in {**headers, "content-length": str(len(body))}.items():
                connection.putheader(name, value)
            connection.endheaders()
            try:
                connection.send(body)
            except OSError:
                pass  # A server may refuse before it has read everything.
            answer = connection.getresponse()
            return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
        finally:
            connection.close()
