"""The inspector of `te http`: recorded requests, their page, replay and exports."""
