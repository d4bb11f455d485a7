"""From the plan to the resources that change."""
