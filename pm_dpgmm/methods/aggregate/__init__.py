"""Method "aggregate": any learner's fits to disjoint subsets, averaged around a released sketch.

A record passes the sketch method (``method``: a part of the budget) and its subset. There the learner fits it, and
``control`` takes off what the released waves explain of the fit; ``mechanisms.ball_sum`` shrinks the rest to a public
ball and adds noise. Everything between is made from the released sketch alone: ``chart`` writes fits as vectors about
the learner's answer to that mixture, ``design`` simulates the learner to choose the size of subsets, the ball and what
to take off. ``estimate`` turns the noisy sum into a mixture and the law of its errors.
"""
