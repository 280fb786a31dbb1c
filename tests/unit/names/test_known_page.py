from __future__ import annotations

from tests.support.known_page import PAGE, page


def test_the_page_about_known_software_says_what_the_data_file_says() -> None:
    assert PAGE.read_text("utf-8") == page()
