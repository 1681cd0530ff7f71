"""The condition for the webhook receiver of a resource."""

from __future__ import annotations

import pytest

from stoker.controller.status.webhook_condition import WebhookCondition, receiver_condition
from stoker.domain.intent.delivery import ReceiverPolicy
from stoker.domain.intent.source import SecretKey
from stoker.domain.reasons import Reason

KEY = SecretKey("hook", "hmac-key")
TOKEN = SecretKey("hook", "token")


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (ReceiverPolicy(enabled=False, hmac_key=KEY), Reason.WEBHOOK_DISABLED),
        (ReceiverPolicy(port=9000, hmac_key=KEY), Reason.PORT_MISMATCH),
        (ReceiverPolicy(), Reason.NO_CREDENTIAL),
    ],
)
def test_what_is_missing_is_the_reason(wanted: ReceiverPolicy, reason: Reason) -> None:
    found = receiver_condition(wanted, port=8443)
    assert not found.ready
    assert found.reason is reason


@pytest.mark.parametrize("wanted", [ReceiverPolicy(hmac_key=KEY), ReceiverPolicy(bearer=TOKEN)])
def test_one_credential_is_enough_and_the_message_names_the_port(wanted: ReceiverPolicy) -> None:
    assert receiver_condition(wanted, port=8443) == WebhookCondition(
        True, Reason.LISTENER_ACTIVE, "Webhook listener active on port 8443"
    )


def test_a_key_of_the_operator_serves_resources_without_one() -> None:
    assert receiver_condition(ReceiverPolicy(), port=8443, operator_key=True).ready


def test_a_secret_that_is_not_there_is_named() -> None:
    found = receiver_condition(ReceiverPolicy(hmac_key=KEY, bearer=TOKEN), port=8443, missing={TOKEN})
    assert found.reason is Reason.SECRET_NOT_FOUND
    assert "'hook' with key 'token'" in found.message


def test_a_receiver_that_is_off_serves_no_caller() -> None:
    assert receiver_condition(ReceiverPolicy(hmac_key=KEY), port=None).reason is Reason.LISTENER_OFF
