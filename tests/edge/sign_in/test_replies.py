"""Pages of the sign-in service."""

from edge.sign_in import replies

EVIL = '<script>alert("x")</script>'


def test_texts_of_visitors_are_escaped() -> None:
    pages = [
        replies.denial(EVIL, "github", f"/{EVIL}"),
        replies.no_session(f"/{EVIL}"),
        replies.sign_out_page(f"/{EVIL}"),
        replies.confirmation_page(EVIL, "github", [EVIL], f"/confirm?{EVIL}"),
    ]
    assert not any("<script" in page.body or 'alert("' in page.body for page in pages)


def test_no_page_is_stored_framed_or_redirects() -> None:
    for reply in (replies.page(503, "Wait."), replies.denial("a@b", "github", "/"), replies.sign_out_page("/")):
        assert reply.headers["cache-control"] == "no-store"
        assert "default-src 'none'" in reply.headers["content-security-policy"]
        assert "frame-ancestors 'none'" in reply.headers["content-security-policy"]
        assert "location" not in reply.headers
    assert replies.page(503, "Wait.").headers["retry-after"] == "5"
