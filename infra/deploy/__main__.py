"""`python -m infra.deploy`: deploy a package into the cloud that the environment names."""

import re
import sys
from argparse import ArgumentParser
from pathlib import Path

from chalicelib.storage.client.aws import AwsError
from infra import CommandError
from infra.deploy import service, stacks

_NO_ALARMS = (
    "AlarmTopicArn is empty, so no alarm would reach anyone. Deploy with AlarmTopicArn=<the ARN of an SNS topic>: step"
    " 3 of 'From an empty account to a URL' in infra/README.md makes one. AlarmTopicArn=none deploys without."
)


def main(arguments: list[str]) -> None:
    """Deploy and print the stacks' outputs. A failure exits with one sentence and status 1."""
    parser = ArgumentParser(prog="python -m infra.deploy", description=__doc__)
    parser.add_argument("package", type=Path, help="the folder that make package made, for example build/prod")
    parser.add_argument("parameters", nargs="*", metavar="NAME=VALUE", help="parameters of infra/README.md")
    parser.add_argument("--name", default="tunnel-edge", help="the name of the table and of the stacks")
    parser.add_argument("--bucket", required=True, help="the bucket to which the package is uploaded")
    parser.add_argument("--role", help="the role that CloudFormation assumes (default: it uses the caller's rights)")
    parser.add_argument("--tag", action="append", metavar="KEY=VALUE", help="a tag of all resources; can be repeated")
    options = parser.parse_intermixed_args(arguments)
    try:
        if not all((options.package / file).exists() for file in ("sam.json", "deployment.zip")):
            raise CommandError(f"There is no package in {options.package}: make it with 'make package'.")
        if not re.fullmatch("[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", options.bucket):
            raise CommandError(f"{options.bucket!r} is not the name of an S3 bucket.")
        parameters = dict(map(_parameter, options.parameters))
        tags = dict(map(_tag, options.tag)) if options.tag else None
        if sentence := service.settings_difference(options.name, parameters):
            print(sentence, file=sys.stderr)
        deployed = stacks.parameters(f"{options.name}-api")
        if not parameters.get("AlarmTopicArn", deployed.get("AlarmTopicArn", "")):
            raise CommandError(_NO_ALARMS)
        outputs = service.deploy(
            options.package, options.name, options.bucket, parameters, role=options.role, tags=tags
        )
    except CommandError as error:
        sys.exit(str(error))
    except AwsError as error:
        sys.exit(f"AWS cannot be used ({error.code}): check the credentials, the region and AWS_ENDPOINT_URL.")
    print("\n".join(f"{name}={value}" for name, value in outputs.items()))


def _parameter(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (equals and re.fullmatch("[A-Za-z0-9]+", name)):
        raise CommandError(f"{text!r} is not of the form NAME=VALUE.")
    return name, value


def _tag(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not (equals and key) or key.startswith("aws:"):
        raise CommandError(f"{text!r} is not a tag of the form KEY=VALUE.")
    return key, value


if __name__ == "__main__":
    main(sys.argv[1:])
