"""The paths of the API, their methods, and the file of each. `make openapi` writes this table."""

FILES = {
    "chalicelib.documents.docs": {
        "/docs": "GET",
        "/": "GET",
    },
    "chalicelib.documents.openapi": {
        "/openapi.json": "GET",
    },
    "chalicelib.edges.https": {
        "/edges/https": "GET POST",
        "/edges/https/{edge_id}": "GET PATCH DELETE",
        "/edges/https/{edge_id}/status": "GET",
    },
    "chalicelib.edges.routes": {
        "/edges/https/{edge_id}/routes": "GET POST",
        "/edges/https/{edge_id}/routes/{id}": "GET PATCH DELETE",
    },
    "chalicelib.edges.tcp": {
        "/edges/tcp": "GET POST",
        "/edges/tcp/{id}": "GET PATCH DELETE",
        "/edges/tcp/{id}/status": "GET",
    },
    "chalicelib.edges.tls": {
        "/edges/tls": "GET POST",
        "/edges/tls/{id}": "GET PATCH DELETE",
        "/edges/tls/{id}/status": "GET",
    },
    "chalicelib.exchange.exchange_endpoint": {
        "/tokens": "POST",
    },
    "chalicelib.modules.backend": {
        "/edges/https/{edge_id}/routes/{id}/backend": "PUT GET DELETE",
        "/edges/tls/{id}/backend": "PUT GET DELETE",
        "/edges/tcp/{id}/backend": "PUT GET DELETE",
    },
    "chalicelib.modules.basic_auth": {
        "/edges/https/{edge_id}/routes/{id}/basic_auth": "PUT GET DELETE",
        "/reserved_domains/{id}/basic_auth": "PUT GET DELETE",
    },
    "chalicelib.modules.circuit_breaker": {
        "/edges/https/{edge_id}/routes/{id}/circuit_breaker": "PUT GET DELETE",
    },
    "chalicelib.modules.compression": {
        "/edges/https/{edge_id}/routes/{id}/compression": "PUT GET DELETE",
    },
    "chalicelib.modules.ip_restriction": {
        "/edges/https/{edge_id}/ip_restriction": "PUT GET DELETE",
        "/edges/https/{edge_id}/routes/{id}/ip_restriction": "PUT GET DELETE",
        "/edges/tls/{id}/ip_restriction": "PUT GET DELETE",
        "/edges/tcp/{id}/ip_restriction": "PUT GET DELETE",
        "/reserved_domains/{id}/ip_restriction": "PUT GET DELETE",
        "/reserved_addrs/{id}/ip_restriction": "PUT GET DELETE",
    },
    "chalicelib.modules.mutual_tls": {
        "/edges/https/{edge_id}/mutual_tls": "PUT GET DELETE",
        "/edges/tls/{id}/mutual_tls": "PUT GET DELETE",
    },
    "chalicelib.modules.oauth": {
        "/edges/https/{edge_id}/routes/{id}/oauth": "PUT GET DELETE",
    },
    "chalicelib.modules.policy": {
        "/ssh_certificate_authorities/{id}/policy": "PUT GET DELETE",
    },
    "chalicelib.modules.request_headers": {
        "/edges/https/{edge_id}/routes/{id}/request_headers": "PUT GET DELETE",
    },
    "chalicelib.modules.response_headers": {
        "/edges/https/{edge_id}/routes/{id}/response_headers": "PUT GET DELETE",
    },
    "chalicelib.modules.tls_termination": {
        "/edges/https/{edge_id}/tls_termination": "PUT GET DELETE",
    },
    "chalicelib.modules.traffic_policy": {
        "/edges/tcp/{id}/traffic_policy": "PUT GET DELETE",
    },
    "chalicelib.modules.user_agent_filter": {
        "/edges/https/{edge_id}/routes/{id}/user_agent_filter": "PUT GET DELETE",
    },
    "chalicelib.modules.webhook_verification": {
        "/edges/https/{edge_id}/routes/{id}/webhook_verification": "PUT GET DELETE",
    },
    "chalicelib.resources.accounts.api_key_rules": {
        "/account/api_key_rules": "PUT GET DELETE",
    },
    "chalicelib.resources.accounts.api_keys": {
        "/api_keys": "GET POST",
        "/api_keys/{id}": "GET PATCH DELETE",
        "/api_keys/{id}/usage": "GET",
        "/api_keys/self": "GET DELETE",
        "/api_keys/{id}/offboard": "POST",
    },
    "chalicelib.resources.accounts.bot_users": {
        "/bot_users": "GET POST",
        "/bot_users/{id}": "GET PATCH DELETE",
        "/bot_users/{id}/offboard": "POST",
    },
    "chalicelib.resources.accounts.federated_credentials": {
        "/federated_credentials": "GET POST",
        "/federated_credentials/{id}": "GET PATCH DELETE",
        "/federated_credentials/{id}/usage": "GET",
        "/federated_credentials/{id}/offboard": "POST",
    },
    "chalicelib.resources.accounts.me": {
        "/me": "GET",
    },
    "chalicelib.resources.accounts.sign_in": {
        "/federated_credentials/{id}/sign_in": "GET",
    },
    "chalicelib.resources.accounts.users": {
        "/users": "GET POST",
        "/users/{id}": "GET PATCH DELETE",
        "/users/{id}/offboard": "POST",
        "/users/{id}/identity": "DELETE",
    },
    "chalicelib.resources.audit.audit_events": {
        "/audit_events": "GET",
        "/audit_events/{id}": "GET",
    },
    "chalicelib.resources.backends.http_response_backends": {
        "/backends/http_response": "GET POST",
        "/backends/http_response/{id}": "GET PATCH DELETE",
    },
    "chalicelib.resources.backends.tunnel_groups": {
        "/backends/tunnel_group": "GET POST",
        "/backends/tunnel_group/{id}": "GET PATCH DELETE",
    },
    "chalicelib.resources.backends.weighted_backends": {
        "/backends/weighted": "GET POST",
        "/backends/weighted/{id}": "GET PATCH DELETE",
    },
    "chalicelib.resources.health": {
        "/health": "GET",
    },
    "chalicelib.resources.names.reserved_addrs": {
        "/reserved_addrs": "GET POST",
        "/reserved_addrs/{id}": "GET PATCH DELETE",
    },
    "chalicelib.resources.names.reserved_domains": {
        "/reserved_domains": "GET POST",
        "/reserved_domains/{id}": "GET PATCH DELETE",
        "/reserved_domains/{id}/certificate": "DELETE",
        "/reserved_domains/{id}/certificate_management_policy": "DELETE",
        "/reserved_domains/{id}/verify": "POST",
    },
    "chalicelib.resources.ssh.ssh_certificate_authorities": {
        "/ssh_certificate_authorities": "GET POST",
        "/ssh_certificate_authorities/{id}": "GET PATCH DELETE",
    },
    "chalicelib.resources.ssh.ssh_credentials": {
        "/ssh_credentials": "GET POST",
        "/ssh_credentials/{id}": "GET PATCH DELETE",
    },
    "chalicelib.resources.ssh.ssh_host_certificates": {
        "/ssh_host_certificates": "GET POST",
        "/ssh_host_certificates/{id}": "GET PATCH DELETE",
    },
    "chalicelib.resources.ssh.ssh_revocations": {
        "/ssh_certificate_authorities/{id}/revocations": "GET POST",
        "/ssh_certificate_authorities/{id}/revocations/{revocation_id}": "GET DELETE",
    },
    "chalicelib.resources.ssh.ssh_trust": {
        "/ssh_certificate_authorities/{id}/krl": "GET",
        "/ssh_certificate_authorities/{id}/public_key": "GET",
    },
    "chalicelib.resources.ssh.ssh_user_certificates": {
        "/ssh_user_certificates": "GET POST",
        "/ssh_user_certificates/{id}": "GET PATCH DELETE",
    },
    "chalicelib.resources.tls.certificate_authorities": {
        "/certificate_authorities": "GET POST",
        "/certificate_authorities/{id}": "GET PATCH DELETE",
    },
    "chalicelib.resources.tls.tls_certificates": {
        "/tls_certificates": "GET POST",
        "/tls_certificates/{id}": "GET PATCH DELETE",
    },
    "chalicelib.resources.tunnels.gateways": {
        "/gateways": "GET",
    },
    "chalicelib.resources.tunnels.tunnels": {
        "/tunnels": "GET",
        "/tunnels/{id}": "GET",
    },
    "chalicelib.resources.visitors.ip_policies": {
        "/ip_policies": "GET POST",
        "/ip_policies/{id}": "GET PATCH DELETE",
    },
    "chalicelib.resources.visitors.ip_policy_rules": {
        "/ip_policy_rules": "GET POST",
        "/ip_policy_rules/{id}": "GET PATCH DELETE",
    },
}
OPEN = {
    "/",
    "/docs",
    "/federated_credentials/{id}/sign_in",
    "/health",
    "/openapi.json",
    "/ssh_certificate_authorities/{id}/krl",
    "/ssh_certificate_authorities/{id}/public_key",
    "/tokens",
}
