"""The balancer in front of edge hosts, and the units on them: their times fit each other."""

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import boto3
import pytest

from edge.process.settings import Limits
from infra import ROOT
from infra.deploy.templates import parse_template
from tests.cloud.units import service

FILE = ROOT / "infra" / "deploy" / "fleet.yaml"
TEMPLATE: dict[str, Any] = parse_template(FILE.read_text())
_, PORTS, REPLICATED = TEMPLATE["Resources"]["Fn::ForEach::Listeners"]
TARGET, LISTENER = (REPLICATED[f"{name}${{Port}}"]["Properties"] for name in ("Target", "Listener"))
ATTRIBUTES = {attribute["Key"]: attribute["Value"] for attribute in TARGET["TargetGroupAttributes"]}
LIMITS = Limits()


def test_a_host_that_drains_is_unhealthy_before_its_requests_are_cut() -> None:
    assert (TARGET["HealthCheckProtocol"], TARGET["HealthCheckPath"]) == ("HTTP", "/readyz")
    assert TARGET["HealthCheckPort"] == {"Ref": "MetricsPort"}
    noticed = TARGET["HealthCheckIntervalSeconds"] * TARGET["UnhealthyThresholdCount"]
    assert noticed + TARGET["HealthCheckTimeoutSeconds"] < LIMITS.drain_timeout


@pytest.mark.parametrize("process", ["gateway", "envoy"])
def test_connections_outlive_the_drain_of_a_host(process: str) -> None:
    stop = int(service(process)["TimeoutStopSec"])
    assert int(ATTRIBUTES["deregistration_delay.timeout_seconds"]) > max(stop, LIMITS.drain_timeout)
    assert ATTRIBUTES["deregistration_delay.connection_termination.enabled"] == "false"
    assert ATTRIBUTES["target_health_state.unhealthy.connection_termination.enabled"] == "false"


def test_idle_ssh_connections_outlive_the_keepalives_of_the_gateway() -> None:
    assert {attribute["Key"]: int(attribute["Value"]) for attribute in LISTENER["ListenerAttributes"]} == {
        "tcp.idle_timeout.seconds": 6000
    }


def test_tls_ends_at_envoy_and_addresses_arrive_in_one_way() -> None:
    assert LISTENER["Protocol"] == TARGET["Protocol"] == "TCP"
    ways = ATTRIBUTES["preserve_client_ip.enabled"], ATTRIBUTES["proxy_protocol_v2.enabled"]
    assert sorted(ways) == ["false", "true"]


def test_hosts_reach_all_link_ports_and_only_the_monitoring_reads_metrics() -> None:
    parameters = {name: parameter.get("Default") for name, parameter in TEMPLATE["Parameters"].items()}
    assert parameters["LastHopPort"] - parameters["HopPort"] == 5
    assert PORTS == {"Ref": "Ports"}
    rules = TEMPLATE["Resources"]["InstanceGroup"]["Properties"]["SecurityGroupIngress"]
    assert [rule.get("CidrIp") for rule in rules] == [None, {"Ref": "MonitoringNetwork"}]


def instances(kind: str, name: str) -> dict[str, Any]:
    _, numbers, resources = TEMPLATE["Resources"][f"Fn::ForEach::{kind}"]
    assert numbers == ["0", "1"]
    properties: dict[str, Any] = resources[f"{name}${{Number}}"]["Properties"]
    return properties


def test_only_hosts_of_the_sign_in_service_have_its_role() -> None:
    edge, sign_in = instances("Instances", "Instance"), instances("SignInInstances", "SignInInstance")
    assert edge["IamInstanceProfile"] == {"Ref": "InstanceProfile"}
    assert sign_in["IamInstanceProfile"] == {"Ref": "SignInInstanceProfile"}
    outputs = parse_template((FILE.parent / "edge.yaml").read_text())
    roles = {
        name: outputs["Resources"][outputs["Outputs"][name]["Value"]["Ref"]]["Properties"]["Roles"]
        for name in ("InstanceProfile", "SignInInstanceProfile")
    }
    assert roles == {"InstanceProfile": [{"Ref": "EdgeRole"}], "SignInInstanceProfile": [{"Ref": "EdgeSignInRole"}]}


def test_envoys_of_the_instances_are_the_only_clients_of_the_sign_in_service() -> None:
    group = {"Fn::GetAtt": ["SignInGroup", "GroupId"]}
    assert instances("SignInInstances", "SignInInstance")["SecurityGroupIds"] == [group]
    assert instances("Instances", "Instance")["SecurityGroupIds"] == [{"Fn::GetAtt": ["InstanceGroup", "GroupId"]}]
    link, monitoring = TEMPLATE["Resources"]["SignInGroup"]["Properties"]["SecurityGroupIngress"]
    assert link["FromPort"] == link["ToPort"] == {"Ref": "SignInPort"}
    assert link["SourceSecurityGroupId"] == {"Fn::GetAtt": ["InstanceGroup", "GroupId"]}
    assert monitoring["FromPort"] == {"Ref": "MetricsPort"}
    assert TARGET["Targets"] == [{"Id": {"Ref": "Instance0"}}, {"Id": {"Ref": "Instance1"}}]


