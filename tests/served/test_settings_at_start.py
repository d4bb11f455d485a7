"""`make run` and its API say at their start how TUNNEL_DOMAIN and TCP_PORTS differ from those of the table."""

import json
from pathlib import Path

from tests.conftest import serve


def test_other_settings_are_said_at_the_start_and_names_answer_503(tmp_path: Path) -> None:
    local, sentence = (
        tmp_path / "local",
        "The table stores TCP_PORTS=20000-29999, but the settings are TCP_PORTS=20000-20001: ",
    )
    process, api = serve(local)
    assert api.client().post("/reserved_domains", {"domain": "a.tunnels.localhost"}).status == 201
    process.terminate()
    process.wait(timeout=30)
    assert sentence not in api.log.read_text()

    process, api = serve(local, TCP_PORTS="20000-20001")
    try:
        assert f"Names cannot be reserved or changed. {sentence}" in api.log.read_text()
        refusal = api.client().post("/edges/https", {"hostports": ["b.tunnels.localhost:443"]})
        assert (refusal.status, sentence in refusal.json["msg"]) == (503, True)
        assert api.client().post("/edges/https", {"hostports": ["b.example.com:443"]}).status == 201
        lines = [json.loads(line) for line in api.log.read_text().splitlines() if line.startswith("{")]
        (log_line,) = [line for line in lines if line.get("event") == "settings_differ"]
        assert (log_line["level"], sentence in log_line["msg"]) == ("WARNING", True)
    finally:
        process.terminate()
        process.wait(timeout=30)
