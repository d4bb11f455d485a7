"""The abuse contact in Envoy's own responses."""

from dataclasses import replace

from edge.envoy import http_manager
from edge.process.settings import Settings
from tests.edge.envoy import messages


def test_without_a_contact_envoys_own_answers_stay_as_they_are() -> None:
    manager = messages.to_json(http_manager.build_redirect_manager(Settings()))
    assert "local_reply_config" not in manager["typed_config"]
    manager = messages.to_json(
        http_manager.build_redirect_manager(replace(Settings(), abuse_contact="abuse@example.com"))
    )
    assert "abuse@example.com" in str(manager["typed_config"]["local_reply_config"]["body_format"])


def test_the_percent_of_a_contact_is_no_command_of_envoys() -> None:
    manager = messages.to_json(
        http_manager.build_redirect_manager(replace(Settings(), abuse_contact="50%@example.com"))
    )
    text = manager["typed_config"]["local_reply_config"]["body_format"]["text_format_source"]["inline_string"]
    assert text.startswith("%LOCAL_REPLY_BODY%")
    assert "50%%@example.com" in text
