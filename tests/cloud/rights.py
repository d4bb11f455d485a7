"""Who may do what: the policies of the templates with their names filled in, and calls of botocore as IAM sees them."""

import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from chalicelib.storage.client import aws
from infra import ROOT
from infra.deploy.templates import parse_template
from tests.cloud.evaluator import Call, Statement, allows, each

NAME = "tunnel-edge-production"
_REGION_AND_ACCOUNT = "us-east-1:123456789012"
TABLE = f"arn:aws:dynamodb:{_REGION_AND_ACCOUNT}:table/{NAME}"
RESTORED = f"{TABLE}-restored"
INDEX = f"{TABLE}/index/by-resource"
KEY = f"arn:aws:kms:{_REGION_AND_ACCOUNT}:key/1234abcd-12ab-34cd-56ef-1234567890ab"
FUNCTION = f"arn:aws:lambda:{_REGION_AND_ACCOUNT}:function:{NAME}-api-APIHandler-x"
LOGS = f"arn:aws:logs:{_REGION_AND_ACCOUNT}:log-group:{NAME}-api-APIHandlerLogs-x"
BUCKET = "arn:aws:s3:::packages"
BOUNDARY, SERVICE_ROLE = (f"arn:aws:iam::123456789012:{path}" for path in ("policy/Boundary", "role/ServiceRole"))
_NAMES = {
    "AWS::AccountId": "123456789012",
    "AWS::Partition": "aws",
    "AWS::Region": "us-east-1",
    "APIHandlerLogs.Arn": f"{LOGS}:*",
    "Boundary": BOUNDARY,
    "Bucket.Arn": BUCKET,
    "ServiceRole.Arn": SERVICE_ROLE,
    "AuthorizerLogs.Arn": f"{LOGS.replace('APIHandler', 'Authorizer')}:*",
    "Environment": "production",
    "KeyArn": KEY,
    "Name": NAME,
    "TableName": NAME,
}
_PARTS = {"ConditionCheck": "ConditionCheckItem", "Delete": "DeleteItem", "Put": "PutItem", "Update": "UpdateItem"}
_ENTRANCES = {  # the module or package by which a role's code is entered
    "chalicelib.http.middleware.": "api",
    "chalicelib.authorizer.": "authorizer",
    "chalicelib.operator.": "operator",
    "edge.issuer.": "issuer",
    "edge.sign_in.": "sign-in",
    "edge.": "edge",
    "chalicelib.model.serving.": "edge",  # in threads of its own
}
_OF_AN_ADMINISTRATOR = "chalicelib.storage.provisioning"  # where no stack made the table and the key


@dataclass(frozen=True)
class Role:
    """A role, or what is attached to one: its policy, and its boundary if it has one."""

    policy: tuple[Statement, ...]
    boundary: tuple[Statement, ...] | None = None
    _verdicts: dict[str, bool] = field(default_factory=dict)

    def may(self, call: Call) -> bool:
        """Return whether the role may make a call. Equal calls are decided once."""
        key = repr(call)
        if key not in self._verdicts:
            self._verdicts[key] = allows(call, self.policy, *([self.boundary] if self.boundary else []))
        return self._verdicts[key]


@cache
def roles() -> Mapping[str, Role]:
    """Return the roles by which the service works, by name."""
    of_edge = _template("edge.yaml")
    names = ("EdgeRole", "EdgeIssuerRole", "EdgeSignInRole")
    edge, issuer, sign_in = (of_edge[name]["Policies"][0]["PolicyDocument"] for name in names)
    return {
        "api": Role(_fill(_of_function("policy-api.json")), boundary()),
        "authorizer": Role(_fill(_of_function("policy-authorizer.json")), boundary()),
        "edge": Role(_fill(edge)),
        "issuer": Role(_fill(issuer)),
        "sign-in": Role(_fill(sign_in)),
        "deployer": Role(_of_role("DeployRole")),
        "service": Role(_of_role("ServiceRole")),
        "operator": Role(_fill(_template("pipeline.yaml")["OperatorPolicy"]["PolicyDocument"])),
    }


def _of_role(name: str) -> tuple[Statement, ...]:
    policies = _template("pipeline.yaml")[name]["Policies"]
    return tuple(statement for policy in policies for statement in _fill(policy["PolicyDocument"]))


def boundary() -> tuple[Statement, ...]:
    """Return the boundary of the functions."""
    return _fill(_template("pipeline.yaml")["Boundary"]["PolicyDocument"])


@cache
def _template(file: str) -> Mapping[str, Any]:
    """Return the properties of a template's resources."""
    resources = parse_template((ROOT / "infra" / "deploy" / file).read_text())["Resources"]
    return {name: resource.get("Properties", {}) for name, resource in resources.items()}


def _of_function(file: str) -> Mapping[str, Any]:
    policy: Mapping[str, Any] = json.loads((ROOT / ".chalice" / file).read_text())
    return policy


