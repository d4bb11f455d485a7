"""`make openapi`: the OpenAPI document, generated only from the endpoints and the classes of their bodies."""
