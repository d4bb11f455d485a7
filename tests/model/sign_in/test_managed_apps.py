"""The operator's own applications at identity providers."""

from chalicelib.model.sign_in import managed_apps
from tests.transports import Client


def test_an_application_is_sealed_replaced_and_removed(admin: Client) -> None:
    managed_apps.set_app("github", "one", "first secret")
    managed_apps.set_app("github", "two", "second secret")
    (app,) = managed_apps.read_all().values()
    assert (app.client_id, app.open_secret()) == ("two", "second secret")
    assert b"secret" not in app.client_secret
    assert "secret" not in repr(app).replace("client_secret", "")
    assert [managed_apps.remove("github") for _ in range(2)] == [True, False]
    assert managed_apps.read_all() == {}
