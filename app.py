"""The API as one Chalice app: the middleware around every request, then all routes."""

from chalice.app import Blueprint, Chalice

from chalicelib import authorizer, route_table
from chalicelib.http import middleware, registration

app = Chalice(app_name="tunnel-edge", configure_logs=False)

middleware.wrap(app)
registration.serve_files(app, route_table.FILES, route_table.OPEN)

# A Lambda function of a blueprint imports only the blueprint's module, not `app.py`. So the authorizer starts without
# loading the routes.
_gateway = Blueprint("chalicelib.authorizer")
_gateway.lambda_function(name="authorizer")(authorizer.authorize)
app.register_blueprint(_gateway)
