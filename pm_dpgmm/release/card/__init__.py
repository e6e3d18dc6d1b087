"""The card to publish beside a release: one account of it (``contents``), laid out as a page or as Markdown.

``facts`` is what people say of the data, ``numbers`` the tables, ``figures`` the drawings of the page.
"""
