"""The open TCP ports, which control writes and the gateway reads."""

from pathlib import Path

from edge.process.open_ports import OpenPorts


def test_a_port_is_open_for_one_tunnel_until_it_is_removed(tmp_path: Path) -> None:
    control, gateway = OpenPorts(tmp_path), OpenPorts(tmp_path)
    control.clear()
    control.add("20001", "tn_1")
    ports = [("20001", "tn_1"), ("20001", "tn_2"), ("20002", "tn_1")]
    assert [gateway.is_open(*port) for port in ports] == [True, False, False]
    control.add("20001", "tn_2")
    assert [gateway.is_open(*port) for port in ports] == [False, True, False]
    control.remove("20001")
    control.remove("20001")
    assert [gateway.is_open(*port) for port in ports] == [False, False, False]


def test_a_start_closes_the_ports_of_the_process_before(tmp_path: Path) -> None:
    OpenPorts(tmp_path).clear()
    OpenPorts(tmp_path).add("20001", "tn_1")
    OpenPorts(tmp_path).clear()
    assert not OpenPorts(tmp_path).is_open("20001", "tn_1")
    assert (tmp_path / "ports").stat().st_mode & 0o777 == 0o700


def test_a_host_without_control_does_not_wait_for_ports(tmp_path: Path) -> None:
    assert OpenPorts(tmp_path).is_open("20001", "tn_1")
