"""The worst values of edges, by which isolation is tried, are requests that the API accepts."""

from tests.edge.worst_values import WORST_VALUES
from tests.transports import Client


def test_the_api_accepts_each_of_the_worst_values(admin: Client) -> None:
    edge = admin.create("/edges/https", {})["id"]
    answers = {worst.name: admin.post(worst.at.format(edge_id=edge), worst.body) for worst in WORST_VALUES}

    assert {name: answer.text for name, answer in answers.items() if answer.status != 201} == {}
    assert len(answers) == len(WORST_VALUES) >= 100
