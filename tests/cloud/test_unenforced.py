"""What the template makes for SnapStart and a web ACL, which the emulated cloud does not enforce."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.conftest import ROOT, Served

ALIAS = {"Alias": {"Fn::If": ["HasSnapStart", ":live", ""]}}
PARTITION, REGION_AND_ACCOUNT, API = "${AWS::Partition}", "${AWS::Region}:${AWS::AccountId}", "${RestAPI}"
CALLERS = {"APIHandler": "/*", "Authorizer": "/authorizers/*"}  # the part of the API that calls each function


@pytest.fixture(scope="module")
def resources(deployed_api: Served) -> Mapping[str, Any]:
    """Return the resources of the API's stack, as SAM makes them of the package that was deployed."""
    stack = json.loads((ROOT / "build" / "dev" / "translated.json").read_text())
    resources: Mapping[str, Any] = stack["Resources"]
    return resources


@pytest.mark.parametrize("name", CALLERS)
def test_with_snapstart_a_version_is_made_of_each_function_and_the_api_may_call_its_alias(
    resources: Mapping[str, Any], name: str
) -> None:
    apply_on = {"Fn::If": ["HasSnapStart", "PublishedVersions", "None"]}
    assert resources[name]["Properties"]["SnapStart"] == {"ApplyOn": apply_on}
    parts = {kind: resources[f"{name}{kind}"] for kind in ("Version", "Alias", "AliasPermission")}
    assert {part["Condition"] for part in parts.values()} == {"HasSnapStart"}
    assert {kind: part["Properties"] for kind, part in parts.items()} == {
        "Version": {"FunctionName": {"Ref": name}},
        "Alias": {
            "FunctionName": {"Ref": name},
            "FunctionVersion": {"Fn::GetAtt": [f"{name}Version", "Version"]},
            "Name": "live",
        },
        "AliasPermission": {
            "Action": "lambda:InvokeFunction",
            "FunctionName": {"Ref": f"{name}Alias"},
            "Principal": "apigateway.amazonaws.com",
            "SourceArn": {"Fn::Sub": f"arn:{PARTITION}:execute-api:{REGION_AND_ACCOUNT}:{API}{CALLERS[name]}"},
        },
    }


def test_every_call_of_the_gateway_goes_to_the_alias_with_snapstart_and_to_the_function_without(
    resources: Mapping[str, Any],
) -> None:
    called_addresses = [*addresses(resources["RestAPI"])]
    assert len(called_addresses) > 100
    assert {json.dumps(alias) for _, alias in called_addresses} == {json.dumps(ALIAS)}
    functions = {address.partition("functions/")[2] for address, _ in called_addresses}
    assert functions == {f"${{{name}.Arn}}${{Alias}}/invocations" for name in CALLERS}


def test_the_web_acl_is_that_of_the_stage(resources: Mapping[str, Any]) -> None:
    (stage,) = (name for name, resource in resources.items() if resource["Type"] == "AWS::ApiGateway::Stage")
    address = f"arn:{PARTITION}:apigateway:${{AWS::Region}}::/restapis/{API}/stages/${{{stage}}}"
    assert resources["WebAcl"] == {
        "Type": "AWS::WAFv2::WebACLAssociation",
        "Condition": "HasWebAcl",
        "Properties": {"WebACLArn": {"Ref": "WebAclArn"}, "ResourceArn": {"Fn::Sub": address}},
    }


def addresses(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield each address in an API definition that the gateway calls, with the values that it contains."""
    if isinstance(value, list):
        for child in value:
            yield from addresses(child)
    for name, child in value.items() if isinstance(value, dict) else ():
        if name in ("uri", "authorizerUri"):
            text, values = child["Fn::Sub"]
            yield text, values
        else:
            yield from addresses(child)
