"""`make openapi`: the OpenAPI document, generated only from the endpoints and their shapes."""
