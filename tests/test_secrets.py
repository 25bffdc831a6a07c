"""What counts as a secret, and what masking leaves of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast import secrets


@pytest.mark.parametrize(
    ("document", "shown"),
    [
        ({"ipmi_password": "hunter2"}, {"ipmi_password": "******"}),
        ({"Redfish_Password": "hunter2", "user": "a"}, {"Redfish_Password": "******", "user": "a"}),
        ({"deep": [{"auth_token": "hunter2"}]}, {"deep": [{"auth_token": "******"}]}),
        ({"password": {"nested": "hunter2"}}, {"password": "******"}),
        ({"password": None, "token": ""}, {"password": None, "token": ""}),
        ({"use_password": False}, {"use_password": False}),
        ({"url": "https://admin:hunter2@bmc/redfish"}, {"url": "https://admin:******@bmc/redfish"}),
        ({"text": "tried with password=hunter2 again"}, {"text": "tried with password=****** again"}),
        ({"address": "http://bmc:8000/a@b"}, {"address": "http://bmc:8000/a@b"}),
        ({"configdrive": "aHVudGVyMg=="}, {"configdrive": "******"}),
        ({"plain": "nothing here"}, {"plain": "nothing here"}),
    ],
    ids=str,
)
def test_secrets_are_masked_and_the_rest_is_left(document: Any, shown: Any) -> None:
    before = json.dumps(document)
    assert json.loads(secrets.mask_json(before)) == shown
    assert secrets.mask(document) == shown
    assert json.dumps(document) == before


@pytest.mark.parametrize("text", ["x" * 500_000, "a://" + "b" * 500_000, "a://b:" + "c" * 500_000, "://b:" * 100_000])
def test_long_words_are_looked_through_once(text: str) -> None:
    """Looked through once per letter, these take minutes: the suite would time out."""
    assert json.loads(secrets.mask_json(json.dumps({"a": text}))) == {"a": text}


@pytest.mark.parametrize(
    ("sent", "stored", "kept"),
    [
        ({"password": "******"}, {"password": "hunter2"}, {"password": "hunter2"}),
        ({"password": "new"}, {"password": "hunter2"}, {"password": "new"}),
        ({"password": "******"}, {}, {"password": "******"}),
        ({"a": [{"password": "******"}]}, {"a": [{"password": "hunter2"}]}, {"a": [{"password": "hunter2"}]}),
    ],
)
def test_a_mask_sent_back_stands_for_the_secret_it_hides(sent: Any, stored: Any, kept: Any) -> None:
    assert secrets.keep_masked(sent, stored) == kept
