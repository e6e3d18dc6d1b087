"""What ``method="auto"`` does for one column without bounds: "sketch", or "gaps" where scales are too many for it.

``public_facts`` says what "auto" is elsewhere. ``method`` spends a little of the budget on the scales of the column,
``verdict`` reads off them which method answers.
"""
