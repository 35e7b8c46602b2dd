"""Generated scenarios: the shortest for each edge, rule and stop reason of a machine.

    generated = generate("shopper.yaml", "scenarios", tools=[price])
    generated.write()

A search over real runs. The search chooses what comes from outside (replies of the model, results
of tools, answers, a cancel, the limits and variables of the start); actions and `evolve` are the
engine's own, on a simulated clock. So every run that it finds can happen, and every scenario that
it writes has been played.

    search_targets       the targets of a machine, and those that a run covers
    hints                the values that guards, parsers and schemas compare with
    replies              the candidate replies of a model to a request
    world                a model and tools that give the chosen answers
    starts               the candidate starts of a run
    moves                the nodes of the search, and their successors
    equivalence          the keys of nodes, equal if only one of them needs to be followed
    branch_distance      the distance of facts from the guards of a target
    priority             the order of nodes once length alone does not suffice
    search               the search itself, with its bounds
    scenario_keys        a path of nodes as the keys of a scenario
    file_names           names, heads and checksums of written files
    unreached            the reasons why targets are not reached
    generated_scenarios  the result
    generate             the entry point
"""
