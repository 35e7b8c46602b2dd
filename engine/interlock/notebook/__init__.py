"""What a notebook shows of machines and runs. Below `api`: it knows a run only by its protocol."""