def test_the_linter_accepts_the_template_for_any_ports(tmp_path: Path) -> None:
    for name, ports in (("one", "443"), ("many", ",".join(map(str, range(20000, 20050))))):
        template = {**TEMPLATE, "Parameters": {**TEMPLATE["Parameters"], "Ports": {"Type": "CommaDelimitedList"}}}
        template["Parameters"]["Ports"]["Default"] = ports
        (tmp_path / f"{name}.json").write_text(json.dumps(template))
    command = [Path(sys.executable).with_name("cfn-lint"), *tmp_path.iterdir()]
    linted = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (linted.returncode, linted.stdout) == (0, "")


def expand(value: Any, names: Mapping[str, str]) -> Any:
    """Return part of the template without Fn::ForEach, which moto does not know. The loops have two items."""
    match value:
        case {"Ref": str(name)} if name in names:
            return names[name]
        case {"Ref": {"Fn::Sub": str(text)}}:
            return {"Ref": fill(text, names)}
        case dict():
            expanded: dict[str, Any] = {}
            for key, member in value.items():
                if key.startswith("Fn::ForEach"):
                    variable, items, body = member
                    for item in items if isinstance(items, list) else ["443", "2222"]:
                        expanded |= expand(body, {**names, variable: item})
                else:
                    expanded[fill(key, names)] = expand(member, names)
            return expanded
        case list():
            return [expand(member, names) for member in value]
    return value


def fill(text: str, names: Mapping[str, str]) -> str:
    return re.sub(r"\$\{(\w+)\}", lambda match: names.get(match[1], match[0]), text)


def deploy(name: str, template: Any, **parameters: str) -> dict[str, str]:
    """Create a stack in moto. Return its outputs."""
    client = boto3.client("cloudformation")
    arguments = [{"ParameterKey": key, "ParameterValue": value} for key, value in parameters.items()]
    client.create_stack(StackName=name, TemplateBody=json.dumps(template), Parameters=arguments)
    (stack,) = client.describe_stacks(StackName=name)["Stacks"]
    assert stack["StackStatus"] == "CREATE_COMPLETE"
    return {output["OutputKey"]: output["OutputValue"] for output in stack["Outputs"]}


def test_a_deployed_fleet_has_hosts_of_two_roles_and_a_name_for_the_sign_in_hosts() -> None:
    ec2, iam, dns = (boto3.client(service) for service in ("ec2", "iam", "route53"))
    key = "arn:aws:kms:us-east-1:123456789012:key/1234abcd"
    profiles = deploy("edge", parse_template((FILE.parent / "edge.yaml").read_text()), Name="tunnel-edge", KeyArn=key)
    subnets, images = ec2.describe_subnets()["Subnets"], ec2.describe_images()["Images"]
    template = expand({name: value for name, value in TEMPLATE.items() if name != "Transform"}, {})
    for name in [name for name in template["Resources"] if name.startswith("Listener")]:
        del template["Resources"][name]  # moto knows no listeners of TCP
    outputs = deploy(
        "fleet",
        template,
        Vpc=subnets[0]["VpcId"],
        Subnets=f"{subnets[0]['SubnetId']},{subnets[1]['SubnetId']}",
        Image=images[0]["ImageId"],
        SignInImage=images[1]["ImageId"],
        InstanceProfile=profiles["InstanceProfile"],
        SignInInstanceProfile=profiles["SignInInstanceProfile"],
    )

    instances = [
        instance for reservation in ec2.describe_instances()["Reservations"] for instance in reservation["Instances"]
    ]
    roles = dict[str, list[str]]()
    for instance in instances:
        (role,) = iam.get_instance_profile(InstanceProfileName=instance["IamInstanceProfile"]["Arn"].split("/")[-1])[
            "InstanceProfile"
        ]["Roles"]
        kind = "edge" if instance["ImageId"] == images[0]["ImageId"] else "sign-in"
        roles.setdefault(f"{kind} {role['Arn'].split('-')[1]}", []).append(instance["PrivateIpAddress"])
    assert {name: len(instances) for name, instances in roles.items()} == {
        "edge EdgeRole": 2,
        "sign-in EdgeSignInRole": 2,
    }
    (zone,) = dns.list_hosted_zones()["HostedZones"]
    records = dns.list_resource_record_sets(HostedZoneId=zone["Id"])["ResourceRecordSets"]
    (record,) = [record for record in records if record["Type"] == "A"]
    assert outputs["SignInHosts"] == f"{record['Name']}:4440"
    assert [record["Value"] for record in record["ResourceRecords"]] == roles["sign-in EdgeSignInRole"]
