"""Which layers go to which rank of a pipeline: wishes, costs, borders, the plan. It moves no weight and no message."""
