"""Answers the calls of Terraform's plugin protocol, version 6, by requests to the API."""

import json
import os
from collections.abc import Callable, Mapping
from typing import Any

import grpc
from tf.gen import tfplugin_pb2 as pb
from tf.gen import tfplugin_pb2_grpc as rpc

from tunneledge_provider import NAME, messages, resources
from tunneledge_provider.api import MAX_RETRIES, Api, ApiError, ConfigurationError
from tunneledge_provider.kinds import Attribute, Kind
from tunneledge_provider.plans import plan
from tunneledge_provider.resources import UnfinishedError
from tunneledge_provider.values import UNKNOWN

SETTINGS = (
    Attribute("url", "string", description="Address of the service. Default: TE_URL.", optional=True),
    Attribute("token", "string", description="API key. Default: TE_TOKEN.", optional=True, sensitive=True),
    Attribute("max_retries", "number", description=f"Retries of a request. Default: {MAX_RETRIES}.", optional=True),
)
_Source = tuple[tuple[Attribute, ...], Callable[[Api, dict[str, Any]], dict[str, Any]]]


class Service(rpc.ProviderServicer):  # type: ignore[misc]  # generated code without types
    """Answers the calls of one Terraform process."""

    def __init__(self, kinds: tuple[Kind, ...]) -> None:
        self._kinds = {f"{NAME}_{kind.name}": kind for kind in kinds}
        self._sources = {name: source for kind in kinds for name, source in _sources(kind).items()}
        self._api: Api | None = None

    def GetMetadata(self, request: pb.GetMetadata.Request, context: grpc.ServicerContext) -> Any:
        """Refuse the call, so that Terraform reads the schemas instead of separate metadata. The schemas are small."""
        context.abort(
            grpc.StatusCode.UNIMPLEMENTED, "The metadata of this provider are not available: read its schema instead."
        )

    def GetProviderSchema(self, request: pb.GetProviderSchema.Request, context: grpc.ServicerContext) -> Any:
        """Return the schemas of the provider, all resources and all data sources."""
        return pb.GetProviderSchema.Response(
            provider=messages.schema(SETTINGS),
            resource_schemas={
                name: messages.schema(kind.attributes, kind.description) for name, kind in self._kinds.items()
            },
            data_source_schemas={name: messages.schema(attributes) for name, (attributes, _) in self._sources.items()},
            server_capabilities=pb.ServerCapabilities(get_provider_schema_optional=True),
        )

    def ValidateProviderConfig(self, request: pb.ValidateProviderConfig.Request, context: grpc.ServicerContext) -> Any:
        """Accept every configuration, because its values may be unknown yet."""
        return pb.ValidateProviderConfig.Response()

    def ValidateResourceConfig(self, request: pb.ValidateResourceConfig.Request, context: grpc.ServicerContext) -> Any:
        """Accept every configuration, because the API checks the values."""
        return pb.ValidateResourceConfig.Response()

    def ValidateDataResourceConfig(
        self, request: pb.ValidateDataResourceConfig.Request, context: grpc.ServicerContext
    ) -> Any:
        """Accept every configuration."""
        return pb.ValidateDataResourceConfig.Response()

    def ConfigureProvider(self, request: pb.ConfigureProvider.Request, context: grpc.ServicerContext) -> Any:
        """Prepare requests, with the URL and token from the configuration or the environment."""
        config = messages.read(request.config)
        unknown = [name for name, value in config.items() if value is UNKNOWN]
        try:
            if unknown:
                raise ConfigurationError(
                    f"The provider's {' and '.join(unknown)} must not depend on a resource that the plan creates."
                )
            url, token = (
                config["url"] or os.environ.get("TE_URL", ""),
                config["token"] or os.environ.get("TE_TOKEN", ""),
            )
            retries = MAX_RETRIES if config["max_retries"] is None else int(config["max_retries"])
            self._api = Api(url, token, retries)
        except ConfigurationError as error:
            return pb.ConfigureProvider.Response(diagnostics=messages.errors(SETTINGS, error))
        return pb.ConfigureProvider.Response()

    def UpgradeResourceState(self, request: pb.UpgradeResourceState.Request, context: grpc.ServicerContext) -> Any:
        """Return the stored state with exactly the attributes that this version of the provider has."""
        stored = json.loads(request.raw_state.json)
        state = messages.conform(self._kinds[request.type_name].attributes, stored)
        return pb.UpgradeResourceState.Response(upgraded_state=messages.write(state))

    def ReadResource(self, request: pb.ReadResource.Request, context: grpc.ServicerContext) -> Any:
        """Return the current state. Return null if the resource does not exist any more."""
        kind = self._kinds[request.type_name]
        try:
            state = resources.read(self._require_api(), kind, messages.read(request.current_state))
        except (ApiError, ConfigurationError) as error:
            diagnostics = messages.errors(kind.attributes, error)
            return pb.ReadResource.Response(new_state=request.current_state, diagnostics=diagnostics)
        return pb.ReadResource.Response(new_state=messages.write(state), private=request.private)

    def PlanResourceChange(self, request: pb.PlanResourceChange.Request, context: grpc.ServicerContext) -> Any:
        """Return the planned state. Terraform itself plans deletions."""
        kind, config = self._kinds[request.type_name], messages.read(request.config)
        if messages.read(request.proposed_new_state) is None:
            return pb.PlanResourceChange.Response(planned_state=request.proposed_new_state)
        planned = plan(kind, config, messages.read(request.prior_state))
        return pb.PlanResourceChange.Response(
            planned_state=messages.write(planned.state),
            requires_replace=[messages.path(name) for name in planned.replaced],
            planned_private=request.prior_private,
        )

    def ApplyResourceChange(self, request: pb.ApplyResourceChange.Request, context: grpc.ServicerContext) -> Any:
        """Create, update or delete a resource. If the API refuses the request, return the prior state."""
        kind = self._kinds[request.type_name]
        try:
            state = _apply(
                self._require_api(), kind, messages.read(request.prior_state), messages.read(request.planned_state)
            )
        except UnfinishedError as unfinished:
            diagnostics = messages.errors(kind.attributes, unfinished.cause)
            return pb.ApplyResourceChange.Response(new_state=messages.write(unfinished.state), diagnostics=diagnostics)
        except (ApiError, ConfigurationError, ValueError) as error:
            diagnostics = messages.errors(kind.attributes, error)
            return pb.ApplyResourceChange.Response(new_state=request.prior_state, diagnostics=diagnostics)
        return pb.ApplyResourceChange.Response(new_state=messages.write(state), private=request.planned_private)

    def ImportResourceState(self, request: pb.ImportResourceState.Request, context: grpc.ServicerContext) -> Any:
        """Return a state with only the ids of a resource. Terraform then reads the resource."""
        try:
            state = messages.write(resources.parse_import_id(self._kinds[request.type_name], request.id))
        except ValueError as error:
            return pb.ImportResourceState.Response(diagnostics=messages.errors((), error))
        resource = pb.ImportResourceState.ImportedResource(type_name=request.type_name, state=state)
        return pb.ImportResourceState.Response(imported_resources=[resource])

    def ReadDataSource(self, request: pb.ReadDataSource.Request, context: grpc.ServicerContext) -> Any:
        """Return a resource or the status of an edge by its id."""
        attributes, look_up = self._sources[request.type_name]
        try:
            state = look_up(self._require_api(), messages.read(request.config))
        except (ApiError, ConfigurationError) as error:
            return pb.ReadDataSource.Response(diagnostics=messages.errors(attributes, error))
        return pb.ReadDataSource.Response(state=messages.write(state))

    def StopProvider(self, request: pb.StopProvider.Request, context: grpc.ServicerContext) -> Any:
        """Accept an interruption, and do nothing: calls to the API have a timeout."""
        return pb.StopProvider.Response()

    def _require_api(self) -> Api:
        if self._api is None:
            raise ConfigurationError("The provider is not configured: set url and token, or TE_URL and TE_TOKEN.")
        return self._api


def _sources(kind: Kind) -> Mapping[str, _Source]:
    """Return the data sources of a kind: one for the resource, and one for its status if it has one."""
    sources: dict[str, _Source] = {
        f"{NAME}_{kind.name}": (kind.data_source, lambda api, config: resources.look_up(api, kind, config))
    }
    if kind.status:
        name = f"{NAME}_{kind.name}_status"
        sources[name] = (kind.status_source, lambda api, config: resources.look_up_status(api, kind, config))
    return sources


def _apply(api: Api, kind: Kind, prior: Any, planned: Any) -> Any:
    if planned is None:
        return resources.delete(api, kind, prior)
    return resources.create(api, kind, planned) if prior is None else resources.update(api, kind, prior, planned)
