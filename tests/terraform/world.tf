# One resource of every kind, and every module, in forms that come back otherwise.
terraform {
  required_providers {
    tunneledge = { source = "terraform.local/tunnel-edge/tunneledge" }
  }
}

variable "ca_pem" {}
variable "certificate_pem" {}
variable "private_key_pem" { sensitive = true }
variable "keys" { type = list(string) }
variable "note" { default = "first" }
variable "modules" { default = true }
variable "bot" { default = "deployer" }

resource "tunneledge_api_key" "pipeline" {
  description      = var.note
  scopes           = ["edges:read"]
  expires_at       = "2099-01-01T01:00:00+01:00"
  allowed_networks = ["192.0.2.0/24"]
  limits           = { requests_per_second = 5 }
}

resource "tunneledge_api_key" "reader" {
  scopes = ["*:read"]
}

resource "tunneledge_bot_user" "deployer" {
  name = var.bot
}

resource "tunneledge_user" "alice" {
  name   = "alice"
  active = false
}

resource "tunneledge_certificate_authority" "clients" {
  ca_pem = "Our clients:\n${var.ca_pem}"
}

resource "tunneledge_tls_certificate" "app" {
  description     = var.note
  certificate_pem = trimspace(var.certificate_pem)
  private_key_pem = var.private_key_pem
}

resource "tunneledge_ip_policy" "office" {
  description = var.note
}

resource "tunneledge_ip_policy_rule" "office" {
  ip_policy_id = tunneledge_ip_policy.office.id
  cidr         = "192.0.2.0/24"
  action       = "allow"
}

resource "tunneledge_federated_credential" "actions" {
  issuer       = "https://token.actions.githubusercontent.com"
  audiences    = ["https://shop.example.com"]
  claims       = jsonencode({ repository_id = "512345678", ref = ["refs/heads/main", "refs/tags/*"] })
  owner_id     = tunneledge_bot_user.deployer.id
  scopes       = ["edges:write"]
  max_lifetime = 900
}

resource "tunneledge_http_response_backend" "closed" {
  status_code = 503
  headers     = { Content-Type = "text/plain" }
  body        = var.note
}

resource "tunneledge_tunnel_group_backend" "app" {
  labels = { app = "web" }
}

resource "tunneledge_weighted_backend" "canary" {
  backends = {
    (tunneledge_http_response_backend.closed.id) = 1
    (tunneledge_tunnel_group_backend.app.id)     = 9
  }
}

resource "tunneledge_reserved_domain" "app" {
  domain         = "App.Example.com"
  description    = var.note
  certificate_id = var.modules ? tunneledge_tls_certificate.app.id : null
  basic_auth     = var.modules ? { credentials = [{ username = "ada", password = "correct horse" }] } : null
  ip_restriction = var.modules ? { ip_policy_ids = [tunneledge_ip_policy.office.id] } : null
}

resource "tunneledge_reserved_address" "database" {
  description    = var.note
  ip_restriction = var.modules ? { ip_policy_ids = [tunneledge_ip_policy.office.id] } : null
}

resource "tunneledge_ssh_certificate_authority" "logins" {
  description      = var.note
  private_key_type = "ecdsa"
  elliptic_curve   = "nistp384"
  policy = var.modules ? {
    user = { max_lifetime = 3600, allowed_principals = ["ada"], critical_options = { source-address = "192.0.2.0/24" } }
  } : null
}

resource "tunneledge_ssh_certificate_authority" "rsa" {
  private_key_type = "rsa"
  key_size         = 2048
}

resource "tunneledge_ssh_credential" "gateway" {
  public_key = "${var.keys[0]} a@comment"
  acl        = ["bind:*.example.com"]
}

resource "tunneledge_ssh_user_certificate" "ada" {
  ssh_certificate_authority_id = tunneledge_ssh_certificate_authority.rsa.id
  public_key                   = var.keys[1]
  principals                   = ["ada"]
  critical_options             = { source-address = "192.0.2.0/24" }
  valid_until                  = "2099-12-31T12:00:00.5Z"
}

resource "tunneledge_ssh_host_certificate" "database" {
  ssh_certificate_authority_id = tunneledge_ssh_certificate_authority.rsa.id
  public_key                   = var.keys[2]
  principals                   = ["db.example.com"]
  valid_until                  = "2099-12-31T12:00:00Z"
}

resource "tunneledge_ssh_revocation" "laptop" {
  ssh_certificate_authority_id = tunneledge_ssh_certificate_authority.rsa.id
  public_key                   = var.keys[3]
  reason                       = "stolen"
}

resource "tunneledge_https_edge" "app" {
  description     = var.note
  hostports       = ["App.example.com:443"]
  ip_restriction  = var.modules ? { ip_policy_ids = [tunneledge_ip_policy.office.id] } : null
  mutual_tls      = var.modules ? { certificate_authority_ids = [tunneledge_certificate_authority.clients.id] } : null
  tls_termination = var.modules ? { min_version = "1.3" } : null
}

resource "tunneledge_https_edge_route" "all" {
  edge_id              = tunneledge_https_edge.app.id
  match_type           = "path_prefix"
  match                = "/"
  description          = var.note
  backend              = { backend_id = tunneledge_weighted_backend.canary.id }
  circuit_breaker      = var.modules ? { error_threshold_percentage = 0.1, tripped_duration = 20 } : null
  compression          = var.modules ? {} : null
  ip_restriction       = var.modules ? { ip_policy_ids = [tunneledge_ip_policy.office.id] } : null
  request_headers      = var.modules ? { add = { x-team = var.note } } : null
  response_headers     = var.modules ? { remove = ["server"] } : null
  user_agent_filter    = var.modules ? { deny = ["(?i)bot"] } : null
  webhook_verification = var.modules ? { provider = "GITHUB", secret = "webhook-${var.note}" } : null
  oauth = var.modules ? {
    provider = {
      github = {
        client_id     = "app"
        client_secret = "oauth-secret"
        organizations = ["example"]
      }
    }
  } : null
}

resource "tunneledge_https_edge_route" "inside" {
  edge_id    = tunneledge_https_edge.app.id
  match_type = "path_prefix"
  match      = "/inside"
  basic_auth = var.modules ? { credentials = [{ username = "ada", password = "password of ada: ${var.note}" }] } : null
}

resource "tunneledge_tls_edge" "database" {
  hostports      = ["db.example.com:443"]
  backend        = { backend_id = tunneledge_tunnel_group_backend.app.id }
  ip_restriction = var.modules ? { ip_policy_ids = [tunneledge_ip_policy.office.id] } : null
  mutual_tls     = var.modules ? { certificate_authority_ids = [tunneledge_certificate_authority.clients.id] } : null
}

resource "tunneledge_tcp_edge" "game" {
  hostports      = [tunneledge_reserved_address.database.addr]
  backend        = { backend_id = tunneledge_tunnel_group_backend.app.id }
  ip_restriction = var.modules ? { ip_policy_ids = [tunneledge_ip_policy.office.id] } : null
  traffic_policy = var.modules ? { value = jsonencode({ inbound = [], outbound = [] }) } : null
}

data "tunneledge_https_edge" "app" {
  id = tunneledge_https_edge.app.id
}

data "tunneledge_https_edge_status" "app" {
  id         = tunneledge_https_edge.app.id
  depends_on = [tunneledge_https_edge_route.all]
}

output "state" {
  value = data.tunneledge_https_edge_status.app.state
}

output "hostports" {
  value = data.tunneledge_https_edge.app.hostports
}
