"""Names of headers that some upstream believes, by where that is written."""

BELIEVED = {
    "RFC 7239, section 4": "Forwarded",
    "RFC 9440, section 2": "Client-Cert Client-Cert-Chain",
    "https://httpoxy.org": "Proxy",
    "https://npmjs.com/package/request-ip": """X-Client-IP X-Forwarded-For CF-Connecting-IP Fastly-Client-IP
        True-Client-IP X-Real-IP X-Cluster-Client-IP X-Forwarded Forwarded-For X-AppEngine-User-IP Cf-Pseudo-IPv4""",
    "https://pypi.org/project/python-ipware": """Client-IP Remote-Addr CF-Connecting-IPv6 DO-Connecting-IP
        Fly-Client-IP Proxy-Client-IP WL-Proxy-Client-IP X-Azure-ClientIP X-Azure-SocketIP X-ProxyUser-IP""",
    "https://docs.djangoproject.com/en/stable/howto/auth-remote-user/": "Remote-User",
    "https://www.authelia.com/integration/trusted-header-sso": "Remote-Groups Remote-Name Remote-Email",
    "https://docs.spring.io/spring-framework (ForwardedHeaderFilter)": """X-Forwarded-Host X-Forwarded-Port
        X-Forwarded-Proto X-Forwarded-Prefix X-Forwarded-Ssl""",
    "https://github.com/rack/rack (request.rb, sendfile.rb)": "X-Forwarded-Scheme X-Sendfile-Type X-Accel-Mapping",
    "https://symfony.com (CVE-2018-14773)": "X-Original-URL X-Rewrite-URL",
    "https://kubernetes.github.io/ingress-nginx": """X-Scheme X-Original-URI X-Original-Method X-Original-Forwarded-For
        X-Forwarded-Uri Ssl-Client-Cert Ssl-Client-Verify Ssl-Client-Subject-Dn Ssl-Client-Issuer-Dn""",
    "https://www.keycloak.org/server/reverseproxy": "SSL-Client-Cert SSL_CLIENT_CERT CERT_CHAIN_0 CERT-CHAIN",
    "https://doc.traefik.io (PassTLSClientCert)": "X-Forwarded-Tls-Client-Cert X-Forwarded-Tls-Client-Cert-Info",
    "https://www.haproxy.com (client certificates)": """X-SSL X-SSL-Client-Verify X-SSL-Client-DN X-SSL-Client-CN
        X-SSL-Client-SHA1 X-SSL-Client-Cert X-SSL-Issuer X-Client-Cert X-Client-Verify""",
    "https://learn.microsoft.com (IIS, Application Request Routing)": "X-ARR-ClientCert X-ARR-SSL X-ARR-LOG-ID",
    "https://learn.microsoft.com (App Service, Front Door)": """X-MS-CLIENT-PRINCIPAL X-MS-CLIENT-PRINCIPAL-NAME
        X-MS-CLIENT-PRINCIPAL-ID X-MS-TOKEN-AAD-ID-TOKEN X-Azure-FDID Front-End-Https""",
    "https://docs.oracle.com (WebLogic, Access Manager)": "WL-Proxy-SSL WL-Proxy-Client-Cert OAM_REMOTE_USER",
    "https://docs.aws.amazon.com (load balancers, CloudFront)": """X-Amzn-Mtls-Clientcert X-Amzn-Mtls-Clientcert-Leaf
        X-Amzn-Mtls-Clientcert-Subject X-Amzn-Oidc-Identity X-Amzn-Oidc-Data X-Amzn-Oidc-Accesstoken
        X-Amzn-Lattice-Identity X-Amzn-Tls-Version CloudFront-Viewer-Address CloudFront-Forwarded-Proto""",
    "https://github.com/CodeGenieApp/serverless-express": "X-ApiGateway-Event X-ApiGateway-Context",
    "https://cloud.google.com (IAP, App Engine, Endpoints)": """X-Goog-Authenticated-User-Email
        X-Goog-Authenticated-User-Id X-Goog-IAP-JWT-Assertion X-AppEngine-Cron X-AppEngine-QueueName
        X-Endpoint-API-UserInfo""",
    "https://developers.cloudflare.com": "CF-IPCountry CF-Visitor CF-Worker Cf-Access-Authenticated-User-Email",
    "https://www.fastly.com": "Fastly-SSL",
    "https://vercel.com/docs/headers": "X-Vercel-Forwarded-For X-Vercel-IP-Country",
    "https://docs.netlify.com": "X-NF-Client-Connection-IP",
    "https://oauth2-proxy.github.io": """X-Auth-Request-User X-Auth-Request-Email X-Auth-Request-Groups
        X-Forwarded-User X-Forwarded-Email X-Forwarded-Access-Token""",
    "https://grafana.com (auth proxy)": "X-WEBAUTH-USER X-WEBAUTH-ROLE",
    "https://docs.goauthentik.io": "X-authentik-username X-authentik-groups",
    "https://docs.konghq.com": """X-Consumer-ID X-Consumer-Username X-Credential-Identifier X-Anonymous-Consumer
        X-Authenticated-Userid X-Userinfo""",
    "https://tailscale.com (serve)": "Tailscale-User-Login Tailscale-User-Name",
    "https://www.pomerium.com": "X-Pomerium-Jwt-Assertion",
    "https://github.com/vouch/vouch-proxy": "X-Vouch-User",
    "https://github.com/OpenIDC/mod_auth_openidc": "OIDC_CLAIM_sub OIDC_CLAIM_email",
    "https://shibboleth.atlassian.net (ShibUseHeaders)": "Shib-Session-ID Shib-Identity-Provider",
    "https://techdocs.broadcom.com (SiteMinder)": "SM_USER SM_USERDN",
    "https://www.ibm.com (WebSEAL)": "iv-user iv-groups iv-creds",
    "https://www.kubeflow.org": "kubeflow-userid",
    "https://ngrok.com/docs (OAuth)": "Ngrok-Auth-User-Email Ngrok-Auth-User-Id",
    "https://kubernetes.io (authenticating proxy)": "X-Remote-User X-Remote-Group X-Remote-Extra-Scopes",
    "https://grafana.com/docs/loki, mimir and tempo (multi-tenancy)": "X-Scope-OrgID X-Scope-Org-Id",
    "https://docs.openstack.org/keystonemiddleware": "X-Tenant-Id X-TenantId",
    "https://www.envoyproxy.io": """X-Forwarded-Client-Cert X-Envoy-Original-Path X-Envoy-External-Address
        X-Envoy-Internal X-Envoy-Upstream-Rq-Timeout-Ms X-Envoy-Peer-Metadata""",
    "https://nextjs.org (CVE-2025-29927)": "X-Middleware-Subrequest X-Middleware-Invoke X-Matched-Path",
    "RFC 9110, section 7.6.3": "Via",
    "https://kubernetes.io (impersonation)": """Impersonate-User Impersonate-Group Impersonate-Uid
        Impersonate-Extra-Scopes""",
    "https://www.nginx.com (X-Accel), Apache (mod_xsendfile), lighttpd": "X-Sendfile X-LIGHTTPD-send-file",
    "applications behind a proxy that signs in": """X-User X-Username X-User-Id X-User-Name X-User-Email X-User-Roles
        X-Current-User X-Authenticated-User X-Auth X-Auth-User X-Auth-Username X-Auth-Email X-Auth-Name X-Auth-Groups
        X-Auth-Roles X-Auth-Subject X-Authenticated-Email X-Email X-Email-Address X-Mail X-Group X-Groups X-Role X-Roles
        X-Principal X-Identity X-Subject X-Claims X-Login X-SSO-User X-SAML-NameId X-LDAP-Groups X-JWT-Payload
        X-JWT-Assertion X-Admin X-Is-Admin X-Impersonate-User X-Session-User X-Okta-User X-Amz-User-Id
        Auth-User Auth-Type SSO-User Logon-User""",
    "https://peps.python.org/pep-3333 (behind a prefix)": "X-Script-Name X-Url-Scheme",
}
NAMES = sorted({name for names in BELIEVED.values() for name in names.split()})

# Headers that applications need of their visitors, some of which resemble others above.
_NEEDED = """accept accept-encoding accept-language access-control-request-headers api-key authorization baggage
    cache-control cf-access-client-id content-language content-type cookie dnt fastly-key grpc-timeout if-match
    if-modified-since if-none-match last-event-id ngrok-skip-browser-warning origin pragma prefer range referer
    sec-fetch-mode sec-websocket-protocol stripe-signature traceparent upgrade-insecure-requests user-agent
    x-access-token x-amz-content-sha256 x-amz-date x-amzn-trace-id x-api-key x-auth-token x-client-version
    x-correlation-id x-csrf-token x-goog-api-key x-hub-signature-256 x-http-method-override x-ms-version x-real-estate
    x-authorization x-auth-key x-emby-authorization x-hasura-admin-secret x-jwt-token x-subject-token x-user-token
    x-email-signature x-request-id x-requested-with x-tenant x-user-agent x-xsrf-token"""
NEEDED = _NEEDED.split()
