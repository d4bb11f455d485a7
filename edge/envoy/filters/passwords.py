"""The filters that require passwords, which a route or virtual host enables. This file does no I/O.

Envoy asks the sign-in service to verify a password. A script remembers for a minute which credentials of a visitor were
right, so that Envoy does not ask again. Without the script, an HTTP connection manager asks for each request.
"""

from collections.abc import Mapping

from chalicelib.model.edges.modules.basic_auth import BasicAuthRule
from chalicelib.model.serving.edge_plans import Plan, RouteTarget
from edge.envoy import parts, v3
from edge.process.settings import Settings

CLUSTER = "passwords"
NAME, _REMEMBER = "passwords", "passwords/known"
_TIMEOUT = 5.0  # seconds for an answer of the sign-in service, which reads and decrypts a record
_HEADER = "authorization"
_SCRIPT = """
local LIFE, MOST, LONGEST = 60, 2048, 1024

-- Entries of the last minute, or of the last two.
local function new_memory()
  local now, before, count, turned = {}, {}, 0, 0
  local memory = {}
  function memory.has(key, time)
    local expires = now[key] or before[key]
    return expires and time < expires and expires <= time + LIFE
  end
  function memory.add(key, time)
    if count >= MOST or time >= turned + LIFE or time < turned then
      before, now, count, turned = now, {}, 0, time
    end
    now[key] = time + LIFE
    count = count + 1
  end
  return memory
end

local passed, stopped = new_memory(), new_memory()

function envoy_on_request(handle)
  local sent = handle:headers():get("authorization")
  if not sent or #sent > LONGEST then return end
  local info, time = handle:streamInfo(), os.time()
  local visitor = handle:filterContext():get("holder") .. " " .. info:downstreamRemoteAddress():gsub(":%d+$", "")
  local key = visitor .. " " .. sent
  if passed.has(key, time) and not stopped.has(visitor, time) then
    info:dynamicMetadata():set("passwords", "known", true)
  else
    info:dynamicMetadata():set("passwords", "visitor", visitor)
    info:dynamicMetadata():set("passwords", "key", key)
  end
end

function envoy_on_response(handle)
  local metadata = handle:streamInfo():dynamicMetadata()
  local asked = metadata:get("passwords")
  if not asked or not asked["key"] then return end
  local answer = metadata:get("envoy.filters.http.ext_authz")
  if not answer then return end
  if answer["password"] == "right" then passed.add(asked["key"], os.time()) end
  if answer["password"] == "stopped" then stopped.add(asked["visitor"], os.time()) end
end
"""
_IS_UNKNOWN = v3.MetadataMatcher(
    filter="passwords",
    path=[v3.MetadataMatcher.PathSegment(key="known")],
    value=v3.ValueMatcher(present_match=True),
    invert=True,
)
MEMORY = v3.HttpFilter(
    name=_REMEMBER, disabled=True, typed_config=parts.pack(v3.Lua(default_source_code=parts.text(_SCRIPT)))
)


def build_filter(settings: Settings) -> v3.HttpFilter:
    """Return the filter that asks the sign-in service to verify a password."""
    config = parts.authorization(CLUSTER, _TIMEOUT, settings)
    config.allowed_headers.patterns.append(v3.StringMatcher(exact=_HEADER))
    config.filter_enabled_metadata.CopyFrom(_IS_UNKNOWN)
    return v3.HttpFilter(name=NAME, disabled=True, typed_config=parts.pack(config))


def require_route(route: v3.Route, rule: BasicAuthRule, plan: Plan, target: RouteTarget) -> None:
    """Require one of a route's passwords for requests to the route."""
    require(route, {"account": plan.edge.account, "edge": plan.edge.id, "holder": target.route.id}, rule)


def require(route: v3.Route | v3.VirtualHost, facts: Mapping[str, str], rule: BasicAuthRule) -> None:
    """Require a password for requests. The upstream does not receive the password.

    `facts` has the ids of the account, of the edge, and of the route or reservation that has the passwords (`holder`).
    """
    route.typed_per_filter_config[NAME].CopyFrom(parts.check_settings(**facts, passwords=rule.digest))
    script = v3.LuaPerRoute(filter_context=parts.struct(holder=f"{facts['holder']} {rule.digest}"))
    route.typed_per_filter_config[_REMEMBER].CopyFrom(parts.pack(script))
    route.request_headers_to_remove.append(_HEADER)
