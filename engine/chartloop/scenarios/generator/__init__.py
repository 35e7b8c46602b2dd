"""Scenarios that are written for you: the shortest for each edge, rule and stop reason.

    generated = generate("shopper.yaml", "scenarios", tools=[price])
    generated.write()

A search over real runs. What a run may meet is chosen (replies of the model, results of tools,
answers, a cancel, limits and variables to start with), and the engine does the rest: its own
actions, its own `evolve`, a simulated clock. So whatever is found can happen, and the scenario that
is written has been played.

    targets   what is to be shown, and what a run has shown
    hints     which values guards, parsers and schemas ask for
    replies   what a model may answer to a request
    world     the model and the tools that answer as they are told
    starts    what a run may start with
    moves     a node of the search, and what may happen next at it
    alike     when two nodes need not both be followed
    nearness  how near facts are to what a target asks for
    aiming    which node is followed next, when length alone does not do
    search    nodes by their length, then by aim; bounds, and when to stop
    wording   a way as the text of a scenario file
    naming    what a file is called, what its head says, whether a person has changed it
    unreached why a target was not reached
    result    what came of it, as a value
    generate  puts these together
"""
