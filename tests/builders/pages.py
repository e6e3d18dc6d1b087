"""Pages as a browser reads them, and a text that would do harm where it is not escaped."""

from html.parser import HTMLParser

HOSTILE = "<script>alert(1)</script>\"' onload=x --> ]]> | `x` $\\frac$ &lt; \x1b[2J \u202e"


class Reader(HTMLParser):
    """Elements, attributes and texts of a page, as a browser would have them."""

    def __init__(self):
        super().__init__()
        self.tags, self.attributes, self.texts, self.open = set(), [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes += [(tag, *attribute) for attribute in attrs]
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_startendtag(self, tag, attrs):
        self.tags.add(tag)

    def handle_data(self, data):
        self.texts.append(data)


def read(page):
    reader = Reader()
    reader.feed(page)
    assert reader.open == []
    return reader
