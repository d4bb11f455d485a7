"""The API as one Chalice app: the middleware around every request, then all that is offered, and its reference."""

from chalice.app import Blueprint, Chalice

from chalicelib import authorizer, docs, edges, modules, reference, resources
from chalicelib.api import endpoints, middleware

app = Chalice(app_name="tunnel-edge", configure_logs=False)

middleware.wrap(app)
endpoints.serve(app, [*resources.ALL, *edges.ALL, *modules.ALL, reference.REFERENCE, docs.DOCS])

# A blueprint of its own, so that the function's handler is the module that does not import the app.
_gateway = Blueprint("chalicelib.authorizer")
_gateway.lambda_function(name="authorizer")(authorizer.authorize)
app.register_blueprint(_gateway)
