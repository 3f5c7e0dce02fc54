"""A secret service, and a catalog that names one: run by the public SDK's Python, they do what the JSON file of the
environment's VGI_SECRETS says at that moment.

    vgi.secret_service vgi_secrets:Service          vgi.serve vgi_secrets:Worker --http

{"secrets": [{"type": TYPE, "scope": [PREFIX...], "values": {KEY: VALUE}, "ttl": SECONDS, "expires_in": SECONDS}...],
 "delay": SECONDS, "fault": TEXT, "calls": FILE, "url": URL, "companions": [AttachCatalogInfo...]}
Of secrets that fit, the one with the longest scope is told; without "scope" it fits everything. Each lookup is a line
of FILE, a JSON object.
"""

import dataclasses
import json
import os
import time

from vgi._test_fixtures.companion import CompanionCatalog
from vgi.catalog import AttachCatalogInfo
from vgi.secret_protocol import SecretLookupResponse, encode_secret_values

from vgi.worker import Worker as SdkWorker


def spec():
    with open(os.environ["VGI_SECRETS"]) as file:
        return json.load(file)


def fit(secret, path, type_):
    """How long the scope is that holds the path; -1: none does."""
    lengths = [len(scope) for scope in secret.get("scope", [""]) if path.startswith(scope)]
    return max(lengths, default=-1) if secret["type"] == type_ else -1


class Service:
    def secret_lookup(self, path: str, type: str) -> SecretLookupResponse:
        told = spec()
        with open(told["calls"], "a") as calls:
            calls.write(json.dumps({"path": path, "type": type}) + "\n")
        time.sleep(told.get("delay", 0))
        if "fault" in told:
            raise ValueError(told["fault"])
        best = max(told.get("secrets", []), key=lambda secret: fit(secret, path, type), default=None)
        if best is None or fit(best, path, type) < 0:
            return SecretLookupResponse(found=False)
        return SecretLookupResponse(
            found=True,
            secret_type=type,
            provider="orchard",
            name=best.get("name", "served"),
            scope=best.get("scope", []),
            values=encode_secret_values(best["values"]),
            redact_keys=["secret"],
            ttl_seconds=best.get("ttl", 60),
            expires_at_unix=int(time.time()) + best["expires_in"] if "expires_in" in best else 0,
        )


class Catalog(CompanionCatalog):
    attach_catalogs = [AttachCatalogInfo(**companion) for companion in spec().get("companions", [])]

    def catalog_attach(self, **arguments):
        result = super().catalog_attach(**arguments)
        return dataclasses.replace(result, tags={"vgi_secret_service_url": spec()["url"]})


class Worker(SdkWorker):
    catalog_interface = Catalog
