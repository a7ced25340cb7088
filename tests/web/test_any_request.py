"""Requests of the right form with any values: each is answered, none with a fault."""

from __future__ import annotations

import json
import random

import pytest

from pyslurm_ng.web.operations import operations
from tests.web.any_requests import any_request
from tests.web.front import Front, front


@pytest.fixture(scope="module")
def client() -> Front:
    return front(user="root")


@pytest.mark.parametrize("seed", range(3))
def test_any_request_is_answered(client: Front, seed: int) -> None:
    """RELIABILITY 67: with a document; 5xx only for what is not built, or not there (502)."""
    chance = random.Random(seed)
    chosen = [row for row in operations().values() if row.tag != "slurmdb"]
    for operation in chance.choices(chosen, k=120):
        path, body = any_request(chance, operation)
        answer = client.request(operation.method.upper(), path, body)
        said = f"{operation.method} {path} {json.dumps(body)[:2000]}"
        assert answer.status < 500 or answer.status in (501, 502), said
        if answer.status != 304:
            assert answer.json()["errors"] or answer.status == 200, said
