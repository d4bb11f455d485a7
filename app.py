"""The API as one Chalice app: the middleware around every request, then all routes."""

from chalice.app import Blueprint, Chalice

from chalicelib import authorizer, route_table
from chalicelib.http import middleware, registration

app = Chalice(app_name="tunnel-edge", configure_logs=False)

middleware.wrap(app)
registration.serve_files(app, route_table.FILES, route_table.OPEN)

# Chalice imports the module of a blueprint's Lambda function instead of `app.py`. So the authorizer starts without the
# app.
_gateway = Blueprint("chalicelib.authorizer")
_gateway.lambda_function(name="authorizer")(authorizer.authorize)
app.register_blueprint(_gateway)