def _fill(document: Mapping[str, Any]) -> tuple[Statement, ...]:
    return tuple(_with_names(statement) for statement in document["Statement"])


def _with_names(value: Any) -> Any:
    """Return part of a template with the names of this deployment filled in."""
    match value:
        case {"Ref": str(name)}:
            return _NAMES[name]
        case {"Fn::GetAtt": [*path]}:
            return _NAMES[".".join(path)]
        case {"Fn::Sub": str(text)}:
            return re.sub(r"\$\{([^}]+)\}", lambda match: _NAMES[match[1]], text)
        case {"Fn::If": [_, _, otherwise]}:
            return _with_names(otherwise)
        case dict():
            return {name: _with_names(member) for name, member in value.items()}
        case list():
            return [_with_names(member) for member in value]
    return value


@contextmanager
def record_calls(note: Callable[[str, Call], None]) -> Iterator[None]:
    """Have a function called with each call of this process to DynamoDB and KMS, and the role whose code makes it."""

    def hear(params: Mapping[str, Any], model: Any, **_: object) -> None:
        if role := _caller():
            for call in _calls(role, model.service_model.service_name, model.name, params):
                note(role, call)

    clients = [aws.client(service) for service in ("dynamodb", "kms")]
    for client in clients:
        client.meta.events.register("provide-client-params", hear)
    try:
        yield
    finally:
        for client in clients:
            client.meta.events.unregister("provide-client-params", hear)


def _caller() -> str | None:
    """Return the role whose code the calling frames are of, None where a test itself or an administrator calls."""
    frame, role = sys._getframe(1), None
    while frame:
        module = frame.f_globals.get("__name__", "")
        if module == _OF_AN_ADMINISTRATOR:
            return None
        role = _role_of(module) or role
        frame = frame.f_back  # type: ignore[assignment]
    return role


@cache
def _role_of(module: str) -> str | None:
    return next((role for entrance, role in _ENTRANCES.items() if f"{module}.".startswith(entrance)), None)


def _calls(role: str, service: str, operation: str, params: Mapping[str, Any]) -> Iterator[Call]:
    """Yield IAM's requests for one call of DynamoDB or KMS by a role: one for each part of a transaction."""
    source = {"lambda:SourceFunctionArn": FUNCTION} if role in ("api", "authorizer") else {}
    if service == "kms":
        encryption_context = params.get("EncryptionContext", {})
        context = {f"kms:EncryptionContext:{name}": value for name, value in encryption_context.items()}
        keys = {"kms:EncryptionContextKeys": tuple(encryption_context)} if encryption_context else {}
        if operation == "ReEncrypt":
            yield from _seals_again(params, source)
            return
        yield Call(f"kms:{operation}", KEY, {**source, **context, **keys, "kms:ResourceAliases": (f"alias/{NAME}",)})
    elif operation == "TransactWriteItems":
        for part in params["TransactItems"]:
            for name, write in part.items():
                yield _call(_PARTS[name], write, source)
    elif operation == "BatchGetItem":
        for name, request in params["RequestItems"].items():
            yield _call(operation, {"TableName": name, "Keys": request["Keys"]}, source)
    else:
        yield _call(operation, params, source)


def _seals_again(params: Mapping[str, Any], source: Mapping[str, str]) -> Iterator[Call]:
    """Yield the two requests of a call that seals a secret under another key."""
    for name, side, alias in (("From", "Source", NAME), ("To", "Destination", f"{NAME}-2")):
        encryption_context = params[f"{side}EncryptionContext"]
        context = {f"kms:EncryptionContext:{key}": value for key, value in encryption_context.items()}
        aliases = {"kms:ResourceAliases": (f"alias/{alias}",)}
        yield Call(
            f"kms:ReEncrypt{name}",
            KEY,
            {**source, **context, "kms:EncryptionContextKeys": tuple(encryption_context), **aliases},
        )


def _call(operation: str, params: Mapping[str, Any], source: Mapping[str, str]) -> Call:
    index = f"/index/{params['IndexName']}" if "IndexName" in params else ""
    table = TABLE if params["TableName"] == os.environ.get("TABLE_NAME", "tunnel-edge") else RESTORED
    keys = {"dynamodb:LeadingKeys": leading} if (leading := _leading_keys(params)) else {}
    return Call(f"dynamodb:{operation}", table + index, {**source, **keys})


def _leading_keys(params: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the partition keys that a call names, none for a Scan."""
    if "KeyConditionExpression" in params:
        (value,) = re.findall(r"^#\w+ = (:\w+)", params["KeyConditionExpression"])
        return (params["ExpressionAttributeValues"][value]["S"],)
    keys = params.get("Keys") or each(params.get("Key") or params.get("Item") or [])
    return tuple(key["scope"]["S"] for key in keys)
